"""How is one job of a campaign performed, here or in a process of its own?

A job works in a folder of its own below `work/` and leaves its rows or runs there in
`running.parquet`, then what became of it in `running.json`. Run as a module it reads one job on
standard input, so that a device error ends this job and no other. Leaves out the order of jobs
(`campaign`) and where their results go (`results`).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import whole_file
from real_runs.campaigns.decode_table import write_decode
from real_runs.campaigns.file import Campaign, digest
from real_runs.campaigns.jobs import DecodeJob, Job, MaskedJob, ModelJob, RecordJob, ServeJob
from real_runs.campaigns.recording_job import run_recording
from real_runs.campaigns.results import WORK, read_results
from real_runs.campaigns.serve_job import run_serve, write_served
from real_runs.models.loading.weights import find_model
from traces.storage.kernels import write_kernels

ROWS = "running.parquet"
STATE = "running.json"
_PARENT_CHECK_S = 0.2


def work_folder(out: Path, campaign: Campaign, job: Job) -> Path:
    """Where a job keeps what it must not lose: a folder for every set of its parameters."""
    return out / WORK / f"{job.name}-{digest(campaign, job)}"


def perform(
    job: Job,
    campaign: Campaign,
    out: Path,
    *,
    deadline: float,
    should_stop: Callable[[], bool] = lambda: False,
    command: str = "",
    begun: bool = False,
    fits: Path | None = None,
) -> None:
    """Run a job and leave its results in its `work_folder`.

    Args:
        job: what to do.
        campaign: device, threads and memory limit.
        out: the campaign's folder.
        deadline: `time.monotonic()` at which to end.
        should_stop: asked between pieces of work.
        command: for the provenance.
        begun: whether rows of this very job lie there, to which those that are left are added.
        fits: folder of fitted drafters that recordings share; None: each has its own.

    Raises:
        InputError: parameters that do not fit the model or the machine.
    """
    folder = work_folder(out, campaign, job)
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(job, ModelJob) and _lacks_model(job, folder):
        return
    if isinstance(job, RecordJob | MaskedJob):
        recorded = run_recording(
            job, campaign, folder=folder, deadline=deadline, should_stop=should_stop, fits=fits
        )
        _leave(folder, "finished" if recorded.finished else "cut", recorded.left)
        return
    if isinstance(job, DecodeJob):
        _perform_decode_job(job, campaign, folder, deadline, should_stop, command)
        return
    if isinstance(job, ServeJob):
        _perform_serve_job(job, campaign, folder, deadline, should_stop)
        return
    # loads torch, which a server's job does not need
    from real_runs.campaigns import kernel_job as kernels

    part, earlier = folder / ROWS, read_results(out) if begun else None
    measured = [row for row in earlier.rows if row.job == job.name] if earlier else []
    trace = kernels.run_job(
        job,
        campaign,
        deadline=deadline,
        should_stop=should_stop,
        part=part,
        command=command,
        measured=measured,
    )
    write_kernels(trace, part)
    _leave(folder, *_state_of_rows(trace.skipped))


def _state_of_rows(skipped: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """What shapes without a row say: finished, or cut short by the deadline, a signal or a lost
    device.
    """
    for shape in skipped:
        reason = str(shape.get("reason"))
        if "answers no more" in reason:
            return "failed", reason
    short = [shape for shape in skipped if shape.get("reason") in ("no time left", "stopped")]
    return ("cut", f"{short[0]['cases']} shapes left") if short else ("finished", "")


def _lacks_model(job: ModelJob, folder: Path) -> bool:
    """Whether the job's model is absent, which skips it."""
    try:
        find_model(job.model_file)
    except InputError as error:
        _leave(folder, "skipped", error.message)
        return True
    return False


def _perform_decode_job(
    job: DecodeJob,
    campaign: Campaign,
    folder: Path,
    deadline: float,
    should_stop: Callable[[], bool],
    command: str,
) -> None:
    # loads torch
    from real_runs.campaigns.decode_runs import run_decode

    report = run_decode(
        job,
        campaign,
        folder=folder,
        deadline=deadline,
        should_stop=should_stop,
        command=command,
    )
    write_decode(report.table, folder / ROWS)
    _leave(
        folder,
        "cut" if report.missing else "finished",
        f"{report.missing} runs left" if report.missing else "",
    )


def _perform_serve_job(
    job: ServeJob,
    campaign: Campaign,
    folder: Path,
    deadline: float,
    should_stop: Callable[[], bool],
) -> None:
    try:
        model = job.model or str(find_model().path)
    except InputError as error:
        _leave(folder, "skipped", error.message)
        return
    runs, missing = run_serve(
        job,
        folder=folder,
        threads=campaign.threads or 1,
        model=model,
        deadline=deadline,
        should_stop=should_stop,
    )
    write_served(runs, folder / ROWS)
    _leave(folder, "cut" if missing else "finished", f"{missing} runs left" if missing else "")


def _leave(folder: Path, state: str, reason: str) -> None:
    """Say what became of the job; the last thing it does."""
    with whole_file(folder / STATE) as part:
        part.write_text(json.dumps({"state": state, "reason": reason[:500]}), encoding="utf-8")


def main() -> int:
    """Perform the job on standard input; SIGTERM ends it after the piece of work at hand."""
    order: dict[str, Any] = json.load(sys.stdin)
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the campaign decides what an interrupt means
    campaign = Campaign.model_validate(order["campaign"])
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    perform(
        next(job for job in campaign.jobs if job.name == order["job"]),
        campaign,
        Path(order["out"]),
        deadline=time.monotonic() + order["deadline_epoch_s"] - time.time(),
        should_stop=lambda: bool(stopped),
        command=order["command"],
        begun=order["begun"],
        fits=Path(order["fits"]) if order["fits"] else None,
    )
    return 0


def _end_with_parent(parent: int) -> None:
    """End at once when the campaign is gone: what is finished is on disk, and another call may be
    waiting.
    """
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_S)
    os._exit(1)


if __name__ == "__main__":
    raise SystemExit(main())
