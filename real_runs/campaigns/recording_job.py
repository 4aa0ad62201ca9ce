"""How is a recording made within a campaign's deadline?

Runs `record` in a folder of its own until the deadline; what is finished stays in its part file,
and a later call goes on from there. Leaves out how a recording is made (`record`) and where its
files end up (`results`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from real_runs.campaigns.file import Campaign
from real_runs.campaigns.jobs import RecordJob
from real_runs.recording.options import Progress
from real_runs.recording.record import record


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordingState:
    """How far a recording is.

    Attributes:
        done: requests recorded in this and earlier calls.
        total: of how many; 0 before the drafters are fitted.
        finished: the trace files are there.
    """

    done: int
    total: int
    finished: bool


class _CutError(Exception):
    """The deadline has come, or a stop was asked for."""


def run_recording(
    job: RecordJob,
    campaign: Campaign,
    *,
    folder: Path,
    deadline: float,
    should_stop: Callable[[], bool] = lambda: False,
) -> RecordingState:
    """Record until done or until the deadline; trace files lie in `folder` once it is done.

    Args:
        job: what to record.
        campaign: device and threads.
        folder: keeps everything.
        deadline: `time.monotonic()` at which to end; the request at hand is finished first.
        should_stop: asked between requests.

    Raises:
        InputError: no model there, options that do not fit it, or a recording begun with another
            setup.
    """
    folder.mkdir(parents=True, exist_ok=True)
    at = Progress(stage="fit", done=0, total=0, detail="")

    def advance(progress: Progress) -> None:
        nonlocal at
        at = progress
        last = progress.stage == "record" and progress.done == progress.total
        if not last and (should_stop() or time.monotonic() > deadline):
            raise _CutError

    if _whole(folder):
        return RecordingState(done=1, total=1, finished=True)
    try:
        more: dict[str, Any] = {} if job.level is None else {"level": job.level}
        options = job.record_options(
            folder,
            device=campaign.device,
            threads=campaign.threads or 1,
            drafters=tuple(job.drafters),
            temperatures=tuple(job.temperatures),
            **more,
        )
        record(options, progress=advance)
    except _CutError:
        done = at.done if at.stage == "record" else 0
        return RecordingState(
            done=done, total=at.total if at.stage == "record" else 0, finished=False
        )
    return RecordingState(done=at.done, total=at.total, finished=True)


def trace_files(folder: Path) -> dict[str, bytes]:
    """The finished trace files of a recording, by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def _whole(folder: Path) -> bool:
    """Whether an earlier call finished: all trace files are written before the part file goes."""
    return bool(trace_files(folder)) and not list(folder.glob("*.part.jsonl"))
