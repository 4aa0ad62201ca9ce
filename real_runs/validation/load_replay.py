"""How far is the simulator from what a live server's users saw under the same load?

Reads the rows that `rooftree load` left, and puts a simulation of the same requests beside them:
percentiles with errors, and both times of every request. Leaves out running either
(`real_runs.servers.load`, `simulator.engine`) and what explains an error: a prompt that the server
found in its cache is computed in the simulation, unless the requests name their prefixes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from hardware_profiles.outside_file import read_bounded
from hardware_profiles.whole_file import make_folder, whole_file
from real_runs.servers.load import ROWS
from real_runs.servers.measured import summary_of
from simulator.results.metrics import SimulationResult
from traces.storage.parquet_files import opened_parquet, write_parquet

REPORT, TIMES = "replay.json", "replay.parquet"
COMPARED = ("ttft_s", "tpot_s", "itl_s", "e2e_s")
COUNTED = ("requests_per_s", "tokens_per_s", "draft_tokens", "accepted_tokens")
_NEEDED = (
    "request",
    "arrival_s",
    "input_tokens",
    "output_tokens",
    "first_token_s",
    "last_token_s",
    "token_times_s",
)
_OPTIONAL = ("sent_s", "scheduled_s", "cached_tokens", "draft_tokens", "accepted_tokens")
LEAST_ALONE = 20
_MOST_REPORT_BYTES = 16 << 20
_COLUMNS = (
    "load",
    "request",
    "ttft_measured_s",
    "ttft_simulated_s",
    "tpot_measured_s",
    "tpot_simulated_s",
    "e2e_measured_s",
    "e2e_simulated_s",
)

Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadReplay:
    """One load, measured and simulated.

    Attributes:
        name: of the load.
        requests: that were answered.
        rate_per_s: at which they arrived.
        metrics: by name and statistic, `measured`, `simulated` and `error_ratio` (simulated over
            measured, less 1).
        pace: `alone`, requests that met no other in either; `ratio`, how many times as long as
            simulated they took, which tells how the machine ran beside its calibration; and of the
            others statistics of TTFT and TPOT, measured over that ratio. Empty where fewer than
            `LEAST_ALONE` were alone, or fewer met others.
        notes: what a reader must know of this load.
        times: columns of `replay.parquet` without the load's name, one entry per request.
    """

    name: str
    requests: int
    rate_per_s: float | None
    metrics: Mapping[str, Mapping[str, Mapping[str, float | None]]]
    pace: Json
    notes: tuple[str, ...]
    times: Mapping[str, NDArray[Any]]


def load_file(path: Path) -> Path:
    """The file with the rows of a load: itself, or the one in its folder.

    Raises:
        InputError: a folder without such rows.
    """
    if path.is_dir() and not (path / ROWS).is_file():
        raise InputError(
            f"holds no {ROWS}, which `rooftree load --out` writes", file=path, key="beside"
        )
    return path / ROWS if path.is_dir() else path


def read_load(path: Path) -> list[dict[str, Any]]:
    """The rows of a load in order of arrival, at least one.

    Raises:
        InputError: not the file of a load, or damaged; a request that was not answered.
    """
    with opened_parquet(path) as parquet:
        columns = set(parquet.schema_arrow.names)
        if missing := [name for name in _NEEDED if name not in columns]:
            raise InputError(
                "is no load that `rooftree load` measured", file=path, key=", ".join(missing)
            )
        rows = parquet.read(
            columns=[*_NEEDED, *(name for name in _OPTIONAL if name in columns)]
        ).to_pylist()
    rows = [dict.fromkeys(_OPTIONAL) | row for row in rows]
    for row in rows:
        if any(row[name] is None for name in _NEEDED):
            raise InputError(
                "every request must have been answered", file=path, key=f"request {row['request']}"
            )
    if not rows:
        raise InputError("holds no request", file=path)
    return rows


def compared(name: str, rows: Sequence[Json], result: SimulationResult) -> LoadReplay:
    """A load beside its simulation.

    Args:
        name: of the load.
        rows: of `read_load`.
        result: of the same requests in the same order.

    Raises:
        InputError: other requests.
    """
    arrival = np.array([row["arrival_s"] for row in rows])
    first, last = (
        np.array([row[key] for row in rows]) for key in ("first_token_s", "last_token_s")
    )
    output = np.array([row["output_tokens"] for row in rows])
    if len(rows) != result.request.size or not np.array_equal(output, result.output_tokens):
        raise InputError(
            "must be a simulation of the same requests", key=name, value=result.request.size
        )
    measured, simulated = summary_of(rows), result.summary()
    simulated |= {
        "draft_tokens": simulated["drafted"] or None,
        "accepted_tokens": simulated["accepted"] or None,
    }
    clock_s = max(
        result.clock_s - float(result.arrival_s.min()), np.finfo(float).tiny
    )  # from the first request
    simulated |= {
        "requests_per_s": result.finished.sum() / clock_s,
        "tokens_per_s": output[result.finished].sum() / clock_s,
    }
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot_s = np.where(output > 1, (last - first) / (output - 1), np.nan)
    times = {
        "request": np.array([row["request"] for row in rows]),
        "ttft_measured_s": first - arrival,
        "ttft_simulated_s": result.ttft_s,
        "tpot_measured_s": tpot_s,
        "tpot_simulated_s": result.tpot_s,
        "e2e_measured_s": last - arrival,
        "e2e_simulated_s": result.e2e_s,
    }
    span_s = float(arrival[-1] - arrival[0])
    metrics = {
        key: {part: _beside(measured[key][part], simulated[key][part]) for part in measured[key]}
        for key in COMPARED
    }
    metrics["totals"] = {key: _beside(measured[key], simulated[key]) for key in COUNTED}
    pace = _pace(arrival, times)
    return LoadReplay(
        name=name,
        requests=len(rows),
        rate_per_s=(len(rows) - 1) / span_s if span_s > 0.0 else None,
        metrics=metrics,
        pace=pace,
        notes=(*_notes(rows, result), *_pace_words(pace)),
        times=times,
    )


def _pace(arrival_s: NDArray[Any], times: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """How the machine ran, by requests that met no other, and how the others come out at that pace:
    see `LoadReplay`.
    """
    sides = [times[f"e2e_{side}_s"] for side in ("measured", "simulated")]
    alone = np.logical_and.reduce([_alone(arrival_s, spent_s) for spent_s in sides])
    if min(alone.sum(), (~alone).sum()) < LEAST_ALONE:
        return {}
    ratio = float(sides[0][alone].sum() / sides[1][alone].sum())
    pace: dict[str, Any] = {"alone": int(alone.sum()), "ratio": ratio}
    for key in ("ttft", "tpot"):
        measured, simulated = (
            times[f"{key}_{side}_s"][~alone] for side in ("measured", "simulated")
        )
        finite = np.isfinite(measured) & np.isfinite(simulated)
        before, after = (_parts(values[finite]) for values in (measured / ratio, simulated))
        pace[f"{key}_s"] = {part: _beside(before[part], after[part]) for part in before}
    return pace


def _parts(values: NDArray[Any]) -> dict[str, float]:
    p50, p90 = np.quantile(values, [0.5, 0.9])
    return {"mean": float(values.mean()), "p50": float(p50), "p90": float(p90)}


def _alone(arrival_s: NDArray[Any], spent_s: NDArray[Any]) -> NDArray[np.bool_]:
    """Which requests ran while no other did; those that did not end met whoever came later."""
    end_s = arrival_s + np.nan_to_num(spent_s, nan=np.inf)
    before = np.maximum.accumulate(np.concatenate([[-np.inf], end_s[:-1]]))
    after = np.append(arrival_s[1:], np.inf)
    return np.asarray((before <= arrival_s) & (end_s <= after))


def _pace_words(pace: Json) -> list[str]:
    if not pace:
        return []
    off = ", ".join(
        f"{key.upper()} {part} {pace[f'{key}_s'][part]['error_ratio']:+.1%}"
        for key in ("ttft", "tpot")
        for part in ("mean", "p90")
    )
    return [
        f"{pace['alone']} requests that met no other took {pace['ratio']:.2f} times what was"
        f" simulated; at that pace the others' errors are {off}"
    ]


def _beside(measured: float | None, simulated: float | None) -> dict[str, float | None]:
    error = None if not measured or simulated is None else simulated / measured - 1.0
    return {"measured": measured, "simulated": simulated, "error_ratio": error}


def _notes(rows: Sequence[Json], result: SimulationResult) -> tuple[str, ...]:
    cached, tokens = (
        sum(row[key] or 0 for row in rows) for key in ("cached_tokens", "input_tokens")
    )
    notes = []
    if cached:
        notes.append(f"the server found {cached:,} of {tokens:,} prompt tokens in its cache")
    if unfinished := int((~result.finished).sum()):
        notes.append(f"{unfinished} of {len(rows)} requests did not end in the simulation")
    return tuple(notes)


def write_replays(
    folder: Path, replays: Iterable[LoadReplay], *, inputs: Json, earlier: Path | None = None
) -> Json:
    """Write `replay.json` and `replay.parquet`; loads that were written earlier stay, unless they
    have the same name.

    Args:
        folder: of the report; made if needed.
        replays: to add.
        inputs: the scenario that was simulated.
        earlier: folder of the report that is added to; None: the same.

    Returns:
        The whole report: `loads`, each with its name, metrics, notes and inputs.

    Raises:
        InputError: the place cannot be written, or holds another kind of report.
    """
    added = {replay.name: replay for replay in replays}
    earlier = earlier or folder
    before = read_report(earlier) if (earlier / REPORT).is_file() else {"loads": []}
    earlier_loads = [load for load in before["loads"] if load["name"] not in added]
    loads = [
        *earlier_loads,
        *(
            {
                "name": replay.name,
                "requests": replay.requests,
                "rate_per_s": replay.rate_per_s,
                "metrics": replay.metrics,
                "pace": replay.pace,
                "notes": list(replay.notes),
                "inputs": inputs,
            }
            for replay in added.values()
        ),
    ]
    tables = [_table(replay) for replay in added.values()]
    if earlier_loads:
        old = read_times(earlier)
        names = pa.array([load["name"] for load in earlier_loads])
        tables.insert(0, old.filter(pa.compute.is_in(old["load"], value_set=names)))
    report = {
        "schema": 1,
        "loads": sorted(loads, key=lambda load: (load["rate_per_s"] or 0.0, load["name"])),
    }
    make_folder(folder)
    write_parquet(pa.concat_tables(tables), folder / TIMES)
    with whole_file(folder / REPORT) as part:
        part.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return report


def _table(replay: LoadReplay) -> pa.Table:
    columns = {"load": pa.array([replay.name] * replay.requests, pa.string())}
    columns |= {name: pa.array(values, from_pandas=True) for name, values in replay.times.items()}
    return pa.table(columns)


def read_report(folder: Path) -> dict[str, Any]:
    """The report that `write_replays` left.

    Raises:
        InputError: absent, damaged or too large.
    """
    path = folder / REPORT
    try:
        report: dict[str, Any] = json.loads(read_bounded(path, _MOST_REPORT_BYTES))
        for load in report["loads"]:
            [load["metrics"][key]["mean"]["error_ratio"] for key in COMPARED]
            [load[key] for key in ("name", "requests", "rate_per_s", "notes")]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"is no report of loads that were replayed ({type(error).__name__})", file=path
        ) from None
    return report


def read_times(folder: Path) -> pa.Table:
    """Both times of every request, by load.

    Raises:
        InputError: absent, damaged, or another kind of file.
    """
    with opened_parquet(folder / TIMES) as parquet:
        if missing := [name for name in _COLUMNS if name not in parquet.schema_arrow.names]:
            raise InputError(
                "holds no times of loads that were replayed",
                file=folder / TIMES,
                key=", ".join(missing),
            )
        return parquet.read(columns=list(_COLUMNS))
