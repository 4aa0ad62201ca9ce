"""How long does the update of recurrent states take?

Leaves out a fit: no table of such kernels was at hand, so the launches and the bandwidth are those
of the device's elementwise kernels, which read and write as much as they compute.
"""

import numpy as np

from costmodel.passes.kernels.timing import Timing
from costmodel.passes.ops import Work
from costmodel.passes.state_update import KERNELS
from hardware_profiles.profile import Device


def state_update(device: Device, work: Work, dtype: str) -> Timing:
    """Convolution and recurrence of one layer: two launches, and the larger of the two roofs.

    Args:
        device: profile.
        work: FLOPs and bytes of both.
        dtype: format that the units in charge compute in.
    """
    c = device.constants
    efficiency = 1.0 if dtype == "fp32" else c.prefill.compute_efficiency
    compute = work.flops / (device.peak(dtype) * efficiency)
    memory = work.bytes / (device.bandwidth_bytes_per_s * c.elementwise.bandwidth_efficiency)
    launch = np.asarray(KERNELS * c.elementwise.kernel_s)
    return Timing(launch + np.maximum(compute, memory), compute, memory, launch)
