"""How wide must intervals of serving runs be? Residuals of published runs, by quantity, serving and
engine.

    rooftree score TABLE.parquet... --out SCORE
    python -m tests.golden.left_out SCORE/score.json            # prints ratios
    python -m tests.golden.left_out SCORE/score.json --write    # and writes them into
                                                                # simulator/closed_loop/left_out.py

The score must have been made with the ratios that are in that file; `rooftree score --leave-out
family` says how often such intervals hold runs of families that did not make them.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from app.answers.scoring.conformal import Key, conformal_ratios, residuals
from app.answers.scoring.measured import QUANTITIES, ComparedTime, PublishedMeasurement, family
from simulator.closed_loop import left_out


def measured(rows: Iterable[Mapping[str, Any]]) -> list[PublishedMeasurement]:
    """The measurements of a score that was written to a file."""
    return [
        PublishedMeasurement(
            ids=tuple(row["ids"]),
            family=family(
                {"model_path": row["model"], "system": row["device"], "backend": row["engine"]}
            ),
            place={"serving": row["serving"]},
            reason=row["reason"],
            **{quantity: _time(row, quantity) for quantity in QUANTITIES},
        )
        for row in rows
    ]


def _time(row: Mapping[str, Any], quantity: str) -> ComparedTime | None:
    measured_ms, predicted_ms = row[f"measured_{quantity}_ms"], row[f"{quantity}_ms"]
    if measured_ms is None:
        return None
    interval_ms = row[f"{quantity}_ms_interval"]
    return ComparedTime(
        measured_ms=measured_ms,
        predicted_ms=predicted_ms,
        interval_ms=interval_ms and tuple(interval_ms),
    )


def written(table: Mapping[Key, float]) -> str:
    """The module's text with this table."""
    path = Path(left_out.__file__)
    lines = [
        f'    ("{quantity}", "{serving}", "{engine}"): {ratio:.3f},'
        for (quantity, serving, engine), ratio in table.items()
    ]
    body = "\n".join(lines)
    return re.sub(
        r"(?s)(RATIOS: .*? = \{\n).*?(\n\}\n)",
        lambda m: m[1] + body + m[2],
        path.read_text(),
        count=1,
    )


if __name__ == "__main__":
    score = json.loads(Path(sys.argv[1]).read_text())
    table = conformal_ratios(residuals(measured(score["measurements"])))
    for key, value in table.items():
        print(*key, f"{value:.3f}", sep="\t")
    if "--write" in sys.argv[1:]:
        Path(left_out.__file__).write_text(written(table))
