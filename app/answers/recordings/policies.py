"""The policies of a confidence trace as rows, and as the table that sets them side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from app.answers.answer import Column, Row, Table
from hardware_profiles.units import MILLI
from traces.kinds.confidence import ConfidenceTrace
from traces.replay.confidence.summary import recorded_policies
from traces.storage.confidence_file import read_confidence

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedPolicyRow(Row):
    """A recorded way of committing masked tokens, over all prompts that it decoded."""

    file: Annotated[str, Column("The trace.")]
    model: Annotated[str, Column("Model that was recorded.")]
    policy: Annotated[str, Column("The policy in words.")]
    commit: Annotated[str, Column("Rule that commits tokens.")]
    at: Annotated[Mapping[str, float], Column("Thresholds of the rule.")]
    block_tokens: Annotated[int, Column("Tokens of a block.")]
    cache: Annotated[str, Column("What later passes of a block read from a cache.")]
    stop: Annotated[str, Column("When the canvas is finished.")]
    delimiters: Annotated[Sequence[int], Column("Tokens at which a block ends early.")]
    delimiter_confidence: Annotated[float, Column("Least probability of such a token.")]
    runs: Annotated[int, Column("Prompts that it decoded.", "prompts")]
    tokens: Annotated[int, Column("Positions committed.")]
    steps: Annotated[int, Column("Passes.", "passes")]
    tokens_per_step: Annotated[
        float, Column("Committed per pass.", "tokens/pass", decimals=3, alone=True)
    ]
    tokens_per_step_interval: Annotated[Interval, Column("Its 80 % interval.")]
    commit_doubt: Annotated[
        float, Column("Mean of 1 - probability of a committed token.", "doubt", decimals=3)
    ]
    agreement: Annotated[
        float | None,
        Column("Share of positions with the token of one token a pass.", decimals=3),
    ]
    pass_s: Annotated[Mapping[str, float], Column("Seconds of a pass, by what it computed.")]

    @property
    def interval_words(
        self,
    ) -> Annotated[str, Column("80 % interval.", "80 %", of=("tokens_per_step_interval",))]:
        """The interval of the tokens per pass."""
        low, high = self.tokens_per_step_interval
        return f"{low:.2f}–{high:.2f}"

    @property
    def pass_words(self) -> Annotated[str, Column("Times.", "ms a pass", of=("pass_s",))]:
        """Milliseconds of a pass, by what it computed."""
        return ", ".join(f"{kind} {seconds / MILLI:.2f}" for kind, seconds in self.pass_s.items())


def policy_rows(file: Path, trace: ConfidenceTrace, seed: int) -> list[RecordedPolicyRow]:
    """The policies of a confidence trace.

    Args:
        file: of the trace.
        trace: what it holds.
        seed: of the intervals.
    """
    return [
        RecordedPolicyRow(
            file=str(file),
            model=trace.provenance.model,
            policy=recorded.policy.name,
            **recorded.policy.as_json(),
            runs=recorded.runs,
            tokens=recorded.tokens,
            steps=recorded.steps,
            tokens_per_step=recorded.tokens_per_step,
            tokens_per_step_interval=recorded.interval,
            commit_doubt=recorded.commit_doubt,
            agreement=recorded.agreement,
            pass_s=dict(recorded.pass_s),
        )
        for recorded in recorded_policies(trace, seed=seed)
    ]


def compared_policies(files: Sequence[Path], seed: int) -> list[RecordedPolicyRow]:
    """The policies of several confidence traces.

    Raises:
        InputError: a file that is no confidence trace.
    """
    return [row for file in files for row in policy_rows(file, read_confidence(file), seed)]


def policy_table(rows: Sequence[RecordedPolicyRow]) -> Table:
    """Policies side by side."""
    return Table(
        title=(
            "recorded policies; agreement is the share of positions with the token of one token a"
            " pass"
        ),
        rows=rows,
        columns=[
            "policy",
            "runs",
            "steps",
            "tokens_per_step",
            "interval_words",
            "commit_doubt",
            "agreement",
            "pass_words",
        ],
    )
