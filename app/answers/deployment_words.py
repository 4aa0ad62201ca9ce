"""How is a deployment said in words? Model, formats, devices and engine, alike in every title."""

from collections.abc import Mapping
from math import prod
from typing import Any

from app.answers.cells import several

_OTHERS = ("dp", "ep", "pp", "cp")
_SPREAD = ("tp", "dp", "pp", "cp")  # whose product is the number of devices


def deployment_words(inputs: Mapping[str, Any]) -> str:
    """Where a model runs, of one deployment or of several that were asked about together.

    Args:
        inputs: what was asked, by keyword: `model`, `device`, `engine`, and where they are known
            `dtype`, `kv_dtype`, `tp`, `dp`, `ep`, `pp` and `cp`; names with commas are several.

    Example:
        >>> asked = {"model": "llama-3.3-70b", "device": "h100-sxm", "engine": "vllm"}
        >>> deployment_words(asked | {"dtype": "fp8", "tp": 4})
        'llama-3.3-70b in fp8 on 4 x h100-sxm, vllm'
        >>> deployment_words(asked | {"device": "h100-sxm,h200-sxm", "tp": 2, "dp": 4, "ep": 8})
        'llama-3.3-70b on 8 each of 2 devices (tp2dp4ep8), vllm'
    """
    model, device, engine = (
        several(str(inputs[name]), name) if inputs.get(name) else f"{name} not named"
        for name in ("model", "device", "engine")
    )
    formats = f" in {several(inputs['dtype'], 'format')}" if inputs.get("dtype") else ""
    if inputs.get("kv_dtype"):
        formats += f" with a cache in {several(inputs['kv_dtype'], 'format')}"
    sizes = {name: inputs.get(name) or 1 for name in (*_SPREAD, "ep")}
    if "," in str(sizes["tp"]):
        return f"{model}{formats} on {device}, {engine}"
    count = prod(int(sizes[name]) for name in _SPREAD)
    if count > 1:
        several_devices = "," in str(inputs.get("device"))
        device = f"{count} each of {device}" if several_devices else f"{count} x {device}"
    others = [f"{name}{sizes[name]}" for name in _OTHERS if int(sizes[name]) > 1]
    layout = f" (tp{sizes['tp']}{''.join(others)})" if others else ""
    return f"{model}{formats} on {device}{layout}, {engine}"
