"""What does `sweep` answer? What was found in its cells, or which cells moved between two sweeps."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.sweep.table import KEYS, CellKeys

_SHOWN = 20  # cells of each kind on the screen

_What = Annotated[str, Column("`moved`, `appeared` or `disappeared`.")]
_Feasible = Annotated[bool, Column("Whether there is an answer.")]
_Reason = Annotated[str | None, Column("Why there is none.")]
_Topology = Annotated[str | None, Column("`off`, `chain`, `tree` or `dynamic_tree`.")]
_DraftTokens = Annotated[int | None, Column("Per request and step.", "K")]
_TokensPerS = Annotated[float | None, Column("Of all requests.")]
_PlainTokensPerS = Annotated[float | None, Column("Of plain decoding.")]
_Speedup = Annotated[float | None, Column("Against plain decoding.")]
_Change = Annotated[float | None, Column("New over old, less 1.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class MovedCell(CellKeys):
    """A cell of both sweeps whose rates or feasibility differ."""

    what: _What = "moved"
    feasible_old: _Feasible
    reason_old: _Reason
    topology_old: _Topology
    draft_tokens_old: _DraftTokens
    tokens_per_s_old: _TokensPerS
    plain_tokens_per_s_old: _PlainTokensPerS
    speedup_old: _Speedup
    feasible_new: _Feasible
    reason_new: _Reason
    topology_new: _Topology
    draft_tokens_new: _DraftTokens
    tokens_per_s_new: _TokensPerS
    plain_tokens_per_s_new: _PlainTokensPerS
    speedup_new: _Speedup
    tokens_per_s_change_ratio: _Change
    plain_tokens_per_s_change_ratio: _Change
    speedup_change_ratio: _Change

    @property
    def drafts(
        self,
    ) -> Annotated[str, Column("Drafts.", "K", of=("draft_tokens_old", "draft_tokens_new"))]:
        """Old and new draft tokens."""
        return _both(
            self.draft_tokens_old,
            self.draft_tokens_new,
            lambda count: "none" if count is None else str(count),
        )

    @property
    def rates(
        self,
    ) -> Annotated[str, Column("Rates.", "tokens/s", of=("tokens_per_s_old", "tokens_per_s_new"))]:
        """Old and new rate."""
        return _both(self.tokens_per_s_old, self.tokens_per_s_new, _rate)

    @property
    def change(self) -> Annotated[str, Column("Rate.", of=("tokens_per_s_change_ratio",))]:
        """Change of the rate."""
        return _change(self.tokens_per_s_change_ratio)

    @property
    def speedup(self) -> Annotated[str, Column("Speedup.", of=("speedup_change_ratio",))]:
        """Change of the speedup."""
        return _change(self.speedup_change_ratio)

    @property
    def plain(self) -> Annotated[str, Column("Plain.", of=("plain_tokens_per_s_change_ratio",))]:
        """Change of plain decoding's rate."""
        return _change(self.plain_tokens_per_s_change_ratio)


@dataclass(frozen=True, kw_only=True, slots=True)
class LoneCell(CellKeys):
    """A cell of one sweep alone."""

    what: _What
    feasible: _Feasible
    reason: _Reason
    topology: _Topology
    draft_tokens: _DraftTokens
    tokens_per_s: _TokensPerS
    plain_tokens_per_s: _PlainTokensPerS
    speedup: _Speedup

    @property
    def rate(self) -> Annotated[str, Column("Rate.", "tokens/s", of=("tokens_per_s",))]:
        """The rate, or that there is none."""
        return _rate(self.tokens_per_s)


@dataclass(frozen=True, kw_only=True)
class SweptCells(Answer):
    """What was found in the cells of a sweep.

    Attributes:
        out: the file, a row a cell.
        csv: the same rows as comma-separated values, where they were asked for.
        cells: rows of the file.
        feasible: those that fit and have an answer.
        topologies: how many cells `off`, `chain`, `tree` or `dynamic_tree` is best in.
        reasons: why cells have no answer, the first few of them, with how many have the very same.
        computed: cells that this call computed; the others lay there.
        workers: processes that computed them on this machine.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    out: Path
    csv: Path | None
    cells: int
    feasible: int
    topologies: Mapping[str, int]
    reasons: Mapping[str, int]
    computed: int
    workers: int

    @property
    def own_rows(self) -> Sequence[Row]:
        """None: the file has them."""
        return ()

    def shown(self) -> Iterator[str]:
        """How many cells there are, what is best in them, and why others have no answer."""
        best = ", ".join(f"{name} {count:,}" for name, count in sorted(self.topologies.items()))
        yield (
            f"{self.cells:,} cells in {self.out}, {self.feasible:,} with an answer"
            + (f": {best}" if best else "")
        )
        if self.computed < self.cells:
            yield f"{self.cells - self.computed:,} of them were finished before"
        for reason, count in self.reasons.items():
            yield f"{count:,} without: {reason}"
        others = self.cells - self.feasible - sum(self.reasons.values())
        if others:
            yield f"{others:,} more cells without; the rows have every reason"


@dataclass(frozen=True, kw_only=True)
class SweepComparison(Answer):
    """What lies between two sweeps.

    Attributes:
        same: cells of both that moved by no more than the threshold.
        moved: cells of both, largest change first: those with an answer in one alone, then by the
            largest of the three rates' changes.
        appeared: cells of the new one alone.
        disappeared: cells of the old one alone.
    """

    name: ClassVar[str] = "comparison"
    frame_columns: ClassVar[tuple[str, ...]] = (
        "what",
        *KEYS,
        "tokens_per_s_old",
        "tokens_per_s_new",
        "tokens_per_s_change_ratio",
        "speedup_change_ratio",
        "plain_tokens_per_s_change_ratio",
        "tokens_per_s",
        "reason",
    )
    same: int
    moved: Sequence[MovedCell]
    appeared: Sequence[LoneCell]
    disappeared: Sequence[LoneCell]

    @property
    def own_rows(self) -> Sequence[MovedCell | LoneCell]:
        """The cells that moved, appeared and disappeared."""
        return [*self.moved, *self.appeared, *self.disappeared]

    def shown(self) -> Iterator[Table | str]:
        """How many there are of each, and the first of them."""
        yield (
            f"{len(self.moved):,} cells moved by more than {self.inputs['threshold']:.3g},"
            f" {self.same:,} did not; {len(self.appeared):,} appeared,"
            f" {len(self.disappeared):,} disappeared"
        )
        moved = ["drafts", "rates", "change", "speedup", "plain"]
        for title, cells, columns in (
            ("moved, largest first", self.moved, moved),
            ("appeared", self.appeared, ["rate"]),
            ("disappeared", self.disappeared, ["rate"]),
        ):
            if cells:
                more = len(cells) - _SHOWN
                shown = cells[:_SHOWN]
                keys = [key for key in KEYS if any(getattr(c, key) is not None for c in shown)]
                yield Table(
                    title=title,
                    rows=shown,
                    columns=[*keys, *columns],
                    caption=f"and {more:,} more; --csv and --json have all" if more > 0 else "",
                    once=KEYS[:5],
                )


def _both(old: Any, new: Any, shown: Callable[[Any], str]) -> str:
    """Old and new, once where they look the same."""
    before, after = shown(old), shown(new)
    return before if before == after else f"{before} to {after}"


def _change(ratio: float | None) -> str:
    return "" if ratio is None else f"{100.0 * ratio:+.1f} %"


def _rate(value: float | None) -> str:
    return "none" if value is None else f"{value:,.0f}"
