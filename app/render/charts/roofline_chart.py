"""How do an explained step and a break-even look as charts?

Pure functions from rows of answers to figures in Plotly's JSON form, as `charts`. Names are
untrusted and leave here HTML-escaped. Leaves out the page around the figures (`explain_report`).
"""

import html
from collections.abc import Mapping, Sequence
from typing import Literal

from app.answers.breakeven.rows import BreakEvenRow
from app.answers.explanations import ExplainedStep, OperationRow, Roofs
from app.render.charts.charts import NEUTRAL, Figure, digits, framed
from costmodel.answers.explain import Roof
from hardware_profiles.units import GIGA, MILLI, TERA

# Okabe & Ito 2008 again; a roof keeps its colour in every chart
ROOF_COLORS: Mapping[Roof, str] = {
    "bandwidth": "#0072B2",
    "compute": "#D55E00",
    "link": "#CC79A7",
    "launch": "#E69F00",
    "overhead": "#949494",
}
SYMBOLS = {"verify": "circle", "draft": "diamond", "engine": "square"}
_LEAST_SHARE = 0.002  # of the step; smaller operations are left out of the bar chart


def roofline_figure(explained: ExplainedStep, roofs: Roofs) -> Figure:
    """The step's operations under the device's roofs, sized by their share of the step.

    Args:
        explained: where the time of the step goes.
        roofs: of the device.
    """
    shown = [o for o in explained.operations if o.intensity_flops_per_byte and o.seconds > 0]
    total = sum(o.seconds for o in explained.operations)
    bandwidth, peak = roofs.bandwidth_bytes_per_s, roofs.peak_flops_per_s
    ridge = peak / bandwidth
    intensities = [x for o in shown if (x := o.intensity_flops_per_byte) is not None] or [ridge]
    low, high = min(*intensities, ridge) / 3, max(*intensities, ridge) * 6
    roof: Figure = {
        "type": "scatter",
        "mode": "lines",
        "name": f"roofs of {_text(roofs.device)}, {_text(roofs.dtype)}",
        "x": [low, ridge, high],
        "y": [low * bandwidth / TERA, peak / TERA, peak / TERA],
        "line": {"color": NEUTRAL, "width": 2.5},
        "hoverinfo": "text",
        "hovertext": [
            f"bandwidth {digits(bandwidth / GIGA)} GB/s",
            f"ridge at {digits(ridge)} FLOP/byte",
            f"peak {digits(peak / TERA)} TFLOP/s",
        ],
    }
    data = [roof]
    for phase, symbol in SYMBOLS.items():
        operations = [o for o in shown if o.phase == phase]
        if operations:
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": phase,
                    "x": [o.intensity_flops_per_byte for o in operations],
                    "y": [max(o.flops / o.seconds / TERA, 1e-9) for o in operations],
                    "marker": {
                        "symbol": symbol,
                        "opacity": 0.85,
                        "line": {"color": NEUTRAL, "width": 1},
                        "color": [ROOF_COLORS[o.bound] for o in operations],
                        "size": [9 + 34 * (o.seconds / total) ** 0.5 for o in operations],
                    },
                    "hoverinfo": "text",
                    "hovertext": [_words(o, total) for o in operations],
                }
            )
    bottom = {"type": "log", "title": {"text": "arithmetic intensity (FLOP/byte)"}, "dtick": 1}
    side = {"type": "log", "title": {"text": "achieved (TFLOP/s)"}, "dtick": 1}
    return framed(data, bottom, side, height=420)


def step_bar_figure(explained: ExplainedStep) -> Figure:
    """Milliseconds of every operation, stacked by the roof that they wait for, the longest on
    top.
    """
    total = sum(o.seconds for o in explained.operations)
    shown = [o for o in explained.operations if o.seconds >= _LEAST_SHARE * total][::-1]
    names = [_text(o.name) for o in shown]
    data: list[Figure] = []
    for roof, color in ROOF_COLORS.items():
        if any(o.by_roof_s[roof] > 0 for o in shown):
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": roof,
                    "y": names,
                    "marker": {"color": color},
                    "x": [o.by_roof_s[roof] / MILLI for o in shown],
                    "hoverinfo": "text",
                    "textposition": "none",
                    "hovertext": [_words(o, total) for o in shown],
                }
            )
    bottom = {
        "title": {"text": f"time (ms) of a step of {digits(total / MILLI)} ms"},
        "rangemode": "tozero",
    }
    side = {"type": "category", "showgrid": False}
    figure = framed(data, bottom, side, height=130 + 20 * len(shown))
    figure["layout"] |= {"barmode": "stack", "bargap": 0.3}
    return figure


BreakEvenQuantity = Literal["least_acceptance", "least_tokens_per_step", "speedup"]


def break_even_figure(
    points: Sequence[BreakEvenRow], *, of: BreakEvenQuantity, title: str
) -> Figure:
    """A heat map over batch and context of one quantity of `breakeven`.

    Args:
        points: the answer's points of one draft length.
        of: `least_acceptance`, `least_tokens_per_step` or `speedup`.
        title: of the colour bar.
    """
    batches = sorted({p.batch for p in points})
    contexts = sorted({p.context for p in points})
    at = {(p.context, p.batch): p for p in points}
    values = [[getattr(at[c, b], of) if (c, b) in at else None for b in batches] for c in contexts]
    words = [
        [
            "too large" if (c, b) not in at else "never" if v is None else digits(v)
            for b, v in zip(batches, row, strict=True)
        ]
        for c, row in zip(contexts, values, strict=True)
    ]
    heat: Figure = {
        "type": "heatmap",
        "x": [f"{b:,}" for b in batches],
        "y": [f"{c:,}" for c in contexts],
        "z": values,
        "text": words,
        "texttemplate": "%{text}",
        "hoverinfo": "text",
        "xgap": 2,
        "ygap": 2,
        "hovertext": [
            [
                f"batch {b:,}, context {c:,}<br>{_text(title)}: {w}"
                for b, w in zip(batches, row, strict=True)
            ]
            for c, row in zip(contexts, words, strict=True)
        ],
        "colorbar": {"title": {"text": _text(title)}, "thickness": 12},
    }
    if of == "speedup":  # orange to blue around 1, which the colour-blind tell apart
        numbers = [v for row in values for v in row if v is not None]
        reach = max((abs(v - 1.0) for v in numbers), default=1.0) or 1.0
        heat |= {
            "colorscale": [[0.0, "#D55E00"], [0.5, "#F7F7F7"], [1.0, "#0072B2"]],
            "zmin": 1.0 - reach,
            "zmax": 1.0 + reach,
        }
    else:
        heat |= {"colorscale": "Cividis", "reversescale": True}
        heat |= {"zmin": 0.0, "zmax": 1.0} if of == "least_acceptance" else {"zmin": 1.0}
    bottom = {"type": "category", "title": {"text": "batch (requests)"}, "showgrid": False}
    side = {"type": "category", "title": {"text": "context (tokens)"}, "showgrid": False}
    return framed([heat], bottom, side, height=max(260, 140 + 46 * len(contexts)))


def _words(o: OperationRow, total: float) -> str:
    intensity = o.intensity_flops_per_byte
    flops = f"<br>{digits(intensity)} FLOP/byte" if intensity else ""
    return (
        f"<b>{_text(o.name)}</b><br>{digits(o.seconds / MILLI)} ms,"
        f" {100 * o.seconds / total:.1f} % of the step<br>waits for"
        f" {_text(o.bound)}{flops}<br>{100 * o.bandwidth_ratio:.0f} % of the bandwidth,"
        f" {100 * o.compute_ratio:.0f} % of the peak"
    )


def _text(value: object) -> str:
    return html.escape(str(value))
