"""The loop of masked decoding, with confidences of a live model or of a recording.

Many canvases advance together, pass by pass: look, decide where blocks end, commit. Leaves out who
is asked (`walk` for recordings, `real_runs.decoding.masked` for models) and what a pass costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.blocks import Blocks
from traces.replay.confidence.rules import committed, random_priority
from traces.replay.confidence.state import Confidence

Mask = NDArray[np.bool_]
Counts = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """What is asked before a commit, over P canvases of L positions.

    Attributes:
        active: int64[n], canvases that take the pass.
        tokens: int32[P, L], what they hold, the mask's id where nothing.
        masked: bool[P, L].
        needed: bool[P, L], masked positions that the commit or the block rule reads.
        begins: bool[P], canvases of which it is a block's first pass: caches are renewed.
        start, end: int64[P], positions of the blocks.
    """

    active: Counts
    tokens: NDArray[np.int32]
    masked: Mask
    needed: Mask
    begins: Mask
    start: Counts
    end: Counts


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """The answer: what the model holds likeliest, valid where it was asked for.

    Attributes:
        ids: int32[P, L].
        doubt: float32[P, L], 1 - probability.
        fields: float32[P, L] by name: `entropy`, `logit_gap`, as far as they are known.
    """

    ids: NDArray[np.int32]
    doubt: NDArray[np.float32]
    fields: Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Decoded:
    """Canvases after the last pass: tokens int32[P, L], passes and blocks begun int64[P] each."""

    tokens: NDArray[np.int32]
    steps: Counts
    begun: Counts


def decode(
    policy: RefinePolicy,
    requests: Sequence[str],
    look: Callable[[Pass], Seen],
    *,
    canvas_tokens: int,
    mask_id: int,
    end_id: int | None = None,
    after: Callable[[Pass, Mask], None] | None = None,
) -> Decoded:
    """Decode canvases from all masked to done.

    Args:
        policy: how.
        requests: names of the canvases, of which a random order depends.
        look: what the model says before every commit.
        canvas_tokens: L.
        mask_id: of the model.
        end_id: that ends a text; None: there is none.
        after: called with every pass and what it committed, bool[P, L].

    Raises:
        InputError: a block that does not divide the canvas.
    """
    policy.check_canvas(canvas_tokens)
    shape = (len(requests), canvas_tokens)
    tokens, masked = np.full(shape, mask_id, dtype=np.int32), np.ones(shape, dtype=np.bool_)
    blocks, steps = Blocks(policy, *shape), np.zeros(shape[0], dtype=np.int64)
    priority = random_priority(policy, tuple(requests), canvas_tokens)
    memory: dict[str, NDArray[Any]] = {}
    while (alive := blocks.unfinished(masked, tokens, end_id)).any():
        begins, still_masked = blocks.begins(alive), masked & alive[:, None]
        whole = policy.commit == "gap" or (bool(policy.delimiters) and bool(begins.any()))
        needed = still_masked if whole else still_masked & blocks.inside()
        forward = Pass(
            active=np.flatnonzero(alive),
            tokens=tokens,
            masked=masked,
            needed=needed,
            begins=begins,
            start=blocks.start,
            end=blocks.end,
        )
        predicted = look(forward)
        blocks.begin(begins, still_masked, predicted.doubt, predicted.ids)
        state = Confidence(
            masked=still_masked,
            open=still_masked & blocks.inside(),
            doubt=predicted.doubt,
            entropy=predicted.fields.get("entropy"),
            logit_gap=predicted.fields.get("logit_gap"),
            pass_of_block=blocks.passes,
            block_confidence=blocks.confidence,
            priority=priority,
            ids=predicted.ids,
            start=blocks.start,
            memory=memory,
        )
        chosen = committed(policy, state)
        if after is not None:
            after(forward, chosen)
        tokens, masked = np.where(chosen, predicted.ids, tokens), masked & ~chosen
        steps += alive
        blocks.advance(alive, chosen, masked, predicted.doubt)
    return Decoded(tokens=tokens, steps=steps, begun=blocks.begun)
