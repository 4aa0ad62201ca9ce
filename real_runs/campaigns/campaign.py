"""How does a list of jobs run within a time budget, unattended?

Jobs run by priority, each in a process of its own, while their estimates fit in what is left. A job
that fails, hangs or loses its device becomes a record and the next one runs; what is finished is on
disk at any moment and is not run again on resume, and jobs that were cut go on with what they have
left. Leaves out what jobs measure (`job_process`) and what lies where afterwards (`results`).
"""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath
from typing import Any, Literal

from hardware_profiles.errors import InputError, RooftreeError
from hardware_profiles.whole_file import make_folder
from real_runs.campaigns.decode_table import read_decode
from real_runs.campaigns.file import Campaign, digest, read_campaign
from real_runs.campaigns.job_process import ROWS, STATE, perform, work_folder
from real_runs.campaigns.jobs import DecodeJob, Job, MaskedJob, ModelJob, RecordJob, ServeJob
from real_runs.campaigns.measures import Measures, measures
from real_runs.campaigns.process import StopSignal, locked, run_child, stopping
from real_runs.campaigns.recording_job import trace_files
from real_runs.campaigns.results import (
    SUMMARY,
    WORK,
    bring_back_unfinished,
    keep_unfinished,
    kernel_files,
    merge_job,
    merge_recordings,
    merge_runs,
    merge_served,
    read_summary,
    write_summary,
)
from traces.storage.kernels import read_kernels

State = Literal["finished", "cut", "failed", "skipped", "stopped"]
OVERRUN = 1.5  # a job is ended at so many times its estimate, and what a process takes to start
START_S = 20.0
RESERVE_S = 6.0  # kept at the end of the budget for writing
LEAST_RESUMABLE_S = 30.0  # with less left, a job that can be resumed is not begun either
TELL_EVERY_S = 15.0  # how often a job that is at work is spoken of
_MODULE = "real_runs.campaigns.job_process"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobOutcome:
    """What became of one job.

    Attributes:
        name: of the job.
        state: "finished"; "cut" (ended before all was done: a later call goes on with what is
            left); "failed" (the reason says how; rows that were written by then are kept);
            "skipped" (did not fit in the time left, or its model is not there); "stopped" by a
            signal.
        reason: in words; "" where finished.
        seconds: wall time.
        rows: rows, runs or trace files that the results hold of it.
        bytes: of its trace files.
        digest: of its parameters.
        resumed: finished by an earlier call.
    """

    name: str
    state: State
    reason: str = ""
    seconds: float = 0.0
    rows: int = 0
    bytes: int = 0
    digest: str = ""
    resumed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CampaignReport:
    """What a campaign left.

    Attributes:
        out: its folder.
        outcomes: of every job, in the order they are tried.
        seconds: that this call took.
        measures: of the rows in the folder.
    """

    out: Path
    outcomes: tuple[JobOutcome, ...]
    seconds: float
    measures: Measures


@dataclass(frozen=True, kw_only=True, slots=True)
class _Call:
    """One call of a campaign."""

    campaign: Campaign
    file: Path
    out: Path
    budget_s: float
    isolate: bool
    command: str
    started: float
    stop: StopSignal
    lock: int | None
    fits: Path | None
    begun: frozenset[str]  # jobs of an earlier call that were cut, with the same parameters
    progress: Callable[[str], None]


def run_campaign(
    file: Path,
    *,
    budget_s: float | None = None,
    out: Path,
    resume: bool = False,
    isolate: bool = True,
    model_file: Path | None = None,
    device: str | None = None,
    fits: Path | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> CampaignReport:
    """Run the jobs of a campaign file.

    Args:
        file: YAML file.
        budget_s: wall time for everything, > 0; None: as the file states.
        out: folder for the results, `summary.json` and `log.txt`.
        resume: go on in a folder that holds results; finished jobs with the same parameters are
            kept.
        isolate: run each job in a process of its own; false runs them in this one.
        model_file: model of the recordings and decode jobs that name none.
        device: torch device in place of the file's.
        fits: folder of fitted drafters that recordings share: those there are used, and new ones
            kept there; None: each recording fits its own.
        progress: called with what is under way.

    Raises:
        InputError: a bad file, no such GPU, or a folder that holds results and `resume` was not
            asked for, or where another campaign is at work.
        OSError: the disk is full or fails; what was measured is kept, and a call with `resume` goes
            on.
    """
    campaign = opened_campaign(file, model_file=model_file, device=device)
    budget_s = campaign.budget_s if budget_s is None else budget_s
    if not budget_s > 0:
        raise InputError("must be positive", key="budget", value=budget_s)
    _check_card(campaign.device)
    begun = time.monotonic()
    make_folder(out)
    with locked(out) as lock, stopping() as stop, _keeping():
        earlier = read_summary(out)
        if (earlier or kernel_files(out)) and not resume:
            raise InputError(
                "holds results: pass --resume to go on, or name another folder", file=out
            )
        call = _Call(
            campaign=campaign,
            file=file,
            out=out,
            budget_s=budget_s,
            isolate=isolate,
            started=time.time(),
            command=shlex.join(["rooftree", "campaign", file.name, "--budget", f"{budget_s:g}s"]),
            stop=stop,
            lock=lock,
            fits=fits,
            begun=_cut_before(earlier, campaign),
            progress=progress,
        )
        outcomes = _earlier_outcomes(earlier, campaign)
        bring_back_unfinished(out)
        _forget_other_work(out, campaign, outcomes)
        for job in campaign.by_priority():
            if job.name in outcomes and outcomes[job.name].state == "finished":
                continue
            left = budget_s - RESERVE_S - (time.monotonic() - begun)
            outcomes[job.name] = _tried(call, job, left)
            _save(call, outcomes)
            _clear(work_folder(out, campaign, job), whole=outcomes[job.name].state == "finished")
        dropped = keep_unfinished(out)
        _save(call, outcomes, dropped=dropped)
        measured = measures(out)
    ordered = tuple(outcomes[job.name] for job in campaign.by_priority())
    return CampaignReport(
        out=out, outcomes=ordered, seconds=time.monotonic() - begun, measures=measured
    )


@contextmanager
def _keeping() -> Iterator[None]:
    """Say of a disk that is full or fails that what was measured outlives it."""
    try:
        yield
    except OSError as error:
        why = f"{error.strerror}; what was measured is kept, and --resume goes on"
        raise OSError(error.errno, why, error.filename) from None


def _check_card(device: str) -> None:
    """Say at once that there is no such GPU, not once for every job; nothing is allocated on it.

    Raises:
        InputError: with what to look for.
    """
    kind, _, index = device.partition(":")
    if kind != "cuda":
        return
    import torch  # a campaign on a CPU whose jobs run in processes of their own needs none here

    if torch.cuda.device_count() <= int(index or 0):
        cause = (
            "is built for CPUs alone"
            if torch.version.cuda is None and torch.version.hip is None
            else "sees none"
        )
        raise InputError(
            f"must be a GPU of this machine, and torch {torch.__version__} {cause}",
            key="device",
            value=device,
        )


def _tried(call: _Call, job: Job, left: float) -> JobOutcome:
    """Run a job if it fits in the time left."""
    needed = min(job.estimate_s, LEAST_RESUMABLE_S) if job.resumable else job.estimate_s
    if call.stop:
        return JobOutcome(
            name=job.name, state="stopped", reason="the campaign was stopped before it"
        )
    if needed > left:
        reason = f"estimated at {job.estimate_s:g} s with {max(left, 0):.0f} s left"
        return JobOutcome(name=job.name, state="skipped", reason=reason)
    call.progress(f"{job.name}: about {job.estimate_s:g} s, {left:.0f} s left")
    outcome = _run(call, job, min(left, OVERRUN * job.estimate_s + START_S))
    call.progress(
        f"{job.name}: {outcome.state}, {outcome.rows} rows, {outcome.seconds:.0f} s"
        f" {outcome.reason}"
    )
    return outcome


def _run(call: _Call, job: Job, limit_s: float) -> JobOutcome:
    """Run one job and put what it left into the results, whatever became of it.

    Raises:
        OSError: the disk is full or fails; what the job left stays in its folder, and a later call
            puts it in place.
    """
    started, folder = time.monotonic(), work_folder(call.out, call.campaign, job)
    waits = any(
        (folder / name).exists() for name in (ROWS, STATE)
    )  # of a call that was killed, or found no room
    state: State
    try:
        if not waits:
            _perform(call, job, limit_s)
        state, reason = (
            _reported_state(folder / STATE) if (folder / STATE).exists() else ("cut", "")
        )
    except Exception as error:  # a campaign outlives its jobs
        state, reason = "failed", f"{type(error).__name__}: {error}"[:500]
    rows = 0
    records = isinstance(job, RecordJob | MaskedJob) and state == "finished"
    size = sum(map(len, trace_files(folder).values())) if records else 0
    try:
        rows = _merged(call, job, folder / ROWS, state)
    except RooftreeError as error:
        state, reason = "failed", str(error)[:500]
    if state in ("finished", "cut") and rows == 0 and not job.resumable:
        state, reason = "failed", "no shape could be timed"
    if waits and state != "finished":
        _clear(folder)
        return _run(replace(call, begun=call.begun | {job.name}), job, limit_s)
    if state == "cut" and call.stop:
        state = "stopped"
    seconds = round(time.monotonic() - started, 3)
    job_digest = digest(call.campaign, job)
    return JobOutcome(
        name=job.name,
        state=state,
        reason=reason,
        seconds=seconds,
        rows=rows,
        bytes=size,
        digest=job_digest,
    )


def _perform(call: _Call, job: Job, limit_s: float) -> None:
    """Perform a job in a process of its own, or in this one."""
    if call.isolate:
        order = {
            "job": job.name,
            "campaign": call.campaign.model_dump(by_alias=True, mode="json"),
            "out": str(call.out.resolve()),
            "deadline_epoch_s": time.time() + limit_s,
            "command": call.command,
            "begun": job.name in call.begun,
            "fits": str(call.fits.resolve()) if call.fits else "",
        }
        run_child(
            order,
            call.out,
            module=_MODULE,
            title=job.name,
            limit_s=limit_s,
            stop=call.stop,
            lock=call.lock,
            waiting=_speaker(call, job, limit_s),
        )
    else:
        speak = _speaker(call, job, limit_s)

        def should_stop() -> bool:
            speak()
            return bool(call.stop)

        perform(
            job,
            call.campaign,
            call.out,
            deadline=time.monotonic() + limit_s,
            should_stop=should_stop,
            command=call.command,
            begun=job.name in call.begun,
            fits=call.fits,
        )


def _speaker(call: _Call, job: Job, limit_s: float) -> Callable[[], None]:
    """What says from time to time how long a job has been at work, called again and again."""
    begun = last = time.monotonic()

    def speak() -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= TELL_EVERY_S:
            last = now
            call.progress(f"{job.name}: at work for {now - begun:.0f} of {limit_s:.0f} s at most")

    return speak


def _clear(folder: Path, *, whole: bool = False) -> None:
    """Delete what a job left to be put into the results; with `whole` also what it would go on
    from.
    """
    if whole:
        shutil.rmtree(folder, ignore_errors=True)
    for name in (ROWS, STATE):
        (folder / name).unlink(missing_ok=True)


def _merged(call: _Call, job: Job, part: Path, state: State) -> int:
    """Put rows, runs or trace files into the results; how many there are."""
    if isinstance(job, RecordJob | MaskedJob):
        files = (
            trace_files(work_folder(call.out, call.campaign, job)) if state == "finished" else {}
        )
        if files:
            merge_recordings(call.out, job.name, files)
        return len(files)
    if not part.exists():
        return 0
    if isinstance(job, ServeJob):
        return merge_served(call.out, job.name, json.loads(part.read_text(encoding="utf-8")))
    if isinstance(job, DecodeJob):
        return merge_runs(call.out, job.name, read_decode(part))
    return merge_job(call.out, job.name, read_kernels(part))


def _reported_state(report: Path) -> tuple[State, str]:
    report_entry = json.loads(report.read_text(encoding="utf-8"))
    return report_entry["state"], report_entry["reason"]


def _earlier_outcomes(earlier: Mapping[str, Any], campaign: Campaign) -> dict[str, JobOutcome]:
    """Jobs that an earlier call has done with, whose parameters are still the same."""
    return {
        name: JobOutcome(
            name=name,
            state="finished",
            reason=str(entry.get("reason", "")),
            digest=str(entry["digest"]),
            seconds=float(entry.get("seconds", 0.0)),
            rows=int(entry.get("rows", 0)),
            bytes=int(entry.get("bytes", 0)),
            resumed=True,
        )
        for name, entry in _same_entries(earlier, campaign).items()
        if entry.get("state") == "finished"
    }


def finished_jobs(out: Path, campaign: Campaign) -> tuple[str, ...]:
    """Names of the jobs that earlier calls finished in a folder, with the same parameters.

    Raises:
        InputError: the folder's summary cannot be read.
    """
    return tuple(_earlier_outcomes(read_summary(out), campaign))


def _cut_before(earlier: Mapping[str, Any], campaign: Campaign) -> frozenset[str]:
    """Jobs that have a part of their rows."""
    entries = _same_entries(earlier, campaign).items()
    return frozenset(name for name, entry in entries if entry.get("state") in ("cut", "stopped"))


def _same_entries(earlier: Mapping[str, Any], campaign: Campaign) -> dict[str, dict[str, Any]]:
    """What an earlier summary says of jobs whose parameters are still the same."""
    digests = {job.name: digest(campaign, job) for job in campaign.jobs}
    entries = earlier.get("jobs", {}).items()
    return {
        name: entry
        for name, entry in entries
        if isinstance(entry, dict) and name in digests and entry.get("digest") == digests[name]
    }


def _forget_other_work(out: Path, campaign: Campaign, done: Mapping[str, JobOutcome]) -> None:
    """Delete unfinished work of jobs that are done, gone or changed."""
    wanted = {work_folder(out, campaign, job) for job in campaign.jobs if job.name not in done}
    for folder in (out / WORK).glob("*"):
        if folder not in wanted:
            shutil.rmtree(folder, ignore_errors=True)


def opened_campaign(
    file: Path, *, model_file: Path | None = None, device: str | None = None
) -> Campaign:
    """The campaign of a file.

    Args:
        file: YAML file.
        model_file: for the jobs that want a model and name none.
        device: torch device in place of the file's.

    Raises:
        InputError: a bad file.
    """
    campaign = read_campaign(file)
    if device is not None:
        campaign = campaign.model_copy(update={"device": device})
    if model_file is None:
        return campaign
    jobs = [
        (
            job.model_copy(update={"model_file": str(model_file)})
            if isinstance(job, ModelJob) and job.model_file is None
            else job
        )
        for job in campaign.jobs
    ]
    return campaign.model_copy(update={"jobs": jobs})


def _save(
    call: _Call, outcomes: Mapping[str, JobOutcome], dropped: list[str] | None = None
) -> None:
    outcome_keys = ("state", "reason", "seconds", "rows", "bytes", "digest")
    campaign = call.campaign.model_dump(by_alias=True, mode="json")
    for job in campaign["jobs"]:  # where a file lay is nobody's business
        job |= {key: PurePath(job[key]).name for key in ("model_file", "prompts") if job.get(key)}
    write_summary(
        call.out,
        {
            "schema": 1,
            "title": call.campaign.title,
            "file": call.file.name,
            "command": call.command,
            "budget_s": call.budget_s,
            "started_epoch_s": round(call.started, 3),
            "campaign": campaign,
            "jobs": {
                name: {key: getattr(outcome, key) for key in outcome_keys}
                for name, outcome in outcomes.items()
            },
            "measures": asdict(measures(call.out)),
            **({"unfinished_dropped": dropped} if dropped else {}),
        },
    )


__all__ = [
    "SUMMARY",
    "CampaignReport",
    "JobOutcome",
    "State",
    "finished_jobs",
    "opened_campaign",
    "run_campaign",
]
