"""The answer of `score` as plain data: the command line, `--json`, the page and Python read the
same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.answers.scoring.measured import QUANTITIES, ComparedTime, PublishedMeasurement
from app.answers.scoring.mechanisms import gathered, parts
from app.answers.scoring.summaries import Predicted, beside, slices, summary

Json = dict[str, Any]


def scored(
    measured: Sequence[PublishedMeasurement],
    unusable: dict[str, int],
    inputs: Json,
    *,
    rows: int,
    other: Predicted | None = None,
) -> Json:
    """Every number of a score.

    Args:
        measured: measurements with their answers.
        unusable: rows without a measurement, by reason.
        inputs: what was asked.
        rows: of the table.
        other: another tool's or an earlier answer, by id and quantity; None: nothing stands beside.
    """
    refused: dict[str, int] = {}
    for m in measured:
        if m.reason is not None:
            refused[m.reason] = refused.get(m.reason, 0) + 1
    return {
        "inputs": inputs,
        "table_rows": rows,
        "overall": summary(measured),
        "slices": slices(measured),
        "parts": [row for q in QUANTITIES for row in parts(measured, q)],
        "gathered": [{"quantity": q, **row} for q in QUANTITIES for row in gathered(measured, q)],
        "refused": [{"reason": reason, "measurements": n} for reason, n in _by_count(refused)],
        "unusable": [{"reason": reason, "rows": n} for reason, n in _by_count(unusable)],
        "common": [] if other is None else beside(measured, other),
        "measurements": [_row(m) for m in measured],
    }


def _by_count(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _row(m: PublishedMeasurement) -> Json:
    """A measurement with its answer; times in milliseconds."""
    row: Json = {"ids": list(m.ids), **m.place, "reason": m.reason}
    for quantity, pair in (("tpot", m.tpot), ("ttft", m.ttft)):
        row |= _times(quantity, pair) | {
            f"{quantity}_share_ratio": dict(m.shares.get(quantity, {}))
        }
    return row


def _times(quantity: str, pair: ComparedTime | None) -> Json:
    return {
        f"measured_{quantity}_ms": None if pair is None else pair.measured_ms,
        f"{quantity}_ms": None if pair is None else pair.predicted_ms,
        f"{quantity}_ms_interval": None if pair is None else pair.interval_ms,
    }
