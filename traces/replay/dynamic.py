"""How many tokens does a step emit when its tree is chosen anew at every step?

A policy picks a part of the tree that the drafter saw at a position: the likeliest nodes by the
drafter's own probabilities, read level by level, with a beam or without one. A step emits the
picked nodes that spell the true text, and one token more. Leaves out static trees
(`traces.replay.walk`), sampled drafts (`traces.replay.sampled`) and cost.

Reference: Xiong et al., DySpec, arXiv 2410.11744, alg. 1; Li et al., EAGLE-2, arXiv 2406.16858,
sec. 4; Wang et al., OPT-Tree, arXiv 2406.17276, sec. 3 (stopping by the gain of a level); Ringel et
al., DDTree, arXiv 2604.12989, and Oh et al., Bastion, arXiv 2605.29727 (trees of a block drafter,
whose probabilities depend on the level alone).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.expansions import MAX_NODES, Expansions
from traces.replay.walk import Replay
from traces.replay.walk_loops import chain_starts, walk_limited_chain


@dataclass(frozen=True, kw_only=True, slots=True)
class TreePolicy:
    """How a step's tree is picked; of equally likely nodes, the one recorded first.

    Attributes:
        nodes: most draft tokens of a step, root excluded.
        depth: most levels; None: as many as were recorded.
        width: children of a node that are looked at, the likeliest ones; None: all recorded.
        least_probability: a node's least probability, its ancestors' multiplied in, 0..1.
        beam: nodes of a level that get children, the likeliest ones; None: all that are among the
            likeliest `nodes` found so far.
        least_gain: drafting stops after a level that raised the expected tokens of the tree (the
            sum of its nodes' probabilities) by no more than this; 0 never stops.
        cost_ratio: seconds that a node beyond `free_nodes` adds to a step, over those of the step
            without it: see `paying_nodes`. 0: nodes are free.
        free_nodes: nodes that cost nothing, >= 0.

    Raises:
        InputError: a value out of range.
    """

    nodes: int
    depth: int | None = None
    width: int | None = None
    least_probability: float = 0.0
    beam: int | None = None
    least_gain: float = 0.0
    cost_ratio: float = 0.0
    free_nodes: int = 0

    def __post_init__(self) -> None:
        limits = (("nodes", 0), ("depth", 1), ("width", 1), ("beam", 1), ("free_nodes", 0))
        for name, least in limits:
            value = getattr(self, name)
            if value is not None and not least <= value <= MAX_NODES:
                raise InputError(f"must lie in {least}..{MAX_NODES}", key=name, value=value)
        for name in ("least_probability", "cost_ratio"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError("must lie in [0, 1]", key=name, value=getattr(self, name))
        if not 0 <= self.least_gain < np.inf:
            raise InputError("must be finite and >= 0", key="least_gain", value=self.least_gain)


def best_first(nodes: int, *, least_probability: float = 0.0) -> TreePolicy:
    """The likeliest nodes, whatever their level, as in DySpec.

    Args:
        nodes: draft tokens of a tree, >= 1.
        least_probability: of a path, below which it is not expanded; in [0, 1].

    Returns:
        The policy.
    """
    return TreePolicy(nodes=nodes, least_probability=least_probability)


def paying_nodes(values: Sequence[float], cost_ratio: float, free_nodes: int = 0) -> int:
    """How many of the likeliest nodes a tree takes where each lengthens the verify pass.

    A step with n nodes emits 1 + the sum of their probabilities and takes 1 + `cost_ratio` for
    every node beyond `free_nodes`, of a step that reads the weights. Nodes are taken in order as
    long as the next one raises the quotient. Probabilities fall and seconds do not bend downwards,
    so that the first node that does not is followed by none that would: the quotient is the
    greatest of all.

    Example:
        >>> paying_nodes([0.6, 0.3, 0.05], cost_ratio=0.1)
        2

    Args:
        values: of the nodes, never rising: their probabilities, those of their ancestors
            multiplied in.
        cost_ratio: >= 0.
        free_nodes: >= 0.

    Reference: Oh et al. 2026, "Bastion" (arXiv:2605.29727), whose code stops so under a calibrated
    roofline.
    """
    tokens, seconds = 1.0, 1.0
    for count, value in enumerate(values):
        further = cost_ratio if count >= free_nodes else 0.0
        if further > 0.0 and value * seconds <= tokens * further:
            return count
        tokens, seconds = tokens + value, seconds + further
    return len(values)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PickedTrees:
    """What a policy picks at every position, whether a step starts there or not.

    Attributes:
        emitted: int16[n], tokens a step emits, bonus included.
        nodes: int16[n], draft tokens.
        levels: int16[n], levels of the picked tree.
        passes: int16[n], passes of the drafter, of which the first reads the root and each makes a
            level. Where `exact`, as many as a drafter would run that reads level by level; with a
            beam, as if every node had children enough.
        rows: int16[n, levels], nodes that a request reads in every pass, 0 behind the last; nodes
            that were read but not recorded count as if they stood on the latest level, so these are
            the most it can have read.
        exact: bool[n], the recorded tree holds all that the policy would have picked. Elsewhere it
            would have gone on to nodes less likely than any recorded; `emitted` and `nodes` are the
            least it has.
    """

    emitted: NDArray[np.int16]
    nodes: NDArray[np.int16]
    levels: NDArray[np.int16]
    passes: NDArray[np.int16]
    rows: NDArray[np.int16]
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
        limit, recorded = getattr(policy, name), getattr(expansions, name)
        if limit is not None and limit > recorded and policy.nodes and expansions.size:
            raise InputError(f"must lie in 1..{recorded}, as recorded", key=name, value=limit)
    # half a second, which who replays no such tree need not wait
    from traces.replay.compiled_trees import pick

    picked = pick(
        expansions.offsets,
        expansions.parents,
        expansions.rank,
        expansions.draft_prob.astype(np.float64),
        expansions.on_path,
        expansions.nodes,
        policy.nodes,
        policy.depth or expansions.depth,
        policy.width or expansions.width,
        policy.least_probability,
        policy.beam or 0,
        policy.least_gain,
        policy.cost_ratio,
        policy.free_nodes,
    )
    return PickedTrees(
        emitted=picked[0],
        nodes=picked[1],
        levels=picked[2],
        passes=picked[3],
        rows=picked[4],
        exact=picked[5],
    )


def walk_policy(trace: AcceptanceTrace, policy: TreePolicy) -> tuple[Replay, PickedTrees]:
    """Decode the recorded text again, and look at the trees of the steps that this takes.

    Example:
        >>> expansions = Expansions(
        ...     offsets=np.array([0, 2, 3]), parents=np.array([-1, 0, -1]), rank=np.array([0, 0, 0]),
        ...     draft_prob=np.array([0.9, 0.8, 0.3]), on_path=np.array([True, False, False]))
        >>> trace = AcceptanceTrace(offsets=np.array([0, 2]), emitted=np.array([2, 1]), expansions=expansions)
        >>> walk_policy(trace, best_first(nodes=1))[0].tokens_per_step
        2.0

    Args:
        trace: with `expansions`, level 1 or more.
        policy: what is picked of them.

    Returns:
        Counts per request, whose `drafted_tokens` are those of the trees that the steps picked and
        whose `draft_tokens` is the policy's `nodes`; and the trees at the positions where steps
        start, in order. A step that is not `exact` has the recorded nodes alone and emits no more
        than it would have.

    Raises:
        InputError: no expansions, or more levels or candidates than were recorded.
    """
    if trace.expansions is None:
        raise InputError(
            "picking a tree at every step needs a trace with expansions", file=trace.file
        )
    picked, first = pick_trees(trace.expansions, policy), trace.first_step_position
    steps, proposed, drafted = walk_limited_chain(
        picked.emitted, picked.nodes, trace.offsets, first, MAX_NODES
    )
    at = chain_starts(picked.emitted, picked.nodes, trace.offsets, first, MAX_NODES)
    replay = Replay(
        draft_tokens=policy.nodes,
        tokens=np.maximum(trace.output_tokens - first, 0),
        steps=steps,
        proposed_steps=proposed,
        drafted_tokens=drafted,
    )
    return replay, PickedTrees(
        emitted=picked.emitted[at],
        nodes=picked.nodes[at],
        levels=picked.levels[at],
        passes=picked.passes[at],
        rows=picked.rows[at],
        exact=picked.exact[at],
    )
