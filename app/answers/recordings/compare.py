"""`traces compare`: acceptance by drafter, prompt kind and depth, or the policies of masked models."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.recordings.policies import (
    Interval,
    RecordedPolicyRow,
    compared_policies,
    policy_table,
)
from app.questions.field import inputs_of
from app.questions.recordings import TracesCompareQuestion
from hardware_profiles.errors import InputError, UnknownNameError
from traces.library import is_confidence, read_trace, trace_file
from traces.replay.comparison import compare


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedRecording(Row):
    """A recording on one kind of prompt."""

    drafter: Annotated[str, Column("As the recording names it.")]
    temperature: Annotated[float | None, Column("Of sampling; None where it is not stated.")]
    kind: Annotated[str, Column("Kind of prompt; `all`: their sum.", "prompts")]
    requests: Annotated[int, Column("Requests of this kind.")]
    tokens: Annotated[int, Column("Positions of these requests.")]
    draft_tokens: Annotated[
        int, Column("Draft tokens K; of a recording made under one policy, that policy's.")
    ]
    tokens_per_step: Annotated[
        float | None,
        Column("Emitted per step; None without a step.", "tokens/step", decimals=3, alone=True),
    ]
    acceptance_by_depth: Annotated[
        Sequence[float] | None,
        Column("Share of steps that keep the first d draft tokens.", decimals=3),
    ]
    tokens_per_step_interval: Annotated[Interval | None, Column("Its 80 % interval.")]

    @property
    def temperature_words(self) -> Annotated[str, Column("Temperature.", "T", of=("temperature",))]:
        """The temperature in few digits."""
        return "" if self.temperature is None else f"{self.temperature:g}"

    @property
    def interval_words(
        self,
    ) -> Annotated[str, Column("80 % interval.", "80 %", of=("tokens_per_step_interval",))]:
        """The interval of the tokens per step."""
        if self.tokens_per_step_interval is None:
            return ""
        low, high = self.tokens_per_step_interval
        return f"{low:.2f}–{high:.2f}"


@dataclass(frozen=True, kw_only=True)
class ComparedRecordings(Answer):
    """The answer of `traces compare` about acceptance.

    Attributes:
        rows: a row for every recording and kind of prompt.
        page: on which they are drawn; None: on none.
    """

    name: ClassVar[str] = "comparison"
    unwritten: ClassVar[tuple[str, ...]] = ("page",)
    rows: Sequence[ComparedRecording]
    page: Path | None = None

    @property
    def own_rows(self) -> Sequence[ComparedRecording]:
        """The rows."""
        return self.rows

    def shown(self) -> Iterator[Table | str]:
        """Acceptance by depth, and tokens per step."""
        yield Table(
            title="share of steps that keep the first d draft tokens",
            rows=self.rows,
            columns=[
                "drafter",
                "temperature_words",
                "kind",
                "acceptance_by_depth",
                "tokens_per_step",
                "interval_words",
            ],
            once=["temperature_words"],
            spread={
                "acceptance_by_depth": [
                    f"d={depth}" for depth in range(1, self.inputs["draft_tokens"] + 1)
                ]
            },
        )
        if self.page is not None:
            yield f"drawn in {self.page}"


@dataclass(frozen=True, kw_only=True)
class RecordedPolicies(Answer):
    """The answer of `traces compare` about the confidence of masked models.

    Attributes:
        policies: a row for every policy of every trace.
    """

    name: ClassVar[str] = "comparison"
    policies: Sequence[RecordedPolicyRow]

    @property
    def own_rows(self) -> Sequence[RecordedPolicyRow]:
        """The policies."""
        return self.policies

    def shown(self) -> Iterator[Table | str]:
        """The policies side by side."""
        yield policy_table(self.policies)


def answer(question: TracesCompareQuestion) -> Answer:
    """Recordings side by side, or the policies of confidence traces.

    Raises:
        InputError: no readable trace, or traces of both kinds.
        UnknownNameError: a kind of prompt that none of them has.
    """
    files = [trace_file(file) for file in question.files]
    inputs = inputs_of(question, files=[str(file) for file in files])
    holds_confidence = [is_confidence(file) for file in files]
    if any(holds_confidence):
        _check_confidence(question, files, all(holds_confidence))
        return RecordedPolicies(inputs=inputs, policies=compared_policies(files, question.seed))
    rows = compare(
        [read_trace(file) for file in files],
        draft_tokens=question.draft_tokens,
        seed=question.seed,
    )
    if question.kind is not None:
        kinds = list(dict.fromkeys(row.kind for row in rows))
        if question.kind not in kinds:
            raise UnknownNameError("kind of prompt", question.kind, kinds)
        rows = [row for row in rows if row.kind == question.kind]
    return ComparedRecordings(
        inputs=inputs,
        rows=[
            ComparedRecording(
                drafter=row.drafter,
                temperature=row.temperature,
                kind=row.kind,
                requests=row.requests,
                tokens=row.tokens,
                draft_tokens=row.draft_tokens,
                tokens_per_step=row.tokens_per_step,
                acceptance_by_depth=None if row.acceptance is None else row.acceptance.tolist(),
                tokens_per_step_interval=row.interval,
            )
            for row in rows
        ],
        page=question.plot,
    )


def _check_confidence(question: TracesCompareQuestion, files: list[Path], is_alike: bool) -> None:
    """Refuse other traces beside confidence traces, and options that ask for acceptance."""
    if not is_alike:
        raise InputError(
            "must all be confidence traces, or none", key="files", value=", ".join(map(str, files))
        )
    for option, value in (("--kind", question.kind), ("--plot", question.plot)):
        if value is not None:
            raise InputError(
                "asks for acceptance, which confidence traces do not hold",
                key=option,
                value=str(value),
            )
