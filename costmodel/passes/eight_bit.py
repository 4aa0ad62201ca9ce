"""How fast are 8-bit matrix products on a device whose constants were fitted to 16-bit ones?

Fitted constants for the devices whose kernel tables hold both formats. Leaves out other devices, which keep their
constants, and the output head, which engines run in 16 bits.
"""

from dataclasses import replace

from costmodel.passes.forward import Deployment
from hardware_profiles.units import MICRO

# 3295 fp8 rows of the aiconfigurator kernel tables (Apache-2.0) for H100 SXM, M up to 512 and bytes touched at least
# 1.5 times the last-level cache: held-out median 9 %, p90 30 % (16-bit constants: 15 % too fast at the median). The
# rows take the input in 16 bits and convert it first, which is why their fixed cost is that of more than one kernel.
_LAUNCH_S = 9.62 * MICRO
_COMPUTE_EFFICIENCY = 0.844
_BANDWIDTH_EFFICIENCY = 0.861
_NORM = 1.324
# median of 195 fp8 rows with M = 1024 and N, K of at least 2048, as the profile's own share for 16 bits
_PREFILL_EFFICIENCY = 0.515
_HOPPER = ("h100", "h200", "gh200")


def with_eight_bit_products(deployment: Deployment) -> Deployment:
    """The deployment with constants of fp8 products, where it computes in fp8 and they are known.

    Args:
        deployment: model, device and how they run; its constants apply to 16-bit products.
    """
    device = deployment.device
    if deployment.precision.activations != "fp8" or not device.name.startswith(_HOPPER):
        return deployment
    constants = replace(
        device.constants,
        corrections={name: each for name, each in device.constants.corrections.items() if name != "gemm"},
        gemm_launch_s=_LAUNCH_S,
        gemm_compute_efficiency=_COMPUTE_EFFICIENCY,
        gemm_bandwidth_efficiency=_BANDWIDTH_EFFICIENCY,
        gemm_output_efficiency=_BANDWIDTH_EFFICIENCY,
        gemm_norm=_NORM,
        gemm_tile_ratio=0.0,
        gemm_wave_ratio=0.0,
        prefill_compute_efficiency=_PREFILL_EFFICIENCY,
    )
    return replace(deployment, device=replace(device, constants=constants))
