"""What can be declared about a model that is compressed, or that does not run all of itself?

Eight kinds of transform, each data: how weights are stored, how cached keys and values are stored,
which of them attention reads, how much of a prompt enters the cache at all, which part of a
feed-forward layer a token uses, which layers tokens run, which of them belong to an encoder, and
which are fused. Published systems are values of these (`costmodel.methods`), and `compose` says
which go together. Leaves out what they do to the quality of the text.
"""

from dataclasses import dataclass
from typing import TypeAlias

from hardware_profiles.errors import InputError

SIXTEEN_BITS = 2.0  # bytes of what stays unquantised beside quantised values
OUTLIER_BYTES = 6.0  # a value in 16 bits and its position in 32


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightTransform:
    """How weights are stored, beyond their number format.

    Args:
        name: for messages.
        kept_ratio: share of the weights that is stored, in (0, 1].
        index_bits: bits beside each kept weight that say where it belongs.
        bits: bits of a kept weight that was rounded further than its format, scales and codebooks
            included; None: those of the format.
        skips_zeros: matrix units leave out what is not kept, so that arithmetic shrinks too.
        coded_ratio: stored bytes over those of the format, after lossless coding, in (0, 1].
        unpack_bytes_per_s: weights are unpacked to their format before each product, one processor
            making so many bytes of them per second; None: products read them as stored.
        embedding: the input embedding is stored so as well.
        formats: number formats of weights that it applies to; empty: all.

    Raises:
        InputError: a share outside its range.
    """

    name: str
    kept_ratio: float = 1.0
    index_bits: float = 0.0
    bits: float | None = None
    skips_zeros: bool = False
    coded_ratio: float = 1.0
    unpack_bytes_per_s: float | None = None
    embedding: bool = False
    formats: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _shares(self.name, kept_ratio=self.kept_ratio, coded_ratio=self.coded_ratio)
        _least(self.name, index_bits=self.index_bits)
        if self.bits is not None and not 0.0 < self.bits <= 16.0:
            raise InputError("must lie in (0, 16]", key=f"{self.name}.bits", value=self.bits)
        if self.unpack_bytes_per_s is not None and not self.unpack_bytes_per_s > 0.0:
            raise InputError(
                "must be > 0", key=f"{self.name}.unpack_bytes_per_s", value=self.unpack_bytes_per_s
            )

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        stored = self.index_bits or self.bits is not None or self.unpack_bytes_per_s is not None
        return self.kept_ratio == self.coded_ratio == 1.0 and not stored

    @property
    def is_exact(self) -> bool:
        """Whether products see the weights as they were."""
        return self.kept_ratio == 1.0 and self.bits is None

    def stored_bytes(self, width: float) -> float:
        """Bytes in memory per weight, counted over all weights, of a format of `width` bytes."""
        stored_width = width if self.bits is None else min(width, self.bits / 8.0)
        return self.kept_ratio * (stored_width * self.coded_ratio + self.index_bits / 8.0)

    def read_bytes(self, width: float) -> float:
        """Bytes that a matrix product reads per weight: the format's own where weights were
        unpacked before.
        """
        return width if self.unpack_bytes_per_s is not None else self.stored_bytes(width)


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheTransform:
    """How cached keys and values are stored, beyond their number format.

    Args:
        name: for messages.
        key_ratio: share of a key's values (or of its width, with `expands`) that is kept, in (0,
            1].
        value_ratio: the same of a value.
        mask_bits: bits per value, kept or not, that say which are kept.
        bits: bits of a kept value; None: those of the cache's number format.
        scale_bits: bits of scales and zero points, per kept value.
        rank_ratio: a low-rank correction in 16 bits beside it, as a share of the values.
        outlier_ratio: share of the values that is kept in 16 bits beside it, with their positions.
        dense_tokens: latest tokens of every request that stay as they were.
        expands: what is kept is a low-rank product: keys and values are multiplied out whenever
            they are read.
        kernels: launches per layer and pass that compress what is new.

    Raises:
        InputError: a share outside its range, a negative count.
    """

    name: str
    key_ratio: float = 1.0
    value_ratio: float = 1.0
    mask_bits: float = 0.0
    bits: float | None = None
    scale_bits: float = 0.0
    rank_ratio: float = 0.0
    outlier_ratio: float = 0.0
    dense_tokens: int = 0
    expands: bool = False
    kernels: int = 0

    def __post_init__(self) -> None:
        _shares(self.name, key_ratio=self.key_ratio, value_ratio=self.value_ratio)
        _least(
            self.name,
            mask_bits=self.mask_bits,
            scale_bits=self.scale_bits,
            rank_ratio=self.rank_ratio,
            outlier_ratio=self.outlier_ratio,
            dense_tokens=self.dense_tokens,
            kernels=self.kernels,
        )
        if self.bits is not None and not 0.0 < self.bits <= 32.0:
            raise InputError("must lie in (0, 32]", key=f"{self.name}.bits", value=self.bits)

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        added = (
            self.mask_bits
            or self.scale_bits
            or self.rank_ratio
            or self.outlier_ratio
            or self.kernels
        )
        return (
            self.key_ratio == self.value_ratio == 1.0
            and self.bits is None
            and not (added or self.expands)
        )

    @property
    def drops_values(self) -> bool:
        """Whether fewer values are kept than the cache has."""
        return self.key_ratio < 1.0 or self.value_ratio < 1.0

    def stored_bytes(self, width: float) -> float:
        """Bytes per cached value, mean of keys and values, of a cache whose format has `width`
        bytes.
        """
        kept = (self.key_ratio + self.value_ratio) / 2.0
        stored_width = width if self.bits is None else self.bits / 8.0
        beside = (
            self.mask_bits / 8.0
            + self.rank_ratio * SIXTEEN_BITS
            + self.outlier_ratio * OUTLIER_BYTES
        )
        return kept * (stored_width + self.scale_bits / 8.0) + beside


@dataclass(frozen=True, kw_only=True, slots=True)
class SparseAttention:
    """Which of the tokens before it a token attends to; all of them stay in memory.

    Args:
        name: for messages.
        token_ratio: share of the cached tokens that a decoding token reads, in (0, 1].
        least_tokens: tokens that are read at least, as far as there are so many.
        label_ratio: share of every key's values that is scanned to choose them.
        label_bits: bits of a scanned value, kept beside the cache; None: the keys themselves are
            scanned.
        kernels: launches per layer and pass that score and choose.
        prompt_ratio: share of the pairs of tokens that prompts compute attention for, in (0, 1].
        prompt_kernels: launches per layer and prompt that choose them.

    Raises:
        InputError: a share outside its range, a negative count.
    """

    name: str
    token_ratio: float = 1.0
    least_tokens: int = 0
    label_ratio: float = 0.0
    label_bits: float | None = None
    kernels: int = 2
    prompt_ratio: float = 1.0
    prompt_kernels: int = 0

    def __post_init__(self) -> None:
        _shares(self.name, token_ratio=self.token_ratio, prompt_ratio=self.prompt_ratio)
        _least(
            self.name,
            least_tokens=self.least_tokens,
            label_ratio=self.label_ratio,
            kernels=self.kernels,
            prompt_kernels=self.prompt_kernels,
        )
        if self.label_ratio > 1.0:
            raise InputError(
                "must lie in [0, 1]", key=f"{self.name}.label_ratio", value=self.label_ratio
            )
        if self.label_bits is not None and not 0.0 < self.label_bits <= 32.0:
            raise InputError(
                "must lie in (0, 32]", key=f"{self.name}.label_bits", value=self.label_bits
            )

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        return self.token_ratio == self.prompt_ratio == 1.0

    @property
    def label_bytes(self) -> float:
        """Bytes held beside each cached value for scanning, mean of keys and values."""
        return 0.0 if self.label_bits is None else self.label_ratio * self.label_bits / 8.0 / 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerSchedule:
    """Which layers tokens run, as the mean over a long text.

    Args:
        name: for messages.
        shares: share of the tokens that runs each of the equal parts the layers are cut into, first
            part first; each in [0, 1], not all 0.
        together: all tokens of a pass run the same layers, so that skipped ones cost nothing;
            otherwise each token goes its own way, and a layer runs in a pass as soon as one token
            needs it.
        keeps_cache: keys and values of skipped layers are made all the same (or copied), so that
            the cache stays whole; otherwise they are absent, neither read nor held.
        unique_ratio: distinct layer weights over those of all layers: below 1 where layers are
            shared.
        substitute_rank: rank of the product that a skipped layer leaves in its place; 0: none.
        prompts: prompts are processed so too.

    Raises:
        InputError: no parts, a share outside its range, a negative rank.
    """

    name: str
    shares: tuple[float, ...] = (1.0,)
    together: bool = True
    keeps_cache: bool = True
    unique_ratio: float = 1.0
    substitute_rank: int = 0
    prompts: bool = False

    def __post_init__(self) -> None:
        if not any(self.shares) or not all(0.0 <= share <= 1.0 for share in self.shares):
            raise InputError(
                "must hold shares in [0, 1], not all of them 0",
                key=f"{self.name}.shares",
                value=self.shares,
            )
        _shares(self.name, unique_ratio=self.unique_ratio)
        _least(self.name, substitute_rank=self.substitute_rank)

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        return self.mean_share == 1.0 and self.unique_ratio == 1.0

    @property
    def mean_share(self) -> float:
        """Layers that a token runs, as a share of all."""
        return sum(self.shares) / len(self.shares)


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextTransform:
    """How much of a text enters the cache: a smaller model summarises it to fewer vectors, or
    tokens are dropped.

    Args:
        name: for messages.
        kept_ratio: vectors that stand for the text, over its tokens, in (0, 1].
        latest_tokens: latest tokens of every request that stay as they are.
        encoder_ratio: layers of the model that reads the whole text first, as a share of the
            target's; 0: none.

    Raises:
        InputError: a share outside its range, a negative count.
    """

    name: str
    kept_ratio: float = 1.0
    latest_tokens: int = 0
    encoder_ratio: float = 0.0

    def __post_init__(self) -> None:
        _shares(self.name, kept_ratio=self.kept_ratio)
        _least(self.name, latest_tokens=self.latest_tokens, encoder_ratio=self.encoder_ratio)
        if self.encoder_ratio > 1.0:
            raise InputError(
                "must lie in [0, 1]", key=f"{self.name}.encoder_ratio", value=self.encoder_ratio
            )

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        return self.kept_ratio == 1.0 and not self.encoder_ratio


@dataclass(frozen=True, kw_only=True, slots=True)
class SparseFeedForward:
    """Which part of a dense feed-forward layer's weights a token uses; all of them stay in memory.

    Args:
        name: for messages.
        active_ratio: share that one token uses, in (0, 1].
        correlation: of the parts that tokens of a pass use, 0 (each its own) to 1 (all the same).
        kernels: launches per layer and pass that choose the part.

    Raises:
        InputError: a share outside its range, a negative count.
    """

    name: str
    active_ratio: float = 1.0
    correlation: float = 0.0
    kernels: int = 1

    def __post_init__(self) -> None:
        _shares(self.name, active_ratio=self.active_ratio)
        _least(self.name, correlation=self.correlation, kernels=self.kernels)
        if self.correlation > 1.0:
            raise InputError(
                "must lie in [0, 1]", key=f"{self.name}.correlation", value=self.correlation
            )

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        return self.active_ratio == 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderSplit:
    """A share of the layers reads the prompt, once and both ways; the others write and attend to
    what those made of it.

    Args:
        name: for messages.
        encoder_ratio: share of all layers that read, in [0, 1); of an encoder-decoder instead of
            the share it has. 0: layers stay where they are.

    Raises:
        InputError: a share outside its range.
    """

    name: str
    encoder_ratio: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.encoder_ratio < 1.0:
            raise InputError(
                "must lie in [0, 1)", key=f"{self.name}.encoder_ratio", value=self.encoder_ratio
            )

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        return self.encoder_ratio == 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class FusedFeedForward:
    """Layers without attention, whose feed-forward parts run side by side as fewer and wider ones.

    Args:
        name: for messages.
        attention_ratio: share of the layers that keep their attention, in (0, 1].
        fused_ratio: layers that are left of those without attention, over as many as they were, in
            (0, 1].
        width_ratio: inner width that is left of a feed-forward layer before it is fused, in (0, 1].

    Raises:
        InputError: a share outside its range.
    """

    name: str
    attention_ratio: float = 1.0
    fused_ratio: float = 1.0
    width_ratio: float = 1.0

    def __post_init__(self) -> None:
        _shares(
            self.name,
            attention_ratio=self.attention_ratio,
            fused_ratio=self.fused_ratio,
            width_ratio=self.width_ratio,
        )

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        return self.attention_ratio == self.width_ratio == 1.0  # without layers to fuse


Transform: TypeAlias = (
    WeightTransform
    | CacheTransform
    | SparseAttention
    | ContextTransform
    | SparseFeedForward
    | LayerSchedule
    | EncoderSplit
    | FusedFeedForward
)


def _shares(name: str, **values: float) -> None:
    for key, value in values.items():
        if not 0.0 < value <= 1.0:
            raise InputError("must lie in (0, 1]", key=f"{name}.{key}", value=value)


def _least(name: str, **values: float) -> None:
    for key, value in values.items():
        if not 0.0 <= value < float("inf"):
            raise InputError("must be finite and >= 0", key=f"{name}.{key}", value=value)
