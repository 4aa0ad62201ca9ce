"""How does the answer of `optimize` look as charts?

Pure functions from the answer's rows, fresh or read back, to figures in Plotly's JSON
form: `{"data": [...], "layout": {...}}` with units on every axis and no colours of a page theme.
Names in an answer are untrusted and leave here HTML-escaped. Leaves out the page around the figures
(`report`).
"""

import html
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.answers import numbers
from app.answers.estimates import Interval
from app.answers.optimize.rankings import Rankings
from app.answers.optimize.rows import ChoiceRow, Emission
from app.render.charts.limit_lines import level_line, pace_line, step_marks, with_room
from app.render.charts.log_ticks import drawn_along, labelled
from costmodel.answers.energy import usd_per_million
from hardware_profiles.units import MILLI
from traces.kinds.tree import Tree

Json = Mapping[str, Any]
Figure = dict[str, Any]
digits, interval_words = (
    numbers.digits,
    numbers.interval_words,
)  # charts and pages write numbers as sentences do

# Okabe & Ito 2008, "Color Universal Design", in the order of their contrast on white and near-black
# together
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = {
    "off": "circle-open",
    "chain": "circle",
    "tree": "diamond",
    "dynamic_tree": "star",
    "state_trees": "hexagon",
}
PHASES = (("draft", "#E69F00"), ("verify", "#0072B2"), ("overhead", "#949494"))
NEUTRAL = "#8A8F98"
HEIGHT_PIXELS = 340
MOST_TICKS = 10
LEAST_SHOWN_RATIO = 0.001  # rarer tokens share the darkest colour
WIDEST_LINEAR_TOKENS = (
    16  # beyond this many draft tokens the axis is logarithmic, or chains would be a smear
)


def drafters(answer: Rankings) -> list[str]:
    """Unescaped name of every drafter that competed, in the order asked."""
    listed = [str(drafter.name) for drafter in answer.drafters]
    return list(dict.fromkeys([*listed, *(str(row.drafter) for row in answer.ranked)]))


def speedup_figure(answer: Rankings, context: int, *, usd_per_hour: float | None = None) -> Figure:
    """Speedup against batch, one line per contender with its 80 % band, and a line at 1.

    Args:
        answer: the answer of `optimize`.
        context: one of `answer.contexts`.
        usd_per_hour: of all devices, for the price of tokens at every point; None: not known.
    """
    batches = _batches(answer, context)
    equal_speed: Figure = {
        "type": "scatter",
        "mode": "lines",
        "name": "no speculation",
        "x": _ends(batches),
        "y": [1.0, 1.0],
        "line": {"color": NEUTRAL, "dash": "dash", "width": 1.5},
        "hoverinfo": "skip",
    }
    lines = _lines(
        answer,
        context,
        lambda row: (row.speedup, row.speedup_interval),
        "×",
        "speedup",
        usd_per_hour,
    )
    return framed([equal_speed, *lines], batch_axis(batches), {"title": {"text": "speedup (×)"}})


def throughput_figure(
    answer: Rankings, context: int, *, usd_per_hour: float | None = None
) -> Figure:
    """Tokens per second of the whole batch against batch, with 80 % bands; plain decoding for
    comparison.

    Args:
        answer: the answer of `optimize`.
        context: one of `answer.contexts`.
        usd_per_hour: as of `speedup_figure`.
    """
    batches = _batches(answer, context)
    winners = [row for row in answer.choices if row.context == context]
    plain = [_ratio(row.tokens_per_s, row.speedup) for row in winners]
    reference: Figure = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "no speculation",
        "x": [row.batch for row in winners],
        "y": plain,
        "line": {"color": NEUTRAL, "dash": "dash", "width": 1.5},
        "marker": {"symbol": "x-thin-open", "size": 6},
        "hoverinfo": "text",
        "hovertext": [
            f"<b>no speculation</b><br>batch {_text(row.batch)}<br>{digits(rate)} tokens/s"
            for row, rate in zip(winners, plain, strict=True)
        ],
    }
    lines = _lines(
        answer,
        context,
        lambda row: (row.tokens_per_s, row.tokens_per_s_interval),
        " tokens/s",
        "",
        usd_per_hour,
    )
    axis: Figure = {
        "title": {"text": "tokens/s, whole batch"},
        "rangemode": "tozero",
        "tickformat": "~s",
    }
    speeds = [value for value in plain if value]
    if speeds and max(speeds) > 8 * min(speeds):
        axis |= {"type": "log", "dtick": "D2"}
    limit = pace_line(batches, answer.tpot_limit_s)
    return framed([reference, *lines, *limit], batch_axis(batches), axis)


def time_per_token_figure(answer: Rankings, context: int) -> Figure:
    """Milliseconds of a token against batch, one line per contender with its 80 % band, and the
    limit.
    """
    batches = _batches(answer, context)

    def time(row: ChoiceRow) -> tuple[float, Interval | None]:
        low, high = row.tokens_per_s_interval or (row.tokens_per_s, row.tokens_per_s)
        return row.tpot_s / MILLI, (row.batch / high / MILLI, row.batch / low / MILLI)

    lines = _lines(answer, context, time, " ms", "a token in", None)
    limit = level_line(_ends(batches), answer.tpot_limit_s)
    tallest = max((value for line in lines for value in line["y"]), default=0.0)
    side: Figure = {"title": {"text": "time per token (ms)"}, "rangemode": "tozero"}
    return framed([*lines, *limit], batch_axis(batches), with_room(side, tallest, limit))


def step_time_figure(answer: Rankings, context: int) -> Figure:
    """Milliseconds of the winner's step by phase, stacked, one bar per batch."""
    winners = answer.at(context)
    data = []
    for phase, color in PHASES:
        hover = [
            f"<b>{phase}</b>, batch {_text(row.batch)}<br>"
            f"{_text(str(row.drafter))}, {_text(str(row.draft))}<br>"
            f"{digits(getattr(row.breakdown_s, phase) / MILLI)} ms of {digits(row.step_s / MILLI)} ms "
            f"({100 * getattr(row.breakdown_s, phase) / row.step_s:.0f} %)"
            for row in winners
        ]
        data.append(
            {
                "type": "bar",
                "name": phase,
                "x": [str(row.batch) for row in winners],
                "y": [getattr(row.breakdown_s, phase) / MILLI for row in winners],
                "marker": {"color": color},
                "hoverinfo": "text",
                "hovertext": hover,
                "textposition": "none",
            }
        )
    bottom = {"type": "category", "title": {"text": "batch (requests)"}, "showgrid": False}
    limit = step_marks(
        [str(row.batch) for row in winners],
        [row.tokens_per_step for row in winners],
        answer.tpot_limit_s,
    )
    side: Figure = {"title": {"text": "step time (ms)"}, "rangemode": "tozero"}
    tallest = max((row.step_s / MILLI for row in winners), default=0.0)
    figure = framed([*data, *limit], bottom, with_room(side, tallest, limit))
    figure["layout"] |= {"barmode": "stack", "bargap": 0.35}
    return figure


def acceptance_figure(answer: Rankings) -> Figure | None:
    """Tokens per step against draft tokens, one line per drafter, trees as points; None without
    curves.
    """
    groups: dict[str, list[Emission]] = {}
    for point in answer.curves:
        if point.draft_tokens:
            groups.setdefault(str(point.drafter), []).append(point)
    if not groups:
        return None
    order = drafters(answer)
    data: list[Figure] = []
    for name, points in groups.items():
        place = order.index(name)
        for topology, group in (
            ("chain", ""),
            ("tree", ", trees"),
            ("dynamic_tree", ", dynamic trees"),
            ("state_trees", ", trees with prompt tokens"),
        ):
            best: dict[int, Emission] = {}  # several trees may have one size
            for point in sorted(points, key=lambda p: float(p.tokens_per_step)):
                if point.topology == topology:
                    best[point.draft_tokens] = point
            if largest := [best[size] for size in sorted(best)]:
                data += _acceptance_traces(largest, f"{name}{group}", place, topology)
    sizes = sorted({p.draft_tokens for points in groups.values() for p in points})
    bottom: Figure = {"title": {"text": "draft tokens per request and step"}}
    if sizes[-1] > WIDEST_LINEAR_TOKENS:
        bottom |= _log_axis(sizes)
    return framed(data, bottom, {"title": {"text": "tokens per step"}})


def best_tree(answer: Rankings) -> ChoiceRow | None:
    """The tree worth drawing: of the winners the one with the largest speedup, else of the
    others.
    """
    for group in (answer.choices, answer.alternatives):
        trees = [row for row in group if row.tree and row.speedup is not None]
        if trees:
            return max(trees, key=lambda row: float(row.speedup))
    return None


def path_acceptance(answer: Rankings, row: ChoiceRow) -> list[float] | None:
    """Share of steps that keep each draft token of a chosen tree, in node order; None where not
    recorded.
    """
    for point in answer.curves:
        shares = point.path_acceptance
        same = point.drafter == row.drafter
        # several trees may have one size; the replayed number tells them apart
        if (
            shares
            and same
            and (point.draft_tokens, point.tokens_per_step)
            == (row.draft_tokens, row.tokens_per_step)
        ):
            return [float(share) for share in shares]
    return None


def tree_leaves(tree: Tree) -> int:
    """Number of nodes without children: how many stand side by side in `tree_figure`."""
    return tree.nodes - len(set(tree.parents) - {-1})


def tree_figure(tree: Tree, shares: Sequence[float] | None) -> Figure:
    """A tree from the root down, level by level, coloured and sized by how often a step keeps the
    path.

    Args:
        tree: the shape.
        shares: share of steps that keep each draft token, root excluded; None draws the tree plain.
    """
    x, y = _places(tree)
    node_shares = list(shares) if shares is not None and len(shares) == tree.draft_tokens else None
    edges: Figure = {
        "type": "scatter",
        "mode": "lines",
        "hoverinfo": "skip",
        "line": {"color": NEUTRAL, "width": 1},
        "x": [v for n in range(1, tree.nodes) for v in (x[tree.parents[n]], x[n], None)],
        "y": [v for n in range(1, tree.nodes) for v in (y[tree.parents[n]], y[n], None)],
    }
    marker: Figure = {
        "size": 13,
        "color": PALETTE[0],
        "line": {"color": NEUTRAL, "width": 1},
        "opacity": 1,
    }
    if node_shares:
        decades = [math.log10(max(share, LEAST_SHOWN_RATIO)) for share in node_shares]
        ticks = [
            share
            for share in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
            if math.log10(share) >= min(decades) - 0.1
        ]
        marker |= {
            "size": [9 + 15 * math.sqrt(share) for share in node_shares],
            "color": decades,
            "colorscale": "Cividis",
            "cmin": min(decades),
            "cmax": 0,
            "showscale": True,
            "colorbar": {
                "orientation": "h",
                "y": -0.02,
                "yanchor": "top",
                "thickness": 10,
                "len": 0.7,
                "title": {"text": "steps that keep the token (%)", "side": "top"},
                "tickvals": [math.log10(share) for share in ticks],
                "ticktext": [f"{100 * t:g}" for t in ticks],
            },
        }
    root: Figure = {
        "type": "scatter",
        "mode": "markers",
        "x": x[:1],
        "y": y[:1],
        "hoverinfo": "text",
        "hovertext": ["<b>root</b>: the last known token, not drafted"],
        "marker": {"size": 15, "symbol": "square-open", "color": NEUTRAL, "line": {"width": 2}},
    }
    hover = [
        f"<b>level {len(path)}</b>, candidates {' → '.join(str(rank + 1) for rank in path)}"
        + (f"<br>kept in {100 * node_shares[node]:.1f} % of steps" if node_shares else "")
        for node, path in enumerate(tree.paths())
    ]
    nodes: Figure = {
        "type": "scatter",
        "mode": "markers",
        "x": x[1:],
        "y": y[1:],
        "marker": marker,
        "hoverinfo": "text",
        "hovertext": hover,
    }
    levels = list(range(tree.depth))
    side = {
        "tickvals": [-level for level in levels],
        "ticktext": ["root", *map(str, levels[1:])],
        "showgrid": False,
        "title": {"text": "draft level"},
        "zeroline": False,
    }
    figure = framed([edges, nodes, root], {"visible": False}, side)
    figure["layout"] |= {"showlegend": False, "height": max(260, min(150 + 55 * tree.depth, 600))}
    return figure


def _lines(
    answer: Rankings,
    context: int,
    quantity: Callable[[ChoiceRow], tuple[float, Interval | None]],
    unit: str,
    word: str,
    usd_per_hour: float | None,
) -> list[Figure]:
    """A line and a band per contender for one quantity that has an interval."""
    data = []
    for place, name in enumerate(drafters(answer)):
        line_rows = [row for row in answer.ranked if row.context == context and row.drafter == name]
        line_rows.sort(key=lambda row: row.batch)
        if not line_rows:
            continue
        values, spans = zip(*map(quantity, line_rows), strict=True)
        bounds = [span or (value, value) for value, span in zip(values, spans, strict=True)]
        hover = [
            f"<b>{_text(name)}</b>, {_text(str(row.draft))}<br>batch {_text(row.batch)}<br>"
            f"{word} {digits(value)}{unit} (80 %: {interval_words(span, unit)})"
            f"{_pace(row, usd_per_hour)}"
            for row, value, span in zip(line_rows, values, bounds, strict=True)
        ]
        line = line_of(name, place, [row.batch for row in line_rows], values, hover)
        line["marker"]["symbol"] = [SYMBOLS[row.topology] for row in line_rows]
        data += [*band_of(line, bounds), line]
    return data


def _pace(row: ChoiceRow, usd_per_hour: float | None) -> str:
    """A line on the pace of a row; nothing of a saved answer that does not hold it."""
    if row.tpot_s is None:
        return ""
    return f"<br>{pace_words(row.tpot_s, row.tokens_per_s, usd_per_hour)}"


def pace_words(tpot_s: float, tokens_per_s: float, usd_per_hour: float | None) -> str:
    """What a token takes and, where a price is known, costs: `12.5 ms per token, $0.31 per million`.

    Args:
        tpot_s: seconds that a request waits for a token.
        tokens_per_s: of all requests.
        usd_per_hour: of all devices; None: not known.
    """
    usd = usd_per_million(usd_per_hour, tokens_per_s)
    price = "" if usd is None else f", ${digits(usd)} per million"
    return f"{digits(tpot_s / MILLI)} ms per token{price}"


def _acceptance_traces(
    points: Sequence[Emission], name: str, place: int, topology: str
) -> list[Figure]:
    bounds = [point.interval for point in points]
    hover = [
        f"<b>{_text(name)}</b>, {_text(str(point.draft))}<br>{digits(point.tokens_per_step)}"
        " tokens per step" + (f" (80 %: {interval_words(span)})" if span else "")
        for point, span in zip(points, bounds, strict=True)
    ]
    x, y = [p.draft_tokens for p in points], [p.tokens_per_step for p in points]
    line = line_of(name, place, x, y, hover)
    line["marker"]["symbol"] = SYMBOLS[topology]
    if topology != "chain":
        line |= {"mode": "markers", **_error_bars(y, bounds)}
        return [line]
    return [*band_of(line, bounds), line]


def line_of(name: str, place: int, x: Sequence[Any], y: Sequence[Any], hover: list[str]) -> Figure:
    """A line with markers in the colour and dashes of its place among others.

    Args:
        name: in the legend; it is escaped here.
        place: among the lines of the figure, from 0.
        x: of the markers.
        y: of the markers.
        hover: text of every marker, escaped already.
    """
    color = PALETTE[place % len(PALETTE)]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": _text(name),
        "legendgroup": _text(name),
        "x": list(x),
        "y": list(y),
        "line": {"color": color, "dash": DASHES[place % len(DASHES)], "width": 2.5},
        "marker": {"color": color, "size": 8},
        "hoverinfo": "text",
        "hovertext": hover,
    }


def band_of(line: Figure, bounds: Sequence[Any]) -> list[Figure]:
    """The band behind a line; a single point gets error bars instead, because a band has no width
    there.
    """
    points = [
        (x, *span) for x, span in zip(line["x"], bounds, strict=True) if span and None not in span
    ]
    if len(points) < 2:
        line |= _error_bars(line["y"], bounds)
        return []
    forth, back = points, points[::-1]
    red, green, blue = (int(line["line"]["color"][i : i + 2], 16) for i in (1, 3, 5))
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "line": {"width": 0},
            "fill": "toself",
            "hoverinfo": "skip",
            "fillcolor": f"rgba({red},{green},{blue},0.18)",
            "showlegend": False,
            "legendgroup": line["legendgroup"],
            "x": [p[0] for p in (*forth, *back)],
            "y": [*(p[1] for p in forth), *(p[2] for p in back)],
        }
    ]


def _error_bars(y: Sequence[Any], bounds: Sequence[Any]) -> Figure:
    spans = [
        span if span and None not in span else (value, value)
        for value, span in zip(y, bounds, strict=True)
    ]
    above = [high - value for value, (_, high) in zip(y, spans, strict=True)]
    below = [value - low for value, (low, _) in zip(y, spans, strict=True)]
    return {
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": above,
            "arrayminus": below,
            "width": 4,
        }
    }


def framed(
    data: Sequence[Figure],
    bottom: Figure,
    side: Figure,
    *,
    height: int = HEIGHT_PIXELS,
    **layout: Any,
) -> Figure:
    """Traces in the frame that all figures share: a legend above, axes that neither zoom nor cut
    their labels.

    Args:
        data: traces.
        bottom: of the x axis.
        side: of the y axis.
        height: pixels.
        layout: what else differs.
    """
    fixed = {"fixedrange": True, "automargin": True}
    bottom, side = (
        labelled(axis, drawn_along(data, way)) for axis, way in ((bottom, "x"), (side, "y"))
    )
    frame = {
        "height": height,
        "margin": {"l": 12, "r": 12, "t": 12, "b": 12},
        "hovermode": "closest",
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "dragmode": False,
        "xaxis": {**bottom, **fixed},
        "yaxis": {**side, **fixed},
        **layout,
    }
    return {"data": list(data), "layout": frame}


def batch_axis(batches: Sequence[int]) -> Figure:
    """A logarithmic axis of batch sizes."""
    return {**_log_axis(batches), "title": {"text": "batch (requests)"}}


def _log_axis(values: Sequence[int]) -> Figure:
    """A logarithmic axis from 1 up, with ticks at the values, powers of two first where they
    crowd.
    """
    low, high = (math.log10(end) for end in _ends(values))
    apart = (high - low) / MOST_TICKS
    ticks: list[int] = []
    for value in sorted(values, key=lambda v: (v & (v - 1) > 0, v)):
        if all(abs(math.log10(value / tick)) >= apart for tick in ticks):
            ticks.append(value)
    ticks.sort()
    return {
        "type": "log",
        "tickvals": ticks,
        "ticktext": [f"{tick:,}" for tick in ticks],
        "range": [low, high],
    }


def _ends(values: Sequence[int]) -> list[float]:
    """First and last value with a margin on a logarithmic axis."""
    spread = max((values[-1] / values[0]) ** 0.04, 1.15)
    return [values[0] / spread, values[-1] * spread]


def _batches(answer: Rankings, context: int) -> list[int]:
    return sorted({int(row.batch) for row in answer.ranked if row.context == context})


def _places(tree: Tree) -> tuple[list[float], list[float]]:
    """Coordinates of every node: leaves side by side in order of rank, parents above the middle of
    theirs.
    """
    children: list[list[int]] = [[] for _ in range(tree.nodes)]
    for node in range(1, tree.nodes):
        children[tree.parents[node]].append(node)
    x, leaves, stack = [0.0] * tree.nodes, 0, [0]
    order: list[int] = []
    while stack:
        node = stack.pop()
        order.append(node)
        stack += sorted(children[node], key=lambda child: -tree.ranks[child])
        if not children[node]:
            x[node], leaves = float(leaves), leaves + 1
    for node in reversed(order):
        if children[node]:
            x[node] = sum(x[child] for child in children[node]) / len(children[node])
    return x, [-float(level) for level in tree.node_levels()]


def _ratio(value: float | None, divisor: float | None) -> float | None:
    return value / divisor if value is not None and divisor else None


def _text(value: object) -> str:
    return html.escape(str(value))
