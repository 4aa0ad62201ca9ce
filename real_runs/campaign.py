"""How is a list of jobs worked off within a time budget, unattended?

Jobs run by priority, each in a process of its own, while their estimates fit in what is left. A job that
fails, hangs or loses its device becomes a record and the next one runs; what is finished is on disk at any
moment and is not run again on resume. Leaves out what the jobs measure (`real_runs.kernels`).
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hardware_profiles.errors import InputError, RooftreeError
from real_runs.campaign_file import Campaign, Job, digest, read_campaign
from real_runs.results import SUMMARY, kernel_files, merge_job, read_summary, write_summary
from traces.kernels import read_kernels

State = Literal["finished", "cut", "failed", "skipped", "stopped"]
OVERRUN = 1.5  # a job is ended at so many times its estimate, and what a process takes to start
START_S = 20.0
RESERVE_S = 6.0  # kept at the end of the budget for writing
GRACE_S = 20.0  # between asking a job to end and killing it
_PART = "running.parquet"
_LOG = "log.txt"
_LOG_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class JobOutcome:
    """What became of one job.

    Attributes:
        name: of the job.
        state: "finished"; "cut" (ended before all shapes were timed); "failed" (the reason says how; rows that
            were written by then are kept); "skipped" (did not fit in the time left); "stopped" by a signal.
        reason: in words; "" where finished.
        seconds: wall time.
        rows: rows that the results hold of it.
        digest: of its parameters.
        resumed: finished by an earlier call.
    """

    name: str
    state: State
    reason: str = ""
    seconds: float = 0.0
    rows: int = 0
    digest: str = ""
    resumed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CampaignReport:
    """What a campaign left: its folder and the outcome of every job, in the order they were tried."""

    out: Path
    outcomes: tuple[JobOutcome, ...]
    seconds: float


@dataclass(kw_only=True, slots=True)
class _Stop:
    """Set by SIGTERM or SIGINT while a campaign runs."""

    signals: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.signals)


def run_campaign(
    file: Path,
    *,
    budget_s: float,
    out: Path,
    resume: bool = False,
    isolate: bool = True,
    progress: Callable[[str], None] = lambda text: None,
) -> CampaignReport:
    """Run the jobs of a campaign file.

    Args:
        file: YAML file.
        budget_s: wall time for everything, > 0.
        out: folder for `kernels.parquet`, `summary.json` and `log.txt`.
        resume: go on in a folder that holds results; finished jobs with the same parameters are kept.
        isolate: run each job in a process of its own; false runs them in this one.
        progress: told what is under way.

    Raises:
        InputError: a bad file, or a folder that holds results and `resume` was not asked for.
    """
    campaign = read_campaign(file)
    if not budget_s > 0:
        raise InputError("must be positive", key="--budget", value=budget_s)
    begun, started = time.monotonic(), time.time()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"must be a folder that can be made ({error.strerror})", key="--out", value=str(out)) from None
    earlier = read_summary(out)
    if (earlier or kernel_files(out)) and not resume:
        raise InputError("holds results: pass --resume to go on, or name another folder", file=out)
    outcomes = _earlier_outcomes(earlier, campaign)
    command = shlex.join(["rooftree", "campaign", file.name, "--budget", f"{budget_s:g}s"])
    with _stopping() as stop:
        for job in campaign.by_priority():
            if job.name in outcomes and outcomes[job.name].state in ("finished", "cut"):
                continue
            left = budget_s - RESERVE_S - (time.monotonic() - begun)
            if stop:
                outcome = JobOutcome(name=job.name, state="stopped", reason="the campaign was stopped before it")
            elif job.estimate_s > left:
                reason = f"estimated at {job.estimate_s:g} s with {max(left, 0):.0f} s left"
                outcome = JobOutcome(name=job.name, state="skipped", reason=reason)
            else:
                progress(f"{job.name}: about {job.estimate_s:g} s, {left:.0f} s left")
                limit_s = min(left, OVERRUN * job.estimate_s + START_S)
                outcome = _run(job, campaign, out, limit_s, stop, isolate, command)
            outcomes[job.name] = outcome
            _save(out, campaign, file, outcomes, budget_s, started, command)
            progress(f"{job.name}: {outcome.state}, {outcome.rows} rows, {outcome.seconds:.0f} s {outcome.reason}")
    _save(out, campaign, file, outcomes, budget_s, started, command)
    ordered = tuple(outcomes[job.name] for job in campaign.by_priority())
    return CampaignReport(out=out, outcomes=ordered, seconds=time.monotonic() - begun)


def _run(
    job: Job, campaign: Campaign, out: Path, limit_s: float, stop: _Stop, isolate: bool, command: str
) -> JobOutcome:
    """Run one job and put its rows into the results, whatever became of it."""
    begun, part = time.monotonic(), out / _PART
    part.unlink(missing_ok=True)
    try:
        if isolate:
            _in_a_process(job, campaign, out, part, limit_s, stop, command)
        else:
            _in_this_process(job, campaign, part, limit_s, stop, command)
        state, reason = _state_of_rows(part, stop)
    except Exception as error:  # a campaign outlives its jobs
        state, reason = "failed", f"{type(error).__name__}: {error}"[:500]
    rows = 0
    if part.exists():
        try:
            rows = merge_job(out, job.name, read_kernels(part))
        except RooftreeError as error:
            state, reason = "failed", str(error)[:500]
        part.unlink(missing_ok=True)
    if state in ("finished", "cut") and rows == 0:
        state, reason = "failed", "no shape could be timed"
    seconds = round(time.monotonic() - begun, 3)
    return JobOutcome(
        name=job.name, state=state, reason=reason, seconds=seconds, rows=rows, digest=digest(campaign, job)
    )


def _in_this_process(job: Job, campaign: Campaign, part: Path, limit_s: float, stop: _Stop, command: str) -> None:
    from real_runs.kernels.job import run_job
    from traces.kernels import write_kernels

    deadline = time.monotonic() + limit_s
    trace = run_job(job, campaign, deadline=deadline, should_stop=lambda: bool(stop), part=part, command=command)
    write_kernels(trace, part)


def _in_a_process(
    job: Job, campaign: Campaign, out: Path, part: Path, limit_s: float, stop: _Stop, command: str
) -> None:
    """Run a job in a child process; ask it to end when stopped or late, kill it when it does not.

    Raises:
        RuntimeError: the child failed, with the last line that it wrote.
    """
    asked = {
        "job": job.name, "campaign": campaign.model_dump(by_alias=True), "part": str(part.resolve()),
        "deadline_epoch_s": time.time() + limit_s, "command": command,
    }  # fmt: skip
    root = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    log_path = out / _LOG
    with log_path.open("ab") as log:
        log.write(f"== {job.name}\n".encode())
        log.flush()
        child = subprocess.Popen(
            [sys.executable, "-m", "real_runs.kernels.job"],
            stdin=subprocess.PIPE, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        try:
            assert child.stdin is not None
            with child.stdin as stream:
                stream.write(json.dumps(asked).encode())
            _await(child, time.monotonic() + limit_s, stop)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    _shorten(log_path)
    if child.returncode:
        raise RuntimeError(f"ended with {child.returncode}: {_last_line(log_path)}")


def _await(child: subprocess.Popen[bytes], deadline: float, stop: _Stop) -> None:
    """Wait for a child; after the deadline or a stop it has `GRACE_S` to end by itself.

    Raises:
        RuntimeError: it had to be killed.
    """
    asked_at: float | None = None
    while child.poll() is None:
        now = time.monotonic()
        if asked_at is None and (stop or now > deadline + RESERVE_S / 2):
            child.send_signal(signal.SIGTERM)
            asked_at = now
        if asked_at is not None and now > asked_at + GRACE_S:
            child.kill()
            child.wait()
            raise RuntimeError("did not end when asked to, and was killed")
        time.sleep(0.05)


def _state_of_rows(part: Path, stop: _Stop) -> tuple[State, str]:
    """What the rows say: finished, or cut short by the deadline, a signal or a lost device."""
    skipped = read_kernels(part).skipped
    short = [each for each in skipped if each.get("reason") in ("no time left", "stopped")]
    lost = [each for each in skipped if "answers no more" in str(each.get("reason"))]
    if lost:
        return "failed", str(lost[0]["reason"])
    if not short:
        return "finished", ""
    if stop:
        return "stopped", f"{short[0]['cases']} shapes left"
    return "cut", f"{short[0]['cases']} shapes left"


def _earlier_outcomes(earlier: Mapping[str, Any], campaign: Campaign) -> dict[str, JobOutcome]:
    """Finished jobs of an earlier call whose parameters are still the same."""
    digests = {job.name: digest(campaign, job) for job in campaign.jobs}
    kept = {}
    for name, entry in earlier.get("jobs", {}).items():
        same = isinstance(entry, dict) and name in digests and entry.get("digest") == digests[name]
        if same and entry.get("state") in ("finished", "cut"):
            kept[name] = JobOutcome(
                name=name, state=entry["state"], reason=str(entry.get("reason", "")), digest=digests[name],
                seconds=float(entry.get("seconds", 0.0)), rows=int(entry.get("rows", 0)), resumed=True,
            )  # fmt: skip
    return kept


def _save(
    out: Path, campaign: Campaign, file: Path, outcomes: Mapping[str, JobOutcome], budget_s: float, started: float,
    command: str,
) -> None:  # fmt: skip
    kept = ("state", "reason", "seconds", "rows", "digest")
    write_summary(
        out,
        {
            "schema": 1,
            "title": campaign.title,
            "file": file.name,
            "command": command,
            "budget_s": budget_s,
            "started_epoch_s": round(started, 3),
            "campaign": campaign.model_dump(by_alias=True),
            "jobs": {name: {key: getattr(each, key) for key in kept} for name, each in outcomes.items()},
        },
    )


@contextmanager
def _stopping() -> Iterator[_Stop]:
    """Turn SIGTERM and SIGINT into a flag while the block runs; a second one ends the process as usual."""
    stop = _Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    wanted: tuple[int, ...] = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in wanted}

    def note(number: int, frame: object) -> None:
        stop.signals.append(number)
        signal.signal(number, before[number] or signal.SIG_DFL)

    for number in wanted:
        signal.signal(number, note)
    try:
        yield stop
    finally:
        for number in wanted:
            signal.signal(number, before[number] or signal.SIG_DFL)


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "nothing was written"


def _shorten(log: Path) -> None:
    """Keep the end of a log that has grown past its limit."""
    raw = log.read_bytes()
    if len(raw) > _LOG_BYTES:
        log.write_bytes(raw[-_LOG_BYTES // 2 :])


__all__ = ["SUMMARY", "CampaignReport", "JobOutcome", "State", "run_campaign"]
