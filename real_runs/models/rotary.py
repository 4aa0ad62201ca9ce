"""By which angles is a position's query and key turned?

Frequencies of every scaling that `rope` knows, tables of cosines and sines, and the rotation
itself. A pass takes the frequencies of its furthest position: "longrope" and "dynamic" change them
beyond the original context length, and keys cached before stay as they were. Leaves out where a
model's scaling is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from hardware_profiles.errors import InputError
from real_runs.models.config import LlamaConfig
from real_runs.models.rope import RopeScaling

Angles = tuple[torch.Tensor, torch.Tensor]
"""Cosine and signed sine, each [1 or B, T, 1, head dim]."""


class Rotary:
    """Cosines and sines of a model, by position.

    Args:
        config: base, scaling and head width.
        device: where the tables live.
        dtype: their number format.
        divisors: further divisor of every frequency [head dim / 2], as some GGUF files carry.
    """

    def __init__(
        self,
        config: LlamaConfig,
        *,
        device: torch.device,
        dtype: torch.dtype,
        divisors: torch.Tensor | None = None,
    ) -> None:
        self._config, self._device, self._dtype = config, device, dtype
        self._divisors = None if divisors is None else divisors.double().cpu()
        self._tables: dict[bool, Angles] = {}

    def angles(self, positions: torch.Tensor, furthest: int) -> Angles:
        """Angles of positions [1 or B, T] (on any device) of a pass whose largest position is
        `furthest`.
        """
        scaling = self._config.rope_scaling
        beyond = furthest >= scaling.original_positions
        if scaling.kind == "dynamic" and beyond:
            return self._angles(positions, furthest + 1)
        table = self._table(furthest + 1, beyond and scaling.kind == "longrope")
        at = positions.to(self._device)
        return table[0][at][:, :, None], table[1][at][:, :, None]

    def table(self, positions: int) -> Angles:
        """Cosines and signed sines [positions, head dim] that hold for every pass up to there.

        Raises:
            InputError: frequencies change before.
        """
        scaling = self._config.rope_scaling
        if scaling.kind in ("longrope", "dynamic") and positions > scaling.original_positions:
            rule = (
                f"{scaling.kind} frequencies change beyond {scaling.original_positions} positions"
            )
            raise InputError(rule, key="positions", value=positions)
        cos, sin = self._table(positions, False)
        return cos[:positions], sin[:positions]

    def _table(self, positions: int, long: bool) -> Angles:
        table = self._tables.get(long)
        if table is None or table[0].shape[0] < positions:
            length = max(1024, 2 * positions)
            scaling = self._config.rope_scaling
            ends = (
                scaling.original_positions + 1 if long else min(length, scaling.original_positions)
            )
            self._tables[long] = self._angles(torch.arange(length), ends)
        return self._tables[long]

    def _angles(self, positions: torch.Tensor, length: int) -> Angles:
        frequencies = rope_frequencies(self._config, length=length)
        if self._divisors is not None:
            frequencies = frequencies / self._divisors
        turns = positions.cpu().double()[..., None] * frequencies
        cos, sin = turns.cos(), turns.sin()
        both = torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)
        scale = attention_factor(self._config.rope_scaling)
        cos, sin = ((table * scale).to(self._device, self._dtype) for table in both)
        return (cos[:, :, None], sin[:, :, None]) if positions.ndim == 2 else (cos, sin)


def rotated(x: torch.Tensor, angles: Angles) -> torch.Tensor:
    """Turn [B, T, heads, head dim]: a head's first half and its second are the two coordinates of
    its pairs.
    """
    cos, sin = angles
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin)


def rope_frequencies(config: LlamaConfig, *, length: int = 0) -> torch.Tensor:
    """Rotary frequencies, radians per position, float64 [head_dim / 2].

    Args:
        config: base, head width and scaling.
        length: tokens of the sequence; matters to "longrope" and "dynamic", beyond the original
            length alone.

    Reference: Su et al., RoFormer, arXiv 2104.09864, eq. 15. "llama3" interpolates between the
    plain and the
        divided frequency where a wavelength lies between two shares of the original context length.
        "yarn": Peng et al., arXiv 2309.00071, sec. 3.2; "longrope": Ding et al., arXiv 2402.13753,
        eq. 2; "dynamic": arXiv 2309.00071, sec. 3.1 and 3.3.
    """
    dim, scaling = config.rotated_dim, config.rope_scaling
    exponents = torch.arange(0, dim, 2, dtype=torch.float64) / dim
    plain = config.rope_theta**-exponents
    if scaling.kind == "linear":
        return plain / scaling.factor
    if scaling.kind == "llama3":
        turns = plain * scaling.original_positions / (2 * math.pi)
        low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
        return _between(plain, ((turns - low) / (high - low)).clamp(0.0, 1.0), scaling.factor)
    if scaling.kind == "yarn":
        return _between(plain, _yarn_share(config), scaling.factor)
    if scaling.kind == "longrope":
        chosen: Sequence[float] = (
            scaling.long_factors if length > scaling.original_positions else scaling.short_factors
        )
        return plain / torch.tensor(chosen, dtype=torch.float64)
    if scaling.kind == "dynamic":
        stretch = (
            scaling.factor * max(length, scaling.original_positions) / scaling.original_positions
        )
        base = config.rope_theta * (stretch - (scaling.factor - 1)) ** (dim / (dim - 2))
        return torch.tensor(base, dtype=torch.float64) ** -exponents
    return plain


def attention_factor(scaling: RopeScaling) -> float:
    """What cosines and sines are multiplied by: a stretched context flattens attention, this
    sharpens it again.

    Reference: arXiv 2309.00071, eq. 22 ("yarn"); arXiv 2402.13753, sec. 4 ("longrope").
    """
    if scaling.attention_factor is not None and scaling.kind in ("yarn", "longrope"):
        return scaling.attention_factor
    if scaling.kind == "longrope" and scaling.factor > 1:
        return math.sqrt(1 + math.log(scaling.factor) / math.log(scaling.original_positions))
    if scaling.kind == "yarn" and scaling.factor > 1:
        growth = 0.1 * math.log(scaling.factor)
        if scaling.mscale and scaling.mscale_all_dim:
            return (growth * scaling.mscale + 1) / (growth * scaling.mscale_all_dim + 1)
        return growth + 1
    return 1.0


def _between(plain: torch.Tensor, share: torch.Tensor, factor: float) -> torch.Tensor:
    return share * plain + (1 - share) * plain / factor


def _yarn_share(config: LlamaConfig) -> torch.Tensor:
    """Share of every frequency that is not scaled: 1 where it turns often, falling to 0 where it
    turns seldom.
    """
    dim, scaling = config.rotated_dim, config.rope_scaling

    def pair_of(turns: float) -> float:
        return (
            dim
            * math.log(scaling.original_positions / (turns * 2 * math.pi))
            / (2 * math.log(config.rope_theta))
        )

    low, high = pair_of(scaling.beta_fast), pair_of(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    high = high + 0.001 if low == high else high
    ramp = (torch.arange(dim // 2, dtype=torch.float64) - low) / (high - low)
    return 1 - ramp.clamp(0.0, 1.0)
