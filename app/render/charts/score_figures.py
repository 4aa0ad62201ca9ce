"""How do predicted times look beside measured ones, by engine? Names in an answer are untrusted and
leave escaped.
"""

import html
import math
from collections.abc import Sequence

from app.answers.scoring.rows import MeasurementRow
from app.render.charts.charts import NEUTRAL, PALETTE, Figure, digits, framed

LABELS = {"tpot": "Time per output token", "ttft": "Time to first token"}
_QUARTER = 1.25


def times_figure(rows: Sequence[MeasurementRow], quantity: str) -> Figure | None:
    """Predicted over measured milliseconds on logarithmic axes, one colour an engine; None where
    none is answered.

    Args:
        rows: measurements of `score`.
        quantity: `tpot` or `ttft`.
    """
    pairs = [(row, times) for row in rows if (times := row.times_ms(quantity)) is not None]
    if not pairs:
        return None
    every = [time for _, times in pairs for time in times]
    ends = [min(every) / 1.1, max(every) * 1.1]
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
    for place, engine in enumerate(sorted({row.engine for row, _ in pairs})):
        own = [(row, times) for row, times in pairs if row.engine == engine]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": html.escape(engine),
                "x": [measured for _, (measured, _) in own],
                "y": [predicted for _, (_, predicted) in own],
                "hoverinfo": "text",
                "hovertext": [_hover(row, *times) for row, times in own],
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


def _hover(row: MeasurementRow, measured_ms: float, predicted_ms: float) -> str:
    where = f"{row.setting}, {row.precision}, {row.lengths}, {row.users} users"
    times = f"{digits(measured_ms)} ms measured, {digits(predicted_ms)} ms predicted"
    return f"<b>{html.escape(where)}</b><br>{times}"
