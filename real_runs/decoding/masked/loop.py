"""How does a live masked model decode a canvas, and what does every pass see?

The loop is the one that recordings are replayed by (`traces.replay.confidence.decode`); here a
model answers it. With no cache every pass computes prompt and canvas; with caches a block's first
pass does, and the others compute the canvas from the block on (`prefix`) or the block (`dual`) and
read the rest's keys and values as the first pass left them. Decisions are made on values as coarse
as recorded ones. Leaves out sampling: the likeliest token is taken.

Reference: Wu et al. 2025, Fast-dLLM, arXiv 2505.22618, sec. 3.2; a block that its first pass
finishes takes no second.
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
from real_runs.masked.network import KeyValueCache, MaskedModel
from traces.kinds.confidence import FORWARDS
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.decode import Pass, Seen, decode

_LARGEST_HALF = float(np.finfo(np.float16).max)


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedRun:
    """One decoded canvas of L positions, in s passes over c cells.

    Attributes:
        tokens: int32[L].
        committed_at: int32[L], pass that committed the position; s where none did.
        steps: arrays over passes by name, as in `ConfidenceTrace`: forward, block_start, block_end,
            computed_tokens, cached_tokens, wall_s.
        cells: arrays over cells by name: top_ids, doubt, second_prob, logit_gap, entropy.
    """

    tokens: NDArray[np.int32]
    committed_at: NDArray[np.int32]
    steps: dict[str, NDArray[Any]]
    cells: dict[str, NDArray[Any]]

    @property
    def passes(self) -> int:
        """Passes that the canvas took."""
        return len(self.steps["forward"])


class MaskedLoop:
    """One canvas of a live model.

    Args:
        model: whose shape has room for prompt and canvas.
        prompt: token ids.
        canvas_tokens: L.
        mask_id: of the model; never predicted.

    Raises:
        InputError: no room.
    """

    def __init__(
        self, model: MaskedModel, prompt: Sequence[int], *, canvas_tokens: int, mask_id: int
    ) -> None:
        total = len(prompt) + canvas_tokens
        if total > model.shape.positions:
            raise InputError(
                f"must leave room in {model.shape.positions} positions",
                key="canvas_tokens",
                value=total,
            )
        self._model, self._prompt, self._length, self._mask = (
            model,
            list(prompt),
            canvas_tokens,
            mask_id,
        )
        self._cache = KeyValueCache(model.shape, batch=1, tokens=total, device=model.device)

    def run(self, policy: RefinePolicy, request: str, *, end_id: int | None = None) -> MaskedRun:
        """Decode the canvas.

        Args:
            policy: how.
            request: name, of which a random order depends.
            end_id: that ends a text; None: there is none.

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
        steps: dict[str, list[Any]] = {name: [] for name in _STEP_TYPES}
        cells: dict[str, list[NDArray[Any]]] = {name: [] for name in _CELL_TYPES}
        committed_at = np.full(self._length, -1, dtype=np.int32)

        def look(needed: Pass) -> Seen:
            forward, start, end = span_of(policy, needed, 0, self._length)
            began = time.perf_counter()
            outputs = self._confidences(needed.tokens[0], forward, start, end)
            row = (
                FORWARDS.index(forward),
                int(needed.start[0]),
                int(needed.end[0]),
                *self._counts(forward, start, end),
            )
            for name, value in zip(_STEP_TYPES, (*row, time.perf_counter() - began), strict=True):
                steps[name].append(value)
            computed = (
                needed.masked[0]
                & (np.arange(self._length) >= start)
                & (np.arange(self._length) < end)
            )
            for name, values in outputs.items():
                cells[name].append(values[computed[start:end]])
            return _whole_canvas(outputs, start, end, self._length)

        def after(_: Pass, chosen: NDArray[np.bool_]) -> None:
            committed_at[chosen[0]] = len(steps["forward"]) - 1

        done = decode(
            policy,
            (request,),
            look,
            canvas_tokens=self._length,
            mask_id=self._mask,
            end_id=end_id,
            after=after,
        )
        return MaskedRun(
            tokens=done.tokens[0],
            committed_at=np.where(committed_at < 0, len(steps["forward"]), committed_at).astype(
                np.int32
            ),
            steps={
                name: np.array(values, dtype=_STEP_TYPES[name]) for name, values in steps.items()
            },
            cells={
                name: np.concatenate(values).astype(_CELL_TYPES[name])
                for name, values in cells.items()
            },
        )

    def _confidences(
        self, tokens: NDArray[np.int32], forward: str, start: int, end: int
    ) -> dict[str, NDArray[Any]]:
        """What a pass says of canvas positions start..end-1, by name."""
        before = len(self._prompt)
        canvas = tokens[start:end].tolist()
        if forward == "full":
            rows, first = [*self._prompt, *canvas], 0
        else:
            rows, first = canvas, before + start
        with torch.inference_mode():
            ids = torch.tensor([rows], device=self._model.device)
            logits = self._model(ids, start=first, cache=self._cache)[0, -(end - start) :]
            return confidences_of(logits, self._mask)

    def _counts(self, forward: str, start: int, end: int) -> tuple[int, int]:
        """Tokens computed, and tokens read from the cache."""
        total = len(self._prompt) + self._length
        computed = total if forward == "full" else end - start
        return computed, total - computed


_STEP_TYPES: dict[str, Any] = {
    "forward": np.int8,
    "block_start": np.int32,
    "block_end": np.int32,
    "computed_tokens": np.int32,
    "cached_tokens": np.int32,
    "wall_s": np.float32,
}
_CELL_TYPES: dict[str, Any] = {
    "top_ids": np.int32,
    "doubt": np.float16,
    "second_prob": np.float16,
    "logit_gap": np.float16,
    "entropy": np.float16,
}


def confidences_of(logits: torch.Tensor, mask_id: int) -> dict[str, NDArray[Any]]:
    """Likeliest token, doubt, second probability, gap and entropy of positions, in the precision of
    a recording.

    Args:
        logits: float32[n, vocabulary].
        mask_id: never predicted.
    """
    logits = logits.clone()
    logits[:, mask_id] = -torch.inf
    logs = logits.double().log_softmax(dim=-1)
    best = logs.topk(2, dim=-1)
    probs = logs.exp()
    rest = probs.scatter(1, best.indices[:, :1], 0.0).sum(dim=-1)  # 1 - p without cancellation
    values = {
        "doubt": rest,
        "second_prob": best.values[:, 1].exp(),
        "logit_gap": best.values[:, 0] - best.values[:, 1],
        "entropy": -(probs * logs.clamp(min=-1e4)).sum(dim=-1),
    }
    halves = {
        name: value.clamp(0.0, _LARGEST_HALF).cpu().numpy().astype(np.float16)
        for name, value in values.items()
    }
    return {"top_ids": best.indices[:, 0].cpu().numpy().astype(np.int32), **halves}


def span_of(policy: RefinePolicy, needed: Pass, canvas: int, length: int) -> tuple[str, int, int]:
    """What a pass computes of one canvas of `length` positions: the kind of forward, and its first
    and last + 1.
    """
    if policy.cache == "none" or needed.begins[canvas]:
        return "full", 0, length
    start = int(needed.start[canvas])
    return (
        ("suffix", start, length)
        if policy.cache == "prefix"
        else ("block", start, int(needed.end[canvas]))
    )


def _whole_canvas(outputs: dict[str, NDArray[Any]], start: int, end: int, length: int) -> Seen:
    """The answer over the whole canvas."""
    whole = {
        name: np.zeros((1, length), dtype=np.float32) for name in ("doubt", "entropy", "logit_gap")
    }
    ids = np.zeros((1, length), dtype=np.int32)
    ids[0, start:end] = outputs["top_ids"]
    for name, values in whole.items():
        values[0, start:end] = outputs[name]
    return Seen(ids=ids, doubt=whole.pop("doubt"), fields=whole)
