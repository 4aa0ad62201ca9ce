"""What is ranked, and what stands behind it: the rows that a report and charts show of `optimize`.

Leaves out the search that they were made of, and files that engines load.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from app.answers.answer import Row, read_row
from app.answers.optimize.counted_rows import Counters
from app.answers.optimize.rows import (
    CellRow,
    ChoiceRow,
    ContextScheduleRow,
    DrafterRow,
    Emission,
    KindLengthsRow,
    MaskedQuality,
    PayingPolicy,
    PromptsRow,
    Range,
    SharedSchedule,
    TopologyBestRow,
)
from app.answers.optimize.within_limits import UsersWithin
from app.answers.scoring.certainty import Certainty


@dataclass(frozen=True, kw_only=True)
class Background(Row):
    """What stands behind the choices of a cell.

    Attributes:
        inputs: what was asked.
        cells: who wins at every batch and context, and what stands beside.
        schedule: ranges of the drafter that wins first, at the first context.
        schedule_loss_ratio: its mean loss against the best draft length.
        schedules: one per drafter and context.
        context_schedules: one per drafter for all contexts, where there are several.
        kind_lengths: draft lengths by kind of requests, where they were asked for.
        by_prompts: what is fastest at the first batch and context with what was published of the
            winner's method on each data set, slowest first; none where it was recorded or stated.
        dropped_batches: those that were left out, as plain decoding does not fit there.
        drafters: that competed.
        curves: tokens per step of everything compared.
        by_topology: the fastest of every topology.
        exports: paths of files by engine.
        counters: what an engine's counters say, where they were stated.
        quality: what quality of masked blocks means, where their policies were searched.
        pays: at which batches chosen policies beat the model decoded token by token.
        how_sure: of what wins at the first batch and context.
    """

    inputs: Mapping[str, Any]
    cells: Sequence[CellRow]
    schedule: Sequence[Range]
    schedule_loss_ratio: float
    schedules: Sequence[ContextScheduleRow]
    context_schedules: Sequence[SharedSchedule]
    kind_lengths: Sequence[KindLengthsRow]
    by_prompts: Sequence[PromptsRow]
    dropped_batches: Sequence[int]
    drafters: Sequence[DrafterRow]
    curves: Sequence[Emission]
    by_topology: Sequence[TopologyBestRow]
    exports: Mapping[str, Sequence[str]]
    counters: Counters | None = None
    quality: MaskedQuality | None = None
    pays: Sequence[PayingPolicy] | None = None
    how_sure: Certainty | None = None


@dataclass(frozen=True, kw_only=True)
class Rankings(Background):
    """The choices of a cell with what stands behind them.

    Attributes:
        choices: the fastest at every batch and context.
        alternatives: the best there of every other drafter; of masked blocks all other policies.
        within_limits: the most users within the limits at every context; empty without limits.
    """

    choices: Sequence[ChoiceRow]
    alternatives: Sequence[ChoiceRow]
    within_limits: Sequence[UsersWithin] = ()

    @property
    def ranked(self) -> Sequence[ChoiceRow]:
        """Every ranked configuration: the winners, then the other drafters' best."""
        return [*self.choices, *self.alternatives]

    @property
    def own_rows(self) -> Sequence[ChoiceRow]:
        """Every ranked configuration."""
        return self.ranked

    @property
    def missed_words(self) -> str:
        """Nothing is missed by what is ranked: what misses a limit is no choice."""
        return ""

    @property
    def tpot_limit_s(self) -> float | None:
        """The limit of the time per output token; None where there is none."""
        return next((row.tpot_limit_s for row in self.within_limits), None)

    @property
    def contexts(self) -> list[int]:
        """The contexts in cached tokens, in the order asked."""
        return list(dict.fromkeys(row.context for row in self.choices))

    def at(self, context: int) -> list[ChoiceRow]:
        """The winners at a context, by batch."""
        return sorted(
            (row for row in self.choices if row.context == context), key=lambda row: row.batch
        )


_EMPTY: Mapping[str, object] = {
    "inputs": {},
    "exports": {},
    "schedule_loss_ratio": 0.0,
}
_OPTIONAL = ("counters", "quality", "pays", "how_sure")


def read_rankings(saved: Mapping[str, Any]) -> Rankings:
    """The rankings of an answer that was saved as JSON; what it does not hold is empty."""
    hints = get_type_hints(Rankings)
    return Rankings(
        **{
            part.name: read_row(hints[part.name], saved.get(part.name) or _EMPTY.get(part.name, []))
            for part in fields(Rankings)
            if part.name not in _OPTIONAL or saved.get(part.name)
        }
    )
