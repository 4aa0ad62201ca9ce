"""`load`: send requests to a live server and measure what its users see."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from app.answers.answer import Answer, Table
from app.answers.live.rows import (
    LOAD_TIMES,
    Accepted,
    ServerRow,
    acceptance_words,
    accepted_of,
    server_row,
    wait_table,
)
from app.answers.live.traffic import (
    drawn_workload,
    prompts_of,
    request_count,
    request_options,
)
from app.answers.numbers import plain
from app.answers.progress import counting
from app.questions.field import inputs_of
from app.questions.load import LoadQuestion
from app.questions.places import require_folder
from hardware_profiles.errors import InputError
from real_runs.servers.address import Address
from real_runs.servers.exchange import Patience
from real_runs.servers.identify import identify
from real_runs.servers.load import LoadResult, SentLoad, run_load


@dataclass(frozen=True, kw_only=True)
class LoadRun(Answer):
    """The answer of `load`, whose folder holds the requests as they were answered.

    Attributes:
        server: which.
        metrics: rates and percentiles of what was answered.
        requests: of the load.
        failed: how many of them.
        acceptance: by the server's counters before and after; None without such counters.
        errors: why requests failed, and how many each.
        client_cpu_s: CPU time of this process while it sent.
        notes: what has to be said beside the numbers.
        out: the folder.
        address: of the server.
    """

    name: ClassVar[str] = "load"
    unwritten: ClassVar[tuple[str, ...]] = ("out", "address")
    server: ServerRow
    metrics: Mapping[str, Any]
    requests: int
    failed: int
    acceptance: Accepted | None
    errors: Mapping[str, int]
    client_cpu_s: float
    notes: Sequence[str]
    out: Path
    address: str

    @property
    def own_rows(self) -> Sequence[Mapping[str, Any]]:
        """The rates and percentiles, one row."""
        return [self.metrics]

    def shown(self) -> Iterator[Table | str]:
        """Waits, rates, acceptance, and how late this client was."""
        metrics = self.metrics
        times = {key: metrics[key] for key in LOAD_TIMES if metrics[key]["mean"] is not None}
        yield wait_table(self.server.words, times, LOAD_TIMES)
        yield (
            f"{metrics['finished']:,} of {self.requests:,} requests in {plain(metrics['clock_s'])} s:"
            f" {plain(metrics['tokens_per_s'])} tokens/s, {plain(metrics['requests_per_s'])} requests/s,"
            f" {metrics['prompt_tokens']:,} prompt and {metrics['output_tokens']:,} output tokens"
        )
        yield from acceptance_words(self.acceptance, self.out / "acceptance.parquet")
        yield (
            f"this client: {plain(self.client_cpu_s)} s of CPU time; requests sent"
            f" {plain(metrics['sent_late_s']['p99'] * 1e3)} ms late (p99)"
        )
        yield from self.notes
        yield f"simulate --requests {self.out / 'requests.parquet'} plays the same load"

    def require(self) -> None:
        """End with an error where requests failed.

        Raises:
            InputError: how many of them, and why the first did.
        """
        if self.errors:
            message = (
                f"{self.failed} of {self.requests} requests failed ({next(iter(self.errors))});"
                " --resume sends them again"
            )
            raise InputError(message, key=self.address)


def answer(question: LoadQuestion) -> LoadRun:
    """Draw the requests, send those that are not answered yet, and measure.

    Raises:
        InputError: options that make no load, or a server that is lost.
    """
    require_folder(question.out)
    count = request_count(question.count, question.rate, question.duration_s)
    named = question.named | {"requests.count": count}
    patience = Patience(silence_s=question.timeout)
    options = request_options(question.option)
    prompts = question.prompts
    whole = prompts is not None and question.prompt_tokens is None and question.requests is None
    workload, assumed = drawn_workload(
        named, question.assigned, prompts if whole else None, question.seed
    )
    server = identify(
        Address.parse(question.url).with_key_of(question.key_env),
        model=question.model,
        patience=patience,
    )
    sent, note = prompts_of(server, workload, prompts, question.seed, patience, whole=whole)
    load = SentLoad(
        server=server,
        workload=workload,
        prompts=sent,
        out=question.out,
        ignore_eos=not question.stop_at_eos,
        temperature=question.temperature,
        options=options,
        most_at_once=question.most_at_once,
        patience=patience,
        resume=question.resume,
    )
    with counting(question.quiet) as report:
        result = run_load(load, report)
    return LoadRun(
        inputs=inputs_of(question, url=str(server.address), count=count, option=options),
        server=server_row(server),
        metrics=result.summary,
        requests=result.requests,
        failed=sum(result.errors.values()),
        acceptance=accepted_of(result.trace),
        errors=result.errors,
        client_cpu_s=result.cpu_s,
        notes=[*(text for text in (assumed, note) if text), *_notes(result)],
        out=question.out,
        address=str(server.address),
    )


def _notes(result: LoadResult) -> Iterator[str]:
    """What has to be said of answers that are short or of earlier runs."""
    if result.short:
        yield f"{result.short} answers have another number of tokens than was asked for"
    if result.resumed:
        yield (
            f"{result.resumed} of the answers are of earlier runs, whose acceptance is not in the"
            " counters; the time between runs is left out"
        )
