"""What are the operations of a pass, and what do they sum to?

Leaves out which operations a pass has (`forward`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from costmodel.passes.kernels import Timing
from costmodel.passes.ops import Array, Number, Work


class Operation(NamedTuple):
    """One operation of a pass.

    Args:
        name: which sum it belongs to: gemm, attention, mla, state, moe, elementwise, allreduce, head,
            sampler.
        timing: seconds of one call.
        work: FLOPs and bytes of one call.
        role: the projection that a matrix product applies; empty for other operations.
        calls: how often it runs in the pass, on average.
        sizes: what it is called with, as tables of kernels name it; arrays that broadcast with its seconds.
    """

    name: str
    timing: Timing
    work: Work
    role: str = ""
    calls: float = 1
    sizes: Mapping[str, Number] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PassCost:
    """Cost of a pass; every array broadcasts over the batch, query-token and context arguments.

    Args:
        seconds: by operation: gemm, attention, mla, state, moe, elementwise, allreduce, head, sampler.
        flops: of all operations, one device.
        bytes: moved from memory, one device.
        compute_s: time the arithmetic alone would take.
        memory_s: time the traffic alone would take.
        launch_s: launches and synchronisation.
        operations: what the sums are made of.
    """

    seconds: Mapping[str, Array]
    flops: Array
    bytes: Array
    compute_s: Array
    memory_s: Array
    launch_s: Array
    operations: tuple[Operation, ...] = ()

    @property
    def total_s(self) -> Array:
        """Seconds of the pass."""
        return np.asarray(sum(self.seconds.values(), start=np.zeros(())))

    @property
    def limit(self) -> Array:
        """What bounds the pass: `bandwidth`, `compute` or `launch`, whichever alone would take longest."""
        parts = np.stack(np.broadcast_arrays(self.memory_s, self.compute_s, self.launch_s))
        return np.asarray(np.array(["bandwidth", "compute", "launch"])[np.argmax(parts, axis=0)])


def scaled(operation: Operation, ratio: Array | float) -> Operation:
    """The operation with seconds, FLOPs and bytes multiplied by a ratio."""
    if isinstance(ratio, float) and ratio == 1.0:
        return operation
    timing, w = Timing(*(ratio * part for part in operation.timing)), operation.work
    return operation._replace(timing=timing, work=Work(ratio * w.flops, ratio * w.bytes, ratio * w.written_bytes))


class Tally:
    """Running sums of a pass; arrays keep their own small shapes until the total is read."""

    def __init__(self) -> None:
        self.seconds: dict[str, Array] = {}
        self.operations: list[Operation] = []
        zero = np.zeros(())
        self.flops, self.bytes, self.compute, self.memory, self.launch = zero, zero, zero, zero, zero

    def add(self, operation: Operation) -> None:
        """Count an operation as often as it runs."""
        name, timing, work, count = operation.name, operation.timing, operation.work, operation.calls
        self.operations.append(operation)
        self.seconds[name] = self.seconds.get(name, np.zeros(())) + count * timing.seconds
        self.flops = self.flops + count * work.flops
        self.bytes = self.bytes + count * work.bytes
        self.compute = self.compute + count * timing.compute_s
        self.memory = self.memory + count * timing.memory_s
        self.launch = self.launch + count * timing.launch_s

    def cost(self) -> PassCost:
        """The sums."""
        return PassCost(
            seconds=self.seconds,
            flops=self.flops,
            bytes=self.bytes,
            compute_s=self.compute,
            memory_s=self.memory,
            launch_s=self.launch,
            operations=tuple(self.operations),
        )
