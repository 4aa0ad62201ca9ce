"""What stands beside a score: which times did an earlier answer or another tool predict?"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.answers.scoring.measured import QUANTITIES
from app.answers.scoring.summaries import Predicted
from app.questions.record_files import Records, read_table
from hardware_profiles.errors import InputError
from traces.importers.files import parse_json, read_text


def read_baseline(path: Path) -> Predicted:
    """Milliseconds by id and quantity, of an answer of ours or of a table of another tool.

    Raises:
        InputError: neither, or without a time.
    """
    if path.suffix.casefold() == ".json":
        rows = _own_rows(path)
    else:
        _, rows = read_table(path, ("id", *(f"{quantity}_ms" for quantity in QUANTITIES)))
    predicted: dict[str, dict[str, float]] = {}
    for index, row in enumerate(rows):
        times = {
            quantity: time
            for quantity in QUANTITIES
            if (time := _time(row, path, index, f"{quantity}_ms")) is not None
        }
        if times:
            names = row.get("ids") or [row.get("id") or index]
            predicted |= {str(name): times for name in names}
    if not predicted:
        raise InputError("holds no ttft_ms or tpot_ms by id", file=path)
    return predicted


def _own_rows(path: Path) -> Records:
    """The measurements of `score`, or the rows of `predict --table`."""
    answer = parse_json(read_text(path), str(path))
    rows = answer.get("measurements") or answer.get("rows") if isinstance(answer, Mapping) else None
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise InputError(
            "must hold the measurements of `score` or the rows of `predict --table`", file=path
        )
    return rows


def _time(row: Mapping[str, Any], path: Path, index: int, column: str) -> float | None:
    value = row.get(column)
    if value is None or value == "":
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        key = f"row {index}, {column}"
        raise InputError(
            "must be a time in milliseconds", file=path, key=key, value=str(value)[:40]
        ) from None
    return number if 0.0 < number < math.inf else None
