"""How many tokens does a step emit when a recorded text is decoded again with another chain or
tree?

Exact walks over recorded positions: a step starts where the last one ended, so the correlation of
the text is preserved. Leaves out cost (`costmodel`), intervals (`traces.replay.statistics`) and
sampled drafts (they need level 3 data and a verifier's law).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.provenance import POLICY_KEY
from traces.kinds.tree import Tree
from traces.replay.walk_loops import Counts, chain_starts, walk_chain, walk_limited_chain, walk_tree

_NO_LIMIT = np.zeros(0, dtype=np.int16)
_LONGEST = int(np.iinfo(np.int16).max) - 1


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Replay:
    """What one chain length or tree does on a recording.

    Attributes:
        draft_tokens: K of the chain, or draft tokens of the tree (root excluded).
        tokens: int64[r], tokens emitted by steps (output length less `first_step_position`).
        steps: int64[r], steps taken.
        proposed_steps: int64[r], steps with a proposal. Under an assumed proposal ratio only the
            steps that are certain to have had one: those in which a draft token matched.
        drafted_tokens: int64[r], draft tokens verified; under an assumed ratio, in those certain
            steps.
        assumed_proposal_ratio: share of steps with a proposal, assumed because the recording does
            not tell; None where `proposed_steps` is known.
    """

    draft_tokens: int
    tokens: Counts
    steps: Counts
    proposed_steps: Counts
    drafted_tokens: Counts
    assumed_proposal_ratio: float | None = None

    @property
    def tokens_per_step(self) -> float:
        """Pooled emitted tokens per step: sum of tokens over sum of steps.

        Raises:
            InputError: the recording has no step at all.
        """
        return int(self.tokens.sum()) / self._total_steps()

    @property
    def proposal_ratio(self) -> float:
        """Share of steps with a proposal; an assumed one is never below the share that must have
        had one.
        """
        certain = int(self.proposed_steps.sum()) / self._total_steps()
        if self.assumed_proposal_ratio is None or self.draft_tokens == 0:
            return certain
        return max(self.assumed_proposal_ratio, certain)

    @property
    def drafted_per_step(self) -> float:
        """Draft tokens verified per step, averaged over all steps."""
        if self.assumed_proposal_ratio is None:
            return int(self.drafted_tokens.sum()) / self._total_steps()
        return self.proposal_ratio * self.draft_tokens

    def _total_steps(self) -> int:
        steps = int(self.steps.sum())
        if steps == 0:
            raise InputError("the trace has no decoding step to average over", key="steps", value=0)
        return steps


def replay_chain(trace: AcceptanceTrace, draft_tokens: int) -> Replay:
    """Decode the recorded text again with chains of K draft tokens.

    Example:
        >>> trace = AcceptanceTrace(offsets=np.array([0, 4]), emitted=np.array([3, 1, 1, 2]))
        >>> replay_chain(trace, 1).tokens_per_step
        1.3333333333333333

    A step at position i of a text of n emits min(emitted[i], min(K, drafted[i]) + 1, n - i) tokens.

    Args:
        trace: level 1 or more.
        draft_tokens: K >= 0; 0 is plain decoding.

    Returns:
        Counts per request.

    Raises:
        InputError: the trace is a summary, K is no whole number >= 0, or the recording is of one
            policy alone and K is neither its number of draft tokens nor 0.
    """
    count = check_chain(trace, draft_tokens)
    assert trace.emitted is not None
    first = trace.first_step_position
    tokens = np.maximum(trace.output_tokens - first, 0)
    if count == 0:
        none = np.zeros(trace.requests, dtype=np.int64)
        return Replay(
            draft_tokens=0, tokens=tokens, steps=tokens, proposed_steps=none, drafted_tokens=none
        )
    if trace.drafted is None:
        steps, hits = walk_chain(trace.emitted, trace.offsets, first, min(count, _LONGEST))
        proposed, drafted = _without_drafted(trace, steps, hits, count)
    else:
        walked = walk_limited_chain(
            trace.emitted, trace.drafted, trace.offsets, first, min(count, _LONGEST)
        )
        steps, proposed, drafted = walked
    return Replay(
        draft_tokens=count,
        tokens=tokens,
        steps=steps,
        proposed_steps=proposed,
        drafted_tokens=drafted,
        assumed_proposal_ratio=trace.match_rate if trace.drafted is None else None,
    )


def replay_chains(trace: AcceptanceTrace, draft_tokens: Sequence[int]) -> tuple[Replay, ...]:
    """`replay_chain` for several K, in the order given.

    Args:
        trace: level 1 or more.
        draft_tokens: lengths K, each >= 1.

    Raises:
        InputError: as `replay_chain`.
    """
    return tuple(replay_chain(trace, count) for count in draft_tokens)


def check_chain(trace: AcceptanceTrace, draft_tokens: int) -> int:
    """K, where the recording tells of chains of so many draft tokens; raises what `replay_chain`
    does.

    Args:
        trace: level 1 or more.
        draft_tokens: K, >= 1.
    """
    trace.require(1, "replaying a chain")
    count = _chain_length(draft_tokens)
    _check_policy(trace, count)
    return count


def replay_tree(trace: AcceptanceTrace, tree: Tree) -> Replay:
    """Decode the recorded text again with a static tree.

    Example:
        >>> trace = AcceptanceTrace(
        ...     offsets=np.array([0, 4]), emitted=np.array([3, 2, 1, 1]),
        ...     rank=np.array([0, 0, 1, 0]), rank_width=2, depth_invariant=True)
        >>> replay_tree(trace, Tree.from_paths([(0,), (1,)])).tokens_per_step
        2.0

    From the root the walk goes to the child that carries the true token's rank, while there is one.
    Exact for candidates that are deterministic given the true prefix. Where `drafted` is recorded,
    a step's tree is cut below that many levels.

    Args:
        trace: level 2 or more.
        tree: the tree of every step.

    Returns:
        Counts per request.

    Raises:
        InputError: no ranks; the tree uses ranks or levels that were not recorded.
    """
    steps, hits, proposed, drafted, _ = _walk_tree(trace, tree)
    if trace.drafted is None:
        proposed, drafted = _without_drafted(trace, steps, hits, tree.draft_tokens)
    return Replay(
        draft_tokens=tree.draft_tokens,
        tokens=np.maximum(trace.output_tokens - trace.first_step_position, 0),
        steps=steps,
        proposed_steps=proposed,
        drafted_tokens=drafted,
        assumed_proposal_ratio=trace.match_rate if trace.drafted is None else None,
    )


def step_starts(trace: AcceptanceTrace, shape: int | Tree) -> Counts:
    """Where the steps of a replay begin: the positions that its statistics must be taken over.

    Args:
        trace: level 1 or more for a chain, 2 or more for a tree.
        shape: K of a chain, or a tree.

    Returns:
        int64[steps]: indices into the trace's position arrays, increasing.

    Raises:
        InputError: as `replay_chain` and `replay_tree`.
    """
    if isinstance(shape, Tree):
        return _walk_tree(trace, shape)[-1]
    trace.require(1, "finding where the steps of a chain start")
    assert trace.emitted is not None
    limit = _NO_LIMIT if trace.drafted is None else trace.drafted
    length = min(_chain_length(shape), _LONGEST)
    _check_policy(trace, length)
    return chain_starts(trace.emitted, limit, trace.offsets, trace.first_step_position, length)


def child_offsets(tree: Tree, width: int) -> NDArray[np.int32]:
    """The child table as the walk reads it: one flat array in which a node is the place of its rank
    0.

    Args:
        tree: the tree.
        width: candidates per position.

    Returns:
        int32[nodes * (width + 1)]: at place(node) + rank the place of the child, 0 where there is
        none; rank -1 (outside the recorded candidates) has a column of its own. The root's place is
        1.
    """
    children = tree.child_table(width)
    table = np.zeros((tree.nodes, width + 1), dtype=np.int32)
    # column 0 is rank -1: no child has it, so it stays 0 and ends the walk
    table[:, 1:] = np.where(children < 0, 0, children * (width + 1) + 1)
    return table.reshape(-1)


def _without_drafted(
    trace: AcceptanceTrace, steps: Counts, hits: Counts, draft_tokens: int
) -> tuple[Counts, Counts]:
    """Steps with a proposal and draft tokens where the recording does not tell."""
    if draft_tokens == 0:
        return np.zeros_like(steps), np.zeros_like(steps)
    # with an assumed share of proposals only steps in which a draft matched surely had one
    proposed = steps if trace.match_rate is None else hits
    return proposed, proposed * draft_tokens


def _check_policy(trace: AcceptanceTrace, draft_tokens: int) -> None:
    """A drafter that learns from what was verified is known by the steps it took, and by no
    others.
    """
    policy = trace.provenance.extra.get(POLICY_KEY)
    if policy is not None and draft_tokens not in (0, policy):
        raise InputError(
            f"the recorded steps drafted {policy} tokens each, and this drafter's others cannot be"
            " inferred from them",
            file=trace.file,
            key="draft_tokens",
            value=draft_tokens,
        )


def _chain_length(draft_tokens: int) -> int:
    try:
        count = -1 if isinstance(draft_tokens, bool) else operator.index(draft_tokens)
    except TypeError:
        count = -1
    if count < 0:
        raise InputError("must be a whole number >= 0", key="draft_tokens", value=draft_tokens)
    return count


def check_tree(trace: AcceptanceTrace, tree: Tree) -> NDArray[np.int32]:
    """The tree's `child_offsets`, where the recording tells of it; raises what `replay_tree`
    does.

    Args:
        trace: level 2 or more.
        tree: what is drafted.
    """
    trace.require(2, "replaying a tree")
    widths = tree.level_widths()
    if trace.depth is not None and len(widths) > trace.depth:
        raise InputError(
            f"the tree may have at most the {trace.depth} draft levels recorded",
            file=trace.file,
            key="depth",
            value=len(widths),
        )
    return child_offsets(tree, trace.rank_width)


def _walk_tree(trace: AcceptanceTrace, tree: Tree) -> tuple[Counts, Counts, Counts, Counts, Counts]:
    table = check_tree(trace, tree)
    assert trace.rank is not None
    return walk_tree(
        trace.rank.reshape(-1),
        1 if trace.depth is None else trace.depth,
        _NO_LIMIT if trace.drafted is None else trace.drafted,
        trace.offsets,
        trace.first_step_position,
        table,
        np.cumsum((0, *tree.level_widths()), dtype=np.int64),
    )
