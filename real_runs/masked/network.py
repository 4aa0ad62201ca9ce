"""What does a masked-diffusion language model compute?

Layers of two-sided attention over prompt and canvas, all of it or a part that reads the rest's keys
and values from a cache. Leaves out training (`training`) and which positions are committed
(`real_runs.decoding.masked`).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from hardware_profiles.errors import InputError

_ROPE_BASE = 10_000.0
_NEAR = 1.2


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedShape:
    """Sizes of a model.

    Attributes:
        vocabulary: token ids, the mask's included.
        positions: most tokens of prompt and canvas together.
        width, layers, heads, ffn_width: of the layers.

    Raises:
        InputError: sizes that do not fit together.
    """

    vocabulary: int
    positions: int
    width: int
    layers: int
    heads: int
    ffn_width: int

    def __post_init__(self) -> None:
        for name in ("vocabulary", "positions", "width", "layers", "heads", "ffn_width"):
            if getattr(self, name) < 1:
                raise InputError("must be >= 1", key=name, value=getattr(self, name))
        if self.width % (2 * self.heads):
            raise InputError("must be a multiple of twice the heads", key="width", value=self.width)


class KeyValueCache:
    """Keys and values of all positions and layers, [layers, B, heads, positions, head size] each.

    Args:
        shape: of the model.
        batch: sequences.
        tokens: positions.
        device: where they live.
    """

    def __init__(
        self,
        shape: MaskedShape,
        *,
        batch: int,
        tokens: int,
        device: torch.device | str = "cpu",
    ) -> None:
        size = (shape.layers, batch, shape.heads, tokens, shape.width // shape.heads)
        self.keys, self.values = (torch.zeros(size, device=device) for _ in range(2))
        self._rows: slice | torch.Tensor = slice(None)

    def of(self, rows: Sequence[int]) -> KeyValueCache:
        """The same memory, for some of the sequences alone."""
        part = copy(self)
        part._rows = torch.tensor(rows)
        return part

    def written(
        self, layer: int, start: int, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Put the new keys and values of some positions in place; all of the layer's."""
        at = slice(start, start + k.shape[2])
        self.keys[layer][self._rows, :, at], self.values[layer][self._rows, :, at] = k, v
        return self.keys[layer][self._rows], self.values[layer][self._rows]


class _Layer(nn.Module):
    def __init__(self, shape: MaskedShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.attention_norm = nn.LayerNorm(shape.width, eps=1e-5, bias=False)
        self.ffn_norm = nn.LayerNorm(shape.width, eps=1e-5, bias=False)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.output = nn.Linear(shape.width, shape.width, bias=False)
        self.gate_up = nn.Linear(shape.width, 2 * shape.ffn_width, bias=False)
        self.down = nn.Linear(shape.ffn_width, shape.width, bias=False)

    def projected(self, x: torch.Tensor, turn: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Queries, keys and values, [B, heads, n, head size] each."""
        parts = self.qkv(self.attention_norm(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        return _turned(q, turn), _turned(k, turn), v

    def mixed(
        self, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        """States after attention over all of `k` and `v`, and after the feed-forward part."""
        x = x + self.output(
            functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        )
        gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, dim=-1)
        added: torch.Tensor = x + self.down(functional.silu(gate) * up)
        return added


class MaskedModel(nn.Module):
    """A masked-diffusion language model; its head is its embedding.

    Args:
        shape: sizes.
        seed: of the initial weights.
    """

    def __init__(self, shape: MaskedShape, *, seed: int = 0) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(_Layer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width, eps=1e-5, bias=False)
        generator = torch.Generator().manual_seed(seed)
        for name, value in self.named_parameters():
            if value.ndim == 2:
                deep = (
                    (2 * shape.layers) ** -0.5
                    if name.endswith(("output.weight", "down.weight"))
                    else 1.0
                )
                nn.init.normal_(value, std=deep * shape.width**-0.5, generator=generator)
        size = shape.width // shape.heads
        angle = torch.arange(shape.positions)[:, None] * _ROPE_BASE ** (
            -torch.arange(0, size, 2) / size
        )
        self.register_buffer("turn", torch.polar(torch.ones_like(angle), angle), persistent=False)
        with torch.no_grad():
            for place, layer in enumerate(self.layers):
                assert isinstance(layer, _Layer)
                layer.qkv.bias.copy_(_near_bias(shape, place, angle))

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return self.embedding.weight.device

    def forward(
        self, tokens: torch.Tensor, *, start: int = 0, cache: KeyValueCache | None = None
    ) -> torch.Tensor:
        """Logits of some positions.

        Args:
            tokens: int64[B, n], of the positions from `start` on.
            start: first position.
            cache: what the other positions hold; written where computed, and read whole. None:
                there are no others.

        Returns:
            float32[B, n, vocabulary].
        """
        x, at = self.embedding(tokens), slice(start, start + tokens.shape[1])
        assert isinstance(self.turn, torch.Tensor)
        for place, layer in enumerate(self.layers):
            assert isinstance(layer, _Layer)
            q, k, v = layer.projected(x, self.turn[at])
            if cache is not None:
                k, v = cache.written(place, start, k, v)
            x = layer.mixed(x, q, k, v)
        logits: torch.Tensor = functional.linear(self.norm(x), self.embedding.weight)
        return logits


def _near_bias(shape: MaskedShape, layer: int, angle: torch.Tensor) -> torch.Tensor:
    """Biases of queries, keys and values that make every head look at a near position to begin
    with.

    Heads take turns before and behind; later layers look further. A model that has to find its
    neighbours first needs several times as many steps.
    """
    query = torch.full((shape.heads, 2 * angle.shape[1]), _NEAR)
    key = []
    for head in range(shape.heads):
        distance = min(1 + head // 2 + layer * shape.heads // 2, shape.positions - 1)
        sign = 1.0 if head % 2 else -1.0
        key.append(
            _turned(query[head], torch.polar(torch.ones(angle.shape[1]), -sign * angle[distance]))
        )
    return torch.cat([query.flatten(), torch.stack(key).flatten(), torch.zeros(shape.width)])


def _turned(x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding: neighbouring values are a complex number's parts, turned by the
    position's angles.
    """
    pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turn).flatten(-2)
