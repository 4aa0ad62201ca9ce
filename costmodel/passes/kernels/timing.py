"""What does the time of an operation consist of, and what is the least it can be?

The bare roofline and the pieces that the calibrated forms share. Leaves out the forms themselves.
"""

from typing import NamedTuple

import numpy as np

from costmodel.passes.ops import Array, Mask, Work
from hardware_profiles.profile import Device


class Timing(NamedTuple):
    """Seconds of one operation and the three bounds it is made of; arrays that broadcast.

    Attributes:
        seconds: the operation takes.
        compute_s: of arithmetic at the share of the peak that is reached.
        memory_s: of traffic at the share of the bandwidth that is reached.
        launch_s: of fixed costs.
    """

    seconds: Array
    compute_s: Array
    memory_s: Array
    launch_s: Array


class Shares(NamedTuple):
    """What distinguishes the regimes of an operation: launches in its time, arithmetic in
    arithmetic plus traffic.

    Attributes:
        launch: in [0, 1].
        compute: in [0, 1].
    """

    launch: Array
    compute: Array

    def select(self, rows: Mask) -> "Shares":
        """The entries where `rows` holds."""
        return Shares(self.launch[rows], self.compute[rows])


def shares(timing: Timing) -> Shares:
    """Shares of a predicted time, broadcast together; that of arithmetic is 0 where there is
    neither.
    """
    seconds, compute, memory, launch = timing
    if not seconds.shape == compute.shape == memory.shape or launch.shape not in (
        (),
        seconds.shape,
    ):
        seconds, compute, memory, launch = np.broadcast_arrays(*timing)
    work = compute + memory
    return Shares(
        np.clip(launch / np.maximum(seconds, 1e-300), 0.0, 1.0),
        np.where(work > 0.0, compute / np.where(work > 0.0, work, 1.0), 0.0),
    )


def roofline(device: Device, work: Work, dtype: str) -> Timing:
    """The larger of FLOPs over peak and bytes over bandwidth: a lower bound on any implementation.

    Args:
        device: profile.
        work: FLOPs and bytes.
        dtype: format that the matrix units compute in.

    Reference: Williams, Waterman, Patterson 2009, "Roofline", equation 1.
    """
    compute = work.flops / device.peak(dtype)
    memory = work.bytes / device.bandwidth_bytes_per_s
    return Timing(np.maximum(compute, memory), compute, memory, np.zeros(()))


def joined(x: Array, y: Array, p: float) -> Array:
    """(x^p + y^p)^(1/p), computed from the larger of the two; the maximum where p is infinite."""
    large = np.maximum(x, y)
    if np.isinf(p):
        return large
    ratio = np.maximum(np.minimum(x, y) / np.maximum(large, 1e-300), 1e-300)
    # exponentials and logarithms are vectorised where powers are not
    return np.asarray(large * np.exp(np.log(1.0 + np.exp(p * np.log(ratio))) / p))


def rounded(waves: Array, share: float) -> Array:
    """Waves of work units over the processors, at least one; `share` of the way to the next whole
    wave.

    A share of 1 is a kernel whose last, partly filled wave takes as long as a full one; 0 one whose
    units are spread evenly.

    Args:
        waves: work units over processors.
        share: in [0, 1].
    """
    if share == 0.0:
        return np.maximum(1.0, waves)
    return np.maximum(1.0, waves + share * (np.ceil(waves - 1e-9) - waves))
