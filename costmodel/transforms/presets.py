"""Which published systems are transforms, and with which figures?

One entry each. Figures come from the source named; ASSUMED marks those that it does not state. `lossless` means
that the text is the same, bit for bit. Leaves out quality.
"""

from dataclasses import dataclass

from costmodel.transforms.declared import (
    CacheTransform,
    LayerSchedule,
    SparseAttention,
    Transform,
    WeightTransform,
)
from hardware_profiles.errors import UnknownNameError
from hardware_profiles.units import GIGA


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """A published system as transforms.

    Args:
        name: what people type.
        title: in words.
        transforms: what it does, in order.
        source: where its figures come from.
        lossless: the text stays the same, bit for bit.
        published: what its authors report, in words; empty where nothing was at hand.
    """

    name: str
    title: str
    transforms: tuple[Transform, ...]
    source: str
    lossless: bool = False
    published: str = ""


_ENTRIES = (
    Preset(
        name="sparse-2-4",
        title="2:4 structured weights on matrix units that skip zeros",
        transforms=(WeightTransform(name="sparse-2-4", kept_ratio=0.5, index_bits=2.0, skips_zeros=True),),
        source="Mishra et al., arXiv:2104.08378: two of four values and their 2-bit positions; taken for all matrices",
        published="twice the peak",
    ),
    Preset(
        name="dfloat11",
        title="losslessly coded bf16 weights, unpacked before every product",
        transforms=(
            WeightTransform(
                name="dfloat11", coded_ratio=0.679, unpack_bytes_per_s=2.6 * GIGA, embedding=True, formats=("bf16",)
            ),
        ),
        source="Zhang et al., arXiv:2504.11651: sizes 0.676 to 0.682 of bf16; the rate was fitted to its figure of "
        "Qwen3-14B on RTX A5000 at batch 1 alone, which shows nothing of products and unpacking apart",
        lossless=True,
        published="4.0 tokens/s with Mistral-Small-3 24B on A100-40GB at batch 1",
    ),
    Preset(
        name="mustafar",
        title="keys and values pruned to 30 % with bitmaps",
        transforms=(CacheTransform(name="mustafar", key_ratio=0.45, value_ratio=0.45, kernels=2),),
        source="dhjoo98/mustafar README: 70 % of keys and of values pruned, cache 45 % of dense, bitmaps and padding "
        "included; two launches to prune and pack ASSUMED",
        published="up to 2.23 times the decode throughput (Llama-3-8B)",
    ),
    Preset(
        name="leank",
        title="key channels that matter little left out",
        transforms=(CacheTransform(name="leank", key_ratio=0.30, value_ratio=0.83),),
        source="LeanK, abstract: keys -70 %, values -16 to -18 %",
        published="1.3 times the attention kernel",
    ),
    Preset(
        name="cskv",
        title="keys and values as low-rank products, the latest tokens whole",
        transforms=(CacheTransform(name="cskv", key_ratio=0.20, value_ratio=0.20, dense_tokens=32, expands=True),),
        source="CSKV, abstract: cache -80 %; the window of 32 tokens ASSUMED",
    ),
    Preset(
        name="gear",
        title="a 4-bit cache with a low-rank correction and outliers",
        transforms=(
            CacheTransform(name="gear", bits=4.0, scale_bits=0.5, rank_ratio=0.03, outlier_ratio=0.02, kernels=3),
        ),
        source="GEAR, abstract: 4 bits, low rank, sparse; rank 4 of 128, 2 % outliers, groups of 64 and three launches "
        "ASSUMED",
        published="2.38 times the throughput, peak memory down 2.29 times",
    ),
    Preset(
        name="double-sparsity",
        title="one token in 16, chosen by a 4-bit cache of one channel in 16",
        transforms=(
            SparseAttention(name="double-sparsity", token_ratio=1 / 16, label_ratio=1 / 16, label_bits=4.0),
        ),
        source="Double Sparsity, abstract: a sixteenth of tokens and channels; labels of 4 bits ASSUMED",
        published="up to 14.1 times the attention operation",
    ),
    Preset(
        name="top-k-attention",
        title="one token in 16, chosen by scoring all keys",
        transforms=(SparseAttention(name="top-k-attention", token_ratio=1 / 16, label_ratio=1.0),),
        source="the plain form of top-k attention, as drafts of Sparse-to-Dense use it; the share is ASSUMED",
    ),
    Preset(
        name="lora-drop",
        title="five layers of eight run every fifth step only, low-rank products in between",
        transforms=(
            LayerSchedule(
                name="lora-drop", shares=(1.0, 0.2, 0.2, 1.0, 0.2, 0.2, 0.2, 1.0), keeps_cache=False,
                substitute_rank=16,
            ),
        ),
        source="LoRA-Drop, abstract: cache 45 to 55 % smaller; layers, period and rank ASSUMED so as to give 50 %",
        published="up to 2.6 times the throughput",
    ),
    Preset(
        name="unified-layer-skipping",
        title="every second layer skipped, the same ones for all tokens",
        transforms=(LayerSchedule(name="unified-layer-skipping", shares=(1.0, 0.0), keeps_cache=False),),
        source="Unified Layer Skipping, abstract: the speedup is an input; 2 is ASSUMED here",
    ),
    Preset(
        name="mixture-of-recursions",
        title="one stack run up to three times, fewer tokens each time",
        transforms=(
            LayerSchedule(
                name="mixture-of-recursions", shares=(1.0, 2 / 3, 1 / 3), together=False, keeps_cache=False,
                unique_ratio=1 / 3, prompts=True,
            ),
        ),
        source="Bae et al., arXiv:2507.10524: three recursions over shared layers, a third of the tokens leaves after "
        "each; from memory of the paper",
    ),
    Preset(
        name="early-exit",
        title="tokens leave once they are sure, their keys and values filled in",
        transforms=(LayerSchedule(name="early-exit", shares=(1.0, 0.8, 0.6, 0.4), together=False),),
        source="shape of FREE and CALM; the shares are ASSUMED and depend on text and threshold",
    ),
)  # fmt: skip
PRESETS = {entry.name: entry for entry in _ENTRIES}


def preset_names() -> list[str]:
    """Names of all presets, sorted."""
    return sorted(PRESETS)


def listed_names(text: str) -> tuple[str, ...]:
    """Names of a comma-separated list, in order; none where it is empty.

    >>> listed_names("2:4, Mustafar,")
    ('2:4', 'mustafar')
    """
    return tuple(part.strip().casefold() for part in text.split(",") if part.strip())


def preset(name: str) -> Preset:
    """A preset by its name.

    Raises:
        UnknownNameError: no such preset; the nearest are offered.
    """
    if name.casefold() not in PRESETS:
        raise UnknownNameError("transform", name, preset_names(), key="transform")
    return PRESETS[name.casefold()]
