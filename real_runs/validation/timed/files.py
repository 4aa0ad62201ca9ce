"""Where are the timed recordings of a file, or of the results of a campaign?

Leaves out what they hold (`groups`).
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hardware_profiles.errors import InputError
from real_runs.campaigns.results import read_recordings, recording_files
from traces.kinds.acceptance import AcceptanceTrace
from traces.library import is_confidence, read_trace, trace_file


def timed_traces(place: Path) -> tuple[list[AcceptanceTrace], list[str]]:
    """The recordings with timed steps, and the names of those without.

    Args:
        place: a trace, by path or by the name of a shipped one, which is not looked at further, or
            a folder with the results of a campaign.

    Raises:
        InputError: nothing to read there, or a folder in which no recording has timed steps.
    """
    if not place.is_dir():
        return [read_trace(trace_file(place))], []
    if not recording_files(place):
        raise InputError("holds no recordings of a campaign", file=place)
    timed, others = list[AcceptanceTrace](), []
    with TemporaryDirectory() as unpacked:
        for name, data in read_recordings(place).items():
            file = Path(unpacked) / name.replace("/", "--")
            file.write_bytes(data)
            trace = None if is_confidence(file) else read_trace(file)
            if trace is None or trace.steps is None:
                others.append(name)
            else:
                timed.append(trace)
    if not timed:
        raise InputError("holds no recording with seconds of steps", file=place)
    return timed, others
