"""How long does an iteration take? A sum of a few table look-ups.

Rows of all matrix products, attention of the decoding requests over a grid of (query tokens,
requests, context), the prompts' attention as differences of a running sum, the engine's own share,
and the draft passes over the same grid. Compiled, and read by the hot loop. Leaves out filling the
tables: `simulator.timing.cost_timer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simulator.loop.compiled import Table, compiled, laid_out
from simulator.loop.state import CHUNK, Chunks, Real, Small


class Tables(NamedTuple):
    """Seconds by what an iteration holds; compiled code is handed them laid out.

    `attention_s[i, j, k]`: of axis values i, j and context k * `context_step`; between them linear.
    """

    row_s: Real  # by rows of the pass
    head_s: Real  # by sampled rows
    attention_s: NDArray[np.float64]
    # [i, j], what rows of the same request save, per decode row of the pass
    together_s: NDArray[np.float64]
    query_axis: Real
    query_below: Small  # index of the axis value at or below a whole number of query tokens
    request_axis: Real
    request_below: Small
    context_step: float
    prompt_s: Real  # attention of a prompt's first tokens
    reread_s: Real  # reading the cache of as many tokens once
    # of a part of a prompt, by the tokens before it: what it does again for them whatever its size
    repeated_s: Real
    prompt_step: float
    prompt_launch_s: float
    step_s: float
    request_s: float  # by requests that decode or begin to
    speculative_step_s: float  # on top, where the drafter runs
    speculative_request_s: float
    # by draft tokens that the iteration before accepted, which the engine still hands out
    accepted_s: float
    verify_ratio: float
    draft_s: NDArray[np.float64]  # as attention_s, at K = query tokens - 1
    draft_row_s: Real  # by prompt rows that the drafter reads
    graph_rows: int  # largest pass with prompt rows that is launched as one graph
    eager_s: float  # host seconds to launch a larger one layer by layer
    # host seconds to launch a pass with prompts, where rows count what the device waits for it
    launched_s: float
    waiting_s: Real  # by rows of the pass: that waiting
    prompt_host_s: float  # host seconds for every prompt of a pass
    overlapped: int  # 1: the host prepares an iteration while the device runs the one before
    idle_s: float  # then the device idles for this after every iteration
    idle_request_s: float  # and for this by request that it served
    # copies of attention and dense layers in lock step, to which requests are dealt out evenly
    ranks: int
    rank_row_s: Real  # by rows of one of them: what it does for its own rows
    # by prompt rows that an encoder reads, apart from those of its decoder; empty without one
    encoder_s: Real
    # by rows: layers that only the last token of a prompt's part passes; empty without such
    last_row_s: Real


Timing: TypeAlias = Any  # the numbers of `Tables` as a record


@compiled
def _place(seconds: Real, axis: Table, below: Table, value: float) -> tuple[int, float]:
    """Index of the grid cell of a value and how far into it the value lies; outside, the nearest
    value on the grid.
    """
    last = axis.length - 1
    if last == 0 or value <= seconds[axis.first]:
        return 0, 0.0
    if value >= seconds[axis.first + last]:
        return last - 1, 1.0
    low = int(seconds[below.first + int(value)])
    start = seconds[axis.first + low]
    return low, (value - start) / (seconds[axis.first + low + 1] - start)


@compiled
def _mixed(
    seconds: Real, grid: Table, n: int, near_n: float, b: int, near_b: float, c: int, near_c: float
) -> float:
    """Value between the eight corners of a cell; a corner without weight is not read."""
    total = 0.0
    for i in range(2):
        weight_n = near_n if i else 1.0 - near_n
        if weight_n == 0.0:
            continue
        for j in range(2):
            weight = weight_n * (near_b if j else 1.0 - near_b)
            if weight == 0.0:
                continue
            at = grid.first + ((n + i) * grid.width + b + j) * grid.depth + c
            low = seconds[at]
            total += weight * (low + near_c * (seconds[at + 1] - low))
    return total


@compiled
def between(seconds: Real, table: Table, position: float) -> float:
    """Value at a position of a table; beyond its end the last slope goes on."""
    low = min(int(position), table.length - 2)
    at = table.first + low
    return seconds[at] + (position - low) * (seconds[at + 1] - seconds[at])


@compiled
def _decode_seconds(
    t: Timing, seconds: Real, requests: int, query_tokens: float, context_tokens: float, rows: int
) -> float:
    """Attention of the decoding requests, and what their tokens save by belonging together, of a
    pass of `rows`.
    """
    n, near_n = _place(seconds, t.query_axis, t.query_below, query_tokens)
    b, near_b = _place(seconds, t.request_axis, t.request_below, float(requests))
    position = context_tokens / requests / t.context_step
    c = min(int(position), t.attention_s.depth - 2)  # beyond the table its last cell is drawn on
    attention_s = _mixed(seconds, t.attention_s, n, near_n, b, near_b, c, position - c)
    at = t.together_s.first + n * t.together_s.width + b
    saved = (1.0 - near_n) * ((1.0 - near_b) * seconds[at] + near_b * seconds[at + 1])
    if near_n > 0.0:
        at += t.together_s.width
        saved += near_n * ((1.0 - near_b) * seconds[at] + near_b * seconds[at + 1])
    return attention_s - saved * (requests * query_tokens / rows)


@compiled
def device_seconds(
    t: Timing,
    seconds: Real,
    requests: int,
    query_tokens: float,
    context_tokens: float,
    chunks: Chunks,
    count: int,
    rows: int,
    sampled: int,
) -> float:
    """Seconds of the target's pass on the device beside `count` chunks; `rows` and `sampled` count
    its rows, > 0, and the sampled ones.
    """
    prompts, longest_s, longest, new_rows = 0.0, 0.0, 0, 0
    written = rows
    for i in range(count):
        new, cached = chunks[i].new, chunks[i].cached
        start, end = cached / t.prompt_step, (cached + new) / t.prompt_step
        chunk_s = between(seconds, t.prompt_s, end) - between(seconds, t.prompt_s, start)
        chunk_s = max(chunk_s, between(seconds, t.reread_s, start))
        chunk_s += between(seconds, t.repeated_s, start)
        prompts += chunk_s
        longest_s, new_rows = max(longest_s, chunk_s), new_rows + new
        longest = max(longest, new)
    if count:
        if t.ranks > 1:
            # everybody waits for the rank with the longest chunk, which no other rank shares
            even = -(-rows // t.ranks)
            fullest = max(even, longest + -(-(rows - new_rows) // t.ranks))
            uneven_s = between(seconds, t.rank_row_s, float(fullest))
            uneven_s -= between(seconds, t.rank_row_s, float(even))
            prompts = max(prompts / t.ranks, longest_s) + uneven_s
        prompts += t.prompt_launch_s
        # the decoder has a row for each prompt that ends, and for no other of its tokens
        if t.encoder_s.length:
            prompts += between(seconds, t.encoder_s, float(new_rows))
            written = sampled
    total = between(seconds, t.row_s, float(written)) + between(seconds, t.head_s, float(sampled))
    total += prompts
    if count and t.last_row_s.length:
        total += between(seconds, t.last_row_s, float(rows - new_rows + count))
        total -= between(seconds, t.last_row_s, float(rows))
    if requests > 0:
        written = max(written, 1)
        total += _decode_seconds(t, seconds, requests, query_tokens, context_tokens, written)
    if count and t.launched_s > 0.0:
        # launches run ahead: what is waited for shrinks by attention and head of the prompts, too
        waited = max(between(seconds, t.waiting_s, float(written)), 0.0)
        total = max(total - waited, t.launched_s)
    return total


@compiled
def host_seconds(
    t: Timing,
    speculates: bool,
    requests: int,
    decode_rows: int,
    rows: int,
    chunks: int,
    device_s: float,
) -> tuple[float, float]:
    """Seconds that the engine adds to a pass, and those that the device waits for its host.

    A step that speculates is set up as such also where the drafter has nothing to propose.

    A pass that no graph holds is launched while it runs, and takes no less than that. What else the
    host does comes before the launch, or beside the iteration before where the two overlap.
    """
    launch_s = t.eager_s if chunks > 0 and rows > t.graph_rows else 0.0
    prompts_s = t.prompt_host_s * chunks
    own_s = t.step_s + t.request_s * requests
    if t.overlapped:
        host_s = max(launch_s + prompts_s + t.step_s + t.request_s * requests - device_s, 0.0)
        own_s = t.idle_s + t.idle_request_s * requests
    else:
        host_s = max(launch_s - device_s, 0.0) + prompts_s
    if speculates:
        own_s += t.speculative_step_s + t.speculative_request_s * requests
        own_s += t.verify_ratio * device_s * decode_rows / rows
    return own_s, host_s


@compiled
def target_seconds(
    t: Timing,
    seconds: Real,
    requests: int,
    query_tokens: float,
    context_tokens: float,
    chunks: Chunks,
    count: int,
    speculates: bool,
) -> float:
    """Seconds of an iteration without draft passes.

    The output head runs for the last token of every chunk, also where that is no prompt's last:
    what it says of the others is dropped.

    Args:
        t: the tables' numbers and places.
        seconds: the tables.
        requests: that decode.
        query_tokens: mean of their query tokens.
        context_tokens: cached tokens of them all.
        chunks: new and cached tokens of every prompt chunk.
        count: number of chunks.
        speculates: the drafter runs in it, whether or not it proposes anything.
    """
    decode_rows = round(requests * query_tokens)
    rows = decode_rows
    for i in range(count):
        rows += chunks[i].new
    total = t.step_s
    if rows > 0:
        sampled, served = decode_rows + count, requests + count
        total = device_seconds(
            t, seconds, requests, query_tokens, context_tokens, chunks, count, rows, sampled
        )
        own_s, host_s = host_seconds(t, speculates, served, decode_rows, rows, count, total)
        total = total + own_s + host_s
    return total


@compiled
def draft_seconds(
    t: Timing,
    seconds: Real,
    requests: int,
    draft_tokens: int,
    context_tokens: float,
    prompt_rows: int,
) -> float:
    """Seconds of the draft passes of an iteration; of none, those of a drafter that stands idle."""
    total = between(seconds, t.draft_row_s, float(prompt_rows)) if prompt_rows else 0.0
    if requests > 0:
        n, near_n = _place(seconds, t.query_axis, t.query_below, draft_tokens + 1.0)
        b, near_b = _place(seconds, t.request_axis, t.request_below, float(requests))
        position = context_tokens / requests / t.context_step
        c = min(int(position), t.attention_s.depth - 2)
        total += _mixed(seconds, t.draft_s, n, near_n, b, near_b, c, position - c)
    return total


def chunks_of(prefill: Sequence[tuple[int, int]]) -> Chunks:
    """(New tokens, cached tokens) of prompt chunks as the loop reads them."""
    chunks = np.zeros(len(prefill), CHUNK)
    for i, (new, cached) in enumerate(prefill):
        chunks[i] = new, cached
    return chunks


def iteration_s(
    tables: Tables,
    requests: int,
    query_tokens: float,
    context_tokens: float,
    prefill: Sequence[tuple[int, int]],
    *,
    speculates: bool,
) -> float:
    """`target_seconds` of one iteration."""
    t, seconds = laid_out(tables)
    count = len(prefill)
    parts = int(requests), float(query_tokens), float(context_tokens), chunks_of(prefill)
    return float(target_seconds(t, seconds, *parts, count, speculates))


def draft_passes_s(
    tables: Tables, requests: int, draft_tokens: int, context_tokens: float, prompt_rows: int
) -> float:
    """`draft_seconds` of one iteration."""
    parts = int(requests), int(draft_tokens), float(context_tokens), int(prompt_rows)
    return float(draft_seconds(*laid_out(tables), *parts))


def no_tables() -> Tables:
    """Tables of nothing, for simulations whose timers are asked instead."""
    flat, axis, low = np.zeros(2), np.array([1.0, 2.0]), np.zeros(3, dtype=np.int32)
    grid = np.zeros((2, 2, 2))
    return Tables(
        row_s=flat,
        head_s=flat,
        attention_s=grid,
        together_s=np.zeros((2, 2)),
        query_axis=axis,
        query_below=low,
        request_axis=axis,
        request_below=low,
        context_step=1.0,
        prompt_s=flat,
        reread_s=flat,
        repeated_s=flat,
        prompt_step=1.0,
        prompt_launch_s=0.0,
        step_s=0.0,
        request_s=0.0,
        speculative_step_s=0.0,
        speculative_request_s=0.0,
        accepted_s=0.0,
        verify_ratio=0.0,
        draft_s=grid,
        draft_row_s=flat,
        graph_rows=0,
        eager_s=0.0,
        launched_s=0.0,
        waiting_s=flat,
        prompt_host_s=0.0,
        overlapped=0,
        idle_s=0.0,
        idle_request_s=0.0,
        ranks=1,
        rank_row_s=flat,
        encoder_s=np.zeros(0),
        last_row_s=np.zeros(0),
    )
