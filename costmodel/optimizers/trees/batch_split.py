"""Which request of a batch should get which draft tokens, and how many are worth their verify pass?

Every request has a gain for each further token it may draft: the probability that a chain's next
token is accepted, or what the best tree of one node more emits beyond the best without it. Where a
request's gains fall, taking the largest gains of the whole batch is the best split of every total,
and one sort answers for all totals at once. Gains that rise somewhere take an exact max-plus search
over the requests. A step's seconds choose the total. Leaves out where gains come from (`tree_gains`
for vectors), and requests whose tokens cost unlike amounts.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.optimizers.acceptance_vectors import AcceptanceVectors
from costmodel.optimizers.trees.certificate import EXACT, Certificate
from costmodel.optimizers.trees.max_plus import INFEASIBLE, best_share, max_plus
from costmodel.optimizers.trees.static_tree import optimal_values
from hardware_profiles.errors import InputError

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
MOST_CELLS = 1 << 25
_EQUAL = 1e-12  # tokens


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BatchSplit:
    """Draft tokens of every request of a batch.

    Attributes:
        draft_tokens: int64[requests].
        tokens_per_step: expected emitted tokens of the batch, one bonus token per request included.
        step_s: seconds of the step; None where no cost was weighed.
        certificate: how far the best split can be above this one, in tokens per step, or in tokens
            per second where a cost was weighed.
    """

    draft_tokens: Whole
    tokens_per_step: float
    step_s: float | None = None
    certificate: Certificate = EXACT

    @property
    def tokens_per_s(self) -> float | None:
        """Emitted tokens per second; None where no cost was weighed."""
        return None if self.step_s is None else self.tokens_per_step / self.step_s


def split_budget(gains: Array, total: int, *, exact: bool = True) -> BatchSplit:
    """The split of exactly `total` draft tokens that emits most.

    Example:
        >>> split_budget(np.array([[0.8, 0.6, 0.4], [0.5, 0.2, 0.1]]), 3).draft_tokens.tolist()
        [2, 1]

    Args:
        gains: float64 [requests, tokens], >= 0: what each further draft token of a request adds to
            the expected emitted tokens; -inf where a request can have no more.
        total: draft tokens of the whole batch, 0 or more, no more than there are gains.
        exact: search where gains rise; otherwise the greedy split, with the gap to a bound.

    Raises:
        InputError: gains of another shape or below 0, or more tokens than there are gains.
    """
    _check(gains)
    possible = int(np.isfinite(gains).sum())
    if not 0 <= total <= possible:
        raise InputError(
            f"must lie in 0..{possible}, the number of gains", key="total", value=total
        )
    order = _order(_falling(gains))
    bound = gains.shape[0] + float(_falling(gains).reshape(-1)[order[:total]].sum())
    if _falls(gains):
        return BatchSplit(draft_tokens=_counted(order[:total], gains), tokens_per_step=bound)
    if exact:
        rows = _prefixes(gains, total)
        counts = _read_back(rows, gains, total)
        return BatchSplit(
            draft_tokens=counts, tokens_per_step=gains.shape[0] + float(rows[-1][total])
        )
    counts = _counted(order[:total], gains)
    value = gains.shape[0] + _worth(gains, counts)
    return BatchSplit(
        draft_tokens=counts, tokens_per_step=value, certificate=_certificate(bound - value)
    )


def fastest_split(gains: Array, step_s: Array) -> BatchSplit:
    """The split that emits most tokens per second, over all totals and all longest drafts.

    Exact where every request's gains fall; otherwise the best of the greedy splits, with the gap to
    a bound.

    Args:
        gains: as for `split_budget`.
        step_s: seconds of a step, shape [longest + 1, total + 1]: where no request drafts more than
            so many tokens (their draft passes) and the batch verifies so many in all; any shape of
            curve. Or [total + 1], where drafts take no time of their own. Totals beyond its end are
            not considered.

    Raises:
        InputError: gains or seconds out of range.

    Reference:
        Wu et al. 2025, TETRIS (arXiv:2502.15197), takes the largest gains of a total that is set by
        hand.
    """
    _check(gains)
    requests, most = gains.shape
    seconds = np.asarray(step_s, dtype=np.float64)
    if seconds.ndim == 1:
        seconds = np.broadcast_to(seconds, (most + 1, seconds.size))
    if (
        seconds.ndim != 2
        or seconds.shape[0] != most + 1
        or not seconds.size
        or not np.all(seconds > 0)
    ):
        rule = f"needs seconds > 0 of shape [{most + 1}, totals] or [totals]"
        raise InputError(rule, key="step_s", value=list(np.shape(step_s)))
    hull = _falling(gains).reshape(-1)
    order = _order(hull.reshape(gains.shape))
    best, chosen, bound = requests / float(seconds[0, 0]), order[:0], 0.0
    place = (0, 0)
    for longest in range(most + 1):
        within = order[order % most < longest]
        rates, most_rates = (
            (requests + np.concatenate([[0.0], np.cumsum(gain[within])]))[: seconds.shape[1]]
            / seconds[longest, : within.size + 1]
            for gain in (gains.reshape(-1), hull)
        )
        total, bound = int(np.argmax(rates)), max(bound, float(most_rates.max()))
        if rates[total] > best * (1.0 + _EQUAL):
            best, chosen, place = float(rates[total]), within[:total], (longest, total)
    return BatchSplit(
        draft_tokens=_counted(chosen, gains),
        tokens_per_step=requests + float(gains.reshape(-1)[chosen].sum()),
        step_s=float(seconds[place]),
        certificate=EXACT if _falls(gains) else _certificate(bound - best),
    )


def tree_gains(acceptance: AcceptanceVectors, draft_tokens: int, depth: int) -> Array:
    """What every further node of a request's best tree adds, float64 [draft tokens]; -inf behind
    the largest tree.

    Args:
        acceptance: sibling vector, or one vector per draft depth.
        draft_tokens: nodes, root excluded, at least 1.
        depth: most levels, root included.
    """
    values = optimal_values(acceptance, draft_tokens + 1, depth)[1:, -1]
    possible = np.isfinite(values)
    return np.where(possible[1:], np.diff(np.where(possible, values, 0.0)), INFEASIBLE)


def _check(gains: Array) -> None:
    if gains.ndim != 2 or not gains.size or gains.size > MOST_CELLS:
        raise InputError(
            "needs gains of shape [requests, tokens]", key="gains", value=list(gains.shape)
        )
    possible = gains > INFEASIBLE
    if not np.all(gains[possible] >= -_EQUAL) or np.any(possible[:, 1:] & ~possible[:, :-1]):
        raise InputError(
            "gains must be >= 0, and -inf from the first impossible one on", key="gains"
        )


def _falls(gains: Array) -> bool:
    return bool(np.all(gains[:, 1:] <= gains[:, :-1]))


def _falling(gains: Array) -> Array:
    """The gains of the least concave curve over each request's own: a bound at every share, equal
    where they fall.
    """
    if _falls(gains):
        return gains
    hull = gains.copy()
    for request in np.flatnonzero(np.any(gains[:, 1:] > gains[:, :-1], axis=1)):
        row = hull[request]
        blocks: list[tuple[float, int]] = []  # sums over runs of equal slope
        for gain in row[np.isfinite(row)].tolist():
            total, count = gain, 1
            while blocks and blocks[-1][0] * count < total * blocks[-1][1]:
                before, many = blocks.pop()
                total, count = total + before, count + many
            blocks.append((total, count))
        row[: sum(count for _, count in blocks)] = np.repeat(
            [total / count for total, count in blocks], [count for _, count in blocks]
        )
    return hull


def _order(gains: Array) -> Whole:
    """Places of the gains, the largest first; of equals, earlier requests first, and their tokens
    in order.
    """
    return np.argsort(-gains.reshape(-1), kind="stable")[: int(np.isfinite(gains).sum())]


def _counted(places: Whole, gains: Array) -> Whole:
    return np.bincount(places // gains.shape[1], minlength=gains.shape[0]).astype(np.int64)


def _worth(gains: Array, counts: Whole) -> float:
    return float(gains[np.arange(gains.shape[1]) < counts[:, None]].sum())


def _certificate(gap: float) -> Certificate:
    return EXACT if gap <= _EQUAL else Certificate(kind="bound", gap=gap)


def _prefixes(gains: Array, total: int) -> list[Array]:
    """Best worth of the first 0, 1, ... requests by how many tokens they share."""
    if gains.shape[0] * (total + 1) > MOST_CELLS:
        raise InputError(
            f"requests times tokens must not exceed {MOST_CELLS}; ask without `exact`", key="total"
        )
    first = np.full(total + 1, INFEASIBLE)
    first[0] = 0.0
    rows = [first]
    for row in gains:
        rows.append(max_plus(rows[-1], _values(row, total)))
    return rows


def _values(row: Array, total: int) -> Array:
    return np.concatenate([[0.0], np.cumsum(row)])[: total + 1]


def _read_back(rows: list[Array], gains: Array, total: int) -> Whole:
    counts = np.zeros(gains.shape[0], dtype=np.int64)
    left = total
    for request in range(gains.shape[0] - 1, -1, -1):
        counts[request] = best_share(rows[request], _values(gains[request], total), left)
        left -= int(counts[request])
    return counts
