"""How wide are weights, activations and cached keys and values?

Answers bytes per value and which peak rate applies, compression included where it was declared. A format may name
its groups: `int4-g128` has one scale per 128 values (16 bits; 8 bits with `fp4`). Blocks of GGUF files have names of
their own, and a file that mixes them is the mix: `q4_k:0.83+q6_k:0.17` gives the share of the weights in each. Leaves
out zero points of the grouped formats.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from costmodel.transforms.declared import CacheTransform, WeightTransform
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.fitted.formats import WEIGHT_FORMATS

# Bytes of a block over its values: scales, minima and packed integers (`ggml-common.h` of llama.cpp, `block_q4_0` ...)
_BLOCK_BYTES = {
    "q4_0": 18 / 32, "q4_1": 20 / 32, "q5_0": 22 / 32, "q5_1": 24 / 32, "q8_0": 34 / 32,
    "q2_k": 84 / 256, "q3_k": 110 / 256, "q4_k": 144 / 256, "q5_k": 176 / 256, "q6_k": 210 / 256,
}  # fmt: skip
BYTES_PER_VALUE = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5 + 2 / 64,  # one 16-bit scale per 64 values
    "fp4": 0.5 + 1 / 16,  # one 8-bit scale per 16 values (NVFP4)
    **{name: _BLOCK_BYTES[name] for name in WEIGHT_FORMATS},
}
_GROUPED = re.compile(r"(fp8|int8|int4|fp4)-g([1-9][0-9]{0,5})")
_GROUPED_BYTES = {"fp8": (1.0, 2.0), "int8": (1.0, 2.0), "int4": (0.5, 2.0), "fp4": (0.5, 1.0)}  # value, scale
_SHARE = re.compile(r"[01](\.[0-9]{1,9})?")
_SHARE_SLACK = 0.002  # shares are written to four digits
_NAME_LIMIT = 200
_AT_REST_BYTES = (
    2.0  # between products activations, norms and residuals stay in 16 bits, whatever the format of products
)


def bytes_per_value(name: str) -> float:
    """Bytes of one value of a format, its share of the scales included.

    Args:
        name: a format of `BYTES_PER_VALUE`, a quantised one with a group size, or a mix with the share of each.

    Raises:
        UnknownNameError: no such format.
        InputError: shares of a mix that do not add up to 1.

    >>> bytes_per_value("int4-g128")
    0.515625
    >>> bytes_per_value("q4_k:0.75+q6_k:0.25")
    0.626953125
    """
    if name in BYTES_PER_VALUE:
        return BYTES_PER_VALUE[name]
    if ":" in name:
        return sum(share * bytes_per_value(part) for part, share in _mixed(name))
    grouped = _GROUPED.fullmatch(name)
    if grouped is None:
        raise UnknownNameError("number format", name, [*BYTES_PER_VALUE, "int4-g128", "fp8-g128", "int8-g128"])
    value, scale = _GROUPED_BYTES[grouped[1]]
    return value + scale / int(grouped[2])


@lru_cache(maxsize=256)
def _mixed(name: str) -> tuple[tuple[str, float], ...]:
    """The formats of a mix and the share of the weights in each, as they are named."""
    parts = [part.partition(":") for part in name.split("+")]
    if len(parts) > len(BYTES_PER_VALUE) or not all(_SHARE.fullmatch(share) for _, _, share in parts):
        raise UnknownNameError("number format", name[:_NAME_LIMIT], [*BYTES_PER_VALUE, "q4_k:0.83+q6_k:0.17"])
    shares = tuple((part, float(share)) for part, _, share in parts)
    if abs(sum(share for _, share in shares) - 1.0) > _SHARE_SLACK:
        raise InputError("shares of a mix must add up to 1", key="weights", value=name[:_NAME_LIMIT])
    return shares


def main_format(name: str) -> str:
    """The format of most weights: of a mix the one with the largest share, which its products are timed by.

    >>> main_format("q4_k:0.83+q6_k:0.17"), main_format("bf16")
    ('q4_k', 'bf16')
    """
    return max(_mixed(name), key=lambda each: each[1])[0] if ":" in name else name


@dataclass(frozen=True, kw_only=True, slots=True)
class Precision:
    """Formats of a model while it runs, and how it is stored beyond them.

    Args:
        weights: format of the weights in memory.
        activations: format that matrix units compute in; without groups.
        kv: format of cached keys and values.
        weight_transform: how weights are stored beyond their format (see `transforms.compose`).
        cache_transform: how the cache is.
        held_layers_ratio: layer weights that are held, over those of all layers.
        held_cache_ratio: cached tokens that are held per layer, on average.
        label_bytes: held beside each cached value for sparse attention.
        experts_alone: only routed experts run in these formats, as engines run them; other products in 16 bits.

    Raises:
        UnknownNameError: a format that nothing carries.
        InputError: arithmetic in a format with groups.
    """

    weights: str = "bf16"
    activations: str = "bf16"
    kv: str = "bf16"
    weight_transform: WeightTransform | None = None
    cache_transform: CacheTransform | None = None
    held_layers_ratio: float = 1.0
    held_cache_ratio: float = 1.0
    label_bytes: float = 0.0
    experts_alone: bool = False

    def __post_init__(self) -> None:
        for name in (self.weights, self.activations, self.kv):
            bytes_per_value(name)
        if self.activations not in BYTES_PER_VALUE:
            raise InputError("arithmetic has no groups", key="activations", value=self.activations)

    @property
    def weight_bytes(self) -> float:
        """Bytes of one weight in memory."""
        width = bytes_per_value(self.weights)
        return width if self.weight_transform is None else self.weight_transform.stored_bytes(width)

    @property
    def read_weight_bytes(self) -> float:
        """Bytes of one weight as a matrix product reads it."""
        width = bytes_per_value(self.weights)
        return width if self.weight_transform is None else self.weight_transform.read_bytes(width)

    @property
    def unpacks(self) -> bool:
        """Whether weights are unpacked before products read them."""
        return self.weight_transform is not None and self.weight_transform.unpack_bytes_per_s is not None

    @property
    def arithmetic_ratio(self) -> float:
        """Arithmetic of a product over that of its shape: below 1 where matrix units skip zeros."""
        t = self.weight_transform
        return t.kept_ratio if t is not None and t.skips_zeros else 1.0

    @property
    def embedding_bytes(self) -> float:
        """Bytes of one value of the input embedding: 16 bits or wider unless declared otherwise or in blocks."""
        t, wide = self.weight_transform, bytes_per_value(self.weights)
        if main_format(self.weights) not in WEIGHT_FORMATS:
            wide = max(wide, _AT_REST_BYTES)
        return t.stored_bytes(wide) if t is not None and t.embedding else wide

    @property
    def activation_bytes(self) -> float:
        """Bytes of one activation as a matrix unit reads it."""
        return BYTES_PER_VALUE[self.activations]

    @property
    def residual_bytes(self) -> float:
        """Bytes of one activation between products: in norms, residuals, messages and outputs; 16 bits or wider."""
        return max(BYTES_PER_VALUE[self.activations], _AT_REST_BYTES)

    @property
    def quantises(self) -> bool:
        """Whether activations are quantised on the fly before each product."""
        return BYTES_PER_VALUE[self.activations] < _AT_REST_BYTES

    @property
    def attention(self) -> str:
        """Format that attention computes in: the quantised one only where the cache has it too, else 16 bits."""
        return "bf16" if self.quantises and self.kv != self.activations else self.activations

    @property
    def kv_bytes(self) -> float:
        """Bytes of one cached value, mean of keys and values."""
        width = bytes_per_value(self.kv)
        return width if self.cache_transform is None else self.cache_transform.stored_bytes(width)

    @property
    def tile_ratio(self) -> float:
        """Time of a tile of cached tokens over that of a 16-bit one: the ratio of their bytes (ASSUMED, unmeasured)."""
        return min(1.0, self.kv_bytes / _AT_REST_BYTES)

    @property
    def dense_kv_bytes(self) -> float:
        """Bytes of one cached value of the latest tokens, which a cache transform may leave as they are."""
        return bytes_per_value(self.kv)


def precision(weights: str, kv: str | None = None) -> Precision:
    """Precision named by its weight format: `bf16`, `fp8` (fp8 arithmetic), `int4` (16-bit arithmetic), ...

    Args:
        weights: weight format; `fp8` and `int8` are computed with as they are, `fp8-g128` in fp8, narrower and
            other grouped formats in 16 bits. So are blocks of GGUF (ASSUMED: their kernels multiply integers) but on
            devices whose profile has constants of its own for the format, which calibration on a server measures.
        kv: format of the KV cache; None takes 16 bits, or 32 where the weights have 32.

    Raises:
        UnknownNameError: an unknown format.

    >>> precision("int4").activations
    'bf16'
    """
    sixteen_bit = weights if weights in ("fp16", "fp32") else "bf16"
    activations = weights if weights in ("fp8", "int8", "fp32", "fp16") else sixteen_bit
    if weights.startswith("fp8-g"):
        activations = "fp8"
    return Precision(weights=weights, activations=activations, kv=kv or sixteen_bit)
