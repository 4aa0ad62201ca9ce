"""How often is a drafter right that says how sure it is?

A recording holds the probability of the drafter's likeliest token and whether the text went on with
it. Shares by probability, made to never fall, turn what the drafter says into what will be
accepted. Leaves out what is done with it (`costmodel.laws.controllers`).

Reference: Barlow et al. 1972, Statistical Inference under Order Restrictions, section 1.2, for
pooling adjacent violators.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace

_GROUPS = 32
_LEAST_GROUP = 50  # draft tokens by which a share is known to about 0.07

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """Shares of draft tokens that are accepted, given that those before them were, by draft
    probability.

    Between probabilities shares are interpolated, beyond them they stay.

    Args:
        probabilities: of the drafter, rising, 0 to 1.
        shares: as many, never falling, 0 to 1.
    """

    probabilities: tuple[float, ...]
    shares: tuple[float, ...]

    def accepted(self, probabilities: NDArray[np.floating]) -> Floats:
        """Shares that are accepted at draft probabilities, of any shape."""
        return np.asarray(np.interp(probabilities, self.probabilities, self.shares))


def calibrated(trace: AcceptanceTrace, accepted: Floats | None = None) -> Calibration:
    """What a recording says of its drafter's probabilities.

    Args:
        trace: level 3 (probabilities).
        accepted: probability that a draft token for every position is accepted if those before it are,
            float64[positions]; None: tokens are matched.

    Raises:
        InputError: a lower level, or no step.
    """
    trace.require(3, "calibrating how sure a drafter is")
    sure, right = _judged(trace) if accepted is None else _drawn(trace, accepted)
    if not sure.size:
        raise InputError(
            "the trace has no decoding step to average over", file=trace.file, key="steps", value=0
        )
    order = np.argsort(sure, kind="stable")
    said, right = sure[order], right[order]
    groups = int(np.clip(said.size // _LEAST_GROUP, 1, _GROUPS))
    edges = np.arange(1, groups) * said.size // groups
    edges = np.searchsorted(said, said[edges])  # equal probabilities stay together
    blocks: list[tuple[float, float, float]] = []  # sums of tokens, probabilities, accepted
    for begin, end in pairwise([*np.unique([0, *edges]).tolist(), said.size]):
        # half a token of either kind keeps small groups from being certain
        mean, tokens = float(said[begin:end].mean()), end - begin + 1.0
        block = tokens, mean * tokens, float(right[begin:end].sum()) + 0.5
        while blocks and blocks[-1][2] * block[0] >= block[2] * blocks[-1][0]:
            before = blocks.pop()
            block = before[0] + block[0], before[1] + block[1], before[2] + block[2]
        blocks.append(block)
    return Calibration(
        probabilities=tuple(total / tokens for tokens, total, _ in blocks),
        shares=tuple(accepted / tokens for tokens, _, accepted in blocks),
    )


def _drawn(trace: AcceptanceTrace, accepted: Floats) -> tuple[Floats, Floats]:
    """Draft probabilities at which steps can start, and what is accepted of them."""
    assert trace.draft_probs is not None
    index = np.arange(trace.positions) - np.repeat(trace.offsets[:-1], trace.output_tokens)
    starts = index >= trace.first_step_position
    return trace.draft_probs[starts, 0].astype(np.float64), accepted[starts]


def _judged(trace: AcceptanceTrace) -> tuple[Floats, NDArray[np.generic]]:
    """Draft probabilities of tokens that a chain would reach, and whether they are right.

    A drafter whose ranks depend on the depth is judged at all of its depths together.
    """
    assert trace.draft_probs is not None and trace.rank is not None
    place = np.arange(trace.positions)
    index = place - np.repeat(trace.offsets[:-1], trace.output_tokens)
    sure = trace.draft_probs[:, 0].astype(np.float64)
    starts = index >= trace.first_step_position
    if trace.depth is None:
        return sure[starts], np.asarray(trace.rank == 0)[starts]
    ends = np.repeat(trace.offsets[1:], trace.output_tokens)
    said, right, reached = list[Floats](), list[NDArray[np.bool_]](), starts
    for depth in range(trace.depth):
        reached = reached & (place + depth < ends)
        at, hits = np.flatnonzero(reached), trace.rank[:, depth] == 0
        said.append(sure[at + depth])
        right.append(hits[at])
        reached = reached & hits
    return np.concatenate(said), np.concatenate(right)
