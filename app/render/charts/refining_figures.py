"""How is a search over policies of masked decoding drawn: speed against agreement, with the front,
floor and twin?
"""

from collections.abc import Sequence

from app.answers.optimize.rows import PolicyRow
from app.render.charts.charts import PALETTE, Figure, digits, framed, interval_words, line_of
from app.render.charts.limit_lines import pace_level

MARKS = {False: "circle", True: "diamond-open"}  # of policies within and beyond what was recorded
_MUTED = "#9aa0a6"


def refining_figure(
    rows: Sequence[PolicyRow],
    floor: float,
    context: int | None = None,
    batch: int | None = None,
    tpot_limit_s: float | None = None,
) -> Figure | None:
    """Every policy at one batch and context: tokens per second against agreement with one token a
    pass.

    Args:
        rows: policies, chosen and others.
        floor: least agreement.
        context: cached tokens per request; None: the first.
        batch: requests; None: the first.
        tpot_limit_s: limit of the time per output token; None: there is none.

    Returns:
        The figure; None where nothing was answered there.
    """
    points = [row for row in rows if row.feasible and row.agreement is not None]
    context = min((row.context for row in points), default=None) if context is None else context
    points = [row for row in points if row.context == context]
    batch = min((row.batch for row in points), default=None) if batch is None else batch
    points = [row for row in points if row.batch == batch]
    if not points:
        return None
    front = sorted((row for row in points if row.on_front), key=lambda row: row.agreement or 0.0)
    others = [row for row in points if not row.on_front]
    line = line_of("Pareto front", 0, _agreements(front), _speeds(front), _hovers(front))
    line["marker"]["symbol"] = [MARKS[bool(row.beyond_anchors)] for row in front]
    rest = {
        "type": "scatter",
        "mode": "markers",
        "name": "other policies",
        "x": _agreements(others),
        "y": _speeds(others),
        "marker": {
            "color": _MUTED,
            "size": 6,
            "symbol": [MARKS[bool(row.beyond_anchors)] for row in others],
        },
        "hoverinfo": "text",
        "hovertext": _hovers(others),
    }
    low = min([*_agreements(points), floor])
    twin = _straight(
        "autoregressive twin", PALETTE[1], [low, 1.0], [points[0].twin_tokens_per_s or 0.0] * 2
    )
    wall = _straight(
        "floor", PALETTE[2], [floor, floor], [0.0, max([*_speeds(points), *twin["y"]])]
    )
    side = {"title": {"text": "tokens/s, whole batch"}, "rangemode": "tozero"}
    limit = pace_level([low, 1.0], points[0].batch, tpot_limit_s)
    return framed(
        [rest, line, twin, wall, *limit],
        {"title": {"text": "agreement with one token a pass"}},
        side,
    )


def _agreements(rows: Sequence[PolicyRow]) -> list[float]:
    return [row.agreement or 0.0 for row in rows]


def _speeds(rows: Sequence[PolicyRow]) -> list[float]:
    return [row.tokens_per_s or 0.0 for row in rows]


def _hovers(rows: Sequence[PolicyRow]) -> list[str]:
    return [
        f"<b>{row.policy}</b><br>{digits(row.tokens_per_s)} tokens/s,"
        f" {digits(row.tokens_per_step)} a pass"
        f" ({interval_words(row.tokens_per_step_interval)})<br>agreement {row.agreement:.3f}"
        f" ({interval_words(row.agreement_interval)})"
        + ("<br>bolder than recorded" if row.beyond_anchors else "")
        for row in rows
    ]


def _straight(name: str, color: str, x: list[float], y: list[float]) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x,
        "y": y,
        "hoverinfo": "name",
        "line": {"color": color, "dash": "dash", "width": 1.5},
    }
