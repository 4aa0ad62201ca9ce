"""How long does an iteration take? A sum of a few table look-ups.

Rows of all matrix products, attention of the decoding requests over a grid of (query tokens,
requests, context), the prompts' attention as differences of a running sum, the engine's own share,
and the draft passes over the same grid. Compiled, and read by the hot loop. Leaves out filling the
tables: `simulator.timing.cost_timer`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.loop.compiled import compiled
from simulator.loop.state import Real, Small


class Tables(NamedTuple):
    """Seconds by what an iteration holds.

    `attention_s[i, j, k]`: of axis values i, j and context k * `context_step`; between them linear.
    """

    row_s: Real  # by rows of the pass
    head_s: Real  # by sampled rows
    attention_s: NDArray[np.float64]
    together_s: NDArray[
        np.float64
    ]  # [i, j], what rows of the same request save, per decode row of the pass
    query_axis: Real
    query_below: Small  # index of the axis value at or below a whole number of query tokens
    request_axis: Real
    request_below: Small
    context_step: float
    prompt_s: Real  # attention of a prompt's first tokens
    reread_s: Real  # reading the cache of as many tokens once
    prompt_step: float
    prompt_launch_s: float
    step_s: float
    request_s: float  # by requests that decode or begin to
    speculative_step_s: float  # on top, where anybody has drafted
    speculative_request_s: float
    # by draft tokens that the iteration before accepted, which the engine still hands out
    accepted_s: float
    verify_ratio: float
    draft_s: NDArray[np.float64]  # as attention_s, at K = query tokens - 1
    draft_row_s: Real  # by prompt rows that the drafter reads
    graph_rows: int  # largest pass with prompt rows that is launched as one graph
    eager_s: float  # host seconds to launch a larger one layer by layer
    prompt_host_s: float  # host seconds for every prompt of a pass
    overlapped: int  # 1: the host prepares an iteration while the device runs the one before
    idle_s: float  # then the device idles for this after every iteration
    idle_request_s: float  # and for this by request that it served
    # copies of attention and dense layers in lock step, to which requests are dealt out evenly
    ranks: int
    rank_row_s: Real  # by rows of one of them: what it does for its own rows
    # by prompt rows that an encoder reads, apart from those of its decoder; empty without one
    encoder_s: Real


@compiled
def _place(axis: Real, below: Small, value: float) -> tuple[int, float]:
    """Index of the grid cell of a value and how far into it the value lies; outside, the nearest
    value on the grid.
    """
    last = len(axis) - 1
    if last == 0 or value <= axis[0]:
        return 0, 0.0
    if value >= axis[last]:
        return last - 1, 1.0
    low = below[int(value)]
    return low, (value - axis[low]) / (axis[low + 1] - axis[low])


@compiled
def _mixed(
    table: NDArray[np.float64], n: int, near_n: float, b: int, near_b: float, c: int, near_c: float
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
            low = table[n + i, b + j, c]
            total += weight * (low + near_c * (table[n + i, b + j, c + 1] - low))
    return float(total)


@compiled
def _at_context(t: Tables, tokens: float) -> tuple[int, float]:
    """Cell of a context; beyond the table the last cell is drawn on."""
    position = tokens / t.context_step
    low = min(int(position), t.attention_s.shape[2] - 2)
    return low, position - low


@compiled
def between(table: Real, position: float) -> float:
    """Value at a position of a table; beyond its end the last slope goes on."""
    low = min(int(position), len(table) - 2)
    return float(table[low] + (position - low) * (table[low + 1] - table[low]))


@compiled
def decode_seconds(
    t: Tables, requests: int, query_tokens: float, context_tokens: float, rows: int
) -> float:
    """Attention of the decoding requests, and what their tokens save by belonging together, of a
    pass of `rows`.
    """
    if requests == 0:
        return 0.0
    n, near_n = _place(t.query_axis, t.query_below, query_tokens)
    b, near_b = _place(t.request_axis, t.request_below, float(requests))
    c, near_c = _at_context(t, context_tokens / requests)
    seconds = _mixed(t.attention_s, n, near_n, b, near_b, c, near_c)
    saved = (1.0 - near_n) * ((1.0 - near_b) * t.together_s[n, b] + near_b * t.together_s[n, b + 1])
    if near_n > 0.0:
        saved += near_n * (
            (1.0 - near_b) * t.together_s[n + 1, b] + near_b * t.together_s[n + 1, b + 1]
        )
    return float(seconds - saved * (requests * query_tokens / rows))


@compiled
def _uneven_seconds(t: Tables, rows: int, longest: int, decode_rows: int) -> float:
    """Seconds for which everybody waits for the rank that holds the longest chunk, which no other
    rank shares.
    """
    even = -(-rows // t.ranks)
    fullest = max(even, longest + -(-decode_rows // t.ranks))
    return float(between(t.rank_row_s, float(fullest)) - between(t.rank_row_s, float(even)))


@compiled
def device_seconds(
    t: Tables,
    requests: int,
    query_tokens: float,
    context_tokens: float,
    chunk_tokens: NDArray[np.int32],
    chunks: int,
    rows: int,
    sampled: int,
) -> float:
    """Seconds of the target's pass on the device; `rows` and `sampled` count its rows, > 0, and the
    sampled ones.
    """
    prompts, longest_s, longest, new_rows = 0.0, 0.0, 0, 0
    written = rows
    for i in range(chunks):
        new, cached = chunk_tokens[0, i], chunk_tokens[1, i]
        start, end = cached / t.prompt_step, (cached + new) / t.prompt_step
        each = max(
            between(t.prompt_s, end) - between(t.prompt_s, start), between(t.reread_s, start)
        )
        prompts += each
        longest_s, longest, new_rows = max(longest_s, each), max(longest, new), new_rows + new
    if chunks:
        if t.ranks > 1:
            prompts = max(prompts / t.ranks, longest_s) + _uneven_seconds(
                t, rows, longest, rows - new_rows
            )
        prompts += t.prompt_launch_s
        if len(
            t.encoder_s
        ):  # the decoder has a row for each prompt that ends, and for no other of its tokens
            prompts += between(t.encoder_s, float(new_rows))
            written = sampled
    seconds = between(t.row_s, written) + between(t.head_s, sampled) + prompts
    return float(
        seconds + decode_seconds(t, requests, query_tokens, context_tokens, max(written, 1))
    )


@compiled
def exposed_host_s(t: Tables, requests: int, rows: int, chunks: int, device_s: float) -> float:
    """Seconds that the device waits for its host.

    A pass that no graph holds is launched while it runs, and takes no less than that. What else the
    host does comes before the launch, or beside the iteration before where the two overlap.
    """
    launch_s = t.eager_s if chunks > 0 and rows > t.graph_rows else 0.0
    prompts_s = t.prompt_host_s * chunks
    if t.overlapped:
        return float(max(launch_s + prompts_s + t.step_s + t.request_s * requests - device_s, 0.0))
    return float(max(launch_s - device_s, 0.0) + prompts_s)


@compiled
def engine_seconds(
    t: Tables, query_tokens: float, requests: int, decode_rows: int, rows: int, device_s: float
) -> float:
    """Seconds that the engine adds to a pass, whatever the device does."""
    extra = (
        t.idle_s + t.idle_request_s * requests
        if t.overlapped
        else t.step_s + t.request_s * requests
    )
    if query_tokens > 1.0:
        extra += t.speculative_step_s + t.speculative_request_s * requests
        extra += t.verify_ratio * device_s * decode_rows / rows
    return float(extra)


@compiled
def target_seconds(
    t: Tables,
    requests: int,
    query_tokens: float,
    context_tokens: float,
    chunk_tokens: NDArray[np.int32],
    chunks: int,
    prompts_ending: int,
) -> float:
    """Seconds of an iteration without draft passes.

    Args:
        t: the tables.
        requests: that decode.
        query_tokens: mean of their query tokens.
        context_tokens: cached tokens of them all.
        chunk_tokens: [2, chunks], new and cached tokens of every prompt chunk.
        chunks: number of chunks.
        prompts_ending: chunks that end their prompt, and are sampled.
    """
    decode_rows = round(requests * query_tokens)
    rows = decode_rows
    for i in range(chunks):
        rows += chunk_tokens[0, i]
    if rows == 0:
        return t.step_s
    sampled = decode_rows + prompts_ending
    device_s = device_seconds(
        t, requests, query_tokens, context_tokens, chunk_tokens, chunks, rows, sampled
    )
    host_s = exposed_host_s(t, requests + prompts_ending, rows, chunks, device_s)
    engine_s = engine_seconds(
        t, query_tokens, requests + prompts_ending, decode_rows, rows, device_s
    )
    return float(device_s + engine_s + host_s)


@compiled
def draft_seconds(
    t: Tables, requests: int, draft_tokens: int, context_tokens: float, prompt_rows: int
) -> float:
    """Seconds of the draft passes of an iteration."""
    seconds = between(t.draft_row_s, float(prompt_rows)) if prompt_rows else 0.0
    if requests == 0 or draft_tokens == 0:
        return float(seconds)
    n, near_n = _place(t.query_axis, t.query_below, draft_tokens + 1.0)
    b, near_b = _place(t.request_axis, t.request_below, float(requests))
    c, near_c = _at_context(t, context_tokens / requests)
    return float(seconds + _mixed(t.draft_s, n, near_n, b, near_b, c, near_c))


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
        prompt_host_s=0.0,
        overlapped=0,
        idle_s=0.0,
        idle_request_s=0.0,
        ranks=1,
        rank_row_s=flat,
        encoder_s=np.zeros(0),
    )
