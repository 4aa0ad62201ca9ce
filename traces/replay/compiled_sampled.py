"""The compiled loops of sampled drafts: how likely a step goes on past each draft token, given the
text.

Kernels only, over flat arrays. Leaves out checks and meaning: `traces.replay.sampled` hands in what
it has verified.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.machine_code import cached_njit
from traces.replay.walk_loops import Counts

Floats = NDArray[np.float64]


@cached_njit(__file__, nogil=True)
def accepted_of_distinct(draft: Floats, target: Floats, true_rank: Counts, siblings: int) -> Floats:
    """Walk all ordered draws that are rejected one after the other; a level of the walk is one
    draw.

    Args:
        draft: float64[n, w], the drafter's probability of its w likeliest tokens.
        target: float64[n, w], the target's probability of the same tokens.
        true_rank: int64[n], rank of the text's token among them, -1 where it is none of them.
        siblings: draws k per position, none of them twice.

    Returns:
        float64[n, k], the probability that the text's token came from the k-th draw, given the
        text.
    """
    positions, width = draft.shape
    accepted = np.zeros((positions, siblings))
    p = np.zeros((siblings + 1, width))  # the target's distribution at the k-th draw
    q = np.zeros((siblings + 1, width))  # the drafter's, of what is left
    weight = np.zeros(siblings + 1)
    outside = np.zeros(siblings + 1)
    tried = np.zeros(siblings + 1, dtype=np.int64)
    for i in range(positions):
        x = true_rank[i]
        if x < 0 or siblings == 0:
            continue
        p[0] = target[i]
        true = p[0, x]
        outside[0] = max(1 - p[0].sum(), 0.0)
        q[0] = draft[i]
        weight[0] = 1.0
        level = 0
        entering = True
        while level >= 0:
            if entering:
                total = 0.0
                for y in range(width):
                    total += q[level, y]
                if total <= 0:
                    level -= 1
                    entering = False
                    continue
                for y in range(width):
                    q[level, y] /= total
                # drawn and accepted as the true token; over P(true), because the text is given
                accepted[i, level] += weight[level] * min(q[level, x], p[level, x]) / true
                tried[level] = 0
                entering = False
            y = tried[level]
            if level + 1 == siblings or y == width:
                level -= 1
                continue
            tried[level] += 1
            rejected = q[level, y] - p[level, y]
            if rejected <= 0:
                continue
            # a rejection leaves the target max(p - q, 0), normalised; `outside` is its mass
            # beyond the recorded candidates, which are never drawn
            mass = outside[level]
            for z in range(width):
                mass += max(p[level, z] - q[level, z], 0.0)
            if mass <= 0:
                continue
            for z in range(width):
                p[level + 1, z] = max(p[level, z] - q[level, z], 0.0) / mass
                q[level + 1, z] = q[level, z]
            level += 1
            weight[level] = weight[level - 1] * rejected
            outside[level] = outside[level - 1] / mass
            # without replacement: the rejected token is not drawn again
            q[level, y] = 0.0
            entering = True
    return accepted


@cached_njit(__file__, nogil=True)
def accepted_of_independent(
    draft: Floats, target: Floats, true_rank: Counts, siblings: int
) -> Floats:
    """Rounds against one unchanged draft distribution: what a round leaves over does not depend on
    what fell.

    Args:
        draft: float64[n, w], the drafter's probability of its w likeliest tokens.
        target: float64[n, w], the target's probability of the same tokens.
        true_rank: int64[n], rank of the text's token among them, -1 where it is none of them.
        siblings: draws k per position, which may repeat.

    Returns:
        float64[n, k], the probability that the text's token came from the k-th draw, given the
        text.
    """
    positions, width = draft.shape
    accepted = np.zeros((positions, siblings))
    p = np.zeros(width)
    for i in range(positions):
        x = true_rank[i]
        if x < 0:
            continue
        true = target[i, x]
        outside = 1.0
        for y in range(width):
            p[y] = target[i, y]
            outside -= p[y]
        outside = max(outside, 0.0)
        weight = 1.0
        for k in range(siblings):
            accepted[i, k] = weight * min(draft[i, x], p[x]) / true
            rejected = 0.0
            mass = outside
            for y in range(width):
                rejected += max(draft[i, y] - p[y], 0.0)
                mass += max(p[y] - draft[i, y], 0.0)
            if rejected <= 0 or mass <= 0:
                break
            weight *= rejected
            for y in range(width):
                p[y] = max(p[y] - draft[i, y], 0.0) / mass
            outside /= mass
    return accepted


@cached_njit(__file__, nogil=True)
def chain_survival(ratio: Floats, offsets: Counts, length: int, whole: bool) -> Floats:
    """Probability that more than d tokens of a chain are accepted, token by token or (`whole`) as a
    block.

    Args:
        ratio: float64[n], drafter's over target's probability of the text's token.
        offsets: int64[r + 1], where every request begins; the last is n.
        length: draft tokens K of the chain.
        whole: whether the chain is verified as a block.

    Returns:
        float64[n, K] for a step that starts at each position.
    """
    survival = np.zeros((ratio.size, length))
    for r in range(offsets.size - 1):
        for i in range(offsets[r], offsets[r + 1]):
            product = 1.0
            stays = 1.0
            for d in range(min(length, offsets[r + 1] - i)):
                # a block caps the running product instead of every ratio: a token that the target
                # likes better than the drafter makes up for a later one that it likes less
                if whole:
                    product *= ratio[i + d]
                    stays = min(stays, product)
                else:
                    stays *= min(ratio[i + d], 1.0)
                survival[i, d] = stays
                if stays == 0:
                    break
    return survival


@cached_njit(__file__, nogil=True)
def paths_survival(
    draft: Floats, below: Floats, target: Floats, offsets: Counts, length: int, paths: int
) -> Floats:
    """Probability that more than d tokens of the best of several independent chains are accepted as
    a block.

    The chains are ordered by the order of their first token, then of their second, and so on, and
    the last one is chosen: what lies `below` a prefix and the prefix itself are an interval of the
    distribution function.

    Args:
        draft: float64[n], the drafter's probability of the text's token.
        below: float64[n], the drafter's probability of all tokens before it in their order.
        target: float64[n], the target's probability of the text's token.
        offsets: int64[r + 1], where every request begins; the last is n.
        length: draft tokens K of a chain.
        paths: number of chains.

    Returns:
        float64[n, K] for a step that starts at each position.
    """
    survival = np.zeros((draft.size, length))
    for r in range(offsets.size - 1):
        for i in range(offsets[r], offsets[r + 1]):
            low, mass, true, stays = 0.0, 1.0, 1.0, 1.0
            for d in range(min(length, offsets[r + 1] - i)):
                low += mass * below[i + d]
                mass *= draft[i + d]
                true *= target[i + d]
                high, spread, power = low + mass, 0.0, 1.0
                for _ in range(paths):  # (high^n - low^n) / (high - low), without the difference
                    spread = spread * low + power
                    power *= high
                stays = min(stays, mass * spread / true)
                survival[i, d] = stays
                if stays == 0:
                    break
    return survival


@cached_njit(__file__, nogil=True)
def tree_survival(
    accepted: Floats, offsets: Counts, parents: Counts, ranks: Counts, depth: int
) -> Floats:
    """Probability that a step gets past every level of a tree whose r-th sibling is accepted with
    `accepted[:, r]`.

    Args:
        accepted: float64[n, siblings], the probability that the text's token came from the k-th
            sibling.
        offsets: int64[r + 1], where every request begins; the last is n.
        parents: int64[nodes], parent of every node, the root's -1 first.
        ranks: int64[nodes], which sibling a node is, from 0.
        depth: draft levels D.

    Returns:
        float64[n, D] for a step that starts at each position.
    """
    nodes = parents.size
    level = np.zeros(nodes, dtype=np.int64)
    for node in range(1, nodes):
        level[node] = level[parents[node]] + 1
    survival = np.zeros((accepted.shape[0], depth))
    reached = np.zeros(nodes)
    reached[0] = 1.0
    for r in range(offsets.size - 1):
        for i in range(offsets[r], offsets[r + 1]):
            for node in range(1, nodes):
                at = i + level[node] - 1
                reached[node] = (
                    reached[parents[node]] * accepted[at, ranks[node]]
                    if at < offsets[r + 1]
                    else 0.0
                )
                if reached[node] > 0:
                    survival[i, level[node] - 1] += reached[node]
    return survival


@cached_njit(__file__, nogil=True)
def expected_steps(survival: Floats, offsets: Counts, first: int) -> Floats:
    """Steps of every request.

    Args:
        survival: float64[n, D], the probability that a step from each position accepts more than d
            tokens.
        offsets: int64[r + 1], where every request begins; the last is n.
        first: position at which the first step of a request starts.

    Returns:
        float64[r].
    """
    starting = start_probabilities(survival, offsets, first)
    steps = np.zeros(offsets.size - 1)
    for r in range(offsets.size - 1):
        for i in range(offsets[r], offsets[r + 1]):
            steps[r] += starting[i]
    return steps


@cached_njit(__file__, nogil=True)
def start_probabilities(survival: Floats, offsets: Counts, first: int) -> Floats:
    """Push the probability that a step starts at a position on to where the next one starts.

    Args:
        survival: float64[n, D], the probability that a step from each position accepts more than d
            tokens.
        offsets: int64[r + 1], where every request begins; the last is n.
        first: position at which the first step of a request starts.

    Returns:
        float64[n].
    """
    depth = survival.shape[1]
    starts = np.zeros(survival.shape[0])
    for r in range(offsets.size - 1):
        end = offsets[r + 1]
        if offsets[r] + first < end:
            starts[offsets[r] + first] = 1.0
        for i in range(offsets[r] + first, end):
            probability, before = starts[i], 1.0
            if probability == 0:
                continue
            # exactly d accepted: the next step starts behind them and the target's own token
            for d in range(depth):
                stays = survival[i, d]
                if i + d + 1 < end:
                    starts[i + d + 1] += probability * max(before - stays, 0.0)
                before = stays
                if stays == 0:
                    break
            if before > 0 and i + depth + 1 < end:
                starts[i + depth + 1] += probability * before
    return starts


@cached_njit(__file__, nogil=True)
def deepest_accepted(
    stays: NDArray[np.bool_], offsets: Counts, parents: Counts, ranks: Counts
) -> NDArray[np.int16]:
    """Tokens emitted by a step that accepts the longest path of candidates that all stay, one more
    included.

    Args:
        stays: bool[n, w], whether the verifier lets the w-th candidate stay.
        offsets: int64[r + 1], where every request begins; the last is n.
        parents: int64[nodes], parent of every node, the root's -1 first.
        ranks: int64[nodes], which candidate a node is, from 0.

    Returns:
        int16[n] for a step that starts at each position.
    """
    nodes = parents.size
    level = np.zeros(nodes, dtype=np.int64)
    for node in range(1, nodes):
        level[node] = level[parents[node]] + 1
    reached = np.zeros(nodes, dtype=np.bool_)
    reached[0] = True
    emitted = np.ones(stays.shape[0], dtype=np.int16)
    for r in range(offsets.size - 1):
        for i in range(offsets[r], offsets[r + 1]):
            deepest = 0
            for node in range(1, nodes):
                at = i + level[node] - 1
                inside = at < offsets[r + 1]
                reached[node] = inside and reached[parents[node]] and stays[at, ranks[node]]
                if reached[node]:
                    deepest = max(deepest, level[node])
            emitted[i] = deepest + 1
    return emitted
