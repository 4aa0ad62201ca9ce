"""How long does an iteration take by kernels measured under the engine itself?

Looks a pass's parts up in the tables of a profile and adds them: products by query tokens, output
head by sampled rows, attention by prompts and decodes, with the measured cost of unequal contexts.
Nothing is fitted to a run. Leaves out what the host adds where it is slower than the device, and
draft passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from hardware_profiles.machine_code import cached_njit
from simulator.loop.rank_time import RankTimer
from simulator.timing.engine_settings import EngineSettings, read_engine
from simulator.timing.profile_files import Floats
from simulator.timing.profile_tables import ProfileTables, read_tables

Whole = NDArray[np.int64]
_NOBODY: Whole = np.zeros((0, 2), dtype=np.int64)


def _compiled(function: Callable[..., Any]) -> Any:
    return cached_njit(__file__)(function)


class _Tables(NamedTuple):
    """`ProfileTables` as compiled code reads it; without a skew table its ratios are one."""

    row_s: Floats
    head_s: Floats
    chunk: Floats
    cached: Floats
    requests: Floats
    context: Floats
    mixed_s: Floats
    alone_requests: Floats
    alone_context: Floats
    alone_s: Floats
    spread: float
    skew_requests: Floats  # logarithms, as are `skew_short` and `skew_share`
    skew_chunk: Floats
    skew_cached: Floats
    skew_short: Floats
    skew_share: Floats
    ratio: Floats


class ProfileTimer:
    """Seconds of an iteration, measured; a `StepTimer`.

    Between measured sizes along straight lines, beyond them as the last two go on; below them the
    least one. Several prompts add up, launches left out. A decoding request with more than one
    query token runs on the kernel that prompts and decodes share, which reads the cache once for
    all of them.

    Args:
        tables: of `read_tables`.
        overhead_s: seconds that the engine adds to every iteration; 0: its scheduling hides behind
            the device.

    Raises:
        InputError: a negative overhead.
    """

    def __init__(self, tables: ProfileTables, *, overhead_s: float = 0.0) -> None:
        if not 0.0 <= overhead_s < float("inf"):
            raise InputError("must be finite and >= 0", key="overhead_s", value=overhead_s)
        self._values, self._ends = _packed(tables)
        self._overhead_s = overhead_s

    @classmethod
    def from_files(
        cls, prefix: str | Path, engine: str | Path | EngineSettings, *, overhead_s: float = 0.0
    ) -> ProfileTimer | RankTimer:
        """A timer of the files of a profile; one of ranks in step where these hold experts of each
        other.

        Args:
            prefix: path of the files up to `_attention.parquet`.
            engine: settings that the profile was measured under, or their JSON file.
            overhead_s: seconds added to every iteration.

        Raises:
            InputError: a file that is absent or not as described.
        """
        settings = engine if isinstance(engine, EngineSettings) else read_engine(engine)
        tables = read_tables(prefix, settings)
        own = cls(tables, overhead_s=overhead_s)
        if tables.together is None:
            return own
        return RankTimer(own=own, together_s=tables.together, ranks=settings.replicas)

    def __call__(
        self,
        decode_requests: int,
        query_tokens: float,
        decode_context_tokens: float,
        prefill: Sequence[tuple[int, int]],
        longest_context: float = 0.0,
    ) -> float:
        """Seconds of one iteration; arguments as in `StepTimer`."""
        prompts = np.array(prefill, dtype=np.int64) if len(prefill) else _NOBODY
        seconds = _iteration_s(
            self._values,
            self._ends,
            float(decode_requests),
            float(query_tokens),
            float(decode_context_tokens),
            prompts,
            float(longest_context),
        )
        return float(seconds) + self._overhead_s


def _packed(tables: ProfileTables) -> tuple[Floats, Whole]:
    """All tables in one row, and where each ends: a call with two arrays is an order faster than
    one with seventeen.
    """
    skew, axis = tables.skew, np.array([0.0, 1.0])
    arrays = [
        tables.row_s,
        tables.head_s,
        tables.chunk,
        tables.cached,
        tables.requests,
        tables.context,
        tables.mixed_s,
        tables.alone_requests,
        tables.alone_context,
        tables.alone_s,
    ]
    if skew is None:
        arrays += [np.array([2.0]), *[axis] * 5, np.ones(32)]
    else:
        axes = (
            np.log(skew.requests),
            skew.chunk,
            skew.cached,
            np.log(skew.short),
            np.log(skew.share),
        )
        arrays += [np.array([skew.spread]), *axes, skew.ratio]
    flat = [np.ravel(values) for values in arrays]
    return np.concatenate(flat), np.cumsum([values.size for values in flat], dtype=np.int64)


@_compiled
def _unpacked(v: Floats, e: Whole) -> _Tables:
    chunk, cached, requests, context = (
        v[e[1] : e[2]],
        v[e[2] : e[3]],
        v[e[3] : e[4]],
        v[e[4] : e[5]],
    )
    mixed_s = v[e[5] : e[6]].reshape(
        chunk.shape[0], cached.shape[0], requests.shape[0], context.shape[0]
    )
    alone_requests, alone_context = v[e[6] : e[7]], v[e[7] : e[8]]
    alone_s = v[e[8] : e[9]].reshape(alone_requests.shape[0], alone_context.shape[0])
    n, c, p, k, s = (
        v[e[10] : e[11]],
        v[e[11] : e[12]],
        v[e[12] : e[13]],
        v[e[13] : e[14]],
        v[e[14] : e[15]],
    )
    ratio = v[e[15] : e[16]].reshape(n.shape[0], c.shape[0], p.shape[0], k.shape[0], s.shape[0])
    return _Tables(
        v[: e[0]],
        v[e[0] : e[1]],
        chunk,
        cached,
        requests,
        context,
        mixed_s,
        alone_requests,
        alone_context,
        alone_s,
        v[e[9]],
        n,
        c,
        p,
        k,
        s,
        ratio,
    )


@_compiled
def _at_size(values: Floats, size: float) -> float:
    """A table over whole sizes; beyond it, the slope of its second half goes on."""
    last = values.shape[0] - 1
    if size >= last:
        half = last // 2
        slope = (values[last] - values[half]) / (last - half)
        return float(values[last] + slope * (size - last))
    low = int(size)
    return float(values[low] + (values[low + 1] - values[low]) * (size - low))


@_compiled
def _place(axis: Floats, x: float, beyond: bool) -> tuple[int, float]:
    """The interval of an axis and the place in it; above 1 beyond the axis, where that is
    allowed.
    """
    low = int(np.searchsorted(axis, x, side="right")) - 1
    low = min(max(low, 0), axis.shape[0] - 2)
    share = (x - axis[low]) / (axis[low + 1] - axis[low])
    share = max(share, 0.0)
    return low, share if beyond else min(share, 1.0)


@_compiled
def _mixed_s(t: _Tables, chunk: float, cached: float, requests: float, context: float) -> float:
    """Attention of one prompt chunk beside decodes of equal contexts."""
    c, c_share = _place(t.chunk, chunk, True)
    p, p_share = _place(t.cached, cached, True)
    n, n_share = _place(t.requests, requests, True)
    k, k_share = _place(t.context, context, True)
    total = 0.0
    for i in range(2):
        c_weight = c_share if i else 1.0 - c_share
        for j in range(2):
            p_weight = c_weight * (p_share if j else 1.0 - p_share)
            for m in range(2):
                n_weight = p_weight * (n_share if m else 1.0 - n_share)
                row = t.mixed_s[c + i, p + j, n + m]
                total += n_weight * (row[k] + (row[k + 1] - row[k]) * k_share)
    return total


@_compiled
def _alone_s(t: _Tables, requests: float, context: float) -> float:
    """Attention of decodes of equal contexts without prompts."""
    n, n_share = _place(t.alone_requests, requests, True)
    k, k_share = _place(t.alone_context, context, True)
    few, many = t.alone_s[n], t.alone_s[n + 1]
    low = few[k] + (few[k + 1] - few[k]) * k_share
    high = many[k] + (many[k + 1] - many[k]) * k_share
    return float(low + (high - low) * n_share)


@_compiled
def _skew_ratio(
    t: _Tables, requests: float, mean: float, longest: float, chunk: float, cached: float
) -> float:
    """What contexts of this mean and maximum cost over equal ones.

    Two lengths stand for all: the longest, and the one a `spread` shorter, in the shares that give
    the mean.
    """
    if requests < 2.0 or longest <= mean:
        return 1.0
    share = (t.spread * mean / longest - 1.0) / (t.spread - 1.0)
    share = min(max(share, 1.0 / requests), 1.0)
    n, n_share = _place(t.skew_requests, np.log(requests), False)
    c, c_share = _place(t.skew_chunk, chunk, False)
    p, p_share = _place(t.skew_cached, cached, False)
    k, k_share = _place(t.skew_short, np.log(longest / t.spread), False)
    s, s_share = _place(t.skew_share, np.log(share), False)
    total = 0.0
    for i in range(2):
        n_weight = n_share if i else 1.0 - n_share
        for j in range(2):
            c_weight = n_weight * (c_share if j else 1.0 - c_share)
            for m in range(2):
                p_weight = c_weight * (p_share if m else 1.0 - p_share)
                for o in range(2):
                    row = t.ratio[n + i, c + j, p + m, k + o]
                    weight = p_weight * (k_share if o else 1.0 - k_share)
                    total += weight * (row[s] + (row[s + 1] - row[s]) * s_share)
    return total


@_compiled
def _prompts(t: _Tables, prompts: Whole) -> tuple[int, float]:
    """The prompt whose attention takes longest, and what the others add to it."""
    floor = t.mixed_s[0, 0, 0, 0]
    heaviest, most, total = 0, 0.0, 0.0
    for i in range(prompts.shape[0]):
        own = _mixed_s(t, prompts[i, 0], prompts[i, 1], 0.0, 0.0)
        total += max(own - floor, 0.0)
        if own > most:
            heaviest, most = i, own
    return heaviest, total - max(most - floor, 0.0)


@_compiled
def _iteration_s(
    values: Floats,
    ends: Whole,
    requests: float,
    queries: float,
    context: float,
    prompts: Whole,
    longest: float,
) -> float:
    t = _unpacked(values, ends)
    rows = requests * queries
    sampled = rows + prompts.shape[0]
    for i in range(prompts.shape[0]):
        rows += prompts[i, 0]
    if rows <= 0.0:
        return 0.0
    mean = context / requests if requests > 0.0 else 0.0
    chunk, before, others = 0.0, 0.0, 0.0
    if prompts.shape[0] > 0:
        heaviest, others = _prompts(t, prompts)
        chunk, before = float(prompts[heaviest, 0]), float(prompts[heaviest, 1])
    if chunk > 0.0 or queries > 1.0:
        attention = _mixed_s(t, chunk, before, requests, mean)
        skew_chunk = max(chunk, t.chunk[0])
    else:
        attention = _alone_s(t, requests, mean)
        skew_chunk = 0.0
    attention *= _skew_ratio(t, requests, mean, longest, skew_chunk, before)
    return float(_at_size(t.row_s, rows) + _at_size(t.head_s, sampled) + attention + others)
