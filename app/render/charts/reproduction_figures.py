"""How do predicted numbers look beside published ones? Names in an answer are untrusted and leave
figures escaped.
"""

import html
import math
from collections.abc import Sequence

from app.answers.reproduction import KINDS
from app.render.charts.charts import NEUTRAL, PALETTE, Figure, Json, digits, framed

LABELS = {"full": "All inputs stated", "partial": "Some inputs stated", "headline": "Headlines"}
_NEAR = 1.3


def parts(own: Json) -> list[tuple[str, Json]]:
    """A group's errors as a whole and by kind, with their names; kinds without rows are left out.

    Args:
        own: one of `groups` of the answer of `reproduce`.
    """
    named = [("all", own), *((label, own[kind]) for kind, label in KINDS.items())]
    return [(label, part) for label, part in named if part["rows"]]


def reproduction_figure(rows: Sequence[Json], group: str) -> Figure | None:
    """Predicted over published numbers, on logarithmic axes, one colour a kind; None where none is
    predicted.

    Units differ from point to point, so that distances to the line are what there is to see.

    Args:
        rows: of the answer of `reproduce`.
        group: `full`, `partial` or `headline`.
    """
    own = [row for row in rows if row["group"] == group and row["predicted"] and row["published"]]
    if not own:
        return None
    numbers = [row[key] for row in own for key in ("published", "predicted")]
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
        points = [row for row in own if row["kind"] == kind]
        if points:
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": label,
                    "x": [row["published"] for row in points],
                    "y": [row["predicted"] for row in points],
                    "hoverinfo": "text",
                    "hovertext": [_hover(row) for row in points],
                    "marker": {"color": PALETTE[place % len(PALETTE)], "size": 6, "opacity": 0.7},
                }
            )
    axes = [
        {"title": {"text": word}, "type": "log", "range": [math.log10(end) for end in ends]}
        for word in ("published", "predicted")
    ]
    return framed(data, axes[0], axes[1], height=440)


def _hover(row: Json) -> str:
    where = ", ".join(part for part in (row["target"], row["hardware"], row["data"]) if part)
    numbers = (
        f"{digits(row['published'])} published, {digits(row['predicted'])} predicted"
        f" ({row['quantity']})"
    )
    words = [f"<b>{html.escape(row['system'])}</b>", html.escape(where), html.escape(numbers)]
    return "<br>".join([*words, *([html.escape(row["cause"])] if row["cause"] else [])])
