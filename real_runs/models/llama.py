"""What does a Llama-family model say comes next, and which state did it have after layer E?

One small forward over a static cache. Tokens may form a chain (causal) or a tree (explicit
positions and mask), the rows of a batch may have different lengths, and a pass may stop after any
layer, which is what an early exit needs. Leaves out training, quantised weights and captured graphs
(`graphs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch.nn import functional

from hardware_profiles.errors import InputError
from real_runs.models.attention import VisibleSlots, stacked, visible_slots, within_window
from real_runs.models.cache import KVCache, Slots
from real_runs.models.config import LlamaConfig
from real_runs.models.layers import Norm, layer_of
from real_runs.models.loading.weights import LoadedWeights
from real_runs.models.prefix_attention import runs_flash
from real_runs.models.projection import Head
from real_runs.models.rotary import Angles, Rotary, rope_frequencies

__all__ = ["Llama", "LlamaConfig", "PassOutput", "rope_frequencies"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PassOutput:
    """Result of one pass over T tokens.

    Attributes:
        logits: float32 [B, T or 1, vocabulary]; None where none were asked for.
        hidden: hidden states [B, T, width] by the number of layers run before them.
    """

    logits: torch.Tensor | None
    hidden: dict[int, torch.Tensor] = field(default_factory=dict)


class Llama:
    """A model ready to run.

    Args:
        weights: configuration and tensors; tensors that are where and what they shall be are used
            as they are.
        device: where to run.
        dtype: number format of weights, activations and cache.
    """

    def __init__(
        self,
        weights: LoadedWeights,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.config = weights.config
        self.device, self.dtype = torch.device(device), dtype
        tensors = {name: value.to(self.device, dtype) for name, value in weights.tensors.items()}
        self._embedding = tensors["model.embed_tokens.weight"]
        self._positions = tensors.get("model.embed_positions.weight")
        self._norm = tensors["model.norm.weight"]
        self._final_norm = Norm(
            weight=self._norm, bias=tensors.get("model.norm.bias"), eps=self.config.norm_eps
        )
        self._head = self._embedding if self.config.tied_head else tensors["lm_head.weight"]
        self._to_logits = Head(self._head)
        self._layers = [
            layer_of(self.config, index, tensors) for index in range(self.config.layers)
        ]
        divisors = weights.tensors.get("rope_frequency_divisors")
        self._rotary = Rotary(self.config, device=self.device, dtype=dtype, divisors=divisors)
        shapes = (layer.attention.shape for layer in self._layers)
        self.windows = sorted({shape.window for shape in shapes if shape.window is not None})
        self.attends_plainly = all(layer.attention.plain for layer in self._layers)

    def new_cache(self, capacity: int, *, batch: int = 1) -> KVCache:
        """An empty cache of this model's shape and number format."""
        return KVCache(self.config, capacity, batch=batch, device=self.device, dtype=self.dtype)

    @property
    def weight_bytes(self) -> int:
        """Weights that a pass reads: all but the rows of the embedding, the head whole and every
        expert.
        """
        return self._head.nbytes + self._norm.nbytes + sum(layer.bytes for layer in self._layers)

    @torch.inference_mode()
    def forward(
        self,
        tokens: torch.Tensor | Sequence[int] | Sequence[Sequence[int]],
        cache: KVCache,
        *,
        start: int | Sequence[int] | None = None,
        positions: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
        logits: Literal["all", "last", "none"] = "all",
        at: Sequence[int] | None = None,
        capture: Sequence[int] = (),
        stop_after: int | None = None,
    ) -> PassOutput:
        """One pass. Writes the cache's slots from `start` on and commits none of them.

        Args:
            tokens: ids [B, T], or T ids for a batch of one. Rows may be padded on the right: their
                own tokens never see the padding, and the next pass overwrites its slots.
            cache: keys and values of the tokens before them.
            start: first slot to write, in all rows or in each; the rows' lengths by default.
            positions: position of every token, [T] or [B, T]; slots by default. Siblings of a tree
                share one.
            mask: bool [T, S] or [B, T, S], S = largest start + T, True where a token sees a slot;
                causal by default. Rows that start in different slots need one each.
            logits: for all tokens, the last one, or none.
            at: one token of each row whose logits are wanted, instead of those of `logits`; the
                result is [B, 1, vocabulary].
            capture: layer counts whose hidden states to return (0 = embedding, `layers` = before
                the final norm).
            stop_after: run this many layers only; needs `logits="none"`.

        Raises:
            InputError: tokens, places or masks that do not fit each other or the cache.
        """
        ids = torch.as_tensor(tokens, device=self.device)
        ids = ids[None] if ids.ndim == 1 else ids
        batch, count = ids.shape
        layers = self.config.layers if stop_after is None else stop_after
        if not 0 <= layers <= self.config.layers or (
            layers < self.config.layers and logits != "none"
        ):
            rule = "must not exceed the layers; logits need all of them"
            raise InputError(rule, key="stop_after", value=layers)
        starts = self._starts(start, cache, batch)
        equal = min(starts) == max(starts)
        first = starts[0] if equal else self._slots(starts, count)
        places = self._places(starts, count, positions)
        furthest = max(starts) + count - 1 if positions is None else int(places.max())
        rotation = self._rotary.angles(places, furthest)
        visible = self._visible(starts, count, places, mask)
        x = self._embedded(ids, places)  # [B, T, width]
        hidden = {0: x} if 0 in capture else {}
        for index in range(layers):
            x = self._layer(index, x, cache, start=first, rotation=rotation, mask=visible)
            if index + 1 in capture:
                hidden[index + 1] = x
        if logits == "none":
            return PassOutput(logits=None, hidden=hidden)
        if at is not None:
            x = x[torch.arange(batch, device=self.device), self._row_tokens(at, batch, count)][
                :, None
            ]
        elif logits == "last":
            x = x[:, -1:]
        return PassOutput(logits=self.head(x), hidden=hidden)

    @torch.inference_mode()
    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """Final norm and output head: hidden states [..., width] to float32 logits [...,
        vocabulary].
        """
        return self._to_logits(self._final_norm(hidden)).float()

    def _layer(
        self,
        index: int,
        x: torch.Tensor,
        cache: KVCache,
        *,
        start: int | Slots,
        rotation: Angles,
        mask: VisibleSlots,
    ) -> torch.Tensor:
        return self._layers[index](index, x, cache, start=start, angles=rotation, visible=mask)

    def _embedded(self, ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        x = functional.embedding(ids, self._embedding)
        return x if self._positions is None else x + self._positions[places.to(self.device)]

    def _starts(self, start: int | Sequence[int] | None, cache: KVCache, batch: int) -> list[int]:
        if batch != cache.batch:
            raise InputError(
                f"must have the {cache.batch} rows of the cache", key="tokens", value=batch
            )
        if start is None:
            return cache.lengths
        starts = [start] * batch if isinstance(start, int) else list(start)
        if len(starts) != batch or min(starts) < 0:
            raise InputError(f"must be a slot for each of {batch} rows", key="start", value=starts)
        return starts

    def _first(self, starts: Sequence[int]) -> torch.Tensor:
        """First slot of every row, or of all where they are equal; the device makes one number by
        itself.
        """
        if min(starts) == max(starts):
            return torch.full((1,), starts[0], device=self.device)
        return torch.tensor(list(starts), device=self.device)

    def _slots(self, starts: Sequence[int], count: int) -> Slots:
        first = self._first(starts)[:, None]
        return Slots(
            index=first + torch.arange(count, device=self.device), stop=max(starts) + count
        )

    def _row_tokens(self, at: Sequence[int], batch: int, count: int) -> torch.Tensor:
        if len(at) != batch or not all(0 <= index < count for index in at):
            raise InputError(
                f"must be one of {count} tokens for each of {batch} rows", key="at", value=list(at)
            )
        return torch.tensor(list(at), device=self.device)

    def _places(
        self, starts: Sequence[int], count: int, positions: torch.Tensor | None
    ) -> torch.Tensor:
        """Position of every token [1 or B, T]; given ones stay where they are."""
        if positions is None:
            return self._first(starts)[:, None] + torch.arange(count, device=self.device)
        if positions.shape not in ((count,), (len(starts), count)):
            rule = f"must have shape {(count,)} or {(len(starts), count)}"
            raise InputError(rule, key="positions", value=tuple(positions.shape))
        return positions[None] if positions.ndim == 1 else positions

    def _visible(
        self, starts: Sequence[int], count: int, places: torch.Tensor, mask: torch.Tensor | None
    ) -> VisibleSlots:
        """Masks of a pass, for layers with and without windows."""
        stop, equal = max(starts) + count, min(starts) == max(starts)
        shapes = [(len(starts), count, stop), *([(count, stop), (1, count, stop)] if equal else [])]
        if mask is not None and mask.shape not in shapes:
            raise InputError(
                f"must have shape {shapes[min(1, len(shapes) - 1)]}",
                key="mask",
                value=tuple(mask.shape),
            )
        windows = [window for window in self.windows if window < stop]
        full = None if mask is None else mask.to(self.device).view(-1, count, stop)
        if equal and mask is None and self.attends_plainly and runs_flash(self.device, self.dtype):
            return VisibleSlots(chain=True)
        if full is None and (count > 1 or not equal):
            causal = torch.ones(1, count, count, dtype=torch.bool, device=self.device).tril()
            full = visible_slots(self._first(starts), causal, stop)
        group = self.config.heads // self.config.kv_heads
        everywhere = None if full is None else stacked(full, group)
        by_window: dict[int, torch.Tensor | None] = dict.fromkeys(self.windows, everywhere)
        for window in windows:
            near = within_window(self._first(starts), places.to(self.device), stop, window)
            by_window[window] = stacked(near if full is None else near & full, group)
        return VisibleSlots(full=everywhere, windows=by_window)
