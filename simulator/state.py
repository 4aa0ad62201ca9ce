"""What does a running simulation remember?

Named tuples of arrays that compiled code reads and writes: requests, prefixes, one replica, the limits it obeys.
Leaves out what happens to them: `kv_cache`, `waiting`, `drafting`, `scheduler` and `iteration`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from simulator.histogram import BINS
from simulator.request import SWAPPED, WAITING, Workload
from simulator.scenario import SchedulerOptions

Small = NDArray[np.int32]
Whole = NDArray[np.int64]
Byte = NDArray[np.uint8]
Real = NDArray[np.float64]

# whole numbers of a replica: where it stands ...
ARRIVED, TAKEN, QUEUED, RUNNING, UNUSED, IDLE, RESERVED, BUSY, EVEN, ENDED, SAMPLES, STRIDE, PEAK = range(13)
# ... what its current iteration holds ...
ROWS, DECODE_ROWS, PROMPTS_ENDING, DECODING_NOW, CONTEXT, LONGEST, CHUNKS, DRAFTING, DRAFT_MOST = range(13, 22)
GAVE_WAY, ADMITTED, BATCH = range(22, 25)
# ... and totals
ITERATIONS, PREEMPTIONS, HIT_TOKENS, PROMPT_TOKENS, STEPS, DRAFTED, ACCEPTED, EMITTED, WASTED = range(25, 34)
ROLLED_BACK = 34
NUMBERS = 35
COUNTERS = {
    "preemptions": PREEMPTIONS,
    "prefix_hit_tokens": HIT_TOKENS,
    "prompt_tokens_computed": PROMPT_TOKENS,
    "steps": STEPS,
    "drafted": DRAFTED,
    "accepted": ACCEPTED,
    "emitted": EMITTED,
    "wasted": WASTED,
    "rolled_back": ROLLED_BACK,
}
# real numbers of a replica: now, start and end of the latest iteration, sums, and what controllers remember
CLOCK, BEGAN, END, BUSY_S, SWAP_S, ITL_S, SINCE_DECODE_S, STEP_S, TOKENS, KEPT, TRIED = range(11)
SECONDS = 11
# of a shared block; idle ones form a ring through the last entry, least recently used first
REFERENCES, RESIDENT, BEFORE, AFTER = range(4)
MOST_SAMPLES = 4096


# one record per request of a workload, shared by its replicas
REQUEST = np.dtype(
    [
        ("ready_s", "f8"),  # when it reaches its replica
        ("scheduled_s", "f8"),
        ("first_s", "f8"),
        ("last_s", "f8"),
        ("delivered_s", "f8"),  # latest delivery to the user
        ("key", "i8"),  # place in the queue: priority, then order of arrival
        ("place", "i8"),  # in the recording that it walks along
        ("kept", "f4"),  # draft tokens that it lately kept per step
        ("prompt", "i4"),
        ("output", "i4"),
        ("made", "i4"),  # tokens emitted
        ("computed", "i4"),  # tokens whose cache entries exist
        ("slots", "i4"),  # tokens that its blocks can hold
        ("private", "i4"),  # blocks of its own
        ("quota", "i4"),  # query tokens in the current iteration
        ("drafts", "i4"),  # draft tokens among them
        ("replica", "i4"),
        ("phase", "i4"),
        ("pending", "i4"),  # of a draft that was made ahead: see `simulator.drafting`
    ],
    align=True,
)
Requests: TypeAlias = Any  # an array of REQUEST, whose fields compiled code reads as attributes


class Prefixes(NamedTuple):
    """Block ids of prompts; one id stands for `per_id` blocks of the cache."""

    ids: Small
    start: Whole
    held: Byte  # 1 where the request holds a reference to the shared block
    per_id: int
    entries: int  # different shared blocks


class Limits(NamedTuple):
    """`SchedulerOptions` in numbers, with infinity for what has no limit."""

    token_budget: int
    max_requests: int
    chunked: bool
    prefill_first: bool
    ahead: bool
    block_tokens: int
    kv_blocks: int
    watermark_blocks: int
    swap: bool
    swap_block_s: float
    prefix_cache: bool
    reserve: bool
    slo_ttft_s: float
    slo_tpot_s: float
    horizon_s: float
    users: int
    think_s: float
    lag: int  # 1: the last emitted token's cache entry comes one step later; 0 for block decoders
    lookahead: int  # most slots that a step writes beyond what it keeps


class Replica(NamedTuple):
    """One engine: its queue, its running requests in order of their keys, its cache, its iteration, its totals."""

    inbox: Small  # requests sent to it, in order
    over: Small  # requests that it is done with, in order
    heap: Small
    running: Small
    order: Small  # requests that decode now, as they are grouped
    number: Whole
    second: Real
    shared: NDArray[np.int32]  # by shared block: references, residence, neighbours in the ring of idle blocks
    chunks: NDArray[np.int32]  # new and cached tokens of the prompt chunks of the current iteration
    by_batch: NDArray[np.int64]  # steps and emitted tokens by decoding requests
    itl: Whole
    series: NDArray[np.float64]  # time, running, waiting, used blocks


def new_requests(workload: Workload, options: SchedulerOptions) -> Requests:
    """Requests that have not been seen by any replica."""
    r = workload.requests
    requests = np.zeros(r, dtype=REQUEST)
    priority = workload.priority if options.priorities and workload.priority is not None else np.zeros(r, np.int32)
    requests["key"] = (priority.astype(np.int64) << 32) + np.arange(r)
    requests["ready_s"] = workload.arrival_s
    requests["prompt"], requests["output"] = workload.prompt_tokens, workload.output_tokens
    for name in ("scheduled_s", "first_s", "last_s", "delivered_s"):
        requests[name] = np.nan
    requests["phase"] = WAITING
    return requests


def arrive_with_cache(requests: Requests, prompts: Requests, r: int) -> None:
    """Let a request whose prompt was computed elsewhere begin with its cache and its first token."""
    mine, done = requests[r], prompts[r]
    mine["made"], mine["computed"], mine["phase"] = 1, done["prompt"], SWAPPED
    mine["first_s"] = mine["delivered_s"] = done["last_s"]


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
    flat = np.fromiter((i for ids in workload.prefix_ids for i in ids), dtype=np.int64, count=int(start[-1]))
    names, ids = np.unique(flat, return_inverse=True)
    held = np.zeros(flat.size * per_id, dtype=np.uint8)
    return Prefixes(ids.astype(np.int32), start, held, per_id, int(names.size) * per_id)


def new_limits(workload: Workload, options: SchedulerOptions, *, lag: int, lookahead: int, users: bool) -> Limits:
    """Options in numbers; `users`: the closed loop is kept by the replica itself."""

    def or_never(limit: float | None) -> float:
        return np.inf if limit is None else float(limit)

    # plain numbers of one type each: compiled code is made once per combination of types
    return Limits(
        token_budget=int(options.token_budget), max_requests=int(options.max_requests),
        chunked=bool(options.chunked_prefill), prefill_first=bool(options.prefill_first), ahead=bool(options.ahead),
        block_tokens=int(options.block_tokens), kv_blocks=int(options.kv_blocks),
        watermark_blocks=int(options.watermark_ratio * options.kv_blocks), swap=options.preemption == "swap",
        swap_block_s=float(options.swap_block_s), prefix_cache=bool(options.prefix_cache),
        reserve=bool(options.reserve_output), slo_ttft_s=or_never(options.slo_ttft_s),
        slo_tpot_s=or_never(options.slo_tpot_s), horizon_s=or_never(options.horizon_s),
        users=int(workload.users) if users and workload.users is not None else workload.requests,
        think_s=float(workload.think_s), lag=lag, lookahead=lookahead,
    )  # fmt: skip


def new_replica(limits: Limits, prefixes: Prefixes, inbox: int) -> Replica:
    """An empty engine that can be sent `inbox` requests."""
    number = np.zeros(NUMBERS, dtype=np.int64)
    number[UNUSED] = limits.kv_blocks
    number[STRIDE] = 1
    most, entries = min(limits.max_requests, inbox), prefixes.entries
    shared = np.zeros((4, entries + 1), dtype=np.int32)
    shared[BEFORE, entries] = shared[AFTER, entries] = entries
    return Replica(
        inbox=np.zeros(inbox, np.int32), over=np.zeros(inbox, np.int32), heap=np.zeros(inbox, np.int32),
        running=np.zeros(most + 1, np.int32), order=np.zeros(most + 1, np.int32), number=number,
        second=np.zeros(SECONDS), shared=shared, chunks=np.zeros((2, most + 1), np.int32),
        by_batch=np.zeros((2, most + 2), np.int64), itl=np.zeros(BINS, np.int64), series=np.zeros((4, MOST_SAMPLES)),
    )  # fmt: skip
