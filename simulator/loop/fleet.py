"""What do the engines of a pool remember, and which rules do all of them obey?

One row per replica, so that compiled code goes from one to the next. Leaves out which of them takes
a request (`simulator.loop.front`) and when they advance (`simulator.loop.service`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from simulator.loop.compiled import compiled
from simulator.loop.decoders.record import Decoder, Places, Steps
from simulator.loop.state import (
    CHUNK,
    QUEUE,
    REPLICA,
    SEAT,
    SHARED_BLOCK,
    Blocks,
    Buffers,
    Chunks,
    Prefixes,
    Queue,
    Real,
    Replica,
    SchedulerLimits,
    Seats,
    Small,
    Whole,
    fresh,
)
from simulator.loop.tables import Tables


class Fleet(NamedTuple):
    """Arrays of n engines; the first index is the replica's.

    Args:
        replicas: records of their numbers.
        due_s: float64[n], until when no request of theirs ends, as far as is known, and nothing
            else happens to them that the front end could see; infinity: they have nothing to do.
        ended: int64[n], requests that they are done with.
        queue: see `Buffers`, as all that follows.
    """

    replicas: Any  # an array of REPLICA
    due_s: Real
    ended: Whole
    queue: Queue
    running: Small
    seats: Seats | None
    chunks: Chunks
    pieces: Chunks | None
    blocks: Blocks
    counts: Whole
    memory: Real | None


class Rules(NamedTuple):
    """What every engine of a pool obeys.

    Args:
        prefixes: blocks of the prompts.
        limits: of the scheduler, as a record.
        d: the decoder's numbers; None: plain decoding, as all up to `tables`.
        steps: that requests walk along.
        places: in the recording.
        tables: of the decoder.
        t: numbers of the tables of seconds, as a record.
        seconds: those tables.
        merge: True: iterations that differ in their context alone are advanced together; None: they
            are not.
        asked: a timer is asked for the seconds of every iteration; the tables hold none.
    """

    prefixes: Prefixes
    limits: SchedulerLimits
    d: Decoder | None
    steps: Steps | None
    places: Places | None
    tables: Real | None
    t: Tables
    seconds: Real
    merge: bool | None
    asked: bool


def new_fleet(
    limits: SchedulerLimits,
    prefixes: Prefixes,
    replicas: int,
    room: int,
    *,
    groups: bool = False,
    memory: Real | None = None,
) -> Fleet:
    """Engines that have seen nothing.

    Args:
        limits: of every engine.
        prefixes: of the workload.
        replicas: how many there are, n.
        room: most requests that each can be sent.
        groups: whether those that decode are verified in groups.
        memory: of a policy of draft lengths, as it begins.
    """
    n, most, entries = replicas, min(limits.max_requests, room), prefixes.entries
    blocks = np.zeros((n, entries + 1), SHARED_BLOCK)
    blocks["previous"][:, entries] = blocks["next"][:, entries] = entries
    seats = pieces = None
    if groups or limits.numbered_slots or limits.pass_tokens:
        slots = limits.max_requests if limits.numbered_slots else 1
        seats = np.zeros((n, max(most, slots) + 1), SEAT)
        pieces = np.zeros((n, most + 1), CHUNK)
        seats["slot_left"][:, :slots] = -1 - np.arange(slots)
    records = np.zeros(n, REPLICA)
    for replica in records:
        fresh(replica, limits)
    return Fleet(
        replicas=records,
        due_s=np.full(n, np.inf),
        ended=np.zeros(n, np.int64),
        queue=np.zeros((n, room), QUEUE),
        running=np.zeros((n, most + 1), np.int32),
        seats=seats,
        chunks=np.zeros((n, most + 1), CHUNK),
        pieces=pieces,
        blocks=blocks,
        counts=np.zeros((n, 4, max(most + 2, limits.most_rows + 1)), np.int64),
        memory=None if memory is None else np.repeat(memory[np.newaxis], n, axis=0),
    )


def with_room(fleet: Fleet, room: int) -> Fleet:
    """The same engines, each of which can be sent so many requests; no fewer than before."""
    queue = np.zeros((len(fleet.due_s), room), QUEUE)
    queue[:, : fleet.queue.shape[1]] = fleet.queue
    return fleet._replace(queue=queue)


def part_of(fleet: Fleet, index: int) -> Fleet:
    """One engine, in the arrays of all."""
    rows: dict[str, Any] = {
        name: None if array is None else array[index : index + 1]
        for name, array in fleet._asdict().items()
    }
    return fleet._replace(**rows)


@compiled
def _row(array: Any, index: int) -> Any:
    if array is None:
        return None
    return array[index]


@compiled
def buffers_of(fleet: Fleet, index: int) -> Buffers:
    """The arrays of one engine."""
    return Buffers(
        fleet.queue[index],
        fleet.running[index],
        _row(fleet.seats, index),
        fleet.chunks[index],
        _row(fleet.pieces, index),
        fleet.blocks[index],
        fleet.counts[index],
        _row(fleet.memory, index),
    )


def replica_of(fleet: Fleet, index: int) -> Replica:
    """The numbers of one engine, in the array of all."""
    replica: Replica = fleet.replicas[index]
    return replica
