"""How do predicted numbers look beside published ones? Names in an answer are untrusted and leave
figures escaped.
"""

import html
import math
from collections.abc import Sequence

from app.answers.reproduction.rows import KINDS, PublishedNumber
from app.render.charts.charts import NEUTRAL, PALETTE, Figure, digits, framed

LABELS = {"full": "All inputs stated", "partial": "Some inputs stated", "headline": "Headlines"}
_NEAR = 1.3


def reproduction_figure(rows: Sequence[PublishedNumber], group: str) -> Figure | None:
    """Predicted over published numbers, on logarithmic axes, one colour a kind; None where none is
    predicted.

    Units differ from point to point, so that distances to the line are what there is to see.

    Args:
        rows: of the answer of `reproduce`.
        group: `full`, `partial` or `headline`.
    """
    pairs = [
        (row, row.published, row.predicted)
        for row in rows
        if row.group == group and row.predicted and row.published
    ]
    if not pairs:
        return None
    numbers = [number for _, *both in pairs for number in both]
    ends = [min(numbers) / 1.2, max(numbers) * 1.2]
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
        for factor in (1.0, _NEAR, 1.0 / _NEAR)
    ]
    for place, (kind, label) in enumerate(KINDS.items()):
        points = [pair for pair in pairs if pair[0].kind == kind]
        if points:
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": label,
                    "x": [published for _, published, _ in points],
                    "y": [predicted for _, _, predicted in points],
                    "hoverinfo": "text",
                    "hovertext": [_hover(*point) for point in points],
                    "marker": {"color": PALETTE[place % len(PALETTE)], "size": 6, "opacity": 0.7},
                }
            )
    axes = [
        {"title": {"text": word}, "type": "log", "range": [math.log10(end) for end in ends]}
        for word in ("published", "predicted")
    ]
    return framed(data, axes[0], axes[1], height=440)


def _hover(row: PublishedNumber, published: float, predicted: float) -> str:
    where = ", ".join(part for part in (row.target, row.hardware, row.data) if part)
    numbers = f"{digits(published)} published, {digits(predicted)} predicted ({row.quantity})"
    words = [f"<b>{html.escape(row.system)}</b>", html.escape(where), html.escape(numbers)]
    return "<br>".join([*words, *([html.escape(row.cause)] if row.cause else [])])
