"""How far were answers off on published serving runs of GPUs on which the model was developed?

A summary that is committed, made of the answer of `score`; the runs themselves are their
publishers'. Leaves out what was measured by rooftree itself (`real_runs`).
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from app.answers.scoring.names import device_name
from costmodel.engine_library import load_engine
from hardware_profiles.errors import InputError

FILE = Path(__file__).with_name("published_errors.json")
QUANTITIES = ("tpot", "ttft")
SAMPLED = 5  # runs, of which one is kept
DECILES = tuple(range(10, 100, 10))
Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedErrors:
    """Errors, |predicted / measured - 1|, on published runs of one engine, one device, both, or
    all.

    Args:
        engine: empty for all.
        device: shipped name; empty for all.
        runs: that were answered.
        tpot: of the time per output token: `runs`, `median`, `p90`, `bias` (median of predicted /
            measured - 1), `coverage` of 80 % intervals, and `deciles` from the first to the ninth;
            None where none states it.
        ttft: the same of the time to the first token.
    """

    engine: str
    device: str
    runs: int
    tpot: Json | None
    ttft: Json | None


@lru_cache(maxsize=1)
def published_errors() -> tuple[PublishedErrors, ...]:
    """All groups that were summarised, all runs first.

    Raises:
        InputError: a damaged installation.
    """
    try:
        return tuple(
            PublishedErrors(**group)
            for group in json.loads(FILE.read_text(encoding="utf-8"))["groups"]
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"is damaged ({type(error).__name__}); reinstall", file=FILE) from None


def summarised(score: Json) -> dict[str, Any]:
    """What is committed of the answer of `score`: errors by engine and device.

    Args:
        score: with its `measurements`.
    """
    rows = [
        row | {"engine": load_engine(row["engine"]).name, "device": device_name(row["device"])}
        for row in score["measurements"]
    ]
    keys = [
        ("", ""),
        *sorted(
            {("", r["device"]) for r in rows}
            | {(r["engine"], "") for r in rows}
            | {(r["engine"], r["device"]) for r in rows}
        ),
    ]
    groups = [
        _group(
            engine,
            device,
            [r for r in rows if engine in ("", r["engine"]) and device in ("", r["device"])],
        )
        for engine, device in keys
    ]
    return {"measurements": len(rows), "groups": groups, "sample": sampled(rows)}


def sampled(rows: Sequence[Json]) -> dict[str, list[float | None]]:
    """Predicted milliseconds of some runs, by which a summary that the cost model has left behind
    is noticed.

    Args:
        rows: measurements of a score.

    Returns:
        TPOT and TTFT of about one run in `SAMPLED`, by the run's name; the same runs whatever else
        was scored.
    """
    alone = {
        row["ids"][0]: row for row in rows if len(row.get("ids", ())) == 1 and row["reason"] is None
    }
    return {
        name: [
            None if row[f"{quantity}_ms"] is None else round(row[f"{quantity}_ms"], 3)
            for quantity in QUANTITIES
        ]
        for name, row in sorted(alone.items())
        if zlib.crc32(name.encode()) % SAMPLED == 0
    }


def _group(engine: str, device: str, rows: Sequence[Json]) -> dict[str, Any]:
    answered = [row for row in rows if row["reason"] is None]
    return {"engine": engine, "device": device, "runs": len(answered)} | {
        quantity: _errors(answered, quantity) for quantity in QUANTITIES
    }


def _errors(rows: Sequence[Json], quantity: str) -> dict[str, Any] | None:
    compared = [row for row in rows if row[f"measured_{quantity}_ms"] and row[f"{quantity}_ms"]]
    if not compared:
        return None
    measured = np.array([row[f"measured_{quantity}_ms"] for row in compared], dtype=np.float64)
    signed = (
        np.array([row[f"{quantity}_ms"] for row in compared], dtype=np.float64) / measured - 1.0
    )
    spans = [(m, row[f"{quantity}_ms_interval"]) for m, row in zip(measured, compared, strict=True)]
    covered = [low <= m <= high for m, span in spans if span for low, high in [span]]
    return {
        "runs": len(compared),
        "median": _rounded(np.median(abs(signed))),
        "p90": _rounded(np.quantile(abs(signed), 0.9)),
        "bias": _rounded(np.median(signed)),
        "coverage": _rounded(np.mean(covered)) if covered else None,
        "deciles": [_rounded(value) for value in np.percentile(abs(signed), DECILES)],
    }


def _rounded(value: Any) -> float:
    return round(float(value), 4)
