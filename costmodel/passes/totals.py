"""What are the operations of a pass, and what do they sum to?

Leaves out which operations a pass has (`forward`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

from costmodel.passes.kernels import Timing
from costmodel.passes.ops import Array, Number, Work

Index = npt.NDArray[np.intp]


class Operation(NamedTuple):
    """One operation of a pass.

    Args:
        name: which sum it belongs to: gemm, attention, mla, state, moe, elementwise, allreduce,
            head, sampler.
        timing: seconds of one call.
        work: FLOPs and bytes of one call.
        role: the projection that a matrix product applies; empty for other operations.
        calls: how often it runs in the pass, on average.
        sizes: what it is called with, as tables of kernels name it; arrays that broadcast with its
            seconds.
        back: where each point finds its own, of arrays that have one entry per distinct number of
            rows; None: every array has one entry per point.
    """

    name: str
    timing: Timing
    work: Work
    role: str = ""
    calls: float = 1
    sizes: Mapping[str, Number] | None = None
    back: Index | None = None

    def whole(self) -> "Operation":
        """The operation with one entry per point."""
        back = self.back
        if back is None:
            return self
        sizes = self.sizes and {
            name: _at(np.asarray(size), back) for name, size in self.sizes.items()
        }
        timing, work = (
            Timing(*(_at(part, back) for part in self.timing)),
            Work(*(_at(part, back) for part in self.work)),
        )
        return self._replace(timing=timing, work=work, sizes=sizes, back=None)


def _at(values: Array, back: Index) -> Array:
    return values[back] if np.ndim(values) else values


class Operations(Sequence[Operation]):
    """Operations of a pass, each spread over its points when it is first looked at: most passes are
    only summed.
    """

    __slots__ = ("_compact", "_whole")

    def __init__(self, *parts: "Sequence[Operation]") -> None:
        self._compact: list[Operation] = []
        for part in parts:
            self._compact += part._compact if isinstance(part, Operations) else part
        self._whole: tuple[Operation, ...] | None = None

    def __iter__(self) -> Iterator[Operation]:
        if self._whole is None:
            self._whole = tuple(operation.whole() for operation in self._compact)
        return iter(self._whole)

    def __len__(self) -> int:
        return len(self._compact)

    @overload
    def __getitem__(self, index: int) -> Operation: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Operation, ...]: ...
    def __getitem__(self, index: int | slice) -> Operation | tuple[Operation, ...]:
        return tuple(self)[index]


@dataclass(frozen=True, kw_only=True, slots=True)
class PassCost:
    """Cost of a pass; every array broadcasts over the batch, query-token and context arguments.

    Args:
        seconds: by operation: gemm, attention, mla, state, moe, elementwise, allreduce, head,
            sampler.
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
    operations: Sequence[Operation] = ()

    @property
    def total_s(self) -> Array:
        """Seconds of the pass."""
        return np.asarray(sum(self.seconds.values(), start=np.zeros(())))

    @property
    def limit(self) -> Array:
        """What bounds the pass: `bandwidth`, `compute` or `launch`, whichever alone would take
        longest.
        """
        parts = np.stack(np.broadcast_arrays(self.memory_s, self.compute_s, self.launch_s))
        return np.asarray(np.array(["bandwidth", "compute", "launch"])[np.argmax(parts, axis=0)])


def added(one: PassCost, other: PassCost) -> PassCost:
    """Two passes that run one after the other, as one."""
    # keys in the order in which they first occur, which a set would lose
    names = dict.fromkeys((*one.seconds, *other.seconds))
    zero = np.zeros(())
    return PassCost(
        seconds={
            name: one.seconds.get(name, zero) + other.seconds.get(name, zero) for name in names
        },
        flops=one.flops + other.flops,
        bytes=one.bytes + other.bytes,
        compute_s=one.compute_s + other.compute_s,
        memory_s=one.memory_s + other.memory_s,
        launch_s=one.launch_s + other.launch_s,
        operations=Operations(one.operations, other.operations),
    )


def scaled(operation: Operation, ratio: Array | float) -> Operation:
    """The operation with seconds, FLOPs and bytes multiplied by a ratio."""
    if isinstance(ratio, float) and ratio == 1.0:
        return operation
    if np.ndim(ratio):
        operation = operation.whole()
    timing, w = Timing(*(ratio * part for part in operation.timing)), operation.work
    return operation._replace(
        timing=timing, work=Work(ratio * w.flops, ratio * w.bytes, ratio * w.written_bytes)
    )


class _Sums:
    """Running sums of operations whose arrays have the same entries."""

    def __init__(self) -> None:
        self.seconds: dict[str, Array] = {}
        zero = np.zeros(())
        self.flops, self.bytes, self.compute, self.memory, self.launch = (
            zero,
            zero,
            zero,
            zero,
            zero,
        )

    def add(self, operation: Operation) -> None:
        name, timing, work, count = (
            operation.name,
            operation.timing,
            operation.work,
            operation.calls,
        )
        self.seconds[name] = self.seconds.get(name, np.zeros(())) + count * timing.seconds
        self.flops = self.flops + count * work.flops
        self.bytes = self.bytes + count * work.bytes
        self.compute = self.compute + count * timing.compute_s
        self.memory = self.memory + count * timing.memory_s
        self.launch = self.launch + count * timing.launch_s

    def merge(self, other: "_Sums", back: Index) -> None:
        """Add sums over distinct rows, each at the points that have them."""
        for name, value in other.seconds.items():
            self.seconds[name] = self.seconds.get(name, np.zeros(())) + _at(value, back)
        self.flops = self.flops + _at(other.flops, back)
        self.bytes = self.bytes + _at(other.bytes, back)
        self.compute = self.compute + _at(other.compute, back)
        self.memory = self.memory + _at(other.memory, back)
        self.launch = self.launch + _at(other.launch, back)


class Tally:
    """Running sums of a pass; arrays keep their own small shapes until the total is read."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._sums = _Sums()
        # arrays of distinct rows are summed apart by the index that spreads them; operations of a
        # pass share few of those
        self._distinct: dict[int, tuple[_Sums, Index]] = {}

    def add(self, operation: Operation) -> None:
        """Count an operation as often as it runs."""
        self.operations.append(operation)
        back = operation.back
        if back is None:
            self._sums.add(operation)
        else:
            self._distinct.setdefault(id(back), (_Sums(), back))[0].add(operation)

    def cost(self) -> PassCost:
        """The sums."""
        for sums, back in self._distinct.values():
            self._sums.merge(sums, back)
        self._distinct = {}
        total = self._sums
        return PassCost(
            seconds=total.seconds,
            flops=total.flops,
            bytes=total.bytes,
            compute_s=total.compute,
            memory_s=total.memory,
            launch_s=total.launch,
            operations=Operations(self.operations),
        )
