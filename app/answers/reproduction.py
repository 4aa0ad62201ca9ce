"""How far are predictions from what was published, by how much of it was stated, and why?

Errors of every row, of groups of rows and of systems, with the cause of large ones and the spread
of sources that measured the same thing. Leaves out how a row is predicted (`costmodel.published`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from costmodel.published.answer import Prediction
from costmodel.published.causes import cause_of
from costmodel.published.noise import noise_floor
from costmodel.published.reading.names import system_name
from costmodel.published.reading.table import GROUPS

LARGE_RATIO = 0.3  # of an error that needs a cause
Json = dict[str, Any]

KINDS = {
    "absolute": "times and rates",
    "ratio": "ratios to a baseline",
    "tokens": "tokens per step",
    "computed": "computed by the source",
}


def reproduction(predictions: Sequence[tuple[str, Prediction]], inputs: Mapping[str, Any]) -> Json:
    """What `reproduce` answers.

    Args:
        predictions: with the file that each one's row stands in; empty for rows of the catalogue.
        inputs: what was asked.
    """
    rows = [_row(file, prediction) for file, prediction in predictions]
    return {
        "inputs": dict(inputs),
        "rows": rows,
        "groups": {
            group: _errors([row for row in rows if row["group"] == group]) for group in GROUPS
        },
        "systems": _systems(rows),
        "refused": _refused(rows),
        "noise_floor": [
            {
                "what": each.what,
                "target": each.target,
                "device": each.device,
                "engine": each.engine,
                "batch": each.batch,
                "sources": each.sources,
                "lowest": each.lowest,
                "highest": each.highest,
                "spread_ratio": each.ratio,
            }
            for each in noise_floor(prediction.row for _, prediction in predictions)
        ],
    }


def _row(file: str, p: Prediction) -> Json:
    r, error = p.row, p.error_ratio
    far = error is not None and abs(error) > LARGE_RATIO
    return {
        "system": r.system,
        "source": r.source,
        "quantity": r.quantity,
        "published": r.published,
        "predicted": p.predicted,
        "error_ratio": error,
        "group": r.group,
        "kind": _kind(p),
        "reason": p.reason,
        "cause": cause_of(r) if far else "",
        "remarks": list(p.remarks),
        "method": p.method or None,
        "target": r.target,
        "hardware": r.hardware,
        "batch": r.batch,
        "data": r.data,
        "published_speedup": r.speedup,
        "predicted_speedup": p.speedup,
        "published_baseline": r.baseline,
        "predicted_baseline": p.baseline,
        "file": file or None,
        "line": r.line or None,
    }


def _kind(p: Prediction) -> str:
    """Whether a row's number was computed by its source, is absolute, a ratio to a baseline, or
    tokens alone.
    """
    if p.computed:
        return "computed"
    unit = p.row.quantity
    if unit == "speedup" or unit.startswith("x "):
        return "ratio"
    return "tokens" if unit.startswith("tokens/") else "absolute"


def _errors(rows: Sequence[Json]) -> Json:
    """Errors of a group: of all its numbers, of each kind, and of speedups and baselines that stand
    beside them.
    """
    return {
        **_summary(rows),
        **{kind: _summary([row for row in rows if row["kind"] == kind]) for kind in KINDS},
        "speedups": _beside(rows, "speedup"),
        "baselines": _beside(rows, "baseline"),
    }


def _summary(rows: Sequence[Json]) -> Json:
    errors = [row["error_ratio"] for row in rows if row["error_ratio"] is not None]
    large = [
        row
        for row in rows
        if row["error_ratio"] is not None and abs(row["error_ratio"]) > LARGE_RATIO
    ]
    return {
        "rows": len(rows),
        **_percentiles(errors),
        "over_30_percent": len(large),
        "without_cause": sum(not row["cause"] for row in large),
    }


def _beside(rows: Sequence[Json], name: str) -> Json:
    """Errors of a number that stands beside the one a row is there for."""
    pairs = [(row[f"predicted_{name}"], row[f"published_{name}"]) for row in rows]
    return _percentiles(
        [predicted / published - 1.0 for predicted, published in pairs if predicted and published]
    )


def _percentiles(errors: Sequence[float]) -> Json:
    sizes = sorted(abs(error) for error in errors)
    if not sizes:
        return {
            "predicted": 0,
            "bias_ratio": None,
            "median_error_ratio": None,
            "p90_error_ratio": None,
        }
    return {
        "predicted": len(sizes),
        "bias_ratio": median(errors),
        "median_error_ratio": median(sizes),
        "p90_error_ratio": percentile(sizes, 0.9),
    }


def percentile(ordered: Sequence[float], share: float) -> float:
    """A percentile of ordered numbers, at least one, interpolated between neighbours.

    >>> percentile([0.0, 1.0, 2.0], 0.75)
    1.5
    """
    place = share * (len(ordered) - 1)
    low, part = math.floor(place), place - math.floor(place)
    return ordered[low] + part * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def _systems(rows: Sequence[Json]) -> list[Json]:
    """Errors by group, system and publication, the groups in order and the worst systems of each
    first.
    """
    found: dict[tuple[str, str, str], list[Json]] = {}
    for row in rows:
        if row["error_ratio"] is not None:
            key = (
                row["group"],
                system_name(row["system"]),
                row["source"].partition(" ")[0].rstrip(","),
            )
            found.setdefault(key, []).append(row)
    listed = [
        {
            "group": group,
            "system": system,
            "source": source,
            **_summary(own),
            "cause": next((row["cause"] for row in own if row["cause"]), ""),
        }
        for (group, system, source), own in found.items()
    ]
    return sorted(
        listed, key=lambda each: (GROUPS.index(each["group"]), -each["median_error_ratio"])
    )


def _kind_of_reason(reason: str) -> str:
    """A reason without the name or value that it is about."""
    _, colon, rule = reason.partition(": no ")
    return f"no {rule}" if colon else reason.partition(": ")[0]


def _refused(rows: Iterable[Json]) -> list[Json]:
    """Why rows are not predicted, the most frequent reasons first."""
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        if row["predicted"] is None:
            key = (row["group"], _kind_of_reason(row["reason"]))
            counts[key] = counts.get(key, 0) + 1
    return [
        {"group": group, "reason": reason, "rows": count}
        for (group, reason), count in sorted(counts.items(), key=lambda each: -each[1])
    ]
