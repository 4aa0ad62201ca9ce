"""How wide is one value of a number format, which format computes with it, and what do published
recipes stand for?

A format may name its groups: `int4-g128` has one scale per 128 values (16 bits; 8 bits with `fp4`),
`int4-g128-zp` a zero point of as many bits as a value beside it, and `fp8-block` one 32-bit scale
per 128 x 128 values. Blocks of GGUF files have names of their own, and a file that mixes them is
the mix: `q4_k:0.83+q6_k:0.17` states the share of the weights in each format. A recipe (`awq`,
`mxfp4`, `q4_k_m`) is what makers call their checkpoints by, and names a format for every part of a
model. Leaves out what runs in these formats (`precision`).
"""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache

from costmodel.architectures.architecture import Architecture
from costmodel.architectures.gguf.recipes import RECIPES as GGUF_RECIPES
from costmodel.architectures.gguf.recipes import recipe_formats
from costmodel.architectures.part_formats import PARTS, PartFormats, read_parts
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.fitted.formats import WEIGHT_FORMATS

# Bytes of a block over its values: scales, minima and packed integers (`ggml-common.h` of
# llama.cpp, `block_q4_0` ...)
_BLOCK_BYTES = {
    "q4_0": 18 / 32,
    "q4_1": 20 / 32,
    "q5_0": 22 / 32,
    "q5_1": 24 / 32,
    "q8_0": 34 / 32,
    "q2_k": 84 / 256,
    "q3_k": 110 / 256,
    "q4_k": 144 / 256,
    "q5_k": 176 / 256,
    "q6_k": 210 / 256,
}
BYTES_PER_VALUE = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "fp8-block": 1.0 + 4 / 128**2,
    "int8": 1.0,
    "int4": 0.5 + 2 / 64,  # one 16-bit scale per 64 values
    "fp4": 0.5 + 1 / 16,  # one 8-bit scale per 16 values (NVFP4)
    **{name: _BLOCK_BYTES[name] for name in WEIGHT_FORMATS},
}
_GROUPED = re.compile(r"(fp8|int8|int4|fp4)-g([1-9][0-9]{0,5})|(int8|int4)-g([1-9][0-9]{0,5})-zp")
# bytes of a value, and of the scale of a group
_GROUPED_BYTES = {"fp8": (1.0, 2.0), "int8": (1.0, 2.0), "int4": (0.5, 2.0), "fp4": (0.5, 1.0)}
_SHARE = re.compile(r"[01](\.[0-9]{1,9})?")
_SHARE_SLACK = 0.002  # shares are written to four digits
_NAME_LIMIT = 200
SIXTEEN_BITS = ("bf16", "fp16")
# formats of values without scales, which engines convert into each other
PLAIN = (*SIXTEEN_BITS, "fp32")

# What the names of published checkpoints stand for, beside the formats above and the recipes of
# GGUF. The output head and the embedding stay in 16 bits in all of them. AWQ and GPTQ: groups of
# 128 with a scale and a zero point (AutoAWQ `q_group_size` 128 and `zero_point`; AutoGPTQ writes
# `qzeros` for symmetric weights too). w4a16 and w8a8 are the schemes of compressed-tensors (scales
# alone). MXFP4 covers the routed experts (gpt-oss model card, arXiv:2508.10925).
RECIPES: Mapping[str, PartFormats] = {
    "awq": PartFormats("int4-g128-zp"),
    "gptq": PartFormats("int4-g128-zp"),
    "int4": PartFormats("int4-g128-zp"),
    "w4a16": PartFormats("int4-g128"),
    "w8a8": PartFormats("int8"),
    "w8a16": PartFormats("int8-g128"),
    "nvfp4": PartFormats("fp4"),
    "mxfp4": PartFormats("bf16", experts="fp4-g32"),
}


def recipe_parts(name: str, model: Architecture | None = None) -> PartFormats:
    """The formats of the parts of a checkpoint, by what it is called.

    Args:
        name: a recipe, a format of all matrices, or formats part by part (`bf16/experts=fp4-g32`);
            in any case.
        model: shares of the blocks of GGUF recipes follow from it.

    Raises:
        UnknownNameError: no such recipe or format.
        InputError: a recipe of GGUF without a model, or shares of a mix that do not add up to 1.

    >>> recipe_parts("MXFP4").word
    'bf16/experts=fp4-g32'
    """
    own = name.casefold()
    if own in RECIPES:
        return RECIPES[own]
    if own in GGUF_RECIPES and model is not None:
        return recipe_formats(own, model)
    if own in GGUF_RECIPES and own not in BYTES_PER_VALUE:
        raise InputError(
            "is a mix of formats that follows from the model; name the model",
            key="dtype",
            value=name,
        )
    parts = read_parts(own) if "/" in own else PartFormats(own)
    if parts is None:
        rule = f"must be a format, and /PART=FORMAT behind it for the parts {', '.join(PARTS)}"
        raise InputError(rule, key="dtype", value=name[:_NAME_LIMIT])
    for form in parts:
        if form is not None:
            bytes_per_value(form)
    return parts


def recipe_names() -> tuple[str, ...]:
    """Every name of a format or recipe, without groups and mixes."""
    return tuple(dict.fromkeys([*BYTES_PER_VALUE, *RECIPES, *GGUF_RECIPES]))


def arithmetic(form: str, computed: Collection[str] | None = None) -> str:
    """The format that matrix units compute a product in whose weights are stored in `form`.

    A device that computes in fp8, int8 or fp4 does so with weights in that format; others unpack
    the weights to 16 bits on the way to the matrix units (weight-only kernels such as Marlin's).
    Groups of integers and the blocks of GGUF are always unpacked (ASSUMED of GGUF: its kernels
    multiply integers). MXFP4 is multiplied with 8-bit activations on devices with 4-bit matrix
    units (FlashInfer's and TensorRT-LLM's kernels for gpt-oss).

    Args:
        form: format of the weights, or a mix.
        computed: formats that the device computes in; None: 16 and 32 bits, fp8 and int8.

    >>> arithmetic("fp8-block"), arithmetic("fp8", {"bf16", "fp16"}), arithmetic("q4_k", {"fp16", "fp32"})
    ('fp8', 'bf16', 'fp16')
    """
    name = main_format(form)
    native = {"fp4-g16": "fp4"}.get(name, "fp8" if name.startswith("fp8") else name)
    if name == "fp4-g32" and computed is not None and "fp4" in computed:
        native = "fp8"
    if computed is None:
        return native if native in (*PLAIN, "fp8", "int8") else "bf16"
    if native in computed and native in (*PLAIN, "fp8", "int8", "fp4"):
        return native
    return next((form for form in PLAIN if form in computed), "bf16")


def bytes_per_value(name: str) -> float:
    """Bytes of one value of a format, its share of the scales included.

    Args:
        name: a format of `BYTES_PER_VALUE`, a quantised one with a group size, or a mix with the
            share of each.

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
        raise UnknownNameError(
            "number format", name[:_NAME_LIMIT], [*recipe_names(), "int4-g128", "fp8-g128"]
        )
    value, scale = _GROUPED_BYTES[grouped[1] or grouped[3]]
    zero_point = value if grouped[3] else 0.0
    return value + (scale + zero_point) / int(grouped[2] or grouped[4])


@lru_cache(maxsize=256)
def _mixed(name: str) -> tuple[tuple[str, float], ...]:
    """The formats of a mix and the share of the weights in each, as they are named."""
    parts = [part.partition(":") for part in name.split("+")]
    if len(parts) > len(BYTES_PER_VALUE) or not all(
        _SHARE.fullmatch(share) for _, _, share in parts
    ):
        raise UnknownNameError(
            "number format", name[:_NAME_LIMIT], [*BYTES_PER_VALUE, "q4_k:0.83+q6_k:0.17"]
        )
    shares = tuple((part, float(share)) for part, _, share in parts)
    if abs(sum(share for _, share in shares) - 1.0) > _SHARE_SLACK:
        raise InputError(
            "shares of a mix must add up to 1", key="weights", value=name[:_NAME_LIMIT]
        )
    return shares


def main_format(name: str) -> str:
    """The format of most weights: of a mix the one with the largest share, which its products are
    timed by.

    >>> main_format("q4_k:0.83+q6_k:0.17"), main_format("bf16")
    ('q4_k', 'bf16')
    """
    return max(_mixed(name), key=lambda share: share[1])[0] if ":" in name else name


def in_blocks(form: str) -> bool:
    """Whether most of a format's weights are in blocks of GGUF, whose files quantise head and
    embedding too.
    """
    return main_format(form) in WEIGHT_FORMATS
