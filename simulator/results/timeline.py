"""What happened when? A simulation as trace events that Perfetto and Chrome's tracing page show.

One process per replica: lanes of requests (prompt, then decode), a queue, and counters of requests
and cache. Leaves out single iterations, of which there are too many to look at.

Reference: Google, "Trace Event Format", the JSON object form.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.units import MICRO
from hardware_profiles.whole_file import whole_file
from simulator.results.metrics import Series, SimulationResult

MOST_SHOWN_REQUESTS = 50_000
MOST_SHOWN_STATES = 20_000
_QUEUE_LANE = 0

Event = dict[str, Any]


def write_timeline(
    result: SimulationResult, path: str | Path, *, title: str = "simulation"
) -> None:
    """Write trace events; an existing file is replaced in one move.

    Args:
        result: of a simulation. Of more than `MOST_SHOWN_REQUESTS` requests the first are shown,
            and the file says so.
        path: JSON file to write; its folder must exist.
        title: what the file calls itself.

    Raises:
        InputError: the place cannot be written.
    """
    target = Path(path)
    with whole_file(target) as part, part.open("w", encoding="utf-8") as stream:
        _write(result, stream, title)


def timeline_events(result: SimulationResult) -> Iterator[Event]:
    """Trace events of a simulation, replica by replica.

    Args:
        result: of a simulation.

    Yields:
        Events with `ph` M (names), X (a request's prompt and decode), b and e (waiting), i
        (rejected) and C (counters), times in microseconds.
    """
    shown = result.request[:MOST_SHOWN_REQUESTS]
    replicas = result.replica[shown]
    for replica in range(max(result.replicas, len(result.series))):
        own = shown[replicas == replica]
        kind = "replica" if result.idle_passes is None else "rank"
        yield _named("process_name", replica, 0, f"{kind} {replica}")
        yield _named("thread_name", replica, _QUEUE_LANE, "queue")
        yield from _requests(result, replica, own)
        if replica < len(result.series):
            yield from _counters(result.series[replica], replica)


def lanes(starts: NDArray[np.float64], ends: NDArray[np.float64]) -> list[int]:
    """Lanes for intervals such that none overlaps another of its lane; as few as can be.

    Args:
        starts: any order.
        ends: not before them.

    Returns:
        The lane of every interval, from 0.
    """
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    chosen, used = [0] * len(starts), 0
    for index in np.argsort(starts, kind="stable").tolist():
        while busy and busy[0][0] <= starts[index]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, used = used, used + 1
        chosen[index] = lane
        heapq.heappush(busy, (float(ends[index]), lane))
    return chosen


def _write(result: SimulationResult, stream: TextIO, title: str) -> None:
    left_out = max(int(result.request.size) - MOST_SHOWN_REQUESTS, 0)
    about = {"title": title, "requests": int(result.request.size), "requests_left_out": left_out}
    stream.write(f'{{"displayTimeUnit": "ms", "otherData": {json.dumps(about)}, "traceEvents": [\n')
    separator = ""
    for event in timeline_events(result):
        stream.write(separator + json.dumps(event, allow_nan=False))
        separator = ",\n"
    stream.write("\n]}\n")


def _requests(result: SimulationResult, replica: int, own: NDArray[np.int64]) -> Iterator[Event]:
    """Waiting, prompts and decodes of one replica's requests."""
    states = result.state
    started = np.isfinite(result.scheduled_s[own])
    for index in own[~started].tolist():
        yield {
            "name": f"request {index} {states[index]}",
            "ph": "i",
            "s": "p",
            "cat": "queue",
            "pid": replica,
            "tid": _QUEUE_LANE,
            "ts": _us(result.arrival_s[index]),
        }
    own = own[started]
    begin = result.scheduled_s[own]
    first = _or(result.first_token_s[own], begin)
    last = _or(result.last_token_s[own], np.maximum(first, result.clock_s))
    for index, lane, start, token, end in zip(
        own.tolist(), lanes(begin, last), begin.tolist(), first.tolist(), last.tolist(), strict=True
    ):
        arrival = float(result.arrival_s[index])
        common = {"cat": "request", "pid": replica, "tid": lane + 1}
        about = {
            "request": index,
            "input_tokens": int(result.input_tokens[index]),
            "output_tokens": int(result.output_tokens[index]),
            "state": str(states[index]),
        }
        if start > arrival:
            waiting = {
                "name": "waiting",
                "cat": "queue",
                "id": index,
                "pid": replica,
                "tid": _QUEUE_LANE,
            }
            yield waiting | {"ph": "b", "ts": _us(arrival), "args": {"request": index}}
            yield waiting | {"ph": "e", "ts": _us(start)}
        yield common | {
            "name": "prompt",
            "ph": "X",
            "ts": _us(start),
            "dur": _us(token - start),
            "args": about,
        }
        yield common | {
            "name": "decode",
            "ph": "X",
            "ts": _us(token),
            "dur": _us(end - token),
            "args": about,
        }


def _counters(series: Series, replica: int) -> Iterator[Event]:
    """Requests and cache over time, thinned evenly where there are many states."""
    every = max(1, -(-series.t_s.size // MOST_SHOWN_STATES))
    columns = (series.t_s, series.running, series.waiting, series.kv_used_ratio)
    for t, running, waiting, used in zip(
        *(column[::every].tolist() for column in columns), strict=True
    ):
        at = {"ph": "C", "pid": replica, "ts": _us(t)}
        yield at | {"name": "requests", "args": {"running": running, "waiting": waiting}}
        yield at | {"name": "cache used, %", "args": {"used": round(100.0 * used, 3)}}


def _named(kind: str, replica: int, lane: int, name: str) -> Event:
    return {"name": kind, "ph": "M", "pid": replica, "tid": lane, "args": {"name": name}}


def _or(values: NDArray[np.float64], instead: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isfinite(values), values, instead)


def _us(seconds: float) -> float:
    return round(float(seconds) / MICRO, 3)
