"""Which of many shapes can be timed before a deadline, and what was measured?

Shapes are taken coarse first, so that a sweep that is stopped leaves a usable grid. Whatever cannot
be built, is wrong, does not fit or would take too long becomes a record with its reason. Leaves out
what is timed.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from real_runs.kernels.kernel_names import kernel_names
from real_runs.kernels.machine import Machine, synchronize
from real_runs.kernels.timing import (
    MOST_CALLS_PER_GRAPH,
    MOST_SETS,
    Call,
    Effort,
    Flush,
    Measurement,
    is_cold,
    measure,
    pooled,
    sets_needed,
)
from traces.storage.kernels import KernelRow

_REASON_CHARACTERS = 200
_Earlier = dict[
    str, tuple[int, Measurement]
]  # by implementation: place of the row, and what was measured so far
_NAMING_SHARE = 0.15  # of a sweep's time that is kept for looking kernel names up


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One implementation at one shape.

    Attributes:
        calls: one per operand set.
        fields: of `KernelRow`, which override those of the case.
    """

    calls: Sequence[Call]
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One shape to time.

    Attributes:
        shape: fields of `KernelRow` that all implementations share, the operation and dtype among
            them.
        flops: operations that a call needs.
        bytes: bytes that a call must move.
        set_bytes: memory of one operand set.
        build: number of sets to implementations, each built when called.
        scratch: bytes that an implementation needs besides.
        refused: implementations that are asked for and cannot run this shape, with the reason.
        most_sets: sets that make sense at most.
    """

    shape: Mapping[str, Any]
    flops: float
    bytes: float
    set_bytes: float
    build: Callable[[int], Mapping[str, Callable[[], Variant]]]
    scratch: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    most_sets: int = MOST_SETS


@dataclass(kw_only=True, slots=True)
class Swept:
    """What a sweep has so far.

    Attributes:
        rows: of what was timed.
        skipped: fields of shapes without a row, with the `reason`.
        device_lost: the device answers no more.
    """

    rows: list[KernelRow] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)
    device_lost: bool = False


class DeviceLostError(RuntimeError):
    """The device answers no call any more."""


def coarse_first(axes: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """All combinations, those of every axis' ends first, then of its middles, then of what lies
    between.

    Example:
        >>> coarse_first([[1, 2, 4], [7]])
        [(1, 7), (4, 7), (2, 7)]
    """
    levels = [_levels(len(axis)) for axis in axes]
    picks = itertools.product(*(range(len(axis)) for axis in axes))
    ordered = sorted(
        picks, key=lambda pick: (sum(level[i] for level, i in zip(levels, pick, strict=True)), pick)
    )
    return [tuple(axis[i] for axis, i in zip(axes, pick, strict=True)) for pick in ordered]


def sweep(
    cases: Iterable[Case],
    machine: Machine,
    effort: Effort,
    *,
    deadline: float,
    rounds: int = 1,
    should_stop: Callable[[], bool] = lambda: False,
    checkpoint: Callable[[Swept], None] = lambda swept: None,
    names: bool = True,
    measured: Sequence[KernelRow] = (),
) -> Swept:
    """Time every case until the deadline.

    Args:
        cases: in order of importance.
        machine: where.
        effort: repeats and time of one measurement.
        deadline: `time.monotonic()` at which to end.
        rounds: times that all cases are gone through, with their share of the effort; of the
            repeats of several rounds the faster half counts.
        should_stop: asked between shapes.
        checkpoint: called between shapes with what is there.
        names: look up the kernels that ran, in the last part of the time.
        measured: rows that an earlier call left; their shapes are done, and they are part of the
            result.
    """
    swept = Swept(rows=list(measured))
    cases = _left(list(cases), measured)
    begun = time.monotonic()
    timing_end = deadline - (_NAMING_SHARE * (deadline - begun) if names else 0.0)
    share = effort.shared(rounds) if rounds > 1 else effort
    earlier: list[_Earlier] = [{} for _ in cases]
    pace: dict[str, float] = {}
    flush = Flush(machine.cache_bytes, machine.device) if machine.device.type == "cuda" else None
    for turn, index in itertools.product(range(rounds), range(len(cases))):
        case = cases[index]
        if should_stop() or time.monotonic() > timing_end:
            reason = ("stopped" if should_stop() else "no time left") + (
                f" in round {turn + 1}" if turn else ""
            )
            swept.skipped.append(
                {
                    "operation": case.shape["operation"],
                    "cases": len(cases) - index,
                    "reason": reason,
                }
            )
            break
        try:
            _time_case(case, machine, share, flush, pace, swept, earlier[index])
        except DeviceLostError as error:
            swept.device_lost = True
            swept.skipped.append({**case.shape, "reason": str(error)})
            break
        checkpoint(swept)
    if names and not swept.device_lost:
        _look_names_up(cases, machine, swept, deadline, should_stop)
    return swept


def _left(cases: list[Case], measured: Sequence[KernelRow]) -> list[Case]:
    """Cases of which no row is known; a shape is timed with all its implementations before the next
    one.
    """
    if not cases or not measured:
        return cases
    done = {_key(row, cases[0].shape) for row in measured}
    return [case for case in cases if tuple(case.shape.values()) not in done]


def _time_case(
    case: Case,
    machine: Machine,
    effort: Effort,
    flush: Flush | None,
    pace: dict[str, float],
    swept: Swept,
    earlier: _Earlier,
) -> None:
    """Time one shape with every implementation; a rate seen before spares calls that would take too
    long.
    """

    def skip(name: str, reason: str) -> None:
        entry = {**case.shape, "implementation": name, "reason": reason}
        if entry not in swept.skipped:
            swept.skipped.append(entry)

    for name, reason in case.refused.items():
        skip(name, reason)
    least_s = machine.least_seconds(case.flops, case.bytes)
    if case.set_bytes > machine.memory_bytes:
        skip("", f"operands of {case.set_bytes:.3g} bytes exceed {machine.memory_bytes:.3g}")
    elif least_s > effort.longest_call_s:
        skip("", f"takes {least_s:.3g} s at best")
    else:
        most = min(case.most_sets, MOST_SETS if flush is None else MOST_CALLS_PER_GRAPH)
        sets = sets_needed(case.set_bytes, machine.cache_bytes, machine.memory_bytes, most=most)
        variants = _variants(
            case, sets, machine, effort, {n: p * least_s for n, p in pace.items()}, skip
        )
        calls = {name: variant.calls for name, variant in variants.items()}
        flushed = flush is not None and effort.graph
        cold = flushed or is_cold(case.set_bytes, sets, machine.cache_bytes)
        for name, result in measure(calls, machine.device, effort, flush=flush).items():
            if isinstance(result, Exception):
                skip(name, _reason(result))
                continue
            place, first_round = earlier.get(name, (len(swept.rows), None))
            pooled_result = pooled(first_round, result) if first_round is not None else result
            swept.rows[place : place + 1] = [
                _row(case, name, variants[name].fields, pooled_result, sets, cold)
            ]
            earlier[name] = place, pooled_result
            pace[name] = min(pace.get(name, float("inf")), result.median_s / max(least_s, 1e-9))
    _release(machine)


def _variants(
    case: Case,
    sets: int,
    machine: Machine,
    effort: Effort,
    estimates_s: Mapping[str, float],
    skip: Callable[[str, str], None],
) -> dict[str, Variant]:
    """Build the implementations that fit in memory and time."""
    variants: dict[str, Variant] = {}
    try:
        builders = case.build(sets)
    except Exception as error:
        skip("", _reason(error))
        return {}
    for name, build in builders.items():
        if case.scratch.get(name, 0.0) > machine.memory_bytes:
            skip(
                name,
                f"scratch of {case.scratch[name]:.3g} bytes exceeds {machine.memory_bytes:.3g}",
            )
        elif estimates_s.get(name, 0.0) > effort.longest_call_s:
            skip(name, f"would take about {estimates_s[name]:.3g} s")
        else:
            try:
                variants[name] = build()
            except Exception as error:
                skip(name, _reason(error))
    return variants


def _row(
    case: Case, name: str, extra: Mapping[str, Any], result: Measurement, sets: int, cold: bool
) -> KernelRow:
    fields: dict[str, Any] = {
        key: getattr(result, key) for key in Measurement.__slots__ if key != "times"
    }
    fields |= {
        "flops": case.flops,
        "bytes": case.bytes,
        "sets": sets,
        "cold": cold,
        **case.shape,
        **extra,
    }
    return KernelRow(implementation=name, **fields)


def _look_names_up(
    cases: Sequence[Case],
    machine: Machine,
    swept: Swept,
    deadline: float,
    should_stop: Callable[[], bool],
) -> None:
    """Run one call of each measured implementation again under the profiler, as far as time
    allows.
    """
    by_shape: dict[tuple[Any, ...], list[int]] = {}
    if not cases:
        return
    for index, row in enumerate(swept.rows):
        by_shape.setdefault(_key(row, cases[0].shape), []).append(index)
    for case in cases:  # of this call
        indices = by_shape.get(tuple(case.shape.values()), [])
        if time.monotonic() > deadline or should_stop():
            return
        if not indices or case.set_bytes > machine.memory_bytes / 4:
            continue
        try:
            builders = case.build(1)
            for index in indices:
                row = swept.rows[index]
                names = kernel_names(builders[row.implementation]().calls[0], machine.device)
                swept.rows[index] = replace(row, kernels=names)
        except Exception as error:
            swept.skipped.append({**case.shape, "reason": f"kernels not named: {_reason(error)}"})
            return


def _key(row: KernelRow, shape: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in shape)


def _levels(length: int) -> list[int]:
    """How early each place of an axis is wanted: the ends 0, their middle 1, the middles between 2
    and so on.
    """
    levels = [0] * length
    spans = [(0, length - 1, 1)]
    while spans:
        low, high, level = spans.pop()
        if high - low > 1:
            middle = (low + high) // 2
            levels[middle] = level
            spans += [(low, middle, level + 1), (middle, high, level + 1)]
    return levels


def _release(machine: Machine) -> None:
    """Give memory back, and find out whether the device still answers.

    Raises:
        DeviceLostError: it does not.
    """
    if machine.device.type == "cpu":
        return
    try:
        synchronize(machine.device)
        getattr(torch, machine.device.type).empty_cache()
    except RuntimeError as error:
        raise DeviceLostError(f"the device answers no more: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:_REASON_CHARACTERS]
