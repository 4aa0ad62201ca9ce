"""How many tokens does a step emit when drafts are sampled and checked by a rejection test?

Matching tokens is wrong here: the target keeps a sampled draft more often than it would have drawn the same one.
But the recorded text is a draw from the target, so given the text a step goes on behind token x with probability
P(a draft of x is kept) / P(target draws x), and where steps start follows a recursion along the text. The drafter
samples from its recorded candidates alone, their probabilities scaled to add up to 1. Leaves out deterministic
candidates (`traces.replay`) and other verifiers.

Reference: Leviathan et al., arXiv 2211.17192, alg. 1 (chains); Chen et al., Sequoia, arXiv 2402.12374, alg. 2 and
Jeon et al., RSD, arXiv 2402.14160, alg. 1 (siblings without replacement).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.schema import AcceptanceTrace
from traces.tree import Tree, chain_tree
from traces.walks import Counts

_LEAST = float(np.finfo(np.float16).smallest_subnormal)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ExpectedReplay:
    """What a chain or tree of sampled drafts does on a recording, on average over the drafts.

    Attributes:
        draft_tokens: of a step, root excluded.
        tokens: int64[r], tokens emitted by steps.
        steps: float64[r], expected steps.
    """

    draft_tokens: int
    tokens: Counts
    steps: NDArray[np.float64]

    @property
    def tokens_per_step(self) -> float:
        """Pooled: sum of tokens over sum of expected steps.

        Raises:
            InputError: the recording has no step at all.
        """
        steps = float(self.steps.sum())
        if steps == 0:
            raise InputError("the trace has no decoding step to average over", key="steps", value=0)
        return int(self.tokens.sum()) / steps


def replay_sampled(
    trace: AcceptanceTrace, shape: int | Tree, *, draft_temperature: float = 1.0, width: int | None = None
) -> ExpectedReplay:
    """Decode the recorded text again with sampled drafts.

    Args:
        trace: level 3, sampled at a temperature above 0.
        shape: K of a chain, or a tree; the children of a node are drawn without replacement, and a node's rank is
            its place among the draws.
        draft_temperature: of the drafter; 0 takes its likeliest candidates in order.
        width: candidates that the drafter samples from; None: all recorded.

    Returns:
        Expected counts per request, given the text. Exact but for the stored numbers' half precision.

    Raises:
        InputError: a greedy or lower recording, a tree whose siblings are not a prefix, more levels than the
            recording tells of, or values out of range.
    """
    tree = shape if isinstance(shape, Tree) else chain_tree(shape)
    tree = Tree.from_paths(tree.paths())
    if not tree.is_sibling_closed:
        raise InputError("the children of a node must be its draws 0, 1, ... without a gap", key="tree")
    siblings = max((rank + 1 for rank in tree.ranks[1:]), default=0)
    kept = kept_probabilities(trace, siblings, draft_temperature=draft_temperature, width=width)
    if tree.depth > 2 and not trace.depth_invariant:
        wanted = "deeper levels need a drafter that re-reads true tokens at every depth; allow 1 draft level"
        raise InputError(wanted, file=trace.file, key="depth", value=tree.depth - 1)
    first = trace.first_step_position
    steps = _expected_steps(
        kept,
        trace.offsets,
        first,
        np.array(tree.parents, dtype=np.int64),
        np.array(tree.ranks, dtype=np.int64),
    )
    tokens = np.maximum(trace.output_tokens - first, 0)
    return ExpectedReplay(draft_tokens=tree.draft_tokens, tokens=tokens, steps=steps)


def kept_probabilities(
    trace: AcceptanceTrace, siblings: int, *, draft_temperature: float = 1.0, width: int | None = None
) -> NDArray[np.float64]:
    """Probability that the text's token came from the k-th draft at its position, given the text.

    Args:
        trace: level 3, sampled at a temperature above 0.
        siblings: drafts drawn without replacement, tried in order; 0 or more.
        draft_temperature: of the drafter, >= 0.
        width: candidates that it samples from; None: all recorded.

    Returns:
        float64[n, siblings]; rows sum to at most 1. Column 0 is min(1, q(x)/p(x)).

    Raises:
        InputError: as `replay_sampled`.
    """
    trace.require(3, "replaying sampled drafts")
    assert trace.draft_ids is not None
    assert trace.draft_probs is not None
    assert trace.target_probs is not None
    if trace.provenance.sampling.get("temperature") == 0:
        wanted = "the text of a greedy recording was not drawn from the target's distribution; record at 1.0, say"
        raise InputError(wanted, file=trace.file, key="temperature", value=0)
    if trace.drafted is not None:
        raise InputError("drafters that may propose less than asked cannot be replayed", file=trace.file, key="drafted")
    recorded = min(trace.draft_ids.shape[1], trace.rank_width)
    wide = recorded if width is None else width
    if not 1 <= wide <= recorded or not 0 <= siblings <= wide:
        raise InputError(f"must lie in 1..{recorded}, siblings at most as many", key="width", value=(wide, siblings))
    if not 0 <= draft_temperature < np.inf:
        raise InputError("must be >= 0", key="draft_temperature", value=draft_temperature)
    true_rank = _true_ranks(trace, wide)
    if draft_temperature == 0:
        in_order: NDArray[np.float64] = np.equal(true_rank[:, None], np.arange(siblings)).astype(np.float64)
        return in_order
    draft = trace.draft_probs[:, :wide].astype(np.float64)
    draft = np.power(draft / np.maximum(draft.max(axis=1, keepdims=True), _LEAST), 1 / draft_temperature)
    target = trace.target_probs[:, :wide].astype(np.float64)
    kept: NDArray[np.float64] = _kept(draft, target, true_rank, siblings)
    return kept


def _true_ranks(trace: AcceptanceTrace, width: int) -> NDArray[np.int64]:
    """Place of the text's token among the drafter's candidates, -1 where it is not there, int64[n]."""
    assert trace.rank is not None
    first = trace.rank if trace.rank.ndim == 1 else trace.rank[:, 0]
    return np.where(first < width, first, -1).astype(np.int64)


@njit(cache=True, nogil=True)
def _kept(
    draft: NDArray[np.float64], target: NDArray[np.float64], true_rank: Counts, siblings: int
) -> NDArray[np.float64]:
    """Walk all ordered draws that are rejected one after the other; a level of the walk is one draw."""
    positions, width = draft.shape
    kept = np.zeros((positions, siblings))
    p = np.zeros((siblings + 1, width))  # the target's distribution at the k-th draw
    q = np.zeros((siblings + 1, width))  # the drafter's, of what is left
    weight = np.zeros(siblings + 1)
    tried = np.zeros(siblings + 1, dtype=np.int64)
    for i in range(positions):
        x = true_rank[i]
        if x < 0 or siblings == 0:
            continue
        p[0] = target[i]
        p[0, x] = max(p[0, x], 6e-8)
        true = p[0, x]
        outside = np.zeros(siblings + 1)
        outside[0] = max(1 - p[0].sum(), 0.0)
        q[0] = draft[i]
        weight[0] = 1.0
        level = 0
        entering = True
        while level >= 0:
            if entering:
                total = q[level].sum()
                if total <= 0:
                    level -= 1
                    entering = False
                    continue
                q[level] /= total
                kept[i, level] += weight[level] * min(q[level, x], p[level, x]) / true
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
            left = np.maximum(p[level] - q[level], 0.0)
            mass = left.sum() + outside[level]
            if mass <= 0:
                continue
            level += 1
            weight[level] = weight[level - 1] * rejected
            p[level] = left / mass
            outside[level] = outside[level - 1] / mass
            q[level] = q[level - 1]
            q[level, y] = 0.0
            entering = True
    return kept


@njit(cache=True, nogil=True)
def _expected_steps(
    kept: NDArray[np.float64], offsets: Counts, first: int, parents: Counts, ranks: Counts
) -> NDArray[np.float64]:
    """Push the probability that a step starts at a position on to where the next one starts."""
    nodes = parents.size
    level = np.zeros(nodes, dtype=np.int64)
    for node in range(1, nodes):
        level[node] = level[parents[node]] + 1
    steps = np.zeros(offsets.size - 1)
    reached = np.zeros(nodes)
    ends = np.zeros(nodes)
    for r in range(offsets.size - 1):
        end = offsets[r + 1]
        start = offsets[r] + first
        if start >= end:
            continue
        starts = np.zeros(end - start)
        starts[0] = 1.0
        for i in range(start, end):
            chance = starts[i - start]
            if chance == 0:
                continue
            steps[r] += chance
            reached[0] = 1.0
            ends[0] = 1.0
            for node in range(1, nodes):
                at = i + level[node] - 1
                reached[node] = reached[parents[node]] * kept[at, ranks[node]] if at < end else 0.0
                ends[node] = reached[node]
                ends[parents[node]] -= reached[node]
            for node in range(nodes):
                behind = i + level[node] + 1
                if behind < end:
                    starts[behind - start] += chance * max(ends[node], 0.0)
    return steps
