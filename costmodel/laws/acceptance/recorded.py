"""How many tokens does a step emit on a recording, by the method's own way of verifying drafts?

Replays by the law that `rules` picks, as counts per request, as draws per position, or with
bootstrap draws. Leaves out dynamic trees and stop rules (`costmodel.laws.drafting`), and cost.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from costmodel.laws.acceptance.per_step import Acceptance, from_replay
from costmodel.laws.acceptance.rules import SAMPLED, Law, Shape
from costmodel.passes.ops import Array
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree
from traces.replay.bootstrap import RequestDraws
from traces.replay.lossy import lossy_lengths, near_candidates, replay_lossy, typical_candidates
from traces.replay.sampled import (
    ExpectedReplay,
    SampledRule,
    accepted_probabilities,
    replay_sampled,
    survival,
)
from traces.replay.statistics import start_positions
from traces.replay.walk import Replay, replay_chain, replay_tree

_SIBLINGS = 4  # drafts below a node whose acceptance is counted


def replay_by(trace: AcceptanceTrace, law: Law, shape: Shape) -> Replay | ExpectedReplay:
    """Counts per request of a shape under a law.

    Args:
        trace: the recording that the law is for.
        law: from `law_for`.
        shape: K of a chain, or a tree whose ranks count candidates or draws.

    Raises:
        InputError: a recording that does not hold what the shape needs.
    """
    if law.by_matching or shape == 0:
        return _matched(trace, shape)
    if law.rule in SAMPLED:
        return replay_sampled(trace, shape, cast(SampledRule, law.rule))
    return replay_lossy(trace, shape, _candidates(trace, law))


def drawn_lengths(
    trace: AcceptanceTrace, law: Law, shape: Shape, generator: np.random.Generator
) -> NDArray[np.int32]:
    """Tokens that a step from every position emits, one draw of each; on average a walk is
    `replay_by`'s.

    Args:
        trace: the recording that the law is for.
        law: from `law_for`, and not by matching, where there is nothing to draw.
        shape: as in `replay_by`; for chains the least of a number and K + 1 holds for a shorter K.
        generator: of the draws.

    Returns:
        int32[n], >= 1.

    Raises:
        InputError: as `replay_by`.
    """
    if law.rule in SAMPLED:
        stays = survival(trace, shape, cast(SampledRule, law.rule))
        return np.asarray(
            1 + (stays > generator.random((trace.positions, 1))).sum(axis=1), dtype=np.int32
        )
    return lossy_lengths(trace, shape, _candidates(trace, law)).astype(np.int32)


def accepted_shares(trace: AcceptanceTrace, law: Law) -> Array | None:
    """How likely a draft token for every position is accepted if those before it are; None where
    tokens are matched, so that ranks tell.

    Args:
        trace: the recording that the law is for.
        law: from `law_for`.

    Returns:
        float64[positions].

    Raises:
        InputError: a lossy law, or as `replay_by`.
    """
    if law.by_matching:
        return None
    if law.rule not in SAMPLED:
        raise InputError("is not known for a part of a draft", key="rule", value=law.rule)
    first: Array = survival(trace, 1, cast(SampledRule, law.rule))[:, 0]
    return first


def accepted_by(
    trace: AcceptanceTrace, law: Law, shape: Shape, draws: RequestDraws | None
) -> Acceptance:
    """What a shape emits on a recording, by a law that several shapes share (see `acceptance`).

    Args:
        trace: the recording that the law is for.
        law: from `law_for`.
        shape: as in `replay_by`.
        draws: of the requests; None: no samples.

    Raises:
        InputError: as `replay_by`.
    """
    replay = replay_by(trace, law, shape)
    if shape == 0:
        return from_replay(replay, draws, rule="none")
    tree = shape if isinstance(shape, Tree) else None
    return from_replay(replay, draws, tree, rule=law.rule, lossy=law.lossy, note=law.note)


def sibling_law(trace: AcceptanceTrace, law: Law) -> Array | None:
    """How often the k-th draft below a node is accepted, where siblings are drawn; None where they
    are not.

    Args:
        trace: the recording that the law is for.
        law: from `law_for`.

    Returns:
        float64[siblings], of the first four or as many as were recorded, over all positions at
        which a step may start.
    """
    if not law.draws_siblings:
        return None
    assert trace.draft_ids is not None
    by_sibling = accepted_probabilities(
        trace, min(_SIBLINGS, trace.draft_ids.shape[1]), cast(SampledRule, law.rule)
    )
    vector: Array = by_sibling[start_positions(trace, "all", 0)].mean(axis=0)
    return vector


def _matched(trace: AcceptanceTrace, shape: Shape) -> Replay:
    return replay_tree(trace, shape) if isinstance(shape, Tree) else replay_chain(trace, shape)


def _candidates(trace: AcceptanceTrace, law: Law) -> NDArray[np.bool_]:
    """The candidates that a lossy law keeps."""
    return (near_candidates if law.rule == "near_match" else typical_candidates)(trace, **law.at)
