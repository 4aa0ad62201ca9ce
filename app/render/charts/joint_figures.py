"""How does the front of a joint search look: speed for one user against throughput of one
device?
"""

from collections.abc import Sequence
from html import escape

from app.answers.numbers import digits
from app.answers.optimize.designs import Designs
from app.answers.optimize.rows import DesignRow
from app.render.charts.charts import NEUTRAL, PALETTE, Figure, framed
from hardware_profiles.units import MILLI


def front_figure(designs: Designs) -> Figure:
    """Tokens per second of a device against those of a user, one colour a kind of device; the limit
    as a line.

    Args:
        designs: whose front is drawn.
    """
    front = designs.front
    line: Figure = {
        "type": "scatter",
        "mode": "lines",
        "name": "front",
        "hoverinfo": "skip",
        "x": [row.tokens_per_s_per_user for row in front],
        "y": [row.tokens_per_s_per_device for row in front],
        "line": {"color": NEUTRAL, "width": 1.5},
    }
    kinds = list(dict.fromkeys(row.device for row in front))
    points = [
        _points(
            kind,
            PALETTE[at % len(PALETTE)],
            "circle",
            [row for row in front if row.device == kind],
        )
        for at, kind in enumerate(kinds)
    ]
    winner = _points("winner", PALETTE[1], "star", designs.choices[:1])
    side: Figure = {"title": {"text": "tokens/s per device"}, "type": "log"}
    shapes = []
    if (tpot := designs.limits.tpot_s) is not None:
        x = 1.0 / tpot
        shapes = [
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"limit: {digits(tpot / MILLI)} ms per token",
                "x": [x, x],
                "y": [min(line["y"]), max(line["y"])],
                "hoverinfo": "name",
                "line": {"color": NEUTRAL, "dash": "dash", "width": 1.5},
            }
        ]
    return framed([line, *points, winner, *shapes], {"title": {"text": "tokens/s per user"}}, side)


def _points(name: str, color: str, symbol: str, rows: Sequence[DesignRow]) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": escape(name),
        "x": [row.tokens_per_s_per_user for row in rows],
        "y": [row.tokens_per_s_per_device for row in rows],
        "marker": {"color": color, "symbol": symbol, "size": 13 if symbol == "star" else 8},
        "hoverinfo": "text",
        "hovertext": [_hover(row) for row in rows],
    }


def _hover(row: DesignRow) -> str:
    run = row.simulated
    simulated = (
        "" if run is None else f"<br>simulated: {digits(1.0 / run.tpot_s)} tokens/s per user"
    )
    user, device = digits(row.tokens_per_s_per_user), digits(row.tokens_per_s_per_device)
    return (
        f"<b>{escape(row.design)}</b><br>{user} tokens/s per user, {device} per"
        f" device<br>cap {row.batch_cap}, budget {row.token_budget}{simulated}"
    )
