"""How fast are 8-bit and 4-bit matrix products on a device whose constants were fitted to 16-bit
ones?

A profile's constants for the format, where it has some; else fitted constants for Hopper, whose
kernels were timed in both formats. They are those of the products alone: what quantises their
inputs is an operation of its own. Leaves out other devices, which keep their constants, and the
output head, which `Precision` keeps in 16 bits.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from costmodel.passes.forward import Deployment
from hardware_profiles.profile import Device
from hardware_profiles.units import MICRO

Products = Literal["cutlass", "trtllm"]
_HOPPER = ("h100", "h200", "gh200")

# The 45 fp8 products that real_runs timed on an H100 (cuBLAS, fast accumulation, inputs already in
# fp8, memory cold): median error 2.5 %, ninetieth percentile 6.6 %. The aiconfigurator kernel
# tables (Apache-2.0) for H100 SXM time the conversion of the inputs with the product: with a kernel
# for it beside these, their 2412 cold rows of up to 128 rows of inputs are 4 % too short in the
# median, median error 7 %.
_LAUNCH_S = 3.74 * MICRO
_BANDWIDTH_EFFICIENCY = 0.836
_NORM = 3.35


class _Share(NamedTuple):
    """Share of the peak that products reach: to 1024 rows, and in prompts."""

    decode: float
    prefill: float


_SHARES: Mapping[Products, _Share] = {
    # the same 45 products; prompts: median of the five of 4096 rows, 0.72 to 0.79. CUTLASS's
    # kernels in vLLM and SGLang accumulate as fast (KernelTmaWarpSpecializedPingpongFP8FastAccum)
    "cutlass": _Share(0.764, 0.741),
    # 441 rows of the tables (TensorRT-LLM's own linear layer) with M from 512 to 1024 and N, K of
    # at least 2048, the conversion taken off: 2 % too long in the median, median error 19 % (with
    # cuBLAS's share 20 % too short). Products of more rows than these tables have run in cuBLAS
    "trtllm": _Share(0.58, 0.741),
}
# Scales by block, in DeepGEMM, whose kernels TensorRT-LLM has too: on an H100 955 TFLOP/s of 1024
# rows, 7168 inputs and 18432 outputs (CUTLASS: 820), 610 to 710 of 4096 outputs
# (vllm-project/vllm, benchmarks/kernels/deepgemm/README.md). That is 0.48 of the peak; ASSUMED: at
# the rate that a GPU keeps up, of which it is 0.58
_BY_BLOCK = _Share(0.58, 0.58)
# Profiles of CDNA hold products with a scale a row. Scales by block: fitted to half of the shapes of
# tuned kernels of ROCm/aiter (github.com/ROCm/aiter@e4048607, a8w8_blockscale_tuned_gemm_*.csv,
# MIT) of up to 1024 rows, and medians of those of 4096 and more
_CDNA_BY_BLOCK: Mapping[str, _Share] = {
    "mi300x": _Share(0.237, 0.310),
    "mi325x": _Share(0.237, 0.310),
    "mi355x": _Share(0.187, 0.249),
}


def with_eight_bit_products(deployment: Deployment, products: Products = "cutlass") -> Deployment:
    """The deployment with constants of narrow products, where it computes in such a format and they
    are known.

    Args:
        deployment: model, device and how they run; its constants apply to 16-bit products.
        products: whose kernels run on Hopper where a tensor has one scale: CUTLASS's or
            TensorRT-LLM's.
    """
    device = deployment.device
    p = deployment.precision
    narrow = (p.of("experts") if p.experts_alone else p).activations
    if narrow in deployment.device.formats:
        device = device.in_format(narrow)
        if narrow == "fp8" and deployment.scales_by_block and device.name in _CDNA_BY_BLOCK:
            device = _at_share(device, _CDNA_BY_BLOCK[device.name])
        return replace(deployment, device=device)
    if narrow != "fp8" or not device.name.startswith(_HOPPER):
        return deployment
    share = _BY_BLOCK if deployment.scales_by_block else _SHARES[products]
    constants = replace(
        device.constants,
        corrections={
            name: group for name, group in device.constants.corrections.items() if name != "gemm"
        },
        gemm=replace(
            device.constants.gemm,
            launch_s=_LAUNCH_S,
            compute_efficiency=share.decode,
            bandwidth_efficiency=_BANDWIDTH_EFFICIENCY,
            output_efficiency=_BANDWIDTH_EFFICIENCY,
            norm=_NORM,
            tile_ratio=0.0,
            wave_ratio=0.0,
        ),
        prefill=replace(device.constants.prefill, compute_efficiency=share.prefill),
    )
    return replace(deployment, device=replace(device, constants=constants))


def _at_share(device: Device, share: _Share) -> Device:
    """The device with products at other shares of its peak."""
    c = device.constants
    constants = replace(
        c,
        gemm=replace(c.gemm, compute_efficiency=share.decode),
        prefill=replace(c.prefill, compute_efficiency=share.prefill),
    )
    return replace(device, constants=constants)
