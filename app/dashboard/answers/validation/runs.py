"""How far was the predicted speed of decoding from what a real run reached?

Reads the report that `rooftree validate` left beside committed results. Leaves out the rows behind
it, and kernels and whole passes (`page`).
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.answers.validation.rows import read_errors
from app.dashboard.answer import Card, Row
from app.dashboard.measured import ENGINE_REPORT, REPORT
from app.render.charts.charts import NEUTRAL, PALETTE, SYMBOLS, Figure, digits, framed
from hardware_profiles.errors import InputError

Json = Mapping[str, Any]
MOST_BYTES = 16 << 20


def validated(folder: Path) -> Json | None:
    """The report beside results; None where there is none, or where it holds no points.

    Args:
        folder: of results.

    Raises:
        InputError: a damaged report.
    """
    path = next(
        (folder / name for name in (REPORT, ENGINE_REPORT) if (folder / name).is_file()), None
    )
    if path is None:
        return None
    if path.stat().st_size > MOST_BYTES:
        raise InputError(f"must be at most {MOST_BYTES >> 20} MiB", file=path)
    try:
        report: Json = json.loads(path.read_text(encoding="utf-8"))
        return report if report["points"] else None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"is no validation report ({type(error).__name__})", file=path) from None


def run_cards(report: Json) -> list[Card]:
    """Predicted against measured tokens per second, and the distribution of the errors."""
    points = report["points"]
    return [
        Card(
            title="Predicted against measured decoding",
            figure=_against(points),
            note=(
                "Tokens per second of real runs; bars are predicted 80 % intervals, diamonds are"
                " trees."
            ),
        ),
        Card(
            title="Errors of decoding",
            note="Right of zero: predicted too fast. One count per configuration.",
            figure=_errors(points),
        ),
    ]


def run_note(report: Json) -> str:
    """The outcome in words."""
    return read_errors(report["summary"]).sentence


def run_rows(report: Json) -> list[Row]:
    """Every configuration of the report, one row each."""
    return [
        {
            "configuration": p["configuration"],
            "prompts": p["kind"],
            "batch": p["batch"],
            "context": p["context"],
            "measured (tokens/s)": round(p["measured"]["tokens_per_s"], 2),
            "predicted (tokens/s)": round(p["predicted"]["tokens_per_s"], 2),
            "80 % interval (tokens/s)": "–".join(digits(end) for end in p["interval"]),
            "error (%)": round(100 * p["error_ratio"], 1),
        }
        for p in report["points"]
    ]


def _against(points: Sequence[Json]) -> Figure:
    rates = [rate for p in points for rate in (p["measured"]["tokens_per_s"], *p["interval"])]
    ends = [min(rates) / 1.1, max(rates) * 1.1]
    data: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "equal",
            "x": ends,
            "y": ends,
            "hoverinfo": "skip",
            "line": {"color": NEUTRAL, "dash": "dash"},
        }
    ]
    for place, batch in enumerate(sorted({p["batch"] for p in points})):
        own = [p for p in points if p["batch"] == batch]
        y = [p["predicted"]["tokens_per_s"] for p in own]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"batch {batch}",
                "x": [p["measured"]["tokens_per_s"] for p in own],
                "y": y,
                "text": [p["configuration"] for p in own],
                "marker": {
                    "color": PALETTE[place % len(PALETTE)],
                    "size": 9,
                    "symbol": [SYMBOLS.get(p["topology"], "circle") for p in own],
                },
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "width": 0,
                    "thickness": 1,
                    "array": [p["interval"][1] - v for p, v in zip(own, y, strict=True)],
                    "arrayminus": [v - p["interval"][0] for p, v in zip(own, y, strict=True)],
                },
                "hovertemplate": (
                    "%{text}<br>measured %{x:.4g} tokens/s<br>predicted %{y:.4g}<extra></extra>"
                ),
            }
        )
    log: Figure = {"type": "log", "dtick": "D2"}  # labels at 1, 2 and 5
    return framed(
        data,
        log | {"title": {"text": "measured (tokens/s)"}},
        log | {"title": {"text": "predicted (tokens/s)"}},
    )


def _errors(points: Sequence[Json]) -> Figure:
    data: list[Figure] = [
        {
            "type": "histogram",
            "x": [100 * p["error_ratio"] for p in points],
            "nbinsx": 24,
            "marker": {"color": PALETTE[0]},
            "hovertemplate": "%{x} %: %{y} configurations<extra></extra>",
        }
    ]
    return framed(
        data,
        {"title": {"text": "predicted over measured, minus 1 (%)"}},
        {"title": {"text": "configurations"}},
    )
