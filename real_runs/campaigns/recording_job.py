"""How is a recording made within a campaign's deadline?

Runs `record`, or a recording of a masked model, in a folder of its own until the deadline; what is
finished stays in its part file, and a later call goes on from there. Leaves out how a recording is
made (`record`) and where its files end up (`results`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardware_profiles.whole_file import make_folder
from real_runs.campaigns.file import Campaign
from real_runs.campaigns.jobs import MaskedJob, RecordJob
from real_runs.recording.options import OnProgress, Progress
from real_runs.recording.record import record, require_libraries


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordingState:
    """How far a recording is.

    Attributes:
        finished: the trace files are there.
        left: what is left, in words; "" where finished.
    """

    finished: bool
    left: str = ""


class _CutError(Exception):
    """The deadline has come, or a stop was asked for."""


def run_recording(
    job: RecordJob | MaskedJob,
    campaign: Campaign,
    *,
    folder: Path,
    deadline: float,
    should_stop: Callable[[], bool] = lambda: False,
    fits: Path | None = None,
) -> RecordingState:
    """Record until done or until the deadline; trace files lie in `folder` once it is done.

    Args:
        job: what to record.
        campaign: device and threads.
        folder: keeps everything.
        deadline: `time.monotonic()` at which to end; the request at hand is finished first.
        should_stop: asked between requests.
        fits: folder of what was fitted; None: that of the job.

    Raises:
        InputError: no model there, options that do not fit it, or a recording begun with another
            setup.
    """
    for place in (folder, *([fits] if fits else [])):
        make_folder(place)
    at = Progress(stage="fit", done=0, total=0, detail="")

    def advance(progress: Progress) -> None:
        nonlocal at
        at = progress
        last = progress.stage == _last_stage(job) and progress.done == progress.total
        if not last and (should_stop() or time.monotonic() > deadline):
            raise _CutError

    if _whole(folder):
        return RecordingState(finished=True)
    try:
        if isinstance(job, MaskedJob):
            _record_masked(job, campaign, folder, fits, advance)
        else:
            _record(job, campaign, folder, fits, advance)
    except _CutError:
        unit = {"record": "requests", "recording": "requests", "time": "timed runs"}.get(at.stage)
        left = f"{at.total - at.done} of {at.total} {unit} left" if unit else "in its fit"
        return RecordingState(finished=False, left=left)
    return RecordingState(finished=True)


def _last_stage(job: RecordJob | MaskedJob) -> str:
    if isinstance(job, MaskedJob):
        return "recording"
    return "record" if job.timed is None else "time"


def _record(
    job: RecordJob, campaign: Campaign, folder: Path, fits: Path | None, advance: OnProgress
) -> None:
    more: dict[str, Any] = {} if job.level is None else {"level": job.level}
    options = job.record_options(
        folder,
        device=campaign.device,
        threads=campaign.threads or 1,
        drafters=tuple(job.drafters),
        temperatures=tuple(job.temperatures),
        timing=None if job.timed is None else job.timed.timing(),
        fits=fits,
        **more,
    )
    record(options, progress=advance)


def _record_masked(
    job: MaskedJob, campaign: Campaign, folder: Path, fits: Path | None, advance: OnProgress
) -> None:
    require_libraries()
    # they load torch
    from real_runs.masked.training import MaskedRecipe
    from real_runs.recording.masked import MaskedRecording, record_masked

    recording = MaskedRecording(
        out=folder,
        recipe=MaskedRecipe(steps=job.training_steps, seed=job.seed),
        prompts=job.requests,
        caches=tuple(job.caches),
        resume=True,
        device=campaign.device,
        fits=fits,
    )
    record_masked(recording, progress=advance)


def trace_files(folder: Path) -> dict[str, bytes]:
    """The finished trace files of a recording, by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def _whole(folder: Path) -> bool:
    """Whether an earlier call finished: all trace files are written before the part file goes."""
    return bool(trace_files(folder)) and not list(folder.glob("*.part.jsonl"))
