"""How is the gain of drafting drawn over acceptance or bandwidth, with the own point and the crossing?"""

import html

from app.answers.breakeven.curves import BANDWIDTH, TOKENS, CurveRow
from app.render.charts.charts import NEUTRAL, PALETTE, Figure, digits, framed
from hardware_profiles.units import TERA

_AXES: dict[str, Figure] = {
    BANDWIDTH: {"title": {"text": "memory bandwidth (TB/s)"}, "type": "log"},
    TOKENS: {"title": {"text": "tokens per step"}},
}
_RATE: Figure = {"title": {"text": "acceptance rate of a draft token"}, "range": [0.0, 1.0]}


def gain_curve_figure(curve: CurveRow, *, height: int = 300) -> Figure:
    """The speedup over one number: the curve, 1, where it is crossed, and the question's own point.

    Args:
        curve: of `breakeven --curves`.
        height: pixels.
    """
    scale = TERA if curve.over == BANDWIDTH else 1.0
    x = [value / scale for value in curve.values]
    data: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "no speculation",
            "x": [x[0], x[-1]],
            "y": [1.0, 1.0],
            "line": {"color": NEUTRAL, "dash": "dash", "width": 1.5},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"K = {curve.draft_tokens}",
            "x": x,
            "y": list(curve.speedups),
            "line": {"color": PALETTE[0], "width": 2.5},
            "hoverinfo": "text",
            "hovertext": [
                html.escape(f"{curve.value_words(value)}: {digits(speedup)}×")
                for value, speedup in zip(curve.values, curve.speedups, strict=True)
            ],
        },
        {
            "type": "scatter",
            "mode": "markers",
            "name": "break-even",
            "x": [at.value / scale for at in curve.crossings],
            "y": [1.0 for _ in curve.crossings],
            "marker": {"symbol": "x", "size": 12, "color": PALETTE[1]},
            "hoverinfo": "text",
            "hovertext": [f"break-even at {curve.value_words(at.value)}" for at in curve.crossings],
            "showlegend": bool(curve.crossings),
        },
    ]
    if curve.own is not None and curve.own_speedup is not None:
        words = f"your question: {curve.value_words(curve.own)}, {digits(curve.own_speedup)}×"
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "your question",
                "x": [curve.own / scale],
                "y": [curve.own_speedup],
                "marker": {"symbol": "star", "size": 16, "color": PALETTE[4]},
                "hoverinfo": "text",
                "hovertext": [words],
            }
        )
    side = {"title": {"text": "speedup (×)"}, "rangemode": "tozero"}
    return framed(data, _AXES.get(curve.over, _RATE), side, height=height)
