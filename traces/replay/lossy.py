"""How many tokens does a step emit when the target keeps whatever it finds likely enough?

Such rules change the text, and a recording holds the target's own. The replay asks at every
position which of the drafter's likeliest candidates would stay after the recorded text before it,
and takes these answers along the text: how often candidates stay is that of texts like the recorded
one, and where an accepted candidate would have led is not known. What the target gives to tokens
outside the recorded candidates is counted so that candidates stay less often, never more. Leaves
out rules that keep the target's distribution (`traces.replay.sampled`).

Reference: Cai et al., Medusa, arXiv 2401.10774, sec. 2.3.1 (typical acceptance); Stern et al.,
arXiv 1811.03115, sec. 5 (approximate match).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree, chain_tree
from traces.replay.walk import Replay
from traces.replay.walk_loops import walk_chain

TYPICAL_THRESHOLD = 0.09
TYPICAL_ENTROPY_FACTOR = 0.3
NEAR_MATCH_RATIO = 0.5

Mask = NDArray[np.bool_]


def typical_candidates(
    trace: AcceptanceTrace,
    *,
    posterior_threshold: float = TYPICAL_THRESHOLD,
    entropy_factor: float = TYPICAL_ENTROPY_FACTOR,
) -> Mask:
    """Which candidates have a probability above the least of a threshold and a share of
    exp(-entropy)?

    Args:
        trace: level 3.
        posterior_threshold: probability that is always enough, >= 0.
        entropy_factor: share of exp(-entropy in nats) that is enough, >= 0.

    Returns:
        bool[n, W]. The mass outside the candidates counts as the text's token, if it is there, and
        one other.

    Raises:
        InputError: a lower level, or a negative number.
    """
    target, text, rest = _known(
        trace, posterior_threshold=posterior_threshold, entropy_factor=entropy_factor
    )
    entropy = _information(target).sum(axis=1) + _information(text) + _information(rest)
    least = np.minimum(posterior_threshold, entropy_factor * np.exp(-entropy))
    stays: Mask = target > least[:, None]
    return stays


def near_candidates(trace: AcceptanceTrace, *, ratio: float = NEAR_MATCH_RATIO) -> Mask:
    """Which candidates have at least a share of the probability of the target's likeliest token?

    Args:
        trace: level 3; of a greedy recording the probabilities at temperature 1 decide.
        ratio: share of the likeliest token's probability, 0 to 1; 1 keeps that token alone.

    Returns:
        bool[n, W]. The mass outside the candidates counts as the text's token, if it is there, and
        one other.

    Raises:
        InputError: a lower level, or a ratio out of range.
    """
    if ratio > 1:
        raise InputError("must lie in [0, 1]", key="ratio", value=ratio)
    target, text, rest = _known(trace, ratio=ratio)
    likeliest = np.maximum(np.maximum(target.max(axis=1), text), rest)
    stays: Mask = (target > 0) & (target >= ratio * likeliest[:, None])
    return stays


def lossy_lengths(trace: AcceptanceTrace, shape: int | Tree, stays: Mask) -> NDArray[np.int16]:
    """Tokens that a step from every position emits: the longest path of candidates that stay, and
    one more.

    Args:
        trace: the recording.
        shape: K of a chain, or a tree of candidate ranks.
        stays: bool[n, W], which candidates would stay.

    Returns:
        int16[n], >= 1; no longer than what is left of the text, and one more.

    Raises:
        InputError: ranks that were not recorded, or more levels than the recording tells of.
    """
    tree = shape if isinstance(shape, Tree) else chain_tree(shape)
    check_lossy(trace, tree)
    # numba takes half a second to load: only where it is needed
    from traces.replay.compiled_sampled import deepest_accepted

    parents, ranks = np.array(tree.parents, dtype=np.int64), np.array(tree.ranks, dtype=np.int64)
    return deepest_accepted(stays, trace.offsets, parents, ranks)  # type: ignore[no-any-return]


def replay_lossy(trace: AcceptanceTrace, shape: int | Tree, stays: Mask) -> Replay:
    """Walk along the recorded text with steps of `lossy_lengths`.

    Args:
        trace: the recording.
        shape: K of a chain, or a tree of candidate ranks.
        stays: bool[n, W], which candidates would stay.

    Returns:
        Counts per request.

    Raises:
        InputError: as `lossy_lengths`.
    """
    draft_tokens = shape.draft_tokens if isinstance(shape, Tree) else shape
    lengths = lossy_lengths(trace, shape, stays)
    steps, _ = walk_chain(
        lengths, trace.offsets, trace.first_step_position, int(lengths.max(initial=1))
    )
    return Replay(
        draft_tokens=draft_tokens,
        tokens=np.maximum(trace.output_tokens - trace.first_step_position, 0),
        steps=steps,
        proposed_steps=steps if draft_tokens else np.zeros_like(steps),
        drafted_tokens=steps * draft_tokens,
    )


def check_lossy(trace: AcceptanceTrace, tree: Tree) -> None:
    """Refuse what a recording does not tell of a lossy rule.

    Args:
        trace: level 3.
        tree: what is drafted.

    Raises:
        InputError: as `lossy_lengths`.
    """
    trace.require(3, "asking which candidates the target finds likely")
    assert trace.draft_ids is not None
    tree.child_table(trace.draft_ids.shape[1])  # refuses ranks that were not recorded
    if tree.depth > 2 and not trace.depth_invariant:
        rule = (
            "what the target thought of deeper candidates is recorded for drafters that re-read"
            " true tokens alone"
        )
        raise InputError(
            f"{rule}; allow 1 draft level", file=trace.file, key="depth", value=tree.depth - 1
        )


def _known(
    trace: AcceptanceTrace, **limits: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The target's probabilities of the candidates, of the text's token outside them, and of all
    others together.
    """
    trace.require(3, "asking which candidates the target finds likely")
    for key, value in limits.items():
        if not value >= 0:
            raise InputError("must be >= 0", key=key, value=value)
    assert trace.draft_ids is not None and trace.target_probs is not None and trace.rank is not None
    assert trace.emitted_target_prob is not None
    target = trace.target_probs.astype(np.float64)
    rank = trace.rank if trace.rank.ndim == 1 else trace.rank[:, 0]
    outside = (rank < 0) | (rank >= target.shape[1])
    text = np.where(outside, trace.emitted_target_prob.astype(np.float64), 0.0)
    return target, text, np.maximum(1 - target.sum(axis=1) - text, 0.0)


def _information(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """-p ln p, 0 at 0."""
    information: NDArray[np.float64] = -probability * np.log(
        np.where(probability > 0, probability, 1.0)
    )
    return information
