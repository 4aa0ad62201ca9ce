"""How many passes do drafts of later states take that a pass confirms, where the text stays that of
one token a pass?

With a state's confidence known, its surest tokens are drafted one after the other; a pass computes
the states behind one, two and more of them at once, and those stay of which every next token is the
draft's. A run of one token a pass holds all that this needs, so the count is exact. Leaves out what
the wider passes cost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.anchors import Anchors

Counts = NDArray[np.int64]


def self_verified_passes(states: Anchors, runs: Counts, policy: RefinePolicy) -> Counts:
    """Passes of every prompt, the first one over the empty canvas counted: int64[P]; see
    `self_verified_commits`.

    Args:
        states: recorded states of P prompts.
        runs: int64[P], the run of every prompt to follow.
        policy: of the replay.
    """
    return np.array(
        [commits.size for commits in self_verified_commits(states, runs, policy)], dtype=np.int64
    )


def self_verified_commits(
    states: Anchors, runs: Counts, policy: RefinePolicy
) -> tuple[Counts, ...]:
    """Tokens that every pass of every prompt confirms; the first one, over the empty canvas, drafts
    and confirms none.

    A draft stays within its block; behind it the confidence that is known already goes on to draft
    the next block's.

    Args:
        states: recorded.
        runs: int64[P], every prompt's run of one token a pass.
        policy: of rule `self_verified`.

    Returns:
        int64[passes] of every prompt, whose sum is the canvas.

    Reference: FreeDave (its public code); Gao et al. 2025, SSD, arXiv 2510.04147, drafts in the
    same way.
    """
    drafts, block = int(policy.at["drafts"]), policy.block_tokens
    return tuple(
        _commits(*_drafted(states, prompt, run, min(drafts, block), block), block)
        for prompt, run in enumerate(runs)
    )


def _drafted(
    states: Anchors, prompt: int, run: int, drafts: int, block: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Positions and ids that every state of a run drafts, surest first: [L, drafts] each; -1 where
    its block ends.
    """
    first, last = states.row_offsets[prompt : prompt + 2]
    rows = first + np.flatnonzero(states.run_of_row[first:last] == run)
    cells, place = states.cells(rows), np.arange(states.canvas_tokens)
    start = np.arange(len(rows)) // block * block
    open_here = (cells >= 0) & (place >= start[:, None]) & (place < start[:, None] + block)
    doubt = np.where(open_here, states.values[cells, 0], np.inf)
    surest = np.argsort(doubt, axis=1, kind="stable")[:, :drafts]
    in_block = np.take_along_axis(open_here, surest, axis=1)
    ids = states.top_ids[np.take_along_axis(cells, surest, axis=1)]
    return np.where(in_block, surest, -1), np.where(in_block, ids, -1)


def _commits(places: NDArray[np.int64], ids: NDArray[np.int32], block: int) -> Counts:
    """Walk from state to state: the surest token is right, and drafts stay as long as the next
    states agree.
    """
    length, drafts = places.shape
    commits, at = [0], 0
    while at + 1 < length:
        most, accepted = min(drafts, block - at % block), 1
        while accepted < most and (places[at, accepted], ids[at, accepted]) == (
            places[at + accepted, 0],
            ids[at + accepted, 0],
        ):
            accepted += 1
        commits.append(accepted)
        at += accepted
    commits[-1] += length - at  # the surest token of the last state needs no pass of its own
    return np.array(commits, dtype=np.int64)
