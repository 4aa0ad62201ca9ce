"""How many tokens does a step emit when its tree is chosen anew at every step?

A policy picks a part of the tree that the drafter saw at a position: best-first by the drafter's own
probabilities, or level by level with a beam. A step emits the picked nodes that spell the true text, and one
token more. Leaves out static trees (`traces.replay`), sampled drafts (`traces.sampled_replay`) and cost.

Reference: Xiong et al., DySpec, arXiv 2410.11744, alg. 1; Li et al., EAGLE-2, arXiv 2406.16858, sec. 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.expansions import MAX_NODES, Expansions
from traces.replay import Replay
from traces.schema import AcceptanceTrace
from traces.walks import Counts, walk_limited_chain

_NO_LIMIT = MAX_NODES


@dataclass(frozen=True, kw_only=True, slots=True)
class TreePolicy:
    """How a step's tree is picked; of equally likely nodes, the one recorded first.

    Attributes:
        nodes: most draft tokens of a step, root excluded.
        depth: most levels; None: as many as were recorded.
        width: children of a node that are looked at, the likeliest ones; None: all recorded.
        least_probability: a node's least probability, its ancestors' multiplied in, 0..1.
        beam: nodes of a level that get children, the likeliest ones; None: all.

    Raises:
        InputError: a value out of range.
    """

    nodes: int
    depth: int | None = None
    width: int | None = None
    least_probability: float = 0.0
    beam: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("nodes", 0), ("depth", 1), ("width", 1), ("beam", 1)):
            value = getattr(self, name)
            if value is not None and not least <= value <= MAX_NODES:
                raise InputError(f"must lie in {least}..{MAX_NODES}", key=name, value=value)
        if not 0 <= self.least_probability <= 1:
            raise InputError("must lie in [0, 1]", key="least_probability", value=self.least_probability)


def best_first(nodes: int, *, least_probability: float = 0.0) -> TreePolicy:
    """The likeliest nodes, whatever their level: DySpec."""
    return TreePolicy(nodes=nodes, least_probability=least_probability)


def beam_and_rerank(nodes: int, *, beam: int = 10, depth: int = 8) -> TreePolicy:
    """The likeliest of all nodes that a beam has met: EAGLE-2.

    Args:
        nodes: draft tokens kept.
        beam: nodes of a level that get children, and children of each.
        depth: draft levels, the first included, which the root's candidates make.
    """
    return TreePolicy(nodes=nodes, depth=depth, width=beam, beam=beam)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PickedTrees:
    """What a policy picks at every position, whether a step starts there or not.

    Attributes:
        emitted: int16[n], tokens a step emits, bonus included.
        nodes: int16[n], draft tokens.
        levels: int16[n], levels of the picked tree.
        exact: bool[n], the recorded tree holds all that the policy would have picked. Elsewhere it would have
            gone on to nodes less likely than any recorded; `emitted` and `nodes` are the least it has.
    """

    emitted: NDArray[np.int16]
    nodes: NDArray[np.int16]
    levels: NDArray[np.int16]
    exact: NDArray[np.bool_]


def pick_trees(expansions: Expansions, policy: TreePolicy) -> PickedTrees:
    """Apply a policy at every position.

    Args:
        expansions: the recorded trees.
        policy: what to pick of them.

    Raises:
        InputError: the policy looks at more levels or candidates than were recorded.
    """
    for name in ("depth", "width"):
        asked, recorded = getattr(policy, name), getattr(expansions, name)
        if asked is not None and asked > recorded and policy.nodes and expansions.size:
            raise InputError(f"must lie in 1..{recorded}, as recorded", key=name, value=asked)
    picked = _pick(
        expansions.offsets,
        expansions.parents,
        expansions.rank,
        expansions.draft_prob.astype(np.float64),
        expansions.on_path,
        expansions.nodes,
        policy.nodes,
        policy.depth or _NO_LIMIT,
        policy.width or _NO_LIMIT,
        policy.least_probability,
        policy.beam or _NO_LIMIT,
    )
    return PickedTrees(emitted=picked[0], nodes=picked[1], levels=picked[2], exact=picked[3])


def replay_policy(trace: AcceptanceTrace, policy: TreePolicy, *, strict: bool = True) -> Replay:
    """Decode the recorded text again with a tree of its own in every step.

    Args:
        trace: with `expansions`, level 1 or more.
        policy: what is picked of them.
        strict: refuse a policy that at any step would have looked beyond the recorded tree. Where it is not
            refused, such a step has the recorded nodes alone and emits no more than it would have.

    Returns:
        Counts per request; `drafted_tokens` are those of the trees that the steps picked, and `draft_tokens` is
        the policy's `nodes`.

    Raises:
        InputError: no expansions, or a policy beyond what was recorded.
    """
    if trace.expansions is None:
        raise InputError("picking a tree at every step needs a trace with expansions", file=trace.file)
    if strict and policy.nodes > trace.expansions.nodes:
        wanted = f"must lie in 0..{trace.expansions.nodes}, the nodes recorded"
        raise InputError(wanted, file=trace.file, key="nodes", value=policy.nodes)
    picked = pick_trees(trace.expansions, policy)
    walked = walk_limited_chain(picked.emitted, picked.nodes, trace.offsets, trace.first_step_position, MAX_NODES)
    if strict and not picked.exact.all():
        short = int((~picked.exact[_starts(trace, picked)]).sum())
        if short:
            raise InputError(
                f"the recorded trees end before the policy does in {short} of {int(walked[0].sum())} steps; allow "
                "fewer nodes, more levels or candidates, or a least probability",
                file=trace.file,
                key="nodes",
                value=policy.nodes,
            )
    steps, proposed, drafted = walked
    return Replay(
        draft_tokens=policy.nodes,
        tokens=np.maximum(trace.output_tokens - trace.first_step_position, 0),
        steps=steps,
        proposed_steps=proposed,
        drafted_tokens=drafted,
    )


def levels_per_step(trace: AcceptanceTrace, policy: TreePolicy) -> float:
    """Levels of the picked trees, averaged over the steps: draft passes where each makes a level.

    Raises:
        InputError: no expansions, no step, or more levels or candidates than were recorded.
    """
    if trace.expansions is None:
        raise InputError("picking a tree at every step needs a trace with expansions", file=trace.file)
    picked = pick_trees(trace.expansions, policy)
    starts = _starts(trace, picked)
    if not starts.size:
        raise InputError("the trace has no decoding step to average over", file=trace.file, key="steps", value=0)
    return float(picked.levels[starts].mean())


def _starts(trace: AcceptanceTrace, picked: PickedTrees) -> Counts:
    """Positions at which the policy's steps begin."""
    from traces.walks import chain_starts

    found = np.empty(trace.positions, dtype=np.int64)
    first = trace.first_step_position
    count = chain_starts(picked.emitted, picked.nodes, trace.offsets, first, MAX_NODES, found)
    return found[:count].copy()


@njit(cache=True, nogil=True)
def _pick(
    offsets: Counts,
    parents: NDArray[np.int16],
    rank: NDArray[np.int8],
    given: NDArray[np.float64],
    on_path: NDArray[np.bool_],
    recorded: int,
    nodes: int,
    depth: int,
    width: int,
    least: float,
    beam: int,
) -> tuple[NDArray[np.int16], NDArray[np.int16], NDArray[np.int16], NDArray[np.bool_]]:
    positions = offsets.size - 1
    emitted = np.ones(positions, dtype=np.int16)
    kept = np.zeros(positions, dtype=np.int16)
    levels = np.zeros(positions, dtype=np.int16)
    exact = np.ones(positions, dtype=np.bool_)
    for i in range(positions):
        first = offsets[i]
        size = offsets[i + 1] - first
        chance = np.ones(size)
        level = np.ones(size, dtype=np.int64)
        met = np.zeros(size, dtype=np.bool_)
        floor = 1.0
        deepest = 0
        for j in range(size):
            chance[j] = given[first + j]
            parent = parents[first + j]
            if parent >= 0:
                chance[j] *= chance[parent]
                level[j] = level[parent] + 1
            floor = min(floor, chance[j])
            deepest = max(deepest, level[j])
        order = np.argsort(-chance, kind="mergesort")
        grows = np.zeros(size, dtype=np.bool_)
        for d in range(1, min(deepest, depth) + 1):
            left = beam
            for j in order:
                parent = parents[first + j]
                if level[j] == d and rank[first + j] < width and chance[j] >= least and (parent < 0 or grows[parent]):
                    met[j] = True
                    grows[j] = left > 0
                    left -= 1
        count = 0
        for j in order:
            if count == nodes:
                break
            if met[j]:
                count += 1
                emitted[i] += on_path[first + j]
                levels[i] = max(levels[i], level[j])
        kept[i] = count
        exact[i] = count == nodes or size < recorded or floor < least
    return emitted, kept, levels, exact
