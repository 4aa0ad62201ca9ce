"""How does a deployment trade the pace of every user for the work of every device?

Tokens per second per user against tokens per second per device, a line a layout over batch, as
serving benchmarks draw it. Leaves out how the points are found (`costmodel.optimizers.layouts`).
"""

from collections.abc import Callable, Sequence
from functools import partial

from app.render.charts.charts import NEUTRAL, PALETTE, Figure, digits, framed
from app.render.charts.limit_lines import upright_line
from costmodel.answers.energy import usd_per_million
from costmodel.optimizers.layouts import Layout, LayoutPoint
from hardware_profiles.units import MILLI

HEIGHT_PIXELS = 460
_MARKS = ("circle", "square", "diamond", "triangle-up", "cross", "star-triangle-up", "hexagon")
_FRONT = "rgba(138,143,152,0.35)"


def point_words(point: LayoutPoint) -> str:
    """A point's configuration: `tp 2, batch 64, K = 3`."""
    drafts = f"K = {point.draft_tokens}" if point.draft_tokens else "no drafting"
    return f"{point.layout.name}, batch {point.batch:,}, {drafts}"


def pareto_figure(
    points: Sequence[LayoutPoint],
    front: Sequence[LayoutPoint],
    chosen: LayoutPoint | None,
    *,
    marked: str = "your point",
    least_user_tokens_per_s: float | None = None,
    carried: Callable[[LayoutPoint], str] | None = None,
    usd_per_hour: float | None = None,
) -> Figure:
    """Every layout's line with and without drafting, the front behind them, and one point marked.

    Args:
        points: of all layouts, by batch.
        front: those that no other beats in both.
        chosen: to mark; None: it does not fit.
        marked: what that is called.
        least_user_tokens_per_s: a limit to draw; None: none.
        carried: what each point carries, for whoever presses it; None: nothing.
        usd_per_hour: of a device, for the price of tokens; None: not known.
    """
    hover = partial(_hover, carried=carried, usd_per_hour=usd_per_hour)
    data: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "front",
            "hoverinfo": "skip",
            "x": _users(front),
            "y": _devices(front),
            "line": {"color": _FRONT, "width": 12, "shape": "linear"},
        }
    ]
    for place, layout in enumerate(dict.fromkeys(point.layout for point in points)):
        own = [point for point in points if point.layout == layout]
        data += [
            _line(layout, place, [p for p in own if p.draft_tokens], drafts=True)
            | hover([p for p in own if p.draft_tokens]),
            _line(layout, place, [p for p in own if not p.draft_tokens], drafts=False)
            | hover([p for p in own if not p.draft_tokens]),
        ]
    if chosen is not None:
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": marked,
                "x": _users([chosen]),
                "y": _devices([chosen]),
                "marker": {
                    "symbol": "star",
                    "size": 20,
                    "color": PALETTE[4],
                    "line": {"color": NEUTRAL, "width": 1.5},
                },
                **hover([chosen]),
            }
        )
    if least_user_tokens_per_s is not None:
        top = max(_devices(points), default=1.0)
        data += upright_line(1.0 / least_user_tokens_per_s, least_user_tokens_per_s, top)
    return framed(
        data,
        {"title": {"text": "tokens/s per user"}, "rangemode": "tozero"},
        {"title": {"text": "tokens/s per device"}, "rangemode": "tozero"},
        height=HEIGHT_PIXELS,
    )


def _line(
    layout: Layout,
    place: int,
    points: Sequence[LayoutPoint],
    *,
    drafts: bool,
) -> Figure:
    color, mark = PALETTE[place % len(PALETTE)], _MARKS[place % len(_MARKS)]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": layout.name,
        "legendgroup": layout.name,
        "showlegend": drafts,
        "x": _users(points),
        "y": _devices(points),
        "line": {
            "color": color,
            "width": 2 if drafts else 1.5,
            "dash": "solid" if drafts else "dot",
        },
        "marker": {
            "color": color,
            "size": 7 if drafts else 6,
            "symbol": mark if drafts else f"{mark}-open",
        },
    }


def _hover(
    points: Sequence[LayoutPoint],
    *,
    carried: Callable[[LayoutPoint], str] | None,
    usd_per_hour: float | None,
) -> Figure:
    words = []
    for point in points:
        usd = usd_per_million(usd_per_hour, point.device_tokens_per_s)
        lines = [
            f"<b>{point_words(point)}</b>",
            f"{digits(point.user_tokens_per_s)} tokens/s per user"
            f" ({digits(1.0 / point.user_tokens_per_s / MILLI)} ms a token)",
            f"{digits(point.device_tokens_per_s)} tokens/s per device",
            "" if usd is None else f"${digits(usd)} per million tokens",
        ]
        words.append("<br>".join(filter(None, lines)))
    custom = {} if carried is None else {"customdata": [carried(point) for point in points]}
    return {"hoverinfo": "text", "hovertext": words, **custom}


def _users(points: Sequence[LayoutPoint]) -> list[float]:
    return [point.user_tokens_per_s for point in points]


def _devices(points: Sequence[LayoutPoint]) -> list[float]:
    return [point.device_tokens_per_s for point in points]
