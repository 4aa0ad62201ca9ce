"""In which number formats does a checkpoint store its matrices, part by part?

What `quantization_config` (and the `hf_quant_config.json` beside it) of the common quantisers say.
Formats are those of `costmodel.passes.formats`; a quantiser that none of them stands for leaves the
config's `dtype`. Modules that the config leaves out (`ignore`, `modules_to_not_convert`,
`exclude_modules`) keep that `dtype`: routed experts and the other matrices are told apart, and of
the latter attention and feed-forward layers, which a mix then stands for.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import product
from math import prod

from costmodel.architectures.hf.keys import ConfigKeys
from costmodel.architectures.part_formats import PartFormats

_DTYPES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "float8_e4m3fn": "fp8",
    "auto": "bf16",
}
EXPERTS_ALONE = "mxfp4"  # a recipe that leaves out everything but routed experts by itself
_METHODS = {"fbgemm_fp8": "fp8", "nvfp4": "fp4", "mxfp4": EXPERTS_ALONE}
_BLOCK_SIDE, _MX_GROUP = 128, 32
_ALGORITHMS = {
    "FP8": "fp8",
    "FP8_PB_WO": "fp8-block",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8",
    "NVFP4": "fp4",
    "W4A16_NVFP4": "fp4",
    "W4A16": "int4-g128",
    "W4A16_AWQ": "int4-g128-zp",
    "W4A8_AWQ": "int4-g128",
    "W8A8_SQ_PER_CHANNEL": "int8",
    "W8A16": "int8",
}
_GROUP_LIMIT = 1 << 16


# one module of every kind, by the names that configs use
_SAMPLES: Mapping[str, tuple[str, ...]] = {
    "attention": ("self_attn.q_proj", "self_attn.o_proj", "self_attn.kv_b_proj"),
    "feed_forward": (
        "mlp.gate_proj",
        "mlp.shared_experts.down_proj",
        "mlp.shared_expert.down_proj",
    ),
    "experts": ("mlp.experts.1.down_proj", "block_sparse_moe.experts.1.w2"),
}
_EXCLUSIONS = ("ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers")
_SAMPLE_LAYER = 5  # behind the dense layers that models of experts begin with
_MOST_PATTERNS, _LONGEST_PATTERN = 4096, 256
_NUMBER = re.compile(r"(?:\\d|\[0-9\])[+*]?")
_CHOICE = re.compile(r"\((?:\?:)?([\w.|]+)\)")
_WILDCARD = re.compile(r"[\w.*-]+")


def stored_format(keys: ConfigKeys) -> tuple[PartFormats, str]:
    """The number formats of the parts, and the quantiser that made them ("" for none).

    Args:
        keys: the config; a wrong `dtype` is noted there.

    Returns:
        The formats, of which `matrices` holds for whatever is not named, and the quantiser's name
        as the file states it; it ends in "?" where its format is not known.
    """
    table = keys.table("quantization_config")
    plain = plain_format(keys)
    if not table:
        return PartFormats(plain), ""
    method = table.get("quant_method")
    name = method if isinstance(method, str) else str(table.get("quant_algo") or "unnamed")
    formats = (
        (_eight_bits(table) if name == "fp8" else _METHODS.get(name))
        or _algorithm(table)
        or _packed(table)
        or _grouped(table, name)
    )
    return (PartFormats(formats), name[:40]) if formats else (PartFormats(plain), f"{name[:40]}?")


def excluded_kinds(keys: ConfigKeys) -> frozenset[str]:
    """Kinds of modules (`attention`, `feed_forward`, `experts`) that the quantiser left in the
    config's `dtype`.

    A kind is left out where a module of its name in some layer behind the first two is: what
    concerns the first or last layers alone, or single projections, counts as quantised.

    Args:
        keys: the config.
    """
    table = keys.table("quantization_config") or {}
    names = [text for key in _EXCLUSIONS for text in _texts(table.get(key))]
    return frozenset(
        kind
        for kind, modules in _SAMPLES.items()
        if any(
            _matches(name, f"model.layers.{_SAMPLE_LAYER}.{module}")
            for name in names
            for module in modules
        )
    )


def _texts(value: object) -> list[str]:
    return (
        [text for text in value[:_MOST_PATTERNS] if isinstance(text, str)]
        if isinstance(value, list)
        else []
    )


def _matches(pattern: str, module: str) -> bool:
    """Whether a config's pattern means a module: an expression behind `re:`, wildcards, or part of
    its name.
    """
    if not 0 < len(pattern.removeprefix("re:")) <= _LONGEST_PATTERN:
        return False
    if pattern.startswith("re:"):
        return any(fnmatchcase(module, wildcard) for wildcard in _wildcards(pattern[3:]))
    if "*" in pattern:
        return fnmatchcase(module, f"*{pattern}*")
    return f".{pattern}." in f".{module}."


def _wildcards(expression: str) -> list[str]:
    """Wildcards for the expressions that configs hold: names, `.*`, numbers and choices of names.

    The expressions come from files, so that they are not run; one of another kind matches nothing.
    """
    plain = _NUMBER.sub("*", expression.strip("^")).replace(".*", "*").replace("\\.", ".")
    plain = plain[:-1] if plain.endswith("$") else f"{plain}*"
    pieces = _CHOICE.split(plain)  # names and choices in turn
    choices = [piece.split("|") if place % 2 else [piece] for place, piece in enumerate(pieces)]
    if prod(map(len, choices)) > _MOST_PATTERNS:
        return []
    wildcards = ["".join(parts) for parts in product(*choices)]
    return [wildcard for wildcard in wildcards if _WILDCARD.fullmatch(wildcard)]


def _eight_bits(table: Mapping[str, object]) -> str:
    side = table.get("weight_block_size")
    return "fp8-block" if isinstance(side, list) and side and side[0] == _BLOCK_SIDE else "fp8"


def plain_format(keys: ConfigKeys) -> str:
    """The format of what no quantiser touched; a wrong `dtype` is noted in the keys."""
    value = keys.get("dtype")
    if value is None:
        return "bf16"
    name = value.removeprefix("torch.") if isinstance(value, str) else ""
    if name not in _DTYPES:
        keys.mistakes.append(keys.error("dtype", f"must be one of {', '.join(_DTYPES)}", value))
    return _DTYPES.get(name, "bf16")


def _algorithm(table: Mapping[str, object]) -> str | None:
    """ModelOpt: an algorithm by name, of the whole or of most layers."""
    algorithm = table.get("quant_algo")
    return _ALGORITHMS.get(algorithm) if isinstance(algorithm, str) else None


def _packed(table: Mapping[str, object]) -> str | None:
    """compressed-tensors: number kind, bits and group of the first group's weights."""
    groups = table.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    if not isinstance(weights, Mapping):
        return None
    bits, kind, block = weights.get("num_bits"), weights.get("type"), weights.get("block_structure")
    if kind == "float" and isinstance(bits, int):
        four = "fp4-g32" if weights.get("group_size") == _MX_GROUP else "fp4"
        return {8: _eight_bits({"weight_block_size": block}), 4: four}.get(bits)
    zero_point = weights.get("symmetric") is False
    return (
        None
        if kind == "float"
        else _integers(bits, weights.get("group_size"), zero_point=zero_point)
    )


def _grouped(table: Mapping[str, object], name: str) -> str | None:
    """AWQ and GPTQ, which store zero points for every group, and bitsandbytes."""
    if table.get("load_in_4bit") is True:
        return "int4-g64"
    if table.get("load_in_8bit") is True:
        return "int8"
    group = table.get("group_size", table.get("q_group_size"))
    return _integers(
        table.get("bits", table.get("w_bit")), group, zero_point=name in ("awq", "gptq")
    )


def _integers(bits: object, group: object, *, zero_point: bool) -> str | None:
    if isinstance(bits, bool) or bits not in (4, 8):
        return None
    if isinstance(group, bool) or not isinstance(group, int) or not 0 < group <= _GROUP_LIMIT:
        return f"int{bits}"
    return f"int{bits}-g{group}-zp" if zero_point else f"int{bits}-g{group}"
