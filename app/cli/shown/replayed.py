"""How does `simulate --beside` say how far measured loads and their simulations are apart?

Leaves out the comparison itself (`real_runs.validation.load_replay`).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from real_runs.validation.load_replay import LoadReplay

_SHOWN = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL", "e2e_s": "whole answer"}


def load_object(replay: "LoadReplay") -> dict[str, Any]:
    """A load and its simulation as JSON values, without the times of single requests."""
    return {
        "name": replay.name,
        "requests": replay.requests,
        "rate_per_s": replay.rate_per_s,
        "metrics": replay.metrics,
        "notes": replay.notes,
    }


def print_replays(replays: "Sequence[LoadReplay]", notes: Sequence[str]) -> None:
    """Print a table of every load and what was assumed."""
    from app.answers.numbers import plain, time_unit
    from app.render.text import print_table, say

    for replay in replays:
        every = [replay.metrics[key][part] for key in _SHOWN for part in replay.metrics[key]]
        unit = time_unit([each[side] for each in every for side in ("measured", "simulated")])
        rows = [
            [
                f"{title} {part}",
                unit.show(found["measured"]),
                unit.show(found["simulated"]),
                _percent(found),
            ]
            for key, title in _SHOWN.items()
            for part, found in replay.metrics[key].items()
        ]
        rate = "" if replay.rate_per_s is None else f" at {plain(replay.rate_per_s)}/s"
        columns = ["", f"measured {unit.name}", f"simulated {unit.name}", "error"]
        print_table(f"{replay.name}: {replay.requests} requests{rate}", columns, rows)
        for note in replay.notes:
            say(note)
    for note in notes:
        say(note)


def _percent(compared: "Mapping[str, float | None]") -> str:
    error = compared["error_ratio"]
    return "" if error is None else f"{error:+.1%}"
