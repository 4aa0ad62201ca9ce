"""In which formats do the parts of a model run, and how wide are they in memory and in traffic?

Bytes per value of weights, activations and cache, part by part, and which peak rate applies to
each; compression is included where it was declared. What the names of formats and recipes stand for
is in `formats`.
"""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, NamedTuple

from costmodel.architectures.architecture import Architecture
from costmodel.passes.formats import (
    BYTES_PER_VALUE,
    PLAIN,
    arithmetic,
    bytes_per_value,
    in_blocks,
    main_format,
    recipe_parts,
)
from costmodel.transforms.declared import CacheTransform, WeightTransform
from hardware_profiles.errors import InputError
from hardware_profiles.profile import Device

__all__ = [
    "BYTES_PER_VALUE",
    "Part",
    "Precision",
    "Stored",
    "bytes_per_value",
    "main_format",
    "precision",
]

Part = Literal["experts", "head"]
# between products activations, norms and residuals stay in 16 bits, whatever the format of products
AT_REST_BYTES = 2.0


class Stored(NamedTuple):
    """How the matrices of one part lie in memory, and what their products compute in.

    Attributes:
        weights: format in memory.
        activations: format of the products.
    """

    weights: str
    activations: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Precision:
    """Formats of the parts of a model while it runs, and how it is stored beyond them.

    Args:
        weights: format of the matrices in memory: attention, dense layers, shared experts.
        activations: format that matrix units compute in; without groups.
        kv: format of cached keys and values.
        experts: the same of routed experts; None: as the other matrices.
        head: the same of the output head; None: 16 bits, or as the matrices where these are wider
            or in blocks of GGUF.
        embedding: format of the input embedding in memory; None: by the same rule.
        wide: format of what is not quantised: 16 bits, or 32.
        weight_transform: how weights are stored beyond their format (see `transforms.compose`).
        cache_transform: how the cache is.
        held_layers_ratio: layer weights that are held, over those of all layers.
        held_cache_ratio: cached tokens that are held per layer, on average.
        label_bytes: held beside each cached value for sparse attention.
        name: what the formats of the weights are called in answers; "" is the format of the
            matrices.

    Raises:
        UnknownNameError: a format that nothing carries.
        InputError: arithmetic in a format with groups.
    """

    weights: str = "bf16"
    activations: str = "bf16"
    kv: str = "bf16"
    experts: "Stored | None" = None
    head: "Stored | None" = None
    embedding: str | None = None
    wide: str = "bf16"
    weight_transform: WeightTransform | None = None
    cache_transform: CacheTransform | None = None
    held_layers_ratio: float = 1.0
    held_cache_ratio: float = 1.0
    label_bytes: float = 0.0
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for name in (self.weights, self.activations, self.kv, self.embedding):
            if name is not None:
                bytes_per_value(name)
        if self.activations not in BYTES_PER_VALUE:
            raise InputError("arithmetic has no groups", key="activations", value=self.activations)

    def of(self, part: Part) -> "Precision":
        """The precision that the products of a part see: its weights and its arithmetic.

        Args:
            part: routed experts or the output head.
        """
        stored = self.experts if part == "experts" else self.head
        if (
            stored is None
            and part == "head"
            and self.weights not in PLAIN
            and not in_blocks(self.weights)
        ):
            stored = Stored(self.wide, self.wide)
        return self if stored in (None, (self.weights, self.activations)) else _in(self, stored)

    @property
    def untransformed(self) -> "Precision":
        """The formats alone, without what was declared of compression and skipping."""
        return replace(
            self,
            weight_transform=None,
            cache_transform=None,
            held_layers_ratio=1.0,
            held_cache_ratio=1.0,
            label_bytes=0.0,
        )

    @property
    def label(self) -> str:
        """What answers call the formats of the weights."""
        return self.name or self.weights

    @property
    def experts_alone(self) -> bool:
        """Whether routed experts are quantised and the other matrices are not."""
        return (
            self.experts is not None and self.weights in PLAIN and self.experts.weights not in PLAIN
        )

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
        return (
            self.weight_transform is not None
            and self.weight_transform.unpack_bytes_per_s is not None
        )

    @property
    def arithmetic_ratio(self) -> float:
        """Arithmetic of a product over that of its shape: below 1 where matrix units skip zeros."""
        t = self.weight_transform
        return t.kept_ratio if t is not None and t.skips_zeros else 1.0

    @property
    def embedding_bytes(self) -> float:
        """Bytes of one value of the input embedding: 16 bits or wider unless declared otherwise or
        in blocks.
        """
        t = self.weight_transform
        form = self.embedding or self.of("head").weights
        wide = bytes_per_value(form)
        return t.stored_bytes(wide) if t is not None and t.embedding else wide

    @property
    def activation_bytes(self) -> float:
        """Bytes of one activation as a matrix unit reads it."""
        return BYTES_PER_VALUE[self.activations]

    @property
    def residual_bytes(self) -> float:
        """Bytes of one activation between products: in norms, residuals, messages and outputs; 16
        bits or wider.
        """
        return max(BYTES_PER_VALUE[self.activations], AT_REST_BYTES)

    @property
    def quantises(self) -> bool:
        """Whether activations are quantised on the fly before each product."""
        return BYTES_PER_VALUE[self.activations] < AT_REST_BYTES

    @property
    def attention(self) -> str:
        """Format that attention computes in: the quantised one only where the cache has it too,
        else 16 bits.
        """
        return self.wide if self.quantises and self.kv != self.activations else self.activations

    @property
    def kv_bytes(self) -> float:
        """Bytes of one cached value, mean of keys and values."""
        width = bytes_per_value(self.kv)
        return width if self.cache_transform is None else self.cache_transform.stored_bytes(width)

    @property
    def tile_ratio(self) -> float:
        """Time of a tile of cached tokens over that of a 16-bit one: the ratio of their bytes
        (ASSUMED, unmeasured).
        """
        return min(1.0, self.kv_bytes / AT_REST_BYTES)

    @property
    def dense_kv_bytes(self) -> float:
        """Bytes of one cached value of the latest tokens, which a cache transform may leave as they
        are.
        """
        return bytes_per_value(self.kv)


@lru_cache(maxsize=512)
def _in(whole: Precision, stored: Stored) -> Precision:
    return replace(
        whole, weights=stored.weights, activations=stored.activations, experts=None, head=None
    )


def precision(
    weights: str,
    kv: str | None = None,
    *,
    model: Architecture | None = None,
    device: Device | None = None,
) -> Precision:
    """The precision of a checkpoint, part by part, as a device runs it.

    A format that the device has no arithmetic of is stored as it is and computed in one that the
    device has, without widening in memory (weight-only kernels). Formats without scales (bf16,
    fp16, fp32) are converted when the weights are loaded: a part that is stated in one the device
    lacks is held in another that it has.

    Args:
        weights: a recipe or format (`formats.recipe_parts`): `bf16`, `fp8`, `awq`, `mxfp4`,
            `q4_k_m`, `int4-g128`, ...
        kv: format of the KV cache; None takes 16 bits, or 32 where the weights have 32.
        model: the shares of the blocks of GGUF recipes follow from it.
        device: that computes; None: one with 16 and 32 bits, fp8 and int8. A profile with constants
            of its own for blocks of GGUF computes by those (see `passes.calibrated`).

    Raises:
        UnknownNameError: an unknown format.
        InputError: a recipe of GGUF without a model.

    >>> precision("int4").activations, precision("awq").of("head").weights
    ('bf16', 'bf16')
    """
    parts = recipe_parts(weights, model)
    computed = None if device is None else tuple(device.peak_flops_per_s)

    def stored(form: str) -> Stored:
        own = arithmetic(form, computed)
        return Stored(own if form in PLAIN else form, own)

    matrices = stored(parts.matrices)
    wide = arithmetic(matrices.weights if matrices.weights in PLAIN else "bf16", computed)
    head = None if parts.head is None else stored(parts.head)
    return Precision(
        weights=matrices.weights,
        activations=matrices.activations,
        kv=kv.casefold() if kv else wide,
        experts=None if parts.experts is None else stored(parts.experts),
        head=head,
        embedding=None if parts.embedding is None else stored(parts.embedding).weights,
        wide=wide,
        name=matrices.weights if weights.casefold() in PLAIN else weights.casefold(),
    )
