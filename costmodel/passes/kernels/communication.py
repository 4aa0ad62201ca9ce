"""How long does an all-reduce take, by the library that runs it?

Small messages go through an engine's own kernels, large ones through NCCL. Leaves out links shared
with other traffic and groups that span several servers.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from costmodel.passes.kernels.timing import Timing
from costmodel.passes.ops import Array, Mask, Number
from hardware_profiles.errors import InputError
from hardware_profiles.fitted.constants import EngineAllReduce
from hardware_profiles.profile import Device

Backend = Literal["vllm", "trtllm", "nccl"]
BACKENDS: tuple[Backend, ...] = ("vllm", "trtllm", "nccl")
VLLM_MOST_BYTES = 16 * 2**20  # messages of this size and more leave vLLM's own kernels


@dataclass(frozen=True, kw_only=True, slots=True)
class Reductions:
    """Whose all-reduce kernels an engine runs, and up to how many devices.

    An engine's own kernels write into the memory of every peer. Where more devices take part than
    have direct links to each other (NVLink, Infinity Fabric), engines leave the call to NCCL.

    Args:
        backend: library of the calls that are not left to NCCL.
        most_over_host: devices that its kernels serve over links of the host (PCIe), >= 1.
        source: where both come from.

    >>> from hardware_profiles.loader import load_device
    >>> [Reductions().on(load_device(name), 4) for name in ("h100-sxm", "l40s")]
    ['vllm', 'nccl']
    """

    backend: Backend = "vllm"
    most_over_host: int = 2
    source: str = "ASSUMED where an engine's record does not say: those of vLLM, with its rule"

    def on(self, device: Device, devices: int) -> Backend:
        """The library that reduces over `devices` devices of a kind."""
        direct = device.direct_devices
        return (
            self.backend
            if direct is None or devices <= max(self.most_over_host, direct)
            else "nccl"
        )


def allreduce(
    device: Device,
    message_bytes: Number,
    devices: int,
    *,
    graphs: bool = True,
    backend: Backend = "vllm",
    one_shot: Mask | None = None,
) -> Timing:
    """All-reduce over `devices`: the cheaper of one-shot and two-shot kernels, or NCCL's ring for
    large messages.

    Args:
        device: profile of each participant.
        message_bytes: bytes reduced per device.
        devices: participants N; 1 costs nothing.
        graphs: captured in a graph; outside of one no call is shorter than its launch on the host.
        backend: whose kernels: vLLM's, TensorRT-LLM's, or NCCL alone.
        one_shot: calls that run the one-shot kernel although another one may be faster; None: none
            do.

    Returns:
        min[a + b·log2 N + (N-1)B/(e1·link), a + g + b·log2 N + 2(N-1)/N·B/(e2·link)] below the
        backend's largest message, and from there on a' + b'·N + 2(N-1)/N·B/(e'·link). A message
        just below takes no longer than that largest one, to which an engine may pad it.

    Raises:
        InputError: an unknown backend.
    """
    size = np.asarray(message_bytes, dtype=np.float64)
    if backend not in BACKENDS:
        raise InputError(f"must be one of {', '.join(BACKENDS)}", key="backend", value=backend)
    if devices == 1:
        return Timing(np.zeros_like(size), np.zeros(()), np.zeros(()), np.zeros(()))
    ring_launch, ring = _ring(device, size, devices)
    if backend == "nccl":
        launch, moved = ring_launch, ring
    else:
        own_launch, own = _own_kernels(device, size, devices, backend, one_shot)
        most = VLLM_MOST_BYTES if backend == "vllm" else device.constants.trtllm.most_bytes
        _, padded = _ring(device, np.maximum(size, most), devices)
        handed = (size >= most) | (ring_launch + padded < own_launch + own)
        launch, moved = np.where(handed, ring_launch, own_launch), np.where(handed, padded, own)
    if not graphs:
        launch = np.maximum(launch, device.constants.allreduce.eager_s - moved)
    return Timing(np.asarray(launch + moved), np.zeros(()), np.asarray(moved), np.asarray(launch))


def _ring(device: Device, size: Array, devices: int) -> tuple[Array, Array]:
    c = device.constants.nccl
    launch = np.asarray(c.launch_s + c.hop_s * devices)
    return launch, 2.0 * (devices - 1) / devices * size / (c.efficiency * device.link_bytes_per_s)


def _own_kernels(
    device: Device, size: Array, devices: int, backend: Backend, forced: Mask | None
) -> tuple[Array, Array]:
    c: EngineAllReduce = (
        device.constants.allreduce if backend == "vllm" else device.constants.trtllm
    )
    link = device.link_bytes_per_s
    one_shot = (devices - 1) * size / (c.one_shot_efficiency * link)
    two_shot = c.two_shot_s + 2.0 * (devices - 1) / devices * size / (c.two_shot_efficiency * link)
    faster = np.minimum(one_shot, two_shot)
    moved = faster if forced is None else np.where(forced, one_shot, faster)
    return np.asarray(c.launch_s + c.hop_s * np.log2(devices)), moved
