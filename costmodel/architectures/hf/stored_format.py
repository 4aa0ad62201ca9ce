"""In which number format does a checkpoint store its matrices?

What `quantization_config` (and the `hf_quant_config.json` beside it) of the common quantisers say. Formats are those
of `costmodel.passes.precision`; a quantiser that none of them stands for leaves the config's `dtype`. Formats that
hold only part of the model (routed experts, as in MXFP4 and int4 releases) are given for all of it.
"""

from collections.abc import Mapping

from costmodel.architectures.hf.keys import ConfigKeys

_DTYPES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "float8_e4m3fn": "fp8",
    "auto": "bf16",
}
_METHODS = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "fp4-g32", "nvfp4": "fp4"}
_ALGORITHMS = {
    "FP8": "fp8",
    "FP8_PB_WO": "fp8",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8",
    "NVFP4": "fp4",
    "W4A16_NVFP4": "fp4",
    "W4A16": "int4",
    "W4A16_AWQ": "int4-g128",
    "W4A8_AWQ": "int4-g128",
    "W8A8_SQ_PER_CHANNEL": "int8",
    "W8A16": "int8",
}
_GROUP_LIMIT = 1 << 16


def stored_format(keys: ConfigKeys) -> tuple[str, str]:
    """The number format of the matrices, and the quantiser that made it ("" for none).

    Args:
        keys: the config; a wrong `dtype` is noted there.

    Returns:
        A format, and the quantiser's name as the file gives it; it ends in "?" where its format is not known.
    """
    table = keys.table("quantization_config")
    plain = _plain(keys)
    if not table:
        return plain, ""
    method = table.get("quant_method")
    name = method if isinstance(method, str) else str(table.get("quant_algo") or "unnamed")
    found = _METHODS.get(name) or _algorithm(table) or _packed(table) or _grouped(table)
    return (found, name[:40]) if found else (plain, f"{name[:40]}?")


def _plain(keys: ConfigKeys) -> str:
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
    bits, kind = weights.get("num_bits"), weights.get("type")
    if kind == "float":
        return {8: "fp8", 4: "fp4"}.get(bits) if isinstance(bits, int) else None
    return _integers(bits, weights.get("group_size"))


def _grouped(table: Mapping[str, object]) -> str | None:
    """AWQ, GPTQ and bitsandbytes."""
    if table.get("load_in_4bit") is True:
        return "int4"
    if table.get("load_in_8bit") is True:
        return "int8"
    return _integers(table.get("bits", table.get("w_bit")), table.get("group_size", table.get("q_group_size")))


def _integers(bits: object, group: object) -> str | None:
    if isinstance(bits, bool) or bits not in (4, 8):
        return None
    whole = isinstance(group, int) and not isinstance(group, bool) and 0 < group <= _GROUP_LIMIT
    return f"int{bits}-g{group}" if whole else f"int{bits}"
