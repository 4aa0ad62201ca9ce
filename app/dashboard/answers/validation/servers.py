"""What did users of a live server wait under load, and what was simulated for the same requests?

Reads the report of `rooftree simulate --beside` that lies with committed results of an engine.
Leaves out decoding runs of that engine (`runs`), its kernels and whole passes (`page`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.dashboard.answer import Card, Row
from app.dashboard.measured import LOADS
from app.render.charts.load_figures import distribution_figure
from hardware_profiles.units import MILLI
from real_runs.validation.load_replay import REPORT, read_report, read_times

_TITLES = {"ttft": "Time to first token", "tpot": "Time per output token"}
_PARTS = ("mean", "p50", "p90", "p99")


@dataclass(frozen=True, kw_only=True, slots=True)
class Loads:
    """Part of the validation page.

    Attributes:
        sentence: the outcome in words.
        cards: distributions.
        rows: every load's times, measured and simulated.
        notes: what a reader must know of single loads.
    """

    sentence: str
    cards: Sequence[Card]
    rows: Sequence[Row]
    notes: Sequence[str]


def replayed_loads(folder: Path) -> Loads | None:
    """Loads of a live server beside their simulations; None where none lie with the results.

    Args:
        folder: of an engine's results.

    Raises:
        InputError: a damaged report, or one without its times.
    """
    if not (folder / LOADS / REPORT).is_file():
        return None
    loads = read_report(folder / LOADS)["loads"]
    times = read_times(folder / LOADS)
    of_load = np.asarray(times["load"].to_pylist())
    cards = []
    for key, title in _TITLES.items():
        sides = [times[f"{key}_{side}_s"].to_numpy() for side in ("measured", "simulated")]
        drawn = {
            load["name"]: (sides[0][of_load == load["name"]], sides[1][of_load == load["name"]])
            for load in loads
        }
        figure = distribution_figure(drawn, title.lower())
        if figure is not None:
            note = (
                "Share of requests that waited no longer; solid as users measured it, dashed as"
                " simulated."
            )
            cards.append(
                Card(title=f"{title} of a real server under load", note=note, figure=figure)
            )
    worst = {
        key: max((abs(_error(load, key, "mean")) for load in loads), default=0.0) for key in _TITLES
    }
    return Loads(
        sentence=(
            f"Under {len(loads)} loads the simulated mean is at most {worst['ttft']:.1%} off in"
            f" time to first token and {worst['tpot']:.1%} in time per output token."
        ),
        cards=cards,
        rows=[_row(load, key, part) for load in loads for key in _TITLES for part in _PARTS],
        notes=[f"{load['name']}: {note}." for load in loads for note in load["notes"]],
    )


def _error(load: Row, key: str, part: str) -> float:
    return float(load["metrics"][f"{key}_s"][part]["error_ratio"] or 0.0)


def _row(load: Row, key: str, part: str) -> Row:
    times = load["metrics"][f"{key}_s"][part]
    return {
        "load": load["name"],
        "requests": load["requests"],
        "rate (1/s)": _rounded(load["rate_per_s"]),
        "time": f"{key.upper()} {part}",
        "measured (ms)": _rounded(times["measured"], MILLI),
        "simulated (ms)": _rounded(times["simulated"], MILLI),
        "error (%)": _rounded(times["error_ratio"], 0.01),
    }


def _rounded(value: float | None, unit: float = 1.0) -> float | None:
    return None if value is None else round(value / unit, 3)
