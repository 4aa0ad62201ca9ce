"""How do measured kernels look beside the roofs and the cost model? As one HTML file that needs no
network.

Verify attention over query tokens at a few contexts, matrix products over rows, whole passes over
query tokens: both axes logarithmic, measured lines with their quartiles, the bandwidth floor, and
the cost model's prediction where a device profile is named. Leaves out how times are taken
(`real_runs.kernels`).
"""

import math
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from app.answers.kernels import KernelTimes
from app.render.charts.charts import DASHES, HEIGHT_PIXELS, NEUTRAL, PALETTE, Figure, digits, framed
from app.render.html.page import figure_card, html_page, write_page
from costmodel.passes import kernels as model
from costmodel.passes import ops
from costmodel.passes.precision import BYTES_PER_VALUE
from hardware_profiles.errors import InputError
from hardware_profiles.profile import Device
from hardware_profiles.units import GIGA, MICRO
from traces.storage.kernels import KernelRow, KernelTrace

CONTEXTS = (4096, 32_768, 131_072)
MOST_WEIGHTS = 6
_FLOOR = {"color": NEUTRAL, "dash": "dot", "width": 1.5}


def write_plot(answer: KernelTimes, path: Path) -> None:
    """Write the page of `kernels --plot`."""
    write_kernel_page(answer.trace, path, device=answer.profile)


def write_kernel_page(trace: KernelTrace, path: Path, *, device: Device | None = None) -> None:
    """Write the page, whole: to a neighbour first, then renamed.

    Args:
        trace: measured rows.
        path: the HTML file; its folder is made.
        device: profile whose cost model is drawn beside; None: measured rates alone make the roofs.

    Raises:
        InputError: nothing in the rows to draw, plotly is missing, or the place cannot be written.
    """
    write_page(kernel_page(trace, device=device), path)


def kernel_page(trace: KernelTrace, *, device: Device | None = None) -> str:
    """The page that `write_kernel_page` writes; the same rows give the same text.

    Raises:
        InputError: nothing to draw, or plotly is missing.
    """
    cards = [
        *attention_cards(trace, device),
        *gemm_cards(trace, device),
        *step_cards(trace, device),
    ]
    if not cards:
        raise InputError(
            "hold no attention, matrix products or passes to draw",
            key="rows",
            value=len(trace.rows),
        )
    figures: dict[str, Figure] = {}
    body = "".join(
        figure_card(figures, f"plot-{index}", figure, title, note)
        for index, (title, note, figure) in enumerate(cards)
    )
    about = trace.provenance
    beside = f"cost model of {device.name}" if device else "no device profile named"
    line = " · ".join(
        escape(text) for text in (about.device, f"{about.threads} thread(s)", beside, about.started)
    )
    head = f'<header><p class="eyebrow">{line}</p><h1>Measured kernels</h1></header>'
    return html_page(
        f"kernels on {about.device}",
        f'{head}<section class="grid">{body}</section>',
        figures,
        key="--plot",
    )


Card = tuple[str, str, Figure]


def attention_cards(trace: KernelTrace, device: Device | None) -> list[Card]:
    """Verify attention over query tokens, one panel per batch and chosen context."""
    rows = [row for row in trace.rows if row.operation == "attention" and row.mask == "causal"]
    cards: list[Card] = []
    for job in dict.fromkeys(row.job for row in rows):
        own = [row for row in rows if row.job == job]
        batches = sorted({row.requests for row in own})
        for batch in dict.fromkeys((batches[0], batches[-1])):
            batch_rows = [row for row in own if row.requests == batch]
            for context in shown_contexts({row.context for row in batch_rows}):
                panel = [row for row in batch_rows if row.context == context]
                title = f"{job}: {_count(batch, 'request')}, {context:,} cached tokens"
                note = (
                    f"{panel[0].heads} query and {panel[0].kv_heads} key/value heads,"
                    f" {panel[0].dtype}."
                )
                cards.append((title, note, _attention_figure(panel, trace, device)))
    return cards


def shown_contexts(measured: set[int]) -> list[int]:
    """The measured contexts nearest to `CONTEXTS`, filled up with the longest others to three
    panels.
    """
    nearest = {
        min(measured, key=lambda have: (abs(math.log(max(have, 1) / want)), have))
        for want in CONTEXTS
    }
    others = sorted(measured - nearest, reverse=True)
    return sorted([*nearest, *others[: max(0, len(CONTEXTS) - len(nearest))]])


def _attention_figure(
    rows: Sequence[KernelRow], trace: KernelTrace, device: Device | None
) -> Figure:
    data = [
        _measured(
            name,
            place,
            [row for row in rows if row.implementation == name],
            lambda row: row.query_tokens,
        )
        for place, name in enumerate(dict.fromkeys(row.implementation for row in rows))
    ]
    first = rows[0]
    tokens = np.array(sorted({row.query_tokens for row in rows}), dtype=np.float64)
    width = BYTES_PER_VALUE[first.dtype]
    work = ops.attention(
        first.requests,
        tokens,
        first.context,
        heads=first.heads,
        kv_heads=first.kv_heads,
        head_dim=first.head_dim,
        window=None,
        kv_bytes=width,
        activation_bytes=width,
    )
    shape: dict[str, Any] = {
        "requests": first.requests,
        "query_tokens": tokens,
        "context": first.context,
        "heads": first.heads,
        "kv_heads": first.kv_heads,
        "dtype": first.dtype,
    }
    data += _floor(tokens, np.broadcast_to(work.bytes, tokens.shape), trace, device)
    if device is not None and first.dtype in device.peak_flops_per_s:
        split = model.split_attention(device, work, **shape)
        walk = model.unsplit_attention(device, work, **shape)
        data += [
            _predicted("model, split", tokens, split.seconds, 0),
            _predicted("model, unsplit", tokens, walk.seconds, 1),
        ]
    return _figure(data, tokens, "new tokens per request")


def gemm_cards(trace: KernelTrace, device: Device | None) -> list[Card]:
    """Matrix products over rows, one panel per weight, the largest first."""
    rows = [row for row in trace.rows if row.operation == "gemm"]
    weights = {(row.dtype, row.outputs, row.inputs) for row in rows}
    cards = []
    for dtype, outputs, inputs in sorted(weights, key=lambda w: (-w[1] * w[2], w))[:MOST_WEIGHTS]:
        own = [
            row for row in rows if (row.dtype, row.outputs, row.inputs) == (dtype, outputs, inputs)
        ]
        sizes = np.array(sorted({row.rows for row in own}), dtype=np.float64)
        data = [_measured("measured", 0, own, lambda row: row.rows)]
        width = BYTES_PER_VALUE[dtype]
        work = ops.gemm(
            sizes, outputs, inputs, weight_bytes=width, activation_bytes=max(width, 2.0)
        )
        data += _floor(sizes, work.bytes, trace, device)
        peak = _peak(trace, device, dtype)
        if peak:
            data.append(_plain_line("compute roof", sizes, work.flops / peak, "dashdot"))
        if device is not None and dtype in device.peak_flops_per_s:
            data.append(
                _predicted("model", sizes, model.gemm(device, work, sizes, dtype).seconds, 0)
            )
        title = f"Matrix product with a {outputs:,} × {inputs:,} weight"
        cards.append(
            (
                title,
                f"{dtype}, {width * outputs * inputs / 1e6:,.1f} MB.",
                _figure(data, sizes, "rows (tokens)"),
            )
        )
    return cards


def step_cards(trace: KernelTrace, device: Device | None) -> list[Card]:
    """Whole passes over query tokens, one panel per model, format, batch and mask, one line per
    context.
    """
    rows = [row for row in trace.rows if row.operation == "step"]
    cards = []
    for key in dict.fromkeys(
        (row.model, row.layers, row.dtype, row.requests, row.mask) for row in rows
    ):
        own = [
            row for row in rows if (row.model, row.layers, row.dtype, row.requests, row.mask) == key
        ]
        tokens = np.array(sorted({row.query_tokens for row in own}), dtype=np.float64)
        groups = dict.fromkeys(
            (row.implementation, row.context) for row in sorted(own, key=lambda r: r.context)
        )
        data = [
            _measured(
                f"{name}, context {context:,}",
                place,
                [row for row in own if (row.implementation, row.context) == (name, context)],
                lambda row: row.query_tokens,
            )
            for place, (name, context) in enumerate(groups)
        ]
        least = min(row.context for row in own)
        low = {row.query_tokens: row.bytes for row in own if row.context == least}
        sizes = np.array(sorted(low), dtype=np.float64)
        data += _floor(sizes, np.array([low[int(n)] for n in sizes]), trace, device)
        name, layers, dtype, batch, mask = key
        title = (
            f"Passes of {name}: {_count(batch, 'request')},"
            f" {'chains' if mask == 'causal' else 'trees'}"
        )
        note = f"{layers} layers, {dtype}; the floor is that of the shortest context."
        cards.append((title, note, _figure(data, tokens, "new tokens per request")))
    return cards


def measured_bandwidth(trace: KernelTrace) -> float | None:
    """Best measured rate of plain memory traffic, bytes/s; None where there is none."""
    plain = [row for row in trace.rows if row.operation in ("copy", "read") and row.cold]
    return max((row.bytes / row.median_s for row in plain), default=None)


def _peak(trace: KernelTrace, device: Device | None, dtype: str) -> float | None:
    """The profile's peak, else the best rate of any measured product."""
    if device is not None and dtype in device.peak_flops_per_s:
        return device.peak(dtype)
    products = [row for row in trace.rows if row.operation == "gemm" and row.dtype == dtype]
    return max((row.flops / row.median_s for row in products), default=None)


def _floor(x: Any, moved_bytes: Any, trace: KernelTrace, device: Device | None) -> list[Figure]:
    """What moving the bytes takes at the measured rate, or at the profile's where none was
    measured.
    """
    measured = measured_bandwidth(trace)
    rate = measured or (device.bandwidth_bytes_per_s if device else None)
    if not rate:
        return []
    source = "measured" if measured else "profile"
    return [_plain_line(f"{digits(rate / GIGA)} GB/s, {source}", x, moved_bytes / rate, "dot")]


def _measured(
    name: str, place: int, rows: Sequence[KernelRow], x: Callable[[KernelRow], int]
) -> Figure:
    ordered = sorted(rows, key=x)
    hover = [
        f"<b>{escape(name)}</b><br>{_time(row.median_s)}"
        f" ({_time(row.low_s)}–{_time(row.high_s)})<br>{digits(row.bytes / row.median_s / GIGA)}"
        f" GB/s, {digits(row.flops / row.median_s / GIGA)} GFLOP/s"
        for row in ordered
    ]
    color, dash = PALETTE[place % len(PALETTE)], DASHES[place // len(PALETTE) % len(DASHES)]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": escape(name),
        "x": [x(row) for row in ordered],
        "y": [row.median_s / MICRO for row in ordered],
        "line": {"color": color, "dash": dash, "width": 2},
        "marker": {"color": color, "size": 7},
        "hoverinfo": "text",
        "hovertext": hover,
        "error_y": {
            "type": "data",
            "symmetric": False,
            "width": 3,
            "thickness": 1,
            "array": [(row.high_s - row.median_s) / MICRO for row in ordered],
            "arrayminus": [(row.median_s - row.low_s) / MICRO for row in ordered],
        },
    }


def _predicted(name: str, x: Any, seconds: Any, place: int) -> Figure:
    line = _plain_line(name, x, np.broadcast_to(seconds, np.shape(x)), "dash")
    line["line"] = {"color": ("#6B4FBB", "#A0522D")[place], "dash": "dash", "width": 2.5}
    return line


def _plain_line(name: str, x: Any, seconds: Any, dash: str) -> Figure:
    y = [float(value) / MICRO for value in seconds]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": escape(name),
        "x": [float(value) for value in x],
        "y": y,
        "line": {**_FLOOR, "dash": dash},
        "hoverinfo": "text",
        "hovertext": [f"<b>{escape(name)}</b><br>{_time(value * MICRO)}" for value in y],
    }


def _figure(data: Sequence[Figure], x: Any, label: str) -> Figure:
    ticks = [int(value) for value in x]
    spread = 1.15
    bottom = {
        "type": "log",
        "title": {"text": label},
        "tickvals": ticks,
        "ticktext": [f"{tick:,}" for tick in ticks],
        "range": [math.log10(ticks[0] / spread), math.log10(ticks[-1] * spread)],
    }
    side = {"type": "log", "title": {"text": "time of one call (µs)"}, "dtick": "D2"}
    return framed(data, bottom, side, height=HEIGHT_PIXELS + 120)


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _time(seconds: float) -> str:
    return f"{digits(seconds / MICRO)} µs"
