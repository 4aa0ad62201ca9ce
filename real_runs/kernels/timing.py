"""How long does one call take, warm-up, caches and neighbours taken care of?

Calls come in sets that do the same work on different memory: rotating through them keeps operands
out of the last-level cache, as the layers of a model do. On CUDA the rotation is one captured
graph, or plain launches, between two events, and nothing but the calls stands between them; on a
CPU process time stands beside wall time and a repeat during which something else held the processor
is left out; on Apple's GPU a repeat is many calls between two waits. Leaves out what the calls do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from statistics import median, quantiles
from typing import Any

import torch

from hardware_profiles.units import MILLI

Call = Callable[[], Any]
COLD_CACHES = 2.0  # operand bytes between two uses of the same memory, in caches
MOST_SETS = 256
MOST_CALLS_PER_GRAPH = 16  # enough to spread the start of a graph; a flush makes them cold
LEAST_CALLS_PER_GRAPH = 4  # of short calls, so that the start of a graph is a small part of each
_SHORT_CALL_S = 2 * MILLI
_REPEAT_S = 0.4 * MILLI
_WAIT_S = (
    4 * MILLI
)  # of queued calls between two waits, each of which takes a part of a millisecond
_MOST_TRIES = 4
LEAST_PROCESS_SHARE = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """Times of one call.

    Attributes:
        median_s: over the repeats that count.
        low_s: their lower quartile.
        high_s: their upper quartile.
        repeats: that count.
        discarded: repeats that do not.
        outliers: of those that count, repeats of more than twice the median.
        graph: a captured graph was replayed.
        cpu_ratio: process time over wall time; 0 on other devices than a CPU.
        times: seconds of every repeat; of several rounds also those of the slower half, which does
            not count.
    """

    median_s: float
    low_s: float
    high_s: float
    repeats: int
    discarded: int
    outliers: int
    graph: bool
    cpu_ratio: float
    times: tuple[float, ...] = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """How much time one measurement may take.

    Attributes:
        repeats: most repeats.
        budget_s: seconds after which no further repeat is begun; at least `least` are made, one of
            very long calls.
        graph: replay a captured graph where the device can.
        longest_call_s: a call estimated to take longer is not made.
        least: fewest repeats.
    """

    repeats: int = 15
    budget_s: float = 0.05
    graph: bool = True
    longest_call_s: float = 1.0
    least: int = 3

    def shared(self, rounds: int) -> Effort:
        """The effort of one of `rounds` >= 1 rounds: repeats and budget are divided among them."""
        repeats = -(-self.repeats // rounds)
        return replace(
            self, repeats=repeats, budget_s=self.budget_s / rounds, least=min(self.least, repeats)
        )


class BusyProcessorError(RuntimeError):
    """Every repeat was disturbed by another process."""


class CaptureError(RuntimeError):
    """Calls that the device does not let be captured as a graph."""


class Flush:
    """Two buffers that push everything else out of a GPU's cache.

    The first is written and the second read: lines that were only written would wait in the cache
    and be written to memory while the timed call runs.

    Args:
        cache_bytes: last-level cache.
        device: CUDA device.
    """

    def __init__(self, cache_bytes: int, device: torch.device) -> None:
        values = 2 * max(cache_bytes, 1) // 4
        self._written = torch.zeros(values, device=device)
        self._read = torch.zeros(values, device=device)
        self._sum = torch.zeros((), device=device)

    def __call__(self) -> None:
        """Flush."""
        self._written.zero_()
        torch.sum(self._read, dim=0, out=self._sum)


def sets_needed(
    bytes_per_set: float, cache_bytes: int, memory_bytes: float, *, most: int = MOST_SETS
) -> int:
    """Operand sets to rotate through so that each is cold again, as far as memory and `most`
    allow.
    """
    wanted = -(-COLD_CACHES * cache_bytes // max(bytes_per_set, 1.0))
    return int(max(1, min(wanted, most, memory_bytes // max(bytes_per_set, 1.0))))


def is_cold(bytes_per_set: float, sets: int, cache_bytes: int) -> bool:
    """Whether memory is evicted between two uses: what the other sets touch fills the cache several
    times.
    """
    return bytes_per_set * sets >= COLD_CACHES * cache_bytes


def measure(
    groups: Mapping[str, Sequence[Call]],
    device: torch.device,
    effort: Effort,
    *,
    flush: Flush | None = None,
) -> dict[str, Measurement | Exception]:
    """Time several implementations of the same operation.

    Args:
        groups: calls of each implementation, one per operand set.
        device: where they run.
        effort: repeats and time.
        flush: on CUDA, what runs before every repeat of a captured graph.

    Returns:
        Per implementation its times, or what it raised.
    """
    if device.type == "cuda":
        return {
            name: _caught(partial(measure_cuda, calls, effort, flush))
            for name, calls in groups.items()
        }
    if device.type == "mps":
        return {
            name: _caught(partial(measure_queued, calls, effort, torch.mps.synchronize))
            for name, calls in groups.items()
        }
    return measure_cpu(groups, effort)


def measure_queued(
    calls: Sequence[Call], effort: Effort, wait: Callable[[], object]
) -> Measurement:
    """Time calls that a device works through after they returned, so many between two waits that
    the waits are a small part.

    Args:
        calls: of one implementation, one per operand set.
        effort: repeats and time.
        wait: returns when the device has done what it was given.
    """

    def seconds(count: int) -> float:
        wait()
        start = time.perf_counter()
        for index in range(count):
            calls[index % len(calls)]()
        wait()
        return time.perf_counter() - start

    seconds(1)  # compilation
    count = max(1, min(MOST_SETS, round(_WAIT_S / max(seconds(1), 1e-6))))
    count = max(1, min(MOST_SETS, round(_WAIT_S * count / max(seconds(count), 1e-6))))
    once = seconds(count)
    repeats = max(effort.least, min(effort.repeats, int(effort.budget_s / max(once, 1e-6))))
    times = [seconds(count) / count for _ in range(repeats if once <= effort.longest_call_s else 1)]
    return _summary(times, discarded=0, graph=False, cpu_ratio=0.0)


def measure_cuda(calls: Sequence[Call], effort: Effort, flush: Flush | None) -> Measurement:
    """Time one rotation per repeat between CUDA events.

    Captured rotations follow a flush, which makes them cold and hides the start of the graph.
    Launches one by one follow nothing: a flush would hide what they cost.

    Raises:
        CaptureError: the calls cannot be captured; times of launches are never given for those of a
            graph.
    """
    stream = _timing_stream(torch.cuda.current_device())
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls[:2]:  # compilation, handles and workspaces
            call()
        first = _event_times(calls[0], None, 1)[0]
        graph = None
        if effort.graph:
            if first < _SHORT_CALL_S and len(calls) < LEAST_CALLS_PER_GRAPH:
                calls = [calls[index % len(calls)] for index in range(LEAST_CALLS_PER_GRAPH)]
            graph = _captured(calls, stream)
        else:
            flush = None
        run: Call = graph.replay if graph is not None else lambda: [call() for call in calls]
        _event_times(run, flush, 1)  # the first replay loads the graph
        once = _event_times(run, flush, 1)[0]
        repeats = max(effort.least, min(effort.repeats, int(effort.budget_s / max(once, 1e-6))))
        times = _event_times(run, flush, repeats if once <= effort.longest_call_s else 1)
    if graph is not None:
        graph.reset()
    return _summary(
        [t / len(calls) for t in times], discarded=0, graph=graph is not None, cpu_ratio=0.0
    )


def measure_cpu(
    groups: Mapping[str, Sequence[Call]], effort: Effort
) -> dict[str, Measurement | Exception]:
    """Time a few calls of each implementation in turn, going on through the sets, until enough
    repeats count.

    A repeat is kept far shorter than the time for which a scheduler takes the processor away, where
    the call is short enough, and a disturbance meets all implementations alike.
    """
    measured: dict[str, Measurement | Exception] = {}
    calls_per_repeat: dict[str, int] = {}
    wanted: dict[str, int] = {}
    for name, calls in groups.items():
        try:
            calls[0]()
            once = min(cpu_time(calls, 0, 1)[0] for _ in range(2))
        except Exception as error:
            measured[name] = error
            continue
        calls_per_repeat[name] = max(1, round(_REPEAT_S / max(once, 1e-9)))
        repeat_s = once * calls_per_repeat[name]
        wanted[name] = max(
            effort.least, min(effort.repeats, int(effort.budget_s / max(repeat_s, 1e-9)))
        )
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in wanted}
    at = 0  # shared by all implementations: they read the same sets
    for _ in range(_MOST_TRIES * max(wanted.values(), default=0)):
        for name, count in wanted.items():
            kept = len(_undisturbed(samples[name]))
            if kept < count and len(samples[name]) < _MOST_TRIES * count:
                samples[name].append(cpu_time(groups[name], at, calls_per_repeat[name]))
                at += calls_per_repeat[name]
    for name, taken in samples.items():
        kept_samples = _undisturbed(taken)
        if not kept_samples:
            measured[name] = BusyProcessorError(
                "another process held the processor during every repeat"
            )
            continue
        times_s = [wall / calls_per_repeat[name] for wall, _ in kept_samples]
        ratio = median(cpu / wall for wall, cpu in kept_samples)
        measured[name] = _summary(
            times_s, discarded=len(taken) - len(times_s), graph=False, cpu_ratio=ratio
        )
    return measured


def pooled(first: Measurement, second: Measurement) -> Measurement:
    """Both rounds of the same calls: of all repeats the faster half counts, the others are
    discarded.
    """
    times = (*first.times, *second.times)
    kept = sorted(times)[: -(-len(times) // 2)]
    disturbed = sum(
        measurement.discarded - (len(measurement.times) - measurement.repeats)
        for measurement in (first, second)
    )
    ratio = (first.cpu_ratio * len(first.times) + second.cpu_ratio * len(second.times)) / len(times)
    whole = _summary(
        kept, discarded=disturbed + len(times) - len(kept), graph=first.graph, cpu_ratio=ratio
    )
    return replace(whole, times=times)


def _undisturbed(samples: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Repeats that had the processor to themselves: process time per wall time near the best seen,
    at least one.
    """
    best = max((cpu / wall for wall, cpu in samples), default=1.0)
    return [
        (wall, cpu) for wall, cpu in samples if cpu / wall >= LEAST_PROCESS_SHARE * max(1.0, best)
    ]


def cpu_time(calls: Sequence[Call], start: int, count: int) -> tuple[float, float]:
    """Wall and process time of `count` calls from the set `start` on."""
    chosen = [calls[index % len(calls)] for index in range(start, start + count)]
    cpu, wall = time.process_time(), time.perf_counter()
    for call in chosen:
        call()
    return time.perf_counter() - wall, time.process_time() - cpu


def _event_times(run: Call, flush: Flush | None, repeats: int) -> list[float]:
    pairs = [(_event(), _event()) for _ in range(repeats)]
    for start, end in pairs:
        if flush is not None:
            flush()
        start.record()
        run()
        end.record()
    torch.cuda.current_stream().synchronize()
    return [start.elapsed_time(end) * MILLI for start, end in pairs]


@cache
def _timing_stream(index: int) -> torch.cuda.Stream:
    """One stream of a device for all measurements: every further one would take a workspace of its
    own.
    """
    return torch.cuda.Stream(index)  # type: ignore[no-untyped-call]


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _captured(calls: Sequence[Call], stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
    """The rotation as a graph.

    Raises:
        CaptureError: an operation cannot be captured.
    """
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream):
            for call in calls:
                call()
    except RuntimeError as error:
        torch.cuda.synchronize()
        lines = str(error).strip().splitlines()
        raise CaptureError(
            f"cannot be captured: {lines[0] if lines else type(error).__name__}"
        ) from None
    return graph


def _summary(
    times: Sequence[float], *, discarded: int, graph: bool, cpu_ratio: float
) -> Measurement:
    middle = median(times)
    low, _, high = (
        quantiles(times, n=4, method="inclusive") if len(times) > 1 else (middle, middle, middle)
    )
    return Measurement(
        median_s=middle,
        low_s=min(low, middle),
        high_s=max(high, middle),
        repeats=len(times),
        discarded=discarded,
        outliers=sum(t > 2 * middle for t in times),
        graph=graph,
        cpu_ratio=cpu_ratio,
        times=tuple(times),
    )


def _caught(run: Callable[[], Measurement]) -> Measurement | Exception:
    try:
        return run()
    except Exception as error:
        return error
