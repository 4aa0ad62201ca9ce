"""The compiled loop that picks a tree at every recorded position, level by level as a drafter reads
it.

A kernel only, over flat arrays. Leaves out checks and meaning: `traces.replay.dynamic` passes what
it has verified.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.machine_code import cached_njit
from traces.replay.walk_loops import Counts

Small = NDArray[np.int16]


@cached_njit(__file__, nogil=True)
def pick(
    offsets: Counts,
    parents: Small,
    rank: NDArray[np.int8],
    conditional: NDArray[np.float64],
    on_path: NDArray[np.bool_],
    recorded: int,
    nodes: int,
    depth: int,
    width: int,
    least: float,
    beam: int,
    least_gain: float,
    cost_ratio: float,
    free_nodes: int,
) -> tuple[Small, Small, Small, Small, Small, NDArray[np.bool_]]:
    """What a policy picks at every position: see `PickedTrees`; a `beam` or `least_gain` of 0 sets
    no limit.

    Args:
        offsets: int64[n + 1], where the expansions of every position begin.
        parents: int16[m], parent of every expansion within its position, -1 below the root.
        rank: int8[m], which candidate of its parent it is, from 0.
        conditional: float64[m], the drafter's probability given its parent.
        on_path: bool[m], whether it is the text's token behind its parent's.
        recorded: most expansions that were recorded per position.
        nodes: draft tokens of a tree.
        depth: draft levels D.
        width: children of a node.
        least: probability of a path below which it is not expanded.
        beam: nodes of a level that are expanded.
        least_gain: tokens that a further level must promise.
        cost_ratio: seconds of a node, over those of a step: see `traces.replay.dynamic.paying_nodes`.
        free_nodes: nodes that cost nothing.

    Returns:
        emitted [n], nodes [n], levels [n], passes [n], rows [n, depth], exact [n].
    """
    positions = offsets.size - 1
    emitted = np.ones(positions, dtype=np.int16)
    picked = np.zeros(positions, dtype=np.int16)
    levels = np.zeros(positions, dtype=np.int16)
    passes = np.zeros(positions, dtype=np.int16)
    rows = np.zeros((positions, depth), dtype=np.int16)
    exact = np.ones(positions, dtype=np.bool_)
    for i in range(positions):
        tree = slice(offsets[i], offsets[i + 1])
        value, level, floor = _path_values(parents[tree], conditional[tree])
        order = np.argsort(-value, kind="mergesort")
        allowed = (rank[tree] < width) & (value >= least)
        # nodes that were not recorded may belong to the tree
        cut = value.size >= recorded and floor >= least
        hidden = floor if cut else -1.0
        proposed, passes[i], exact[i] = _read(
            parents[tree],
            value,
            level,
            order,
            allowed,
            hidden,
            nodes,
            width,
            beam,
            least_gain,
            rows[i],
        )
        tokens, seconds, pays = 1.0, 1.0, True
        for j in order:
            if not proposed[j] or picked[i] == nodes:
                continue
            further = cost_ratio if picked[i] >= free_nodes else 0.0
            if further > 0.0 and value[j] * seconds <= tokens * further:
                pays = False
                break
            tokens, seconds = tokens + value[j], seconds + further
            picked[i] += 1
            emitted[i] += on_path[tree][j]
            levels[i] = max(levels[i], level[j])
        exact[i] = exact[i] and (picked[i] == nodes or not cut or not pays)
    return emitted, picked, levels, passes, rows, exact


@cached_njit(__file__, nogil=True)
def _path_values(
    parents: Small, conditional: NDArray[np.float64]
) -> tuple[NDArray[np.float64], Counts, float]:
    """Every node's probability with its ancestors' multiplied in, its level, and the least of the
    probabilities.
    """
    value, level, floor = conditional.copy(), np.ones(conditional.size, dtype=np.int64), 1.0
    for j in range(conditional.size):
        parent = parents[j]
        if parent >= 0:
            value[j] *= value[parent]
            level[j] = level[parent] + 1
        floor = min(floor, value[j])
    return value, level, floor


@cached_njit(__file__, nogil=True)
def _read(
    parents: Small,
    value: NDArray[np.float64],
    level: Counts,
    order: Counts,
    allowed: NDArray[np.bool_],
    hidden: float,
    nodes: int,
    width: int,
    beam: int,
    least_gain: float,
    rows: Small,
) -> tuple[NDArray[np.bool_], int, bool]:
    """Draft level after level; nodes that were not recorded are at most as likely as `hidden`, -1:
    there are none.

    Returns:
        Nodes found [size], passes, and whether the recording tells where drafting stops for lack of
        gain.
    """
    proposed = np.zeros(value.size, dtype=np.bool_)
    grows = np.zeros(value.size, dtype=np.bool_)
    sure, passes, reads, shallower = True, 0, 1, 0
    sum_before, unknown_before = 0.0, 0
    while passes < rows.size and reads > 0 and nodes > 0:
        rows[passes] = reads
        passes += 1
        for j in order:
            proposed[j] |= (
                allowed[j] and level[j] == passes and (parents[j] < 0 or grows[parents[j]])
            )
        total, count, on_level = _grow(value, level, order, proposed, grows, nodes, beam, passes)
        unknown = min(nodes - count, reads * width) if hidden >= 0.0 else 0
        if least_gain > 0.0 and passes > 1:
            gain = total - sum_before
            surely = gain + unknown * hidden <= least_gain
            sure = sure and surely == (gain - unknown_before * hidden <= least_gain)
            if gain <= least_gain:
                break
        sum_before, unknown_before = total, unknown
        if beam > 0 and hidden >= 0.0:
            reads = min(beam, reads * width)
        elif beam == 0 and unknown > 0:
            reads = min(nodes - min(shallower, nodes), reads * width)
        else:
            reads = on_level
        shallower = proposed.sum()
    return proposed, passes, sure


@cached_njit(__file__, nogil=True)
def _grow(
    value: NDArray[np.float64],
    level: Counts,
    order: Counts,
    proposed: NDArray[np.bool_],
    grows: NDArray[np.bool_],
    nodes: int,
    beam: int,
    latest: int,
) -> tuple[float, int, int]:
    """The likeliest `nodes` found so far, as sum and number, and how many nodes of the latest level
    are read next.
    """
    total, count, on_level = 0.0, 0, 0
    for j in order:
        if not proposed[j]:
            continue
        if level[j] == latest and (on_level < beam if beam > 0 else count < nodes):
            grows[j] = True
            on_level += 1
        if count < nodes:
            count += 1
            total += value[j]
    return total, count, on_level
