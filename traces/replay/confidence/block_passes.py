"""Which passes does a policy take on every recorded prompt, block by block?

What is left of a replay is how long every block takes and what each of its passes commits, in the
order in which the prompts are decoded. Leaves out what a pass costs, and how sure the model was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traces.kinds.confidence import ConfidenceTrace
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.anchors import Anchors, pooled
from traces.replay.confidence.decode import Pass
from traces.replay.confidence.self_verified import self_verified_commits
from traces.replay.confidence.walk import RefineReplay, replay_policy, usable_runs, walked

Counts = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BlockPasses:
    """Blocks of recorded prompts under one policy, prompt after prompt: n blocks in s passes.

    Attributes:
        replay: what the policy does on the prompts, and what that rests on.
        prompt: int64[n], place in `replay.prompts`.
        start, end: int64[n], canvas positions of the block.
        tokens: int64[n], positions of the text that the block adds: none behind an end of text at
            which the policy stops, and those behind the block where one of its passes commits all
            of the canvas.
        pass_offsets: int64[n+1]; block i takes passes pass_offsets[i]:pass_offsets[i+1].
        committed: int64[s], positions that each pass commits.
    """

    replay: RefineReplay
    prompt: Counts
    start: Counts
    end: Counts
    tokens: Counts
    pass_offsets: Counts
    committed: Counts

    @property
    def passes(self) -> Counts:
        """Passes of every block, int64[n]."""
        passes: Counts = np.diff(self.pass_offsets)
        return passes

    @property
    def begins(self) -> NDArray[np.bool_]:
        """bool[n]: blocks that are the first of their prompt."""
        begins: NDArray[np.bool_] = np.diff(self.prompt, prepend=-1) != 0
        return begins


def block_passes(
    traces: Anchors | ConfidenceTrace | Sequence[ConfidenceTrace], policy: RefinePolicy
) -> BlockPasses:
    """Decode recorded prompts again, and keep what every pass did.

    Args:
        traces: of one model and one way of caching.
        policy: how.

    Raises:
        InputError: as `replay_policy`.
    """
    states = traces if isinstance(traces, Anchors) else pooled(traces)
    replay = replay_policy(states, policy, interval=False)
    if policy.commit == "self_verified":
        rows, tokens = _confirmed_rows(states, policy)
    else:
        rows, tokens = _walked_rows(states, policy)
    prompt, start, end, committed = np.concatenate(rows).T
    order = np.argsort(prompt, kind="stable")
    prompt, start, end, committed = (column[order] for column in (prompt, start, end, committed))
    first = np.flatnonzero((np.diff(prompt, prepend=-1) != 0) | (np.diff(start, prepend=-1) != 0))
    offsets = np.append(first, len(prompt))
    text_end = _text_ends(states, policy, tokens)
    last = np.diff(prompt[first], append=-1) != 0
    following = np.append(start[first][1:], 0)  # where the prompt's next block begins
    begin, stop = start[first], text_end[prompt[first]]
    ends = np.where(last, end[offsets[1:] - 1], following)
    reached = np.where(last, np.maximum(stop, ends), following)
    return BlockPasses(
        replay=replay,
        prompt=prompt[first],
        start=begin,
        end=ends,
        tokens=np.minimum(reached, stop) - begin,
        pass_offsets=offsets,
        committed=committed,
    )


def _walked_rows(states: Anchors, policy: RefinePolicy) -> tuple[list[Counts], NDArray[np.int32]]:
    """Prompt, block and tokens of every pass, and what stands on the canvases in the end."""
    rows: list[Counts] = []
    first = size = 0  # of the prompts that are walked together

    def note(forward: Pass, chosen: NDArray[np.bool_]) -> None:
        nonlocal first, size
        if forward.masked.all():  # nothing was committed yet: the next group of prompts begins
            first, size = first + size, len(chosen)
        at = forward.active
        rows.append(
            np.stack(
                [first + at, forward.start[at], forward.end[at], chosen[at].sum(axis=1)], axis=1
            )
        )

    decoded = walked(states, policy, usable_runs(states, states.run_of(policy)), after=note)
    return rows, decoded.tokens


def _confirmed_rows(
    states: Anchors, policy: RefinePolicy
) -> tuple[list[Counts], NDArray[np.int32]]:
    """The same where passes confirm drafts."""
    runs = states.run_of(
        RefinePolicy(commit="static", block_tokens=policy.block_tokens, cache=policy.cache)
    )
    assert runs is not None  # which the replay has checked
    rows = []
    for prompt, committed in enumerate(self_verified_commits(states, runs, policy)):
        before = np.concatenate([[0], np.cumsum(committed)[:-1]])
        start = before // policy.block_tokens * policy.block_tokens
        rows.append(
            np.stack(
                [np.full_like(start, prompt), start, start + policy.block_tokens, committed], axis=1
            )
        )
    return rows, states.final_ids[runs]


def _text_ends(states: Anchors, policy: RefinePolicy, tokens: NDArray[np.int32]) -> Counts:
    """Canvas position behind the text of every prompt: of an end-of-text token where the policy
    stops at it.
    """
    whole = np.full(len(tokens), states.canvas_tokens, dtype=np.int64)
    if policy.stop != "end_token" or states.end_id is None:
        return whole
    ends = tokens == states.end_id
    return np.where(ends.any(axis=1), ends.argmax(axis=1) + 1, whole)
