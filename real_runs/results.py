"""What does a campaign leave behind, and how is it read again?

`kernels.parquet` with the rows of all jobs (a second and third file where one would grow too large) and
`summary.json` with what became of every job; both are whole after every job. Leaves out running jobs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from traces.kernels import KernelTrace, read_kernels, write_kernels

MAX_PACKED_BYTES = 16 << 20
MAX_KERNEL_FILES = 5  # beside the summary, the running job's file and the log: eight in all
SUMMARY = "summary.json"
_MAX_SUMMARY_BYTES = 16 << 20
_MOST_SKIPPED = 2000


def results_folders(root: Path | None = None) -> list[Path]:
    """Folders with committed results, `<device>/<date>` below this package."""
    base = root or Path(__file__).parent / "results"
    return sorted(path.parent for path in base.glob(f"*/*/{SUMMARY}"))


def kernel_files(folder: Path) -> list[Path]:
    """The files with rows, in order."""
    return sorted(folder.glob("kernels*.parquet"), key=lambda path: (len(path.stem), path.stem))


def read_results(folder: Path) -> KernelTrace | None:
    """Rows of all jobs; None where there are none yet.

    Raises:
        InputError: a damaged file.
    """
    traces = [read_kernels(path) for path in kernel_files(folder)]
    if not traces:
        return None
    rows = tuple(row for trace in traces for row in trace.rows)
    return replace(traces[0], rows=rows)


def merge_job(folder: Path, job: str, trace: KernelTrace) -> int:
    """Put a job's rows in place of what the folder holds of that job.

    Args:
        folder: results folder.
        job: its name.
        trace: its rows; their `job` is set here.

    Returns:
        Rows of that job.

    Raises:
        InputError: more than `MAX_KERNEL_FILES` files of `MAX_PACKED_BYTES` would be needed.
    """
    old = read_results(folder)
    provenance = trace.provenance if old is None else old.provenance
    about = {key: getattr(trace.provenance, key) for key in ("started", "clocks", "threads")}
    known = dict(provenance.extra.get("jobs", {})) | {job: about}
    kept = () if old is None else tuple(row for row in old.rows if row.job != job)
    skipped = () if old is None else tuple(each for each in old.skipped if each.get("job") != job)
    added = tuple(replace(row, job=job) for row in trace.rows)
    merged = KernelTrace(
        rows=kept + added,
        provenance=replace(provenance, extra={**provenance.extra, "jobs": known}),
        skipped=skipped + tuple({"job": job, **each} for each in trace.skipped[:_MOST_SKIPPED]),
    )
    write_packed(folder, merged)
    return len(added)


def write_packed(folder: Path, trace: KernelTrace, *, limit_bytes: int = MAX_PACKED_BYTES) -> None:
    """Write rows into as few files as the size limit allows.

    Raises:
        InputError: more than `MAX_KERNEL_FILES` would be needed.
    """
    for files in range(1, MAX_KERNEL_FILES + 1):
        size = -(-len(trace.rows) // files)
        names = ["kernels.parquet", *(f"kernels-{index}.parquet" for index in range(2, files + 1))]
        for index, name in enumerate(names):
            part = trace.rows[index * size : (index + 1) * size]
            write_kernels(replace(trace, rows=part, skipped=trace.skipped if index == 0 else ()), folder / name)
        if all((folder / name).stat().st_size <= limit_bytes for name in names):
            for path in kernel_files(folder):
                if path.name not in names:
                    path.unlink()
            return
    raise InputError(f"rows need more than {MAX_KERNEL_FILES} files of {limit_bytes} bytes", file=folder)


def read_summary(folder: Path) -> dict[str, Any]:
    """The summary of a folder; empty where there is none.

    Raises:
        InputError: it is no JSON object.
    """
    path = folder / SUMMARY
    if not path.exists():
        return {}
    try:
        if path.stat().st_size > _MAX_SUMMARY_BYTES:
            raise InputError(f"must not exceed {_MAX_SUMMARY_BYTES} bytes", file=path)
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"must be a JSON file ({error})", file=path) from None
    if not isinstance(found, dict) or not isinstance(found.get("jobs"), dict):
        raise InputError("must be the summary of a campaign", file=path)
    return found


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write the summary whole, in one move.

    Raises:
        InputError: the place cannot be written.
    """
    part = folder / f"{SUMMARY}.part"
    try:
        with part.open("w", encoding="utf-8") as stream:
            json.dump(summary, stream, indent=1, sort_keys=True)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(folder / SUMMARY)
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", file=folder / SUMMARY) from None
