"""Which draft length should an engine use at which batch size, in a few ranges?

Turns a table of measured or predicted rates (batches by draft lengths) into inclusive ranges [lo,
hi, K] from batch 1 on without gaps, as serving engines read them: the fewest ranges that lose
little against the best K at every single batch, at one context or over several, and of those the
ones that lose least. Leaves out how the rates come about and how an engine spells ranges.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from costmodel.answers.batch_ranges import joined_ranges
from hardware_profiles.errors import InfeasibleError, InputError

MAX_BATCHES = 65_536
MAX_CELLS = 1 << 24
MOST_RANGES = 64
"""More than any drafter needed on shipped devices; engines read lists of any length, and capture
graphs by K."""
_EQUAL = 1e-12  # what rounding may add to a loss

Rates = NDArray[np.float64]
Doubt = Callable[[int, int, int], float]  # of a batch and the draft tokens of two chains


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """Draft tokens by batch size.

    Attributes:
        ranges: (lo, hi, draft tokens), both ends included, from 1 on without gaps; neighbours
            differ.
        loss_ratio: 1 - mean over the batches asked about, uniform in log batch, of rate(schedule) /
            rate(best draft length there).
        worst_loss_ratio: the most that is lost at any of those batches.
    """

    ranges: tuple[tuple[int, int, int], ...]
    loss_ratio: float
    worst_loss_ratio: float

    def draft_tokens_at(self, batch: int) -> int:
        """Draft tokens per request and step at a batch size.

        Raises:
            InputError: the schedule does not cover that batch.
        """
        for low, high, draft_tokens in self.ranges:
            if low <= batch <= high:
                return draft_tokens
        raise InputError(
            f"the schedule covers batches 1..{self.ranges[-1][1]}", key="batch", value=batch
        )

    def to_json(self) -> list[list[int]]:
        """The ranges as [[lo, hi, draft tokens], ...]."""
        return [list(bounds) for bounds in self.ranges]


def batch_schedule(
    batches: Sequence[int],
    draft_tokens: Sequence[int],
    rates: ArrayLike,
    *,
    max_ranges: int = MOST_RANGES,
    tolerance_ratio: float = 0.005,
    doubt: Doubt | None = None,
) -> Schedule:
    """The fewest ranges that lose at most `tolerance_ratio` at every batch against the best draft
    length there.

    An engine that moves between ranges pays for it (captured graphs, drafter state), so few are
    better. Of as few, the ranges are taken that lose least on average over log batch, each batch
    relative to its own best: exact for the batches given, by dynamic programming over (ranges used,
    batch, draft length). Between two of them a range ends where the two draft lengths' interpolated
    rates cross. Where `max_ranges` cannot keep the tolerance, those are taken that lose least on
    average. Engines know no other key than the batch: several contexts share one schedule and count
    alike, each batch relative to its own best there; where nothing runs at some context, the others
    count.

    Args:
        batches: batch sizes [m], increasing, at least 1.
        draft_tokens: candidates [c], increasing, 0 for no speculation.
        rates: [m, c] or [contexts, m, c], tokens per second or speedup, positive; NaN or 0 where
            that draft length cannot run.
        max_ranges: most ranges, at least 1.
        tolerance_ratio: loss at any one batch that one is ready to bear for fewer ranges, 0..1;
            over several contexts, to add to the least mean loss there.
        doubt: half width of the interval of the logarithm of the rates' ratio of two draft lengths
            at a batch: narrow ranges that gain less over a neighbour's draft length are joined to
            it. None: every range is kept.

    Returns:
        The schedule and what it loses, as means over contexts.

    Raises:
        InputError: shapes or values out of range.
        InfeasibleError: some batch can run no draft length, or none at all contexts that have one,
            or the ranges allowed cannot avoid those that fail.

    Example:
        >>> batch_schedule([1, 8, 64], [0, 3], [[1.0, 2.0], [1.0, 1.5], [1.0, 0.8]]).ranges
        ((1, 48, 3), (49, 64, 0))
        >>> batch_schedule([1, 64], [0, 3], [[[1.0, 2.0], [1.0, 0.8]], [[1.0, 2.0], [1.0, 1.9]]]).ranges
        ((1, 64, 3),)
    """
    grid, candidates = (
        _increasing(batches, 1, "batches"),
        _increasing(draft_tokens, 0, "draft_tokens"),
    )
    tables = _checked_tables((grid.size, candidates.size), rates)
    best = tables.max(axis=2, keepdims=True)
    if not (best > 0).any(axis=0).all():
        idle = int(grid[np.argmin(best.max(axis=(0, 2)))])
        raise InfeasibleError("no draft length runs at this batch", key="rates", value=idle)
    counted = (best > 0).sum(axis=0)
    shares = (
        np.divide(tables, best, out=np.zeros_like(tables), where=best > 0).sum(axis=0) / counted
    )
    shares[((tables == 0) & (best > 0)).any(axis=0)] = 0.0  # runs at some contexts alone
    losses = np.where(shares == 0, np.inf, 1.0 - shares)
    weights = log_weights(grid) * counted[:, 0]
    crossing = tables[0] if len(tables) == 1 else shares
    return _fewest_ranges(
        grid,
        candidates,
        crossing,
        losses,
        weights / weights.sum(),
        max_ranges,
        tolerance_ratio,
        doubt,
    )


def _fewest_ranges(
    grid: NDArray[np.int64],
    candidates: NDArray[np.int64],
    table: Rates,
    losses: Rates,
    weights: Rates,
    max_ranges: int,
    tolerance_ratio: float,
    doubt: Doubt | None,
) -> Schedule:
    """The fewest ranges that lose little more than the least at every batch, of losses [batches,
    candidates].
    """
    if max_ranges < 1:
        raise InputError("at least one range is needed", key="max_ranges", value=max_ranges)
    if not 0 <= tolerance_ratio <= 1:
        raise InputError("must lie in 0..1", key="tolerance_ratio", value=tolerance_ratio)
    little = losses <= losses.min(axis=1, keepdims=True) + tolerance_ratio + _EQUAL
    fewest = _ranges_needed(little)
    every = losses
    if fewest <= max_ranges:
        losses = np.where(little, losses, np.inf)
    totals, moves = _least_losses(losses * weights[:, None], min(fewest, max_ranges, len(grid)))
    if not np.isfinite(totals[-1].min()):
        rule = "so few ranges cannot avoid the draft lengths that do not run"
        raise InfeasibleError(rule, key="max_ranges", value=max_ranges)
    columns = _columns(totals, moves, len(totals) - 1)
    if doubt is not None:
        columns = _joined(grid, candidates, every, columns, doubt)
    lost = every[np.arange(grid.size), columns]
    return Schedule(
        ranges=_ranges(grid, candidates, table, columns),
        loss_ratio=max(0.0, float(weights @ lost)),
        worst_loss_ratio=max(0.0, float(lost.max())),
    )


def _joined(
    grid: NDArray[np.int64],
    candidates: NDArray[np.int64],
    losses: Rates,
    columns: list[int],
    doubt: Doubt,
) -> list[int]:
    """The columns without narrow ranges whose gain over a neighbour's is within its doubt."""
    kept = np.where(np.isfinite(losses), 1.0 - losses, np.nan)
    own = kept[np.arange(grid.size), columns]

    def gain(run: slice, other: int) -> float:
        gained = float(np.max(np.log(own[run] / kept[run, other])))
        return gained if np.isfinite(gained) else np.inf

    def unsure(run: slice, other: int) -> float:
        middle = (run.start + run.stop - 1) // 2
        return doubt(int(grid[middle]), int(candidates[columns[middle]]), int(candidates[other]))

    return joined_ranges(grid, columns, gain, unsure)


def _checked_tables(shape: tuple[int, int], rates: ArrayLike) -> Rates:
    """Rates as [contexts, batches, draft lengths]; 0 where that draft length does not run."""
    tables = np.array(rates, dtype=np.float64)
    if tables.ndim not in (2, 3) or tables.shape[-2:] != shape or not len(tables):
        rule = (
            f"must be [{shape[0]} batches, {shape[1]} draft lengths], or as many for each context"
        )
        raise InputError(rule, key="rates", value=tables.shape)
    if tables.size > MAX_CELLS:
        raise InputError(f"at most {MAX_CELLS} rates are allowed", key="rates", value=tables.size)
    if np.any(np.isinf(tables)) or np.any(tables < 0):
        raise InputError("must be finite and not negative (NaN: does not run)", key="rates")
    tables[np.isnan(tables)] = 0.0
    return tables.reshape(-1, *shape)


def _increasing(values: Sequence[int], lowest: int, key: str) -> NDArray[np.int64]:
    entries = np.asarray(values)
    if (
        entries.ndim != 1
        or not 1 <= entries.size <= MAX_BATCHES
        or not np.issubdtype(entries.dtype, np.integer)
    ):
        raise InputError(f"must be a list of 1..{MAX_BATCHES} whole numbers", key=key, value=values)
    if entries[0] < lowest or np.any(np.diff(entries) <= 0):
        raise InputError(f"must increase, from {lowest} or more", key=key, value=values)
    return entries.astype(np.int64)


def log_weights(grid: NDArray[np.int64]) -> Rates:
    """What every batch counts, summing to 1: its share of log batch, alike for powers of two.

    Args:
        grid: batches, increasing.
    """
    if grid.size == 1:
        return np.ones(1)
    spans = np.gradient(np.log(grid))
    return np.asarray(spans / spans.sum(), dtype=np.float64)


def _ranges_needed(little: NDArray[np.bool_]) -> int:
    """Ranges that are needed if a draft length may only be used where it loses little: each as long
    as can be.
    """
    ranges, open_ = 1, little[0]
    for here in little[1:]:
        if not (open_ & here).any():
            ranges, open_ = ranges + 1, np.ones_like(here)
        open_ = open_ & here
    return ranges


def _least_losses(losses: Rates, max_ranges: int) -> tuple[Rates, NDArray[np.int64]]:
    """Least total loss [ranges, candidate at the last batch], and where each state came from.

    `moves[r, j, c]` is the draft length at batch j - 1 when c is used at j in the (r + 1)-th range
    at most; a different one means that a range ended. Ties keep the range, then take the shorter
    draft.
    """
    batches, width = losses.shape
    totals = np.full((max_ranges, width), np.inf)
    totals[:] = losses[0]
    moves = np.zeros((max_ranges, batches, width), dtype=np.int64)
    stay = np.arange(width)
    for j in range(1, batches):
        cheapest, least = totals.argmin(axis=1)[:-1, None], totals.min(axis=1)[:-1, None]
        switch = least < totals[1:]
        moves[0, j], moves[1:, j] = stay, np.where(switch, cheapest, stay)
        totals[1:] = np.where(switch, least, totals[1:])
        totals += losses[j]
    return totals, moves


def _columns(totals: Rates, moves: NDArray[np.int64], used: int) -> list[int]:
    """The draft length's column at every batch, read back from the last one."""
    column, ranges = int(np.argmin(totals[used])), used
    columns = [column]
    for j in range(moves.shape[1] - 1, 0, -1):
        previous = int(moves[ranges, j, column])
        ranges -= previous != column
        column = previous
        columns.append(column)
    return columns[::-1]


def _ranges(
    grid: NDArray[np.int64], candidates: NDArray[np.int64], table: Rates, columns: list[int]
) -> tuple[tuple[int, int, int], ...]:
    ranges: list[tuple[int, int, int]] = []
    low = 1
    for j in range(len(columns) - 1):
        here, there = columns[j], columns[j + 1]
        if here != there:
            high = _last_before_crossing(
                grid[j : j + 2], table[j : j + 2, here], table[j : j + 2, there]
            )
            ranges.append((low, high, int(candidates[here])))
            low = high + 1
    return (*ranges, (low, int(grid[-1]), int(candidates[columns[-1]])))


def _last_before_crossing(ends: NDArray[np.int64], here: Rates, there: Rates) -> int:
    """Last batch of the left range: where the lead, linear in batch, turns to the right one."""
    if here[1] == 0 or there[0] == 0:
        return int(ends[0]) if here[1] == 0 else int(ends[1]) - 1
    lead, lag = here[0] - there[0], there[1] - here[1]
    if lead < 0 or lag < 0:
        return int(ends[0]) if lead < 0 else int(ends[1]) - 1
    crossing = ends[0] + (ends[1] - ends[0]) * (lead / (lead + lag) if lead + lag > 0 else 1.0)
    return int(min(np.floor(crossing), ends[1] - 1))
