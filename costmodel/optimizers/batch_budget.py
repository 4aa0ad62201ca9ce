"""How should one step's verify budget be shared out over the requests of a batch?

Exact for any value tables (a tree optimiser's values by node count, concave or not), by the greedy order of
survival probabilities for chains, and the budget itself from the time a step takes. Leaves out trees whose
nodes compete across requests one by one (expand them first, then share out by their value tables) and
fairness between requests.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from costmodel.optimizers.max_plus import INFEASIBLE, Values, best_share, max_plus
from hardware_profiles.errors import InfeasibleError, InputError

MAX_TABLE_CELLS = 1 << 26
ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetSplit:
    """A share per request, in the unit of the question, and the step's emitted tokens over all requests."""

    shares: tuple[int, ...]
    tokens: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedSplit:
    """A split of the budget at which the batch emits most tokens per second."""

    split: BudgetSplit
    step_s: float
    tokens_per_s: float


def best_split(values: Sequence[ArrayLike], total: int) -> BudgetSplit:
    """The split of at most `total` nodes over requests that is worth most, exactly.

    Args:
        values: one table per request, `values[r][n]` = expected tokens of request r with n nodes (n = 0, 1,
            ...); NaN or -inf where n is not allowed (no root, say). Tables may differ in length and need not
            be concave.
        total: nodes to share out, at least 0; what is worth nothing stays unused.

    Returns:
        Nodes per request, and the sum of their values.

    Raises:
        InputError: an empty table, +inf, or a search beyond 2^26 cells.
        InfeasibleError: the smallest allowed shares exceed `total`.

    Reference:
        The question of TETRIS, Wu et al. 2025 (arXiv 2502.15197), with trees in place of chains.
    """
    tables = [_table(row, f"values[{r}]", total) for r, row in enumerate(values)]
    if total < 0 or (len(tables) + 1) * (total + 1) > MAX_TABLE_CELLS:
        raise InputError(
            f"0 or more, and at most {MAX_TABLE_CELLS} over requests times nodes", key="total", value=total
        )
    nothing = np.full(total + 1, INFEASIBLE)
    nothing[0] = 0.0
    rows = [nothing]
    for table in tables:
        rows.append(max_plus(rows[-1], table))
    left = int(np.argmax(rows[-1]))
    tokens = float(rows[-1][left])
    if tokens == INFEASIBLE:
        raise InfeasibleError("the requests' smallest shares exceed the budget", key="total", value=total)
    shares = []
    for table, others in zip(reversed(tables), reversed(rows[:-1]), strict=True):
        shares.append(best_share(others, table, left))
        left -= shares[-1]
    return BudgetSplit(shares=tuple(shares[::-1]), tokens=tokens)


def chain_split(survival: Sequence[ArrayLike], total: int) -> BudgetSplit:
    """The `total` likeliest draft slots of a batch of chains: exact, because a chain's survival never rises.

    Args:
        survival: one row per request, `survival[r][j]` = probability that draft token j and all before it are
            kept, non-increasing, in [0, 1]. Rows may differ in length and may be empty.
        total: draft tokens to share out, at least 0; ties go to the shorter prefix, then to the earlier
            request.

    Returns:
        Draft tokens per request, and emitted tokens: one bonus token per request plus the survivals chosen.

    Raises:
        InputError: a row is not a survival row, or `total` is negative.

    Reference:
        TETRIS, Wu et al. 2025 (arXiv 2502.15197).

    Example:
        >>> chain_split([[0.9, 0.8], [0.5, 0.1]], 3)
        BudgetSplit(shares=(2, 1), tokens=4.2)
    """
    if total < 0:
        raise InputError("draft tokens to share out must be 0 or more", key="total", value=total)
    chances, requests = _slots(survival)
    shares = np.bincount(requests[:total], minlength=len(survival))
    tokens = len(survival) + float(chances[:total].sum())
    return BudgetSplit(shares=tuple(int(share) for share in shares), tokens=tokens)


def fastest_chain_split(survival: Sequence[ArrayLike], step_s: ArrayLike) -> TimedSplit:
    """The budget, and its split, at which a batch of chains emits most tokens per second.

    Args:
        survival: as in `chain_split`; at least one request.
        step_s: [budgets] seconds of a step that verifies 0, 1, ... draft tokens over the batch, positive and
            finite.

    Returns:
        The best split (the smallest budget of equals) with its step time and rate.

    Raises:
        InputError: no requests, or a time that is not positive.
    """
    times = np.asarray(step_s, dtype=np.float64)
    if times.ndim != 1 or not times.size or not np.all(np.isfinite(times)) or np.any(times <= 0):
        raise InputError("must be seconds > 0, one per draft budget from 0 on", key="step_s")
    if not survival:
        raise InputError("at least one request is needed", key="survival")
    chances, _ = _slots(survival)
    usable = min(times.size, chances.size + 1)
    tokens = len(survival) + np.concatenate([[0.0], np.cumsum(chances)])[:usable]
    budget = int(np.argmax(tokens / times[:usable]))
    split = chain_split(survival, budget)
    return TimedSplit(split=split, step_s=float(times[budget]), tokens_per_s=split.tokens / float(times[budget]))


def _table(row: ArrayLike, key: str, total: int) -> Values:
    table = np.array(row, dtype=np.float64)
    if table.ndim != 1 or not table.size or np.any(table == np.inf):
        raise InputError("must be a list of values by node count, NaN or -inf where not allowed", key=key)
    table[np.isnan(table)] = INFEASIBLE
    return table[: total + 1]


def _slots(survival: Sequence[ArrayLike]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Survival and request of every draft slot, likeliest first."""
    rows = [np.asarray(row, dtype=np.float64) for row in survival]
    for r, row in enumerate(rows):
        if row.ndim != 1 or not np.all((row >= 0) & (row <= 1)) or np.any(np.diff(row) > ROUNDING):
            raise InputError("survival must lie in 0..1 and never rise along a chain", key=f"survival[{r}]")
    if not rows:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    chances = np.concatenate(rows)
    depths = np.concatenate([np.arange(row.size) for row in rows])
    requests = np.repeat(np.arange(len(rows)), [row.size for row in rows])
    order = np.lexsort((requests, depths, -chances))
    return chances[order], requests[order]
