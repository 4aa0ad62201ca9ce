"""How are a model's rotary frequencies stretched, as its files say?

Reads the scaling out of a Hugging Face config or GGUF metadata. Leaves out the frequencies
(`rotary`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hardware_profiles.errors import InputError

ROPE_KINDS = ("default", "linear", "llama3", "yarn", "longrope", "dynamic")


@dataclass(frozen=True, kw_only=True, slots=True)
class RopeScaling:
    """How rotary frequencies are stretched.

    Attributes:
        kind: one of `ROPE_KINDS`.
        factor: how many times longer the context became; > 0.
        low_frequency_factor: "llama3": turns over the original context below which a frequency is
            divided.
        high_frequency_factor: "llama3": turns above which it is kept.
        original_positions: context length before stretching.
        attention_factor: what cosine and sine are multiplied by; None: as the kind's paper says.
        beta_fast: "yarn": turns above which a frequency is kept.
        beta_slow: "yarn": turns below which it is divided.
        mscale: "yarn": weight of the logarithm in the attention factor; 0: not given.
        mscale_all_dim: "yarn": the same in its denominator; 0: not given.
        truncate: "yarn": the ramp's ends are whole numbers.
        short_factors: "longrope": divisor of every frequency up to the original context length.
        long_factors: "longrope": divisor beyond it.
    """

    kind: str = "default"
    factor: float = 1.0
    low_frequency_factor: float = 1.0
    high_frequency_factor: float = 4.0
    original_positions: int = 8192
    attention_factor: float | None = None
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float = 0.0
    mscale_all_dim: float = 0.0
    truncate: bool = True
    short_factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()

    def check(self, head_dim: int) -> None:
        """Insist on a scaling that can be computed for heads of this width.

        Raises:
            InputError: an unknown kind, numbers out of range or a wrong number of factors.
        """
        if self.kind not in ROPE_KINDS:
            raise InputError(
                f"must be one of {', '.join(ROPE_KINDS)}", key="rope_scaling", value=self.kind
            )
        if not 0 < self.factor < float("inf") or self.original_positions < 1:
            value = (self.factor, self.original_positions)
            raise InputError(
                "must have a positive factor and original length", key="rope_scaling", value=value
            )
        if self.kind == "longrope":
            for name in ("short_factors", "long_factors"):
                factors = getattr(self, name)
                if len(factors) != head_dim // 2 or not all(
                    0 < number < float("inf") for number in factors
                ):
                    raise InputError(
                        f"must be {head_dim // 2} positive numbers", key=name, value=len(factors)
                    )


def hf_rope(values: Mapping[str, Any], positions: int) -> tuple[float, RopeScaling]:
    """Rotary base and scaling: `rope_scaling` before Transformers 5, `rope_parameters` since.

    Args:
        values: of a Hugging Face `config.json`.
        positions: the longest text that the model takes.

    Raises:
        InputError: heads that are rotated in part.
    """
    rope = {**(values.get("rope_scaling") or {}), **(values.get("rope_parameters") or {})}
    theta = float(rope.get("rope_theta") or values.get("rope_theta") or 10000.0)
    kind = str(rope.get("rope_type") or rope.get("type") or "default")
    if (
        float(rope.get("partial_rotary_factor") or values.get("partial_rotary_factor") or 1.0)
        != 1.0
    ):
        raise InputError(
            "heads that are rotated in part are not supported", key="partial_rotary_factor"
        )
    stated = rope.get("original_max_position_embeddings") or values.get(
        "original_max_position_embeddings"
    )
    original = positions if kind == "dynamic" else int(stated or positions)
    factor = rope.get("factor")
    if factor is None:
        factor = positions / original if kind in ("yarn", "longrope") else 1.0
    attention_factor = rope.get("attention_factor")
    return theta, RopeScaling(
        kind=kind,
        factor=float(factor),
        low_frequency_factor=float(rope.get("low_freq_factor", 1.0)),
        high_frequency_factor=float(rope.get("high_freq_factor", 4.0)),
        original_positions=original,
        attention_factor=None if attention_factor is None else float(attention_factor),
        beta_fast=float(rope.get("beta_fast") or 32.0),
        beta_slow=float(rope.get("beta_slow") or 1.0),
        mscale=float(rope.get("mscale") or 0.0),
        mscale_all_dim=float(rope.get("mscale_all_dim") or 0.0),
        truncate=bool(rope.get("truncate", True)),
        short_factors=tuple(float(value) for value in rope.get("short_factor") or ()),
        long_factors=tuple(float(value) for value in rope.get("long_factor") or ()),
    )


def gguf_rope(
    metadata: Mapping[str, Any], family: str, positions: int, factors: Mapping[str, Sequence[float]]
) -> RopeScaling:
    """Scaling as GGUF keys give it; `factors` are the file's tensors of LongRoPE factors, "short"
    and "long".
    """
    at = f"{family}.rope.scaling"
    kind, factor = str(metadata.get(f"{at}.type", "none")), float(metadata.get(f"{at}.factor", 1.0))
    original = int(metadata.get(f"{at}.original_context_length", positions))
    if factors and kind in ("none", "longrope"):
        # files of such models carry the two tensors, and not always the kind
        kind = "longrope"
        factor = factor if f"{at}.factor" in metadata else positions / original
    stated_factor = metadata.get(f"{at}.attn_factor")
    if stated_factor is not None and kind == "yarn":  # a multiple of the paper's own factor there
        stated_factor = float(stated_factor) * (0.1 * math.log(max(factor, 1.0)) + 1.0)
    return RopeScaling(
        kind="default" if kind == "none" else kind,
        factor=factor,
        original_positions=original,
        attention_factor=float(stated_factor)
        if stated_factor is not None and kind in ("yarn", "longrope")
        else None,
        beta_fast=float(metadata.get(f"{at}.yarn_beta_fast", 32.0)),
        beta_slow=float(metadata.get(f"{at}.yarn_beta_slow", 1.0)),
        short_factors=tuple(float(value) for value in factors.get("short", ())),
        long_factors=tuple(float(value) for value in factors.get("long", ())),
    )
