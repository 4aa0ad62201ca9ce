"""How does a live masked model decode several canvases together, and what does every forward take?

The loop of `loop`, many canvases a pass: those that compute the same positions share a forward, and
a canvas that is done leaves. Nothing but times is kept of a forward. Leaves out recordings of what
it saw (`loop`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from real_runs.decoding.masked.loop import confidences_of, span_of
from real_runs.decoding.timed_pass import TimedPass
from real_runs.masked.network import KeyValueCache, MaskedModel
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.decode import Pass, Seen, decode

Span = tuple[str, int, int]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BatchRun:
    """P decoded canvases of L positions.

    Attributes:
        tokens: int32[P, L].
        steps: int64[P], passes that every canvas took.
        forwards: all of them, in order; their rows are canvases or states, their context what lies
            in the cache.
    """

    tokens: NDArray[np.int32]
    steps: NDArray[np.int64]
    forwards: tuple[TimedPass, ...]


class MaskedBatch:
    """Canvases of a live model.

    Args:
        model: whose shape has room for prompt and canvas.
        prompts: token ids, equally many each.
        canvas_tokens: L.
        mask_id: of the model; never predicted.

    Raises:
        InputError: prompts of unequal length, or no room.
    """

    def __init__(
        self,
        model: MaskedModel,
        prompts: Sequence[Sequence[int]],
        *,
        canvas_tokens: int,
        mask_id: int,
    ) -> None:
        self._before = len(prompts[0])
        if any(len(prompt) != self._before for prompt in prompts):
            raise InputError("must be equally long to share passes", key="prompts")
        total = self._before + canvas_tokens
        if total > model.shape.positions:
            raise InputError(
                f"must leave room in {model.shape.positions} positions",
                key="canvas_tokens",
                value=total,
            )
        self._model, self._length, self._mask = model, canvas_tokens, mask_id
        self._prompts = np.array(prompts, dtype=np.int64)
        self._cache = KeyValueCache(model.shape, batch=len(prompts), tokens=total)

    def run(self, policy: RefinePolicy, requests: Sequence[str]) -> BatchRun:
        """Decode the canvases.

        Args:
            policy: how.
            requests: names, of which a random order depends.

        Raises:
            InputError: a block that does not divide the canvas, or a rule that looks beyond what
                the cache leaves.
        """
        if policy.commit == "gap" and policy.cache != "none":
            raise InputError(
                "reads all masked positions, which passes beside a cache do not compute",
                key="commit",
                value=policy.commit,
            )
        forwards: list[TimedPass] = []

        def look(needed: Pass) -> Seen:
            ids = np.zeros(needed.tokens.shape, dtype=np.int32)
            values = {
                name: np.zeros(ids.shape, dtype=np.float32)
                for name in ("doubt", "entropy", "logit_gap")
            }
            for span, rows in spans(policy, needed).items():
                began = time.perf_counter()
                outputs = self._confidences(
                    needed.tokens[rows], rows, span, cached=policy.cache != "none"
                )
                at = np.ix_(rows, range(span[1], span[2]))
                ids[at] = outputs["top_ids"]
                for name, whole in values.items():
                    whole[at] = outputs[name]
                forwards.append(
                    TimedPass(
                        len(rows),
                        *counts(span, self._before, self._length),
                        time.perf_counter() - began,
                    )
                )
            return Seen(ids=ids, doubt=values.pop("doubt"), fields=values)

        done = decode(policy, requests, look, canvas_tokens=self._length, mask_id=self._mask)
        return BatchRun(tokens=done.tokens, steps=done.steps, forwards=tuple(forwards))

    def _confidences(
        self, tokens: NDArray[np.int32], rows: Sequence[int], span: Span, *, cached: bool
    ) -> dict[str, NDArray[Any]]:
        """What a forward says of the span's positions, [rows, positions] by name."""
        forward, start, end = span
        computed, first = tokens[:, start:end].astype(np.int64), self._before + start
        if forward == "full":
            computed, first = np.concatenate([self._prompts[rows], computed], axis=1), 0
        with torch.inference_mode():
            memory = self._cache.of(rows) if cached else None
            logits = self._model(torch.from_numpy(computed), start=first, cache=memory)[
                :, -(end - start) :
            ]
            confidences = confidences_of(logits.flatten(0, 1), self._mask)
        return {name: value.reshape(len(rows), end - start) for name, value in confidences.items()}


def spans(policy: RefinePolicy, needed: Pass) -> dict[Span, list[int]]:
    """Which canvases of a pass share a forward: those of which it computes the same positions."""
    canvases: dict[Span, list[int]] = {}
    for canvas in needed.active.tolist():
        canvases.setdefault(span_of(policy, needed, canvas, needed.tokens.shape[1]), []).append(
            canvas
        )
    return canvases


def counts(span: Span, prompt_tokens: int, canvas_tokens: int) -> tuple[int, int]:
    """Tokens computed of a canvas, and tokens read from its cache."""
    computed = prompt_tokens + canvas_tokens if span[0] == "full" else span[2] - span[1]
    return computed, prompt_tokens + canvas_tokens - computed
