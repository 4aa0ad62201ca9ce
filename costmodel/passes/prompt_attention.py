"""How fast is attention over prompts in a library's kernels, where they are not those of the
device's profile?

FlashAttention 3 on Hopper, whose profiles hold the kernels of TensorRT-LLM. Leaves out decoding and
other devices.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from costmodel.passes.deployment import Deployment
from hardware_profiles.overrides import SOURCE
from hardware_profiles.units import MICRO

PromptAttention = Literal["profile", "flash-attention-3"]
_MEASURED = "h100-sxm"  # whose kernels other Hopper devices share
_HOPPER = ("h100", "h200", "h20", "h800", "gh200")

# vLLM's build of FlashAttention 3 as real_runs timed it on an H100: 32 captured calls of 1 and 4
# requests, 128 to 8192 new tokens over up to 32768 cached ones, 32 query and 8 key/value heads of
# width 128; median error 3.0 %, ninetieth percentile 8.3 %. The profile's constants take 20 %
# longer in the median, 63 % at the ninetieth percentile.
_FLASH_ATTENTION_3: Mapping[str, float] = {
    "launch_s": 9.34 * MICRO,
    "unit_s": 2.22 * MICRO,
    "tile_s": 0.241 * MICRO,
    "wave_ratio": 1.0,
    "bandwidth_efficiency": 0.9164,  # of decode attention: no call was bound by traffic
    "compute_efficiency": 0.666,
    "norm": 4.0,
    "row_tile": 64.0,
    "width_ratio": 1.0,
    "append_ratio": 0.0,
}


def with_prompt_attention(deployment: Deployment, kernels: PromptAttention) -> Deployment:
    """The deployment with constants of a library's attention over prompts, where they are known.

    What a user set stays, and so do devices that were calibrated by themselves.

    Args:
        deployment: model, device and how they run.
        kernels: whose run: those behind the device's profile, or FlashAttention 3's.
    """
    device = deployment.device
    if (
        kernels == "profile"
        or device.constants_from != _MEASURED
        or not device.name.startswith(_HOPPER)
    ):
        return deployment
    set_by_user = {name for name, origin in device.provenance.items() if origin.source == SOURCE}
    of_kernel = {
        f"context.{name}": value
        for name, value in _FLASH_ATTENTION_3.items()
        if f"constants.context.{name}" not in set_by_user
    }
    constants = device.constants.changed(of_kernel)
    return replace(deployment, device=replace(device, constants=constants))
