"""`observe`: what a live server's own counters say about its speculation, its batches and its
users' waits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from app.answers.answer import Answer, Table
from app.answers.live.rows import (
    STATED_TIMES,
    Accepted,
    ServerRow,
    acceptance_words,
    accepted_of,
    server_row,
    wait_table,
)
from app.answers.numbers import plain
from app.answers.progress import progress_line
from app.questions.field import inputs_of
from app.questions.observe import ObserveQuestion
from app.questions.places import require_file
from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import make_folder
from real_runs.servers.address import Address
from real_runs.servers.identify import identify
from real_runs.servers.observe import Observation, observe
from traces.storage.acceptance_file import write_acceptance


@dataclass(frozen=True, kw_only=True)
class ObservedServer(Answer):
    """The answer of `observe`.

    Attributes:
        server: which.
        observed_s: from the first scrape to the last.
        scrapes: how many.
        ended: why it ended early; empty where it did not.
        figures: what the engine says, by name.
        acceptance: by its counters; None where nothing was drafted.
        notes: what has to be said beside the numbers.
        out: file of the acceptance; None: there is none.
        refusal: what ends the verb once the answer is shown; None: nothing.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    unwritten: ClassVar[tuple[str, ...]] = ("out", "refusal")
    server: ServerRow
    observed_s: float
    scrapes: int
    ended: str
    figures: Mapping[str, Any]
    acceptance: Accepted | None
    notes: Sequence[str]
    out: Path | None
    refusal: InputError | None

    @property
    def own_rows(self) -> Sequence[Mapping[str, Any]]:
        """The figures, one row."""
        return [self.figures]

    def shown(self) -> Iterator[Table | str]:
        """Waits as the engine states them, counts and acceptance."""
        yield f"{self.server.words}, {plain(self.observed_s)} s, {self.scrapes} scrapes"
        times = {key: self.figures[key] for key in STATED_TIMES if key in self.figures}
        if times:
            caption = (
                "means only: seconds over tokens; llama.cpp counts no time to the first token"
                if self.server.engine == "llama.cpp"
                else "percentiles are linear within the buckets of the engine's histograms"
            )
            yield wait_table("as the engine states it", times, STATED_TIMES, caption)
        yield from _counted(self.figures)
        yield from acceptance_words(self.acceptance, self.out)
        yield from self.notes

    def require(self) -> None:
        """End with an error where the server was lost, or there is no trace to write.

        Raises:
            InputError: which of them.
        """
        if self.refusal is not None:
            raise self.refusal


def answer(question: ObserveQuestion) -> ObservedServer:
    """Watch the server, and write the acceptance where it is asked for.

    Raises:
        InputError: no such server, or one that publishes no counters.
    """
    if question.out is not None:
        require_file(question.out)
    server = identify(
        Address.parse(question.url).with_key_of(question.key_env), model=question.model
    )
    with progress_line(question.quiet) as tell:
        observation = observe(
            server,
            for_s=question.for_s,
            every_s=question.every_s,
            model=question.model,
            tell=lambda elapsed_s: tell(f"observed {elapsed_s:.0f} of {question.for_s:.0f} s"),
        )
    trace = observation.trace
    if question.out is not None and trace is not None:
        make_folder(question.out.parent)
        write_acceptance(trace, question.out)
    return ObservedServer(
        inputs=inputs_of(
            question, url=str(server.address), for_s=question.for_s, every_s=question.every_s
        ),
        server=server_row(observation.server),
        observed_s=observation.seconds,
        scrapes=observation.scrapes,
        ended=observation.ended,
        figures=observation.figures,
        acceptance=accepted_of(trace),
        notes=[observation.no_trace if trace is None else trace.provenance.notes],
        out=question.out,
        refusal=_refusal(observation, question.out, question.for_s, str(server.address)),
    )


def _refusal(
    observation: Observation, out: Path | None, for_s: float, address: str
) -> InputError | None:
    if observation.ended and "Ctrl-C" not in observation.ended:
        return InputError(
            f"observed for {observation.seconds:.0f} of {for_s:.0f} s: {observation.ended}",
            key=address,
        )
    if out is not None and observation.trace is None:
        return InputError(
            f"no trace is written: {observation.no_trace}", key="--out", value=str(out)
        )
    return None


def _counted(figures: Mapping[str, Any]) -> Iterator[str]:
    """What was counted, a sentence each."""
    if "running" in figures:
        waiting = figures.get("waiting", {"mean": None, "most": None})
        yield (
            f"running {plain(figures['running']['mean'])} on average,"
            f" {plain(figures['running']['most'])} at most; waiting {plain(waiting['mean'])} and"
            f" {plain(waiting['most'])}, at the moments of the scrapes"
        )
    if "steps" in figures:
        steps = figures["steps"]
        mean = steps.get("requests_per_step") or steps.get("tokens_per_step")
        what = "requests" if "requests_per_step" in steps else "tokens, prompts among them,"
        yield f"{plain(steps['gained'])} steps of {plain(mean)} {what} on average"
    rates = [
        f"{plain(figures[key]['per_s'])} {name}/s"
        for key, name in (
            ("output_tokens", "output tokens"),
            ("prompt_tokens", "prompt tokens"),
            ("requests", "requests"),
        )
        if key in figures
    ]
    if rates:
        yield ", ".join(rates)
