"""What would these drafters have proposed while this model wrote its answers?

`record` runs a model for real over a set of prompts and writes one acceptance trace per drafter and
sampling mode. Needs no torch to be asked. Leaves out how it is done (`recorder`).
"""

from __future__ import annotations

from importlib.util import find_spec

from hardware_profiles.errors import InputError
from real_runs.recording.files import RecordReport
from real_runs.recording.options import OnProgress, RecordOptions

_LIBRARIES = ("torch", "transformers", "gguf", "safetensors")


def record(options: RecordOptions, *, progress: OnProgress | None = None) -> RecordReport:
    """Run the model over the prompts and write one trace per drafter and sampling mode.

    Safe to kill: finished requests are kept in a part file in `options.out`, and `resume=True` goes
    on after them.

    Args:
        options: what to record.
        progress: called after every finished piece of work.

    Returns:
        The files written and a summary of each.

    Raises:
        InputError: options, prompts or model files that cannot be used; torch or transformers
            missing; an unfinished recording in the way, one of other options, or one that another
            process works on.
    """
    require_libraries()
    # loads torch
    from real_runs.recording.recorder import record_traces

    return record_traces(options, progress or (lambda step: None))


def require_libraries() -> None:
    """Insist on the libraries that recording needs.

    Raises:
        InputError: naming those that are not installed.
    """
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        raise InputError(
            "recording needs the extra `real` (pip install 'rooftree[real]')",
            key="missing",
            value=", ".join(missing),
        )
