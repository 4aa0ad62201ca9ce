"""What does a running simulation remember?

Records and named tuples of arrays that compiled code reads and writes: requests, prefixes, the
numbers and arrays of one replica, the limits it obeys.
Leaves out what happens to them: `kv_cache`, `waiting`, `decoders`, `scheduler` and `iteration`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from simulator.loop.compiled import compiled, record_type
from simulator.loop.histogram import BINS
from simulator.loop.options import SchedulerOptions
from simulator.loop.request import SWAPPED, WAITING, Workload

Short = NDArray[np.int16]
Small = NDArray[np.int32]
Whole = NDArray[np.int64]
Byte = NDArray[np.uint8]
Real = NDArray[np.float64]

MOST_SAMPLES = 4096
_MOST_ROWS = 1 << 16
_CACHE_LINE_BYTES = 64
TAKEN = 1 << 62  # of a slot


@dataclass(slots=True)
class Replica:
    """The numbers of one engine: where it stands, what its current iteration holds, and its totals.

    The loop works on a record with these fields: see `new_replica`.

    Args:
        sent: requests in its inbox.
        taken: of those, requests that it has queued or rejected.
        queued: requests that wait.
        running: requests that hold cache.
        unused_blocks: cache blocks that hold nothing.
        idle_blocks: shared blocks that nobody refers to.
        reserved_blocks: that were promised to running requests, and that these did not hold yet
            when the iteration was composed.
        busy: 1 while an iteration is under way.
        all_decode: 1 if every running request is known to decode, until the next iteration is
            composed.
        steady: 1 if the next iteration can differ from the latest one in its context alone.
        ended: requests that it is done with.
        samples: states noted in `Buffers.series`.
        sample_stride: iterations between two of them.
        peak_blocks: most blocks that running requests ever held.
        rows: query tokens of the current iteration.
        decode_rows: of those, of decoding requests.
        decoding: requests that decode in it.
        context_tokens: cached tokens of those together.
        longest_context: most cached tokens of any of them.
        chunks: prompt chunks.
        drafts_at_once: drafts that are made, every branch counted.
        longest_draft: most draft tokens of any request that decodes.
        longest_new_draft: most tokens of a draft that is made in the iteration.
        late_drafts: drafts that the iteration's verify pass waits for, though others are made beside
            it.
        late_context: cached tokens of the requests that they are of.
        full_passes: of the chunks, passes over prompt and canvas of requests that decode.
        full_rows: of `decode_rows`, those of such passes.
        sharing: 1 while requests that share steps are within a block.
        shared_passes: until the last of them has finished it.
        preempted: requests that lost their blocks while the iteration was composed.
        admitted: requests that joined.
        postponed: waiting requests for whom slots were left in the latest iteration, as they take
            them.
        waited: iterations that waiting prompts have stood back for more of them.
        unseen: iterations since the scheduler took in new requests; one that computes prompts makes
            it look again at once.
        draft_limit: draft tokens that a request may have.
        iterations: since the start, as all that follows.
        preemptions: requests that lost their blocks.
        prefix_hit_tokens: prompt tokens found in the cache.
        prompt_tokens_computed: prompt tokens that were computed.
        steps: of decoding requests.
        drafted: draft tokens that were verified.
        accepted: draft tokens that were accepted.
        emitted: tokens of decoding requests.
        wasted: draft tokens that came to nothing.
        rolled_back: of those, tokens of drafts behind a token that was rejected or not foreseen.
        unselected: of those, tokens of branches beside the one that the target's token selected, or
            could have.
        just_accepted: draft tokens that were accepted in the latest iteration.
        clock_s: now.
        received_s: when the front end has received the latest request.
        began_s: start of the latest iteration.
        end_s: its end.
        busy_s: seconds of all iterations.
        host_s: of those, seconds in which the device waited for the host to launch a pass layer by
            layer.
        swap_s: seconds of cache transfers that the next iteration waits for.
        itl_s: sum of all waits between tokens.
        since_decode_s: seconds since a decoding step ended.
        recent_step_s: seconds between decoding steps, of which the latest count most.
        recent_tokens: tokens per request and step, weighted in the same way.
        recent_accepted: accepted draft tokens, of which the latest count most.
        recent_tried: draft tokens whose acceptance was decided, weighted in the same way.
        held_length: draft length that a controller of the batch has chosen and keeps for a while.
        last_length: draft length of the latest iteration in which anybody decoded.
        length_changes: how often it was another one than before.
        undrafted: iterations since anything was drafted, where the drafter has to read what they
            emit.
        reread_rows: tokens that it reads in the current iteration because of that.
        drawn: draws that a policy of draft lengths has used.
        itl: waits between tokens by bins of `histogram`.
        series: states noted: time, running, waiting, used blocks.
    """

    sent: int = 0
    taken: int = 0
    queued: int = 0
    running: int = 0
    unused_blocks: int = 0
    idle_blocks: int = 0
    reserved_blocks: int = 0
    busy: int = 0
    all_decode: int = 0
    steady: int = 0
    ended: int = 0
    samples: int = 0
    sample_stride: int = 1
    peak_blocks: int = 0
    rows: int = 0
    decode_rows: int = 0
    decoding: int = 0
    context_tokens: int = 0
    longest_context: int = 0
    chunks: int = 0
    drafts_at_once: int = 0
    longest_draft: int = 0
    longest_new_draft: int = 0
    late_drafts: int = 0
    late_context: int = 0
    full_passes: int = 0
    full_rows: int = 0
    sharing: int = 0
    shared_passes: int = 0
    preempted: int = 0
    admitted: int = 0
    postponed: int = 0
    waited: int = 0
    unseen: int = 0
    draft_limit: int = 0
    iterations: int = 0
    preemptions: int = 0
    prefix_hit_tokens: int = 0
    prompt_tokens_computed: int = 0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    emitted: int = 0
    wasted: int = 0
    rolled_back: int = 0
    unselected: int = 0
    just_accepted: int = 0
    clock_s: float = 0.0
    received_s: float = 0.0
    began_s: float = 0.0
    end_s: float = 0.0
    busy_s: float = 0.0
    host_s: float = 0.0
    swap_s: float = 0.0
    itl_s: float = 0.0
    since_decode_s: float = 0.0
    recent_step_s: float = 0.0
    recent_tokens: float = 0.0
    recent_accepted: float = 0.0
    recent_tried: float = 0.0
    held_length: int = 0
    last_length: int = 0
    length_changes: int = 0
    undrafted: int = 0
    reread_rows: int = 0
    drawn: int = 0
    itl: Whole = field(default_factory=lambda: np.zeros(BINS, np.int64))
    series: NDArray[np.float64] = field(default_factory=lambda: np.zeros((4, MOST_SAMPLES)))


REPLICA = record_type(
    Replica,
    ("itl", "i8", (BINS,)),
    ("series", "f8", (4, MOST_SAMPLES)),
    leave_out=frozenset({"itl", "series"}),
)

COUNTERS = (
    "preemptions",
    "prefix_hit_tokens",
    "prompt_tokens_computed",
    "steps",
    "drafted",
    "accepted",
    "emitted",
    "wasted",
    "rolled_back",
    "unselected",
)
# one record per shared block; idle ones form a ring through the last entry, least recently used
# first
SHARED_BLOCK = np.dtype(
    (
        np.record,
        [("references", "i4"), ("resident", "i4"), ("previous", "i4"), ("next", "i4")],
    )
)
# new and cached tokens of a prompt chunk
CHUNK = np.dtype((np.record, [("new", "i4"), ("cached", "i4")]))
# one record per request that a replica can be sent
QUEUE = np.dtype(
    (
        np.record,
        [
            ("inbox", "i4"),  # requests sent to it, in order
            ("over", "i4"),  # requests that it is done with, in order
            ("heap", "i4"),  # requests that wait
        ],
    )
)
# one record per request that can run, or per numbered slot
SEAT = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("order", "i4"),  # requests that decode now, as they are grouped
                # of these: query tokens that no pass of the iteration has computed yet
                ("rows_left", "i4"),
                ("rows_now", "i4"),  # and those of the current pass
                # by numbered slot: requests that had ended when it was left; below 0 before; TAKEN
                ("slot_left", "i8"),
            ],
            align=True,
        ),
    )
)
# rows of `Buffers.counts`: steps and emitted tokens by decoding requests, iterations by rows of
# their pass and by sampled rows
STEPS, EMITTED, BY_ROWS, BY_SAMPLED = range(4)
# row of what a policy remembers: tokens that a step of 0, 1, ... draft tokens is taken to emit
GAINS = -1
Chunks: TypeAlias = Any  # an array of CHUNK
Queue: TypeAlias = Any  # an array of QUEUE
Seats: TypeAlias = Any  # an array of SEAT
Blocks: TypeAlias = Any  # an array of SHARED_BLOCK


# one record per request of a workload, shared by its replicas; what every step touches comes first,
# 64 bytes together
REQUEST = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("delivered_s", "f8"),  # latest delivery to the user
                ("place", "i4"),  # in the recording that it walks along
                # tokens that its drafter has not read, because nothing was drafted
                ("unread", "i4"),
                # draft tokens accepted per step, of which the latest count most
                ("recent_accepted", "f4"),
                # tokens of its next step if it drafts enough; read early, as memory is slow
                ("emits", "i2"),
                ("proposes", "i2"),  # draft tokens that its drafter has for that step
                ("prompt", "i4"),
                ("output", "i4"),
                ("generated", "i4"),  # tokens emitted
                ("computed", "i4"),  # tokens whose cache entries exist
                ("slots", "i4"),  # tokens that its blocks can hold
                ("private", "i4"),  # blocks of its own
                ("quota", "i4"),  # query tokens in the current iteration
                ("drafts", "i4"),  # draft tokens among them
                ("phase", "i2"),
                ("replica", "i2"),
                # of the draft that was made during verification; of blocks: see
                # `decoders.block_walk`
                ("pending", "i4"),
                ("sent_s", "f8"),  # when its user sends it
                ("ready_s", "f8"),  # when the front end of its replica has received it
                ("scheduled_s", "f8"),
                ("first_s", "f8"),
                ("last_s", "f8"),
                ("key", "i8"),  # place in the queue: priority, then order of arrival
                ("probability", "f8"),  # that the next draft token to be granted would be accepted
                # draft tokens that the batch's budget verifies; 1 within a block of shared steps
                ("granted", "i4"),
                ("slot", "i4"),  # numbered slot that it holds, where there are such
            ],
            align=True,
        ),
    )
)
Requests: TypeAlias = Any  # an array of REQUEST, whose fields are read as attributes
Request: TypeAlias = Any  # one of them


class Prefixes(NamedTuple):
    """Block ids of prompts; one id stands for `per_id` blocks of the cache."""

    ids: Small
    start: Whole
    held: Byte  # 1 where the request holds a reference to the shared block
    per_id: int
    entries: int  # different shared blocks


class SchedulerLimits(NamedTuple):
    """`SchedulerOptions` in numbers, with infinity for what has no limit."""

    token_budget: int
    max_requests: int
    chunked: bool
    prefill_first: bool
    overlapped: bool  # scheduling: an iteration is composed while the one before it runs
    wait_iterations: int
    wait_tokens: float  # of an iteration, from which on prompts do not wait for more of them
    receive_iterations: int
    numbered_slots: bool
    pass_tokens: int  # of the largest pass; 0: an iteration is one pass
    equal_passes: bool
    block_tokens: int
    kv_blocks: int
    watermark_blocks: int
    swap: bool
    swap_block_s: float
    prefix_cache: bool
    reserve_ratio: float  # of missing tokens; below 0 nothing is reserved
    intake_s: float
    intake_token_s: float
    slo_ttft_s: float
    slo_tpot_s: float
    horizon_s: float
    lag: int  # 1: the last emitted token's cache entry comes one step later; 0 for block decoders
    lookahead: int  # most slots that a step writes beyond what it keeps
    sequences: int  # of every request whose cache is held; 0: none is
    # tokens by which the text of a request grows, as far as that is certain; 0: it is not
    canvas: int
    most_rows: int  # of an iteration, as far as they are counted


class Buffers(NamedTuple):
    """Arrays of one engine: its queue, its running requests in order of their keys, its shared
    blocks, its history.
    """

    queue: Queue
    running: Small
    seats: Seats  # None: slots have no numbers, and an iteration is one pass over everybody
    chunks: Chunks  # of the current iteration
    pieces: Chunks  # of the current pass, where an iteration is several; else None
    blocks: Blocks
    counts: NDArray[np.int64]  # see `STEPS`
    # what a policy of draft lengths remembers, its last row `GAINS`; None: there is no policy
    memory: Real | None


def new_requests(workload: Workload, options: SchedulerOptions) -> Requests:
    """Requests that have not been seen by any replica."""
    r = workload.requests
    room = np.zeros(r * REQUEST.itemsize + _CACHE_LINE_BYTES, np.uint8)
    first = -room.ctypes.data % _CACHE_LINE_BYTES
    requests = room[first : first + r * REQUEST.itemsize].view(REQUEST)
    priority = (
        workload.priority
        if options.priorities and workload.priority is not None
        else np.zeros(r, np.int32)
    )
    requests["key"] = (priority.astype(np.int64) << 32) + np.arange(r)
    requests["sent_s"] = requests["ready_s"] = workload.arrival_s
    requests["prompt"], requests["output"] = workload.prompt_tokens, workload.output_tokens
    for name in ("scheduled_s", "first_s", "last_s", "delivered_s"):
        requests[name] = np.nan
    requests["phase"] = WAITING
    return requests


@compiled
def arrive_with_cache(request: Request, prompt: Request) -> None:
    """Let a request whose prompt was computed elsewhere begin with its cache and first token."""
    request.generated = 1
    request.phase = SWAPPED
    request.computed = prompt.prompt
    request.first_s = prompt.last_s
    request.delivered_s = prompt.last_s


def new_prefixes(workload: Workload, options: SchedulerOptions) -> Prefixes:
    """Block ids numbered from 0, or none at all where blocks are not shared.

    Raises:
        InputError: a block of ids that is no multiple of the cache's blocks.
    """
    if not options.prefix_cache or workload.prefix_ids is None:
        start = np.zeros(workload.requests + 1, dtype=np.int64)
        return Prefixes(np.zeros(0, np.int32), start, np.zeros(0, np.uint8), 1, 0)
    per_id, rest = divmod(workload.prefix_block_tokens, options.block_tokens)
    if rest or not per_id:
        rule = f"must divide the {workload.prefix_block_tokens} tokens that a prefix id stands for"
        raise InputError(rule, key="block_tokens", value=options.block_tokens)
    lengths = np.array([len(ids) for ids in workload.prefix_ids], dtype=np.int64)
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    flat = np.fromiter(
        (i for ids in workload.prefix_ids for i in ids), dtype=np.int64, count=int(start[-1])
    )
    names, ids = np.unique(flat, return_inverse=True)
    held = np.zeros(flat.size * per_id, dtype=np.uint8)
    return Prefixes(ids.astype(np.int32), start, held, per_id, int(names.size) * per_id)


def new_limits(
    workload: Workload,
    options: SchedulerOptions,
    *,
    lag: int,
    lookahead: int,
    sequences: int = 1,
    canvas: int = 0,
) -> SchedulerLimits:
    """Options in numbers.

    Args:
        workload: the requests.
        options: of the scheduler.
        lag: as in `SchedulerLimits`.
        lookahead: the same.
        sequences: as in `SchedulerLimits`.
        canvas: the same.
    """

    def or_never(limit: float | None) -> float:
        return np.inf if limit is None else float(limit)

    rows = int(options.token_budget)
    if not options.chunked_prefill:
        rows = max(
            rows, int((workload.prompt_tokens.astype(np.int64) + workload.output_tokens).max())
        )
    # plain numbers of one type each: compiled code is made once per combination of types
    return SchedulerLimits(
        token_budget=int(options.token_budget),
        max_requests=int(options.max_requests),
        chunked=bool(options.chunked_prefill),
        prefill_first=bool(options.prefill_first),
        overlapped=bool(options.overlapped_scheduling),
        wait_iterations=int(options.wait_iterations),
        wait_tokens=float(options.wait_ratio * options.token_budget),
        receive_iterations=int(options.receive_iterations),
        numbered_slots=bool(options.numbered_slots),
        pass_tokens=int(options.pass_tokens),
        equal_passes=bool(options.equal_passes),
        block_tokens=int(options.block_tokens),
        kv_blocks=int(options.kv_blocks),
        watermark_blocks=int(options.watermark_ratio * options.kv_blocks),
        swap=options.preemption == "swap",
        swap_block_s=float(options.swap_block_s),
        prefix_cache=bool(options.prefix_cache),
        reserve_ratio=-1.0 if options.reserve_ratio is None else float(options.reserve_ratio),
        intake_s=float(options.intake_s),
        intake_token_s=float(options.intake_token_s),
        slo_ttft_s=or_never(options.slo_ttft_s),
        slo_tpot_s=or_never(options.slo_tpot_s),
        horizon_s=or_never(options.horizon_s),
        lag=lag,
        lookahead=lookahead,
        sequences=sequences,
        canvas=canvas,
        most_rows=min(rows, _MOST_ROWS),
    )


def fresh(replica: Replica, limits: SchedulerLimits) -> None:
    """Make a record the numbers of an engine that has seen nothing."""
    start = Replica(unused_blocks=limits.kv_blocks)
    for attribute in fields(Replica):
        setattr(replica, attribute.name, getattr(start, attribute.name))
