"""Why is a prediction far off, as far as the row or those beside it show it?

Looked up in `causes.toml`; nothing is guessed for rows that no entry speaks of.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from real_runs.published_numbers.reading.names import system_name
from real_runs.published_numbers.reading.table import PublishedRow


@cache
def _entries() -> tuple[Mapping[str, Any], ...]:
    text = (Path(__file__).parent / "causes.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)["causes"])


def cause_of(row: PublishedRow) -> str:
    """What is known of why a row comes out otherwise; empty where nothing is.

    Args:
        row: of which the prediction is far off.
    """
    return next((entry["text"] for entry in _entries() if _speaks_of(entry, row)), "")


def _speaks_of(entry: Mapping[str, Any], row: PublishedRow) -> bool:
    systems = entry.get("systems")
    if systems is not None and system_name(row.system) not in systems:
        return False
    parts = {
        "sources": row.source,
        "hardware": row.hardware,
        "targets": row.target,
        "units": row.unit,
        "words": row.notes,
    }
    return all(any(word in parts[key] for word in entry[key]) for key in parts if key in entry)
