"""How do predicted times look beside measured ones, by engine? Names in an answer are untrusted and
leave escaped.
"""

import html
import math

from app.render.charts.charts import NEUTRAL, PALETTE, Figure, Json, digits, framed

LABELS = {"tpot": "Time per output token", "ttft": "Time to first token"}
_QUARTER = 1.25


def times_figure(answer: Json, quantity: str) -> Figure | None:
    """Predicted over measured milliseconds on logarithmic axes, one colour an engine; None where
    none is answered.

    Args:
        answer: of `score`.
        quantity: `tpot` or `ttft`.
    """
    rows = [
        row
        for row in answer["measurements"]
        if row[f"measured_{quantity}_ms"] and row[f"{quantity}_ms"]
    ]
    if not rows:
        return None
    times = [row[key] for row in rows for key in (f"measured_{quantity}_ms", f"{quantity}_ms")]
    ends = [min(times) / 1.1, max(times) * 1.1]
    data: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": ends,
            "y": [end * factor for end in ends],
            "hoverinfo": "skip",
            "name": "equal",
            "showlegend": factor == 1.0,
            "line": {"color": NEUTRAL, "width": 1.5 if factor == 1.0 else 0.7, "dash": "dot"},
        }
        for factor in (1.0, _QUARTER, 1.0 / _QUARTER)
    ]
    for place, engine in enumerate(sorted({row["engine"] for row in rows})):
        own = [row for row in rows if row["engine"] == engine]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": html.escape(engine),
                "x": [row[f"measured_{quantity}_ms"] for row in own],
                "y": [row[f"{quantity}_ms"] for row in own],
                "hoverinfo": "text",
                "hovertext": [_hover(row, quantity) for row in own],
                "marker": {"color": PALETTE[place % len(PALETTE)], "size": 7, "opacity": 0.75},
            }
        )
    axes = [
        {
            "title": {"text": f"{word} (ms)"},
            "type": "log",
            "range": [math.log10(end) for end in ends],
            "dtick": "D2",
        }
        for word in ("measured", "predicted")
    ]
    return framed(data, axes[0], axes[1], height=460)


def _hover(row: Json, quantity: str) -> str:
    where = f"{row['setting']}, {row['precision']}, {row['lengths']}, {row['users']} users"
    times = (
        f"{digits(row[f'measured_{quantity}_ms'])} ms measured, {digits(row[f'{quantity}_ms'])} ms"
        " predicted"
    )
    return f"<b>{html.escape(where)}</b><br>{times}"
