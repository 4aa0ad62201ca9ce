"""`record --server`: what a running server's own drafts bring under a load, step by step."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.counts import Counts, counts_of
from app.answers.live.rows import ServerRow, server_row
from app.answers.live.traffic import drawn_workload, prompts_of, request_options
from app.answers.progress import counting
from app.questions.field import inputs_of
from app.questions.record import RecordQuestion
from hardware_profiles.errors import InputError
from real_runs.prompt_set import PromptSet, read_prompts
from real_runs.servers.address import Address
from real_runs.servers.chat_prompts import chat_prompts
from real_runs.servers.exchange import Patience
from real_runs.servers.identify import Server, identify
from real_runs.servers.load import ACCEPTANCE, LoadResult, SentLoad, run_load
from real_runs.servers.speculation import Speculation, speculation_of
from real_runs.servers.stepped_load import SteppedTrace, TraceLabels
from simulator.loop.request import Workload
from traces.replay.walk import replay_chain

_USERS = 4
_GATHERS_LESS = {
    "vllm": (
        "vLLM lists every step where it is served with --per-request-spec-decode-metrics detailed;"
        " fewer --users gather fewer steps in an event"
    ),
    "sglang": "fewer --users, and a server with --stream-interval 1, gather fewer steps in an event",
}
_OPTIONS = frozenset(
    {
        "out",
        "server",
        "model",
        "key_env",
        "method",
        "prompts",
        "prompts_per_kind",
        "max_new_tokens",
        "temperature",
        "requests",
        "rate",
        "users",
        "count",
        "prompt_tokens",
        "output_tokens",
        "option",
        "timeout",
        "seed",
        "resume",
        "json",
        "quiet",
    }
)
_LOAD_ALONE = (
    "key_env",
    "method",
    "requests",
    "rate",
    "users",
    "count",
    "prompt_tokens",
    "output_tokens",
    "option",
    "timeout",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepsRow(Row):
    """A trace of a server's own steps."""

    file: Annotated[str, Column("The trace.", "trace")]
    level: Annotated[int, Column("1: every step; 0: the engine's counts alone.")]
    requests: Annotated[int, Column("Requests whose steps it holds.")]
    tokens: Annotated[int, Column("Tokens of their answers.")]
    steps: Annotated[int, Column("Steps after their first tokens.")]
    tokens_per_step: Annotated[
        float | None, Column("Emitted per step, those without a draft among them.", decimals=3)
    ]
    proposal_ratio: Annotated[
        float | None, Column("Steps with a draft.", "with a draft", unit="ratio", decimals=1)
    ]


@dataclass(frozen=True, kw_only=True)
class OwnDrafts(Answer):
    """The answer of `record --server`: the trace, which lies in the folder.

    Attributes:
        server: which.
        trace: what it recorded.
        counts: of the steps with a draft; None where they are not counted.
        sent: requests of the load.
        left_out: requests by the reason for which their steps could not be told.
        failed: requests by the reason for which they were not answered.
        counted_by: what tells the steps; empty at level 0.
        checked_by: what bears them out; empty at level 0.
        why_no_steps: why the level is 0; empty at level 1.
        method: slug of what drafts; empty where it is not known.
        notes: what has to be said beside the numbers.
        address: of the server.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    unwritten: ClassVar[tuple[str, ...]] = ("address",)
    server: ServerRow
    trace: StepsRow
    counts: Counts | None
    sent: int
    left_out: Mapping[str, int]
    failed: Mapping[str, int]
    counted_by: str
    checked_by: str
    why_no_steps: str
    method: str
    notes: Sequence[str]
    address: str

    @property
    def own_rows(self) -> Sequence[StepsRow]:
        """The trace, one row."""
        return [self.trace]

    def shown(self) -> Iterator[Table | str]:
        """The trace, how it was counted and checked, and what it is good for."""
        yield Table(
            title=f"recorded: {self.server.words}",
            rows=self.own_rows,
            columns=[
                "file",
                "level",
                "requests",
                "tokens",
                "steps",
                "tokens_per_step",
                "proposal_ratio",
            ],
        )
        if self.why_no_steps:
            yield f"level 0, counts without steps: {self.why_no_steps}"
        else:
            yield f"counted by {self.counted_by}; checked by {self.checked_by}"
        for reason, count in self.left_out.items():
            yield f"{count} of {self.sent} requests left out: {reason}"
        if (self.left_out or self.why_no_steps) and self.server.engine in _GATHERS_LESS:
            yield _GATHERS_LESS[self.server.engine]
        yield from self.notes
        method = "" if self.method else " --method METHOD"
        yield f"optimize --trace {self.trace.file}{method} chooses by it"

    def require(self) -> None:
        """End with an error where requests failed.

        Raises:
            InputError: how many of them, and why the first did.
        """
        if self.failed:
            message = (
                f"{sum(self.failed.values())} of {self.sent} requests failed"
                f" ({next(iter(self.failed))}); --resume sends them again"
            )
            raise InputError(message, key=self.address)


def record_own_drafts(question: RecordQuestion) -> OwnDrafts:
    """Send the load, and keep the steps of every answer.

    Args:
        question: with the address of a server.

    Raises:
        InputError: options that do not go together, a server that is lost or drafts nothing, or
            answers whose steps nothing tells.
    """
    _refuse_other_options(question)
    patience = Patience(silence_s=question.timeout)
    server = identify(
        Address.parse(question.server or "", key="--server").with_key_of(question.key_env),
        model=None if question.model is None else str(question.model),
        patience=patience,
    )
    speculation = speculation_of(server, patience=patience)
    prompts = _prompts(question)
    workload, assumed = _workload(question, prompts)
    sent, remark = _sent(question, server, prompts, workload, patience)
    labels = _labels(question, prompts, workload.requests, speculation, remark)
    load = SentLoad(
        server=server,
        workload=workload,
        prompts=sent,
        out=question.out,
        ignore_eos=False,
        temperature=(question.temperature or [0.0])[0],
        options=request_options(question.option),
        patience=patience,
        resume=question.resume,
        labels=labels,
    )
    with counting(question.quiet) as report:
        result = run_load(load, report)
    return _answer(question, server, result, [note for note in (assumed, remark) if note])


def refuse_load_options(question: RecordQuestion) -> None:
    """Refuse options of a load beside a recording that sends none.

    Raises:
        InputError: naming the first of them.
    """
    for name in _LOAD_ALONE:
        if name in question.stated_values:
            raise InputError(
                "goes with --server, whose own drafts are recorded under a load",
                key=f"--{name.replace('_', '-')}",
                value=question.stated_values[name],
            )


def _refuse_other_options(question: RecordQuestion) -> None:
    for name, value in question.stated_values.items():
        if name not in _OPTIONS:
            rule = "must be left out: a running server has its own model and drafter"
            raise InputError(rule, key=f"--{name.replace('_', '-')}", value=value)
    if question.temperature is not None and len(question.temperature) > 1:
        raise InputError(
            "must be one temperature for a load", key="--temperature", value=question.temperature
        )


def _is_whole(question: RecordQuestion) -> bool:
    """Whether prompts are sent whole, rather than passages of stated lengths."""
    return question.prompt_tokens is None and question.requests is None


def _prompts(question: RecordQuestion) -> PromptSet:
    prompts = read_prompts(question.prompts)
    if question.prompts_per_kind is not None:
        prompts = prompts.first_of_each_kind(question.prompts_per_kind)
    return prompts


def _workload(question: RecordQuestion, prompts: PromptSet) -> tuple[Workload, str]:
    """The requests, and what was assumed of them."""
    named = dict(question.named)
    assumed = ""
    if question.requests is None:
        if named["requests.output_tokens"] is None:
            named["requests.output_tokens"] = str(question.max_new_tokens)
        if named["requests.rate_per_s"] is None and named["requests.users"] is None:
            named["requests.users"], assumed = _USERS, f"assumed: {_USERS} users"
        if _is_whole(question):  # sent as they are, so that only the server counts their tokens
            named["requests.prompt_tokens"] = 1
            named["requests.count"] = named["requests.count"] or len(prompts.prompts)
    workload, further = drawn_workload(named, None, None, question.seed)
    return workload, further or assumed


def _sent(
    question: RecordQuestion,
    server: Server,
    prompts: PromptSet,
    workload: Workload,
    patience: Patience,
) -> tuple[list[Any], str]:
    """A prompt for every request, and what must be known about them."""
    if not _is_whole(question):
        return prompts_of(server, workload, question.prompts, question.seed, patience, whole=False)
    texts = [prompt.text for prompt in prompts.prompts[: workload.requests]]
    formed: Sequence[Any] | None = chat_prompts(server, texts, patience=patience)
    remark = (
        "The server forms no chats by /tokenize: prompts were sent as they are written."
        if formed is None
        else "Prompts in the model's own chat form."
    )
    chosen = texts if formed is None else formed
    return [chosen[index % len(chosen)] for index in range(workload.requests)], remark


def _labels(
    question: RecordQuestion,
    prompts: PromptSet,
    requests: int,
    speculation: Speculation,
    remark: str,
) -> TraceLabels:
    if speculation.is_tree:
        remark += " Drafts are trees: lengths hold for their shape, and no chain of them is known."
    named = [str(index) for index in range(requests)]
    kinds: list[str] = []
    if _is_whole(question):
        rounds = [divmod(index, len(prompts.prompts)) for index in range(requests)]
        named = [prompts.prompts[at].id + (f"#{turn + 1}" if turn else "") for turn, at in rounds]
        kinds = [prompts.prompts[at].kind for _, at in rounds]
    return TraceLabels(
        names=named,
        kinds=kinds,
        dataset=prompts.title if _is_whole(question) else "",
        dataset_sha256=prompts.sha256 if _is_whole(question) else "",
        method=question.method or speculation.method,
        drafter=speculation.drafter,
        remark=remark.strip(),
    )


def _answer(
    question: RecordQuestion, server: Server, result: LoadResult, notes: Sequence[str]
) -> OwnDrafts:
    assert result.steps is not None
    recorded = result.steps
    return OwnDrafts(
        inputs=inputs_of(question, server=str(server.address)),
        server=server_row(server),
        trace=_row(question.out / ACCEPTANCE, recorded),
        counts=counts_of(recorded.trace),
        sent=result.requests,
        left_out=recorded.left_out,
        failed=result.errors,
        counted_by=recorded.counted_by,
        checked_by=recorded.checked_by,
        why_no_steps=recorded.why_no_steps,
        method=recorded.trace.provenance.method,
        notes=notes,
        address=str(server.address),
    )


def _row(file: Path, recorded: SteppedTrace) -> StepsRow:
    trace, summary = recorded.trace, recorded.trace.summary
    mean = None if summary is None else summary.tokens_per_step
    ratio = trace.match_rate
    if trace.level:
        replayed = replay_chain(trace, max(trace.provenance.extra["longest_draft_tokens"], 1))
        mean, ratio = replayed.tokens_per_step, replayed.proposal_ratio
    return StepsRow(
        file=str(file),
        level=trace.level,
        requests=recorded.requests,
        tokens=trace.positions,
        steps=recorded.steps,
        tokens_per_step=mean,
        proposal_ratio=ratio,
    )
