"""How fast could a recorded text have been decoded by somebody who knows what will be accepted?

Bounds for whatever decides how much to draft: at every step the draft that serves the whole request
best, and for every request the one fixed length. Known are the accepted tokens alone, so a step
drafts nothing that is not accepted. Leaves out which static tree comes near
(`costmodel.optimizers.trees`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.walk import replay_chain

Whole = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Oracle:
    """The least that a text can take.

    Attributes:
        tokens: int64[requests], tokens emitted by steps.
        cost: float64[requests], least sum of the steps' costs: steps where every step costs 1,
            seconds where costs are seconds.
    """

    tokens: Whole
    cost: NDArray[np.float64]

    @property
    def tokens_per_cost(self) -> float:
        """Pooled tokens per step, or per second.

        Raises:
            InputError: there is no step at all.
        """
        if not self.cost.sum() > 0:
            raise InputError("the trace has no decoding step to average over", key="steps", value=0)
        return float(self.tokens.sum() / self.cost.sum())


def step_oracle(trace: AcceptanceTrace, cost: ArrayLike, *, trees: bool = False) -> Oracle:
    """Every step drafts as much as serves its request best, of what will be accepted: a bound for
    any stop rule.

    Example:
        >>> trace = AcceptanceTrace(offsets=np.array([0, 4]), emitted=np.array([3, 1, 1, 1]))
        >>> step_oracle(trace, [1.0, 1.0, 1.0]).tokens_per_cost
        2.0

    Args:
        trace: level 1 or more; level 2 for trees.
        cost: of a step that drafts 0, 1, ... K tokens, shape [K + 1], > 0; ones count steps.
        trees: the true token may be any recorded candidate, as deep as K: a bound for any tree of
            any width. A step then costs what a chain of its accepted tokens costs.

    Returns:
        The least cost per request, by shortest path over its positions.

    Raises:
        InputError: too low a level, or costs that are none.
    """
    costs = np.asarray(cost, dtype=np.float64)
    if costs.ndim != 1 or not costs.size or not np.all(costs > 0):
        raise InputError(
            "must be numbers > 0, one per draft length", key="cost", value=list(costs.shape)
        )
    trace.require(2 if trees else 1, "looking ahead in a recording")
    reach = _ranked(trace, costs.size - 1) if trees else _chained(trace, costs.size - 1)
    first, lengths = trace.first_step_position, trace.output_tokens
    longest = int(lengths.max(initial=0))
    # one row per request, texts flush right, so that every column is as far from the end for all
    rows = np.zeros((trace.requests, longest), dtype=np.int64)
    place = np.arange(trace.positions) - np.repeat(trace.offsets[1:], lengths) + longest
    rows[np.repeat(np.arange(trace.requests), lengths), place] = reach
    least = np.zeros((trace.requests, longest + costs.size + 1))
    for column in range(longest - 1, -1, -1):
        cheapest = np.full(trace.requests, np.inf)
        for drafted in range(costs.size):
            possible = rows[:, column] >= drafted
            behind = costs[drafted] + least[:, min(column + drafted + 1, longest)]
            cheapest = np.where(possible, np.minimum(cheapest, behind), cheapest)
        least[:, column] = cheapest
    begins = longest - lengths + first
    least_cost = np.where(
        first < lengths, least[np.arange(trace.requests), np.minimum(begins, longest)], 0.0
    )
    return Oracle(tokens=np.maximum(lengths - first, 0), cost=least_cost)


def request_oracle(trace: AcceptanceTrace, cost: ArrayLike) -> Oracle:
    """Every request drafts chains of the one length that serves it best: a bound for any choice per
    request.

    Args:
        trace: level 1 or more.
        cost: as for `step_oracle`; where a drafter proposes fewer tokens, a step costs what those
            cost.

    Raises:
        InputError: as `step_oracle`; a recording of one policy alone.
    """
    costs = np.asarray(cost, dtype=np.float64)
    least, tokens = np.full(trace.requests, np.inf), np.zeros(trace.requests, dtype=np.int64)
    for length in range(costs.size):
        replay = replay_chain(trace, length)
        silent = replay.steps - replay.proposed_steps
        taken = (
            silent * costs[0] + replay.proposed_steps * costs[length]
            if trace.drafted is None
            else _walked_cost(trace, trace.drafted, costs[: length + 1])
        )
        least, tokens = np.minimum(least, taken), replay.tokens
    return Oracle(tokens=tokens, cost=least)


def _walked_cost(
    trace: AcceptanceTrace, drafted: NDArray[np.int16], costs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The cost per request of its steps, each of which drafts what the drafter proposes there, up
    to the length of `costs`.
    """
    assert trace.emitted is not None
    most = costs.size - 1
    place = trace.offsets[:-1] + trace.first_step_position
    total = np.zeros(trace.requests)
    while np.any(open_ := place < trace.offsets[1:]):
        at = place[open_]
        drafts = np.minimum(drafted[at].astype(np.int64), most)
        total[open_] += costs[drafts]
        place[open_] = at + np.minimum(trace.emitted[at].astype(np.int64), drafts + 1)
    return total


def _chained(trace: AcceptanceTrace, most: int) -> Whole:
    """Draft tokens of a chain that are accepted at every position."""
    assert trace.emitted is not None
    accepted = trace.emitted.astype(np.int64) - 1
    if trace.drafted is not None:
        accepted = np.minimum(accepted, trace.drafted)
    return np.minimum(np.minimum(accepted, most), _left(trace) - 1)


def _ranked(trace: AcceptanceTrace, most: int) -> Whole:
    """Levels at every position down to which the true token is among the recorded candidates."""
    assert trace.rank is not None
    left = _left(trace)
    levels = most if trace.depth is None else min(most, trace.depth)
    reach, alive = (
        np.zeros(trace.positions, dtype=np.int64),
        np.ones(trace.positions, dtype=np.bool_),
    )
    place = np.arange(trace.positions)
    for level in range(levels):
        inside = np.minimum(place + level, trace.positions - 1)
        rank = trace.rank[inside] if trace.rank.ndim == 1 else trace.rank[:, level]
        alive = alive & (rank >= 0) & (left > level + 1)
        reach += alive
    return reach if trace.drafted is None else np.minimum(reach, trace.drafted)


def _left(trace: AcceptanceTrace) -> Whole:
    return np.asarray(
        np.repeat(trace.offsets[1:], trace.output_tokens) - np.arange(trace.positions),
        dtype=np.int64,
    )
