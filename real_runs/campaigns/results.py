"""What does a campaign leave behind, and how is it read again?

`kernels.parquet` with the rows of all timed jobs, `decode.parquet` with the runs of all decode
jobs, `served.json` with those of serving engines, `recordings.zip` with the trace files of all
recordings (the first and the last get a second file where one would grow too large), and
`summary.json` with the outcome of every job; all are whole after every job. What unfinished
recordings and decode jobs have so far lies in `work/` while a campaign runs and in `unfinished.zip`
after it. Leaves out running jobs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from costmodel.passes.measured import add_results_root
from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import whole_file
from real_runs.campaigns.decode_table import DecodeTable, read_decode, write_decode
from real_runs.campaigns.packing import packed, unpacked
from traces.storage.kernels import KernelTrace, read_kernels, write_kernels

MAX_PACKED_BYTES = 16 << 20
# with the summary, the log, decode.parquet and unfinished.zip: eight files in all
MAX_KERNEL_FILES = 2
MAX_RECORDING_FILES = 2
SHIPPED = Path(__file__).parents[1] / "results"
SUMMARY = "summary.json"
DECODE = "decode.parquet"
SERVED = "served.json"
WORK = "work"
UNFINISHED = "unfinished.zip"
_MAX_SUMMARY_BYTES = 16 << 20
_MOST_SKIPPED = 2000


def results_folders(root: Path | None = None) -> list[Path]:
    """Folders with committed results, `<device>/<date>` below this package."""
    base = root or SHIPPED
    return sorted(path.parent for path in base.glob(f"*/*/{SUMMARY}"))


def offer_measured_passes() -> None:
    """Let predictions at fidelity `measured` find the passes whose times ship with this package."""
    add_results_root(SHIPPED)


def kernel_files(folder: Path) -> list[Path]:
    """The files with rows, in order."""
    return _numbered(folder, "kernels*.parquet")


def recording_files(folder: Path) -> list[Path]:
    """The archives with recordings, in order."""
    return _numbered(folder, "recordings*.zip")


def read_results(folder: Path) -> KernelTrace | None:
    """Rows of all timed jobs; None where there are none yet.

    Raises:
        InputError: a damaged file.
    """
    traces = [read_kernels(path) for path in kernel_files(folder)]
    if not traces:
        return None
    # a row that moves between files stands in both for a moment
    rows = (
        traces[0].rows
        if len(traces) == 1
        else dict.fromkeys(row for trace in traces for row in trace.rows)
    )
    return replace(traces[0], rows=tuple(rows))


def read_runs(folder: Path) -> DecodeTable | None:
    """Runs of all decode jobs; None where there are none.

    Raises:
        InputError: a damaged file.
    """
    return read_decode(folder / DECODE) if (folder / DECODE).exists() else None


def read_recordings(folder: Path) -> dict[str, bytes]:
    """Trace files of all recordings as `<job>/<file>`.

    Raises:
        InputError: a damaged archive.
    """
    return {name: data for path in recording_files(folder) for name, data in unpacked(path).items()}


def merge_job(folder: Path, job: str, trace: KernelTrace) -> int:
    """Put a job's rows in place of what the folder holds of that job.

    Args:
        folder: results folder.
        job: its name.
        trace: its rows; their `job` is set here.

    Returns:
        Rows of that job.

    Raises:
        InputError: rows of another device or version of torch, or more than `MAX_KERNEL_FILES`
            files of `MAX_PACKED_BYTES` would be needed.
    """
    old = read_results(folder)
    for name in ("device", "torch"):
        here = getattr(trace.provenance, name)
        if old is not None and getattr(old.provenance, name) != here:
            rule = f"holds rows of {getattr(old.provenance, name)!r}: name another folder"
            raise InputError(rule, file=folder, key=name, value=here)
    provenance = trace.provenance if old is None else old.provenance
    about = {key: getattr(trace.provenance, key) for key in ("started", "clocks", "threads")}
    jobs = dict(provenance.extra.get("jobs", {})) | {job: about}
    other_rows = () if old is None else tuple(row for row in old.rows if row.job != job)
    skipped = (
        () if old is None else tuple(shape for shape in old.skipped if shape.get("job") != job)
    )
    added = tuple(replace(row, job=job) for row in trace.rows)
    merged = KernelTrace(
        rows=other_rows + added,
        provenance=replace(provenance, extra={**provenance.extra, "jobs": jobs}),
        skipped=skipped + tuple({"job": job, **shape} for shape in trace.skipped[:_MOST_SKIPPED]),
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
        for index, name in reversed(
            [*enumerate(names)]
        ):  # the first one holds all rows until the others hold theirs
            part = trace.rows[index * size : (index + 1) * size]
            write_kernels(
                replace(trace, rows=part, skipped=trace.skipped if index == 0 else ()),
                folder / name,
            )
        if all((folder / name).stat().st_size <= limit_bytes for name in names):
            for path in kernel_files(folder):
                if path.name not in names:
                    path.unlink()
            return
    raise InputError(
        f"rows need more than {MAX_KERNEL_FILES} files of {limit_bytes} bytes", file=folder
    )


def merge_runs(folder: Path, job: str, table: DecodeTable) -> int:
    """Put a decode job's runs in place of what the folder holds of that job.

    Returns:
        Runs of that job.
    """
    old = read_runs(folder)
    other_runs = () if old is None else tuple(run for run in old.runs if run.job != job)
    about = {} if old is None else dict(old.provenance)
    merged = DecodeTable(
        runs=other_runs + table.runs, provenance=about | {job: dict(table.provenance)}
    )
    write_decode(merged, folder / DECODE)
    return len(table.runs)


def read_served(path: Path) -> Mapping[str, list[dict[str, Any]]]:
    """Runs by job that a results folder holds; none where there is no such file. A run is what
    `serve_job.run_serve` leaves.

    Raises:
        InputError: something else lies there.
    """
    if not path.exists():
        return {}
    if path.stat().st_size > _MAX_SUMMARY_BYTES:
        raise InputError(f"must not exceed {_MAX_SUMMARY_BYTES} bytes", file=path)
    try:
        runs_by_job = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        runs_by_job = None
    if not isinstance(runs_by_job, dict) or not all(
        isinstance(runs, list) for runs in runs_by_job.values()
    ):
        raise InputError("must hold runs by job", file=path)
    return runs_by_job


def merge_served(folder: Path, job: str, runs: list[dict[str, Any]]) -> int:
    """Put a serve job's runs in place of what the folder holds of that job.

    Returns:
        How many runs the job has.

    Raises:
        InputError: as of `read_served`.
    """
    merged = {**read_served(folder / SERVED), job: runs}
    with whole_file(folder / SERVED) as part:
        part.write_text(json.dumps(merged, indent=1), encoding="utf-8")
    return len(runs)


def merge_recordings(
    folder: Path, job: str, files: Mapping[str, bytes], *, limit_bytes: int = MAX_PACKED_BYTES
) -> None:
    """Put a recording's trace files in place of what the folder holds of that job.

    Args:
        folder: results folder.
        job: its name; entries are `<job>/<file>`.
        files: contents by file name.
        limit_bytes: largest archive.

    Raises:
        InputError: they do not fit in `MAX_RECORDING_FILES` archives; the folder is left as it was.
    """
    other_files = {
        name: data
        for name, data in read_recordings(folder).items()
        if not name.startswith(f"{job}/")
    }
    parts: list[dict[str, bytes]] = [{}]
    for name, data in sorted(
        (other_files | {f"{job}/{name}": data for name, data in files.items()}).items()
    ):
        if parts[-1] and _archived_bytes(parts[-1] | {name: data}) > limit_bytes:
            parts.append({})
        parts[-1][name] = data
    if len(parts) > MAX_RECORDING_FILES or max(map(_archived_bytes, parts)) > limit_bytes:
        wanted = f"recordings need more than {MAX_RECORDING_FILES} archives of {limit_bytes} bytes"
        raise InputError(wanted, file=folder, value=sum(map(_archived_bytes, parts)))
    names = ["recordings.zip", *(f"recordings-{index}.zip" for index in range(2, len(parts) + 1))]
    # a file that moves between archives stands in both for a moment rather than in none
    growing = len(parts) >= len(recording_files(folder))
    for name, part in sorted(
        zip(names, parts, strict=True), key=lambda pair: len(pair[0]), reverse=growing
    ):
        packed(part, folder / name)
    for path in recording_files(folder):
        if path.name not in names:
            path.unlink()


def keep_unfinished(folder: Path, *, limit_bytes: int = MAX_PACKED_BYTES) -> list[str]:
    """Move `work/` into one archive; nothing where it holds no file.

    Returns:
        Files that did not fit and were dropped: what was fitted goes before what was recorded.
    """
    work = folder / WORK
    files = {path.relative_to(work).as_posix(): path for path in work.rglob("*") if path.is_file()}
    chosen: dict[str, bytes] = {}
    dropped = []
    for name, path in sorted(
        files.items(), key=lambda item: (item[1].suffix == ".safetensors", item[0])
    ):
        data = path.read_bytes()
        if _archived_bytes(chosen | {name: data}) > limit_bytes:
            dropped.append(name)
        else:
            chosen[name] = data
    if chosen:
        packed(chosen, folder / UNFINISHED)
    shutil.rmtree(work, ignore_errors=True)
    return dropped


def bring_back_unfinished(folder: Path) -> None:
    """Unpack what an earlier call left unfinished into `work/`.

    Raises:
        InputError: a damaged archive.
    """
    archive = folder / UNFINISHED
    if not archive.exists():
        return
    for name, data in unpacked(archive).items():
        path = folder / WORK / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as part:
            part.write_bytes(data)
    archive.unlink()


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
        summary = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"must be a JSON file ({error})", file=path) from None
    if not isinstance(summary, dict) or not isinstance(summary.get("jobs"), dict):
        raise InputError("must be the summary of a campaign", file=path)
    return summary


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write the summary whole, in one move.

    Raises:
        InputError: the place cannot be written.
    """
    with whole_file(folder / SUMMARY, synced=True) as part:
        part.write_text(json.dumps(summary, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _numbered(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern), key=lambda path: (len(path.stem), path.stem))


def _archived_bytes(files: Mapping[str, bytes]) -> int:
    """At most so large is an archive of these files: contents, two entries of a name each, the end
    record.
    """
    return 22 + sum(len(data) + 2 * len(name.encode()) + 128 for name, data in files.items())
