"""What does a measured kernel profile say, brought onto whole grids?

Reads `PREFIX_attention.parquet`, `_dense`, `_per_sequence`, and `_skew` and `_moe` where they
exist: microseconds of one layer's kernels under a serving engine, by what an iteration holds.
Attention is measured on several partial grids, which are completed here. Nothing is fitted. Leaves
out looking up (`simulator.timing.profile_timer`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardware_profiles.errors import InputError
from hardware_profiles.places import is_place
from simulator.timing.engine_settings import EngineSettings
from simulator.timing.profile_experts import ExpertsOfRanks, experts_of_ranks, read_experts
from simulator.timing.profile_files import LEAST_ROWS, Floats, Rows, read_rows

# kernels that a layer runs twice, and those that a pass runs once; all others run once per layer
_TWICE = ("layernorm",)
_ONCE = ("embedding", "final_layernorm")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ProfileTables:
    """Seconds of a whole pass by its parts; axes are sorted.

    Args:
        row_s: by query tokens 0..R: every layer's products, norms and activations, and the messages
            between devices.
        head_s: by sampled rows 0..S: output head and sampler.
        chunk: prompt tokens of an iteration, the axis of prompts.
        cached: cached tokens before them.
        requests: decoding requests beside them, from 0.
        context: cached tokens of each decoding request.
        mixed_s: attention [chunk, cached, requests, context].
        alone_requests: decoding requests, without prompts.
        alone_context: their cached tokens.
        alone_s: attention [alone_requests, alone_context].
        skew: None, or what unequal contexts cost.
        together: expert layers of ranks that begin every iteration together; None: `row_s` holds
            them.
    """

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
    skew: SkewTable | None
    together: ExpertsOfRanks | None = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SkewTable:
    """Attention of requests with two context lengths over that of as many with their mean.

    Args:
        spread: long context over short one, > 1.
        requests: axis, decoding requests.
        chunk: axis, prompt tokens beside them, from 0.
        cached: axis, cached tokens of the prompt.
        short: axis, tokens of the short contexts.
        share: axis, requests with the long context over all, up to 1.
        ratio: [requests, chunk, cached, short, share].
    """

    spread: float
    requests: Floats
    chunk: Floats
    cached: Floats
    short: Floats
    share: Floats
    ratio: Floats


def read_tables(prefix: str | Path, engine: EngineSettings) -> ProfileTables:
    """Read the profile of an engine.

    Args:
        prefix: path of the files up to `_attention.parquet`.
        engine: as it ran; its devices choose the rows, its layers multiply them.

    Raises:
        InputError: a file is absent or not as described, or holds no rows for so many devices.
    """
    shared = engine.tensor_parallel
    attention = read_rows(
        prefix, "attention", ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode"), shared
    )
    dense = read_rows(prefix, "dense", ("layer", "tokens"), shared)
    heads = read_rows(prefix, "per_sequence", ("layer", "sequences"), shared)
    row_s = _summed(dense, "tokens", _times(engine.layers))
    experts = read_experts(prefix, engine)
    if experts is not None and not engine.in_step:
        row_s += experts.table(row_s.size)
    alone = attention["prefill_chunk"] == 0
    alone_requests, alone_context, alone_s = _alone(
        {key: values[alone] for key, values in attention.items()}, prefix
    )
    chunk, cached, requests, context, mixed_s = _mixed(
        {k: values[~alone] for k, values in attention.items()}, prefix
    )
    return ProfileTables(
        row_s=row_s + _messages(engine, row_s.size),
        head_s=_summed(heads, "sequences", lambda name: 1),
        chunk=chunk,
        cached=cached,
        requests=requests,
        context=context,
        mixed_s=mixed_s * engine.layers,
        alone_requests=alone_requests,
        alone_context=alone_context,
        alone_s=alone_s * engine.layers,
        skew=_skew(prefix, shared),
        together=experts_of_ranks(experts, engine)
        if experts is not None and engine.in_step
        else None,
    )


def _times(layers: int) -> Any:
    return lambda name: 1 if name in _ONCE else layers * (2 if name in _TWICE else 1)


def _summed(rows: Rows, axis: str, times: Any) -> Floats:
    """Seconds of all kernels together by whole sizes 0..largest; between measured sizes along
    straight lines.
    """
    size = int(rows[axis].max())
    total = np.zeros(size + 1)
    for name in np.unique(rows["layer"]):
        own = rows["layer"] == name
        order = np.argsort(rows[axis][own], kind="stable")
        total += times(str(name)) * np.interp(
            np.arange(size + 1), rows[axis][own][order], rows["s"][own][order]
        )
    total[0] = 0.0
    return total


def _messages(engine: EngineSettings, size: int) -> Floats:
    """Two all-reduces of a ring per layer, by query tokens."""
    devices, sizes = engine.tensor_parallel, np.arange(size, dtype=np.float64)
    if devices == 1 or engine.link_bytes_per_s <= 0.0:
        return np.zeros(size)
    sent = (
        2.0
        * (devices - 1)
        / devices
        * sizes
        * engine.architecture.hidden
        * engine.precision.residual_bytes
    )
    return np.asarray(
        2.0 * engine.layers * (engine.link_latency_s + sent / engine.link_bytes_per_s) * (sizes > 0)
    )


def _grid(rows: Rows, keys: tuple[str, ...], file: str) -> tuple[list[Floats], Floats]:
    """The axes and the measured times on them, nan where nothing was measured."""
    places = [np.unique(rows[key], return_inverse=True) for key in keys]
    axes = [axis.astype(np.float64) for axis, _ in places]
    for key, axis in zip(keys, axes, strict=True):
        if axis.size < 2:
            raise InputError(
                "must be measured at two sizes or more", file=file, key=key, value=axis.size
            )
    table = np.full([axis.size for axis in axes], np.nan)
    table[tuple(index for _, index in places)] = rows["s"]
    return axes, table


def _alone(rows: Rows, prefix: str | Path) -> tuple[Floats, Floats, Floats]:
    (requests, context), table = _grid(
        rows, ("n_decode", "kv_decode"), f"{prefix}_attention.parquet"
    )
    return requests, context, _along(context, table)


def _mixed(rows: Rows, prefix: str | Path) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Attention of prompt chunks beside decodes, completed.

    Contexts that were not measured beside a chunk borrow their course from the chunk that was
    measured at most of them: only the difference to it, which is smooth, is interpolated.
    """
    file = f"{prefix}_attention.parquet"
    (chunk, cached, requests, _), table = _grid(
        rows, ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode"), file
    )
    context = np.unique(rows["kv_decode"][rows["n_decode"] > 0]).astype(np.float64)
    if requests[0] != 0.0 or context.size < 2:
        raise InputError(
            "must hold prompts alone and beside decodes",
            file=file,
            key="n_decode",
            value=requests[0],
        )
    empty = table[:, :, 0].copy()
    table = table[..., -context.size :]
    table[:, :, 0] = np.nanmax(np.where(np.isnan(empty), -1.0, empty), axis=-1, keepdims=True)
    table[table < 0.0] = np.nan
    used = [i for i in range(requests.size) if np.isfinite(table[:, :, i]).any()]
    table, requests = table[:, :, used], requests[used]
    for index in range(requests.size):
        plane = table[:, :, index]
        # the fullest row gives the course over contexts; the others fill their gaps around it
        measured = np.isfinite(plane).sum(axis=-1)
        fullest = np.unravel_index(int(measured.argmax()), measured.shape)
        course = _along(context, plane[fullest][None])[0]
        plane = _along(context, plane - course)
        plane = np.moveaxis(_along(cached, np.moveaxis(plane, 1, -1)), -1, 1)
        plane = np.moveaxis(_along(chunk, np.moveaxis(plane, 0, -1)), -1, 0)
        table[:, :, index] = np.maximum(plane + course, 0.0)
    return chunk, cached, requests, context, table


def _along(axis: Floats, values: Floats) -> Floats:
    """Fill gaps (nan) by interpolation along the last axis, beyond the ends by the nearest value;
    rows of gaps alone stay so.
    """
    filled = values.copy()
    for place in np.ndindex(*values.shape[:-1]):
        measured = np.isfinite(values[place])
        if measured.any() and not measured.all():
            filled[place] = np.interp(axis, axis[measured], values[place][measured])
    return filled


def _skew(prefix: str | Path, shared: int) -> SkewTable | None:
    """Ratios at the spread that was measured most, over shares of long contexts; None without the
    file.
    """
    file = f"{prefix}_skew.parquet"
    if not is_place(file):
        return None
    keys = ("n", "nb", "skew", "pc", "kp", "kvs", "t_mean_us")
    rows = dict(read_rows(prefix, "skew", keys, shared, "t_skew_us"))
    spreads, counts = np.unique(rows["skew"], return_counts=True)
    spread = float(spreads[counts.argmax()])
    wanted = (
        (rows["skew"] == spread) & (rows["t_mean_us"] > 0) & (rows["nb"] >= 1) & (rows["n"] >= 2)
    )
    rows = {key: values[wanted] for key, values in rows.items()}
    if spread <= 1.0 or rows["n"].size < LEAST_ROWS:
        raise InputError("must hold unequal contexts", file=file, key="skew", value=spread)
    rows["share"] = rows["nb"] / rows["n"]
    share = np.unique(np.append(rows["share"], 1.0))
    rows["s"] = rows["t_skew_us"] / rows["t_mean_us"]
    (requests, chunk, cached, short, own), table = _grid(
        rows, ("n", "pc", "kp", "kvs", "share"), file
    )
    whole = np.full((*table.shape[:-1], share.size), np.nan)
    whole[..., np.searchsorted(share, own)] = table
    whole[np.isfinite(whole).any(axis=-1), -1] = 1.0
    whole = _along(np.log(share), whole)
    for axis, sizes in ((2, cached), (1, chunk), (0, requests)):
        whole = np.moveaxis(_along(sizes, np.moveaxis(whole, axis, -1)), -1, axis)
    return SkewTable(
        spread=spread,
        requests=requests,
        chunk=chunk,
        cached=cached,
        short=short,
        share=share,
        ratio=np.nan_to_num(whole, nan=1.0),
    )
