"""What does a policy see and commit on one recorded prompt, pass by pass?

A recorded policy shows its own run. Any other is walked over the nearest recorded states, as its
replay is, so that its passes show what those states were sure of. Leaves out counts over prompts
(`walk`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.confidence import ConfidenceTrace
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.anchors import Anchors, pooled
from traces.replay.confidence.decode import Pass
from traces.replay.confidence.walk import check_answerable, nearest, usable_runs, walked


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PromptPasses:
    """n passes over one prompt's canvas of L positions.

    Attributes:
        policy: which one is shown.
        prompt: its name.
        is_recorded: whether this is a recorded run; else it is made of the nearest recorded states.
        confidence: float32[n, L], probability of the likeliest token before the commit; NaN where a
            token stands already, or where no recorded state computed the position.
        top_ids: int32[n, L], that token; -1 where `confidence` is NaN.
        committed_at: int64[L], pass that committed the position; n where none did.
        start, end: int64[n], positions of the block that the pass may commit in.
    """

    policy: RefinePolicy
    prompt: str
    is_recorded: bool
    confidence: NDArray[np.float32]
    top_ids: NDArray[np.int32]
    committed_at: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]


def prompt_passes(
    anchors: Anchors | ConfidenceTrace | Sequence[ConfidenceTrace],
    policy: RefinePolicy,
    prompt: int = 0,
) -> PromptPasses:
    """The passes of a policy over one prompt.

    Drafts that passes confirm (`self_verified`) have no rows of their own: shown is the run of one
    token a pass from which they are drafted, whose text is theirs.

    Args:
        anchors: recordings, or what `pooled` made of them.
        policy: how.
        prompt: place among the prompts, from 0.

    Raises:
        InputError: no such prompt, or a policy that the recordings cannot answer for.
    """
    states = _only(anchors if isinstance(anchors, Anchors) else pooled(anchors), prompt)
    policy.check_canvas(states.canvas_tokens)
    if policy.commit == "self_verified":
        policy = replace(policy, commit="static", at={})
    runs = states.run_of(policy)
    check_answerable(states, policy, recorded=runs is not None)
    usable = usable_runs(states, runs)
    confidence: list[NDArray[np.float32]] = []
    ids: list[NDArray[np.int32]] = []
    blocks: list[tuple[int, int]] = []
    committed_at = np.full(states.canvas_tokens, -1, dtype=np.int64)

    def after(forward: Pass, chosen: NDArray[np.bool_]) -> None:
        cells = nearest(states, forward, forward.masked, usable)[0]
        recorded = forward.masked[0] & (cells >= 0)
        confidence.append(
            np.where(recorded, 1.0 - states.values[cells, 0], np.nan).astype(np.float32)
        )
        ids.append(np.where(recorded, states.top_ids[cells], -1).astype(np.int32))
        committed_at[chosen[0]] = len(blocks)
        blocks.append((int(forward.start[0]), int(forward.end[0])))

    walked(states, policy, usable, after=after)
    start, end = np.array(blocks, dtype=np.int64).T
    return PromptPasses(
        policy=policy,
        prompt=states.prompts[0],
        is_recorded=runs is not None,
        confidence=np.stack(confidence),
        top_ids=np.stack(ids),
        committed_at=np.where(committed_at < 0, len(blocks), committed_at),
        start=start,
        end=end,
    )


def _only(states: Anchors, prompt: int) -> Anchors:
    """The states of one prompt."""
    if not 0 <= prompt < len(states.prompts):
        raise InputError(f"must lie in 0..{len(states.prompts) - 1}", key="prompt", value=prompt)
    return states.of_prompts(slice(prompt, prompt + 1))
