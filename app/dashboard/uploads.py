"""How is a recording from outside read without trusting it?

In a process of its own with limits on time and memory, inside a temporary folder that is gone afterwards; what comes
back is rooftree's own format, checked again. Leaves out the widget.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal, overload

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.confidence import ConfidenceTrace

Kind = Literal["acceptance", "confidence"]
Report = Callable[[float], None] | None

MOST_BYTES = 32 << 20
MOST_SECONDS = 20.0
BEAT_S = 0.2  # between two reports
MOST_MEMORY_BYTES = 4 << 30
MOST_MESSAGE = 500
MOST_NAME = 60
SUFFIXES: dict[Kind, tuple[str, ...]] = {
    "acceptance": ("parquet", "json", "jsonl", "log", "txt", "csv"), "confidence": ("parquet",),
}  # fmt: skip
NAME = "recording"


@overload
def parsed_upload(
    name: str, content: bytes, kind: Literal["acceptance"] = ..., *, seconds: float = ..., report: Report = ...
) -> AcceptanceTrace: ...
@overload
def parsed_upload(
    name: str, content: bytes, kind: Literal["confidence"], *, seconds: float = ..., report: Report = ...
) -> ConfidenceTrace: ...
def parsed_upload(
    name: str, content: bytes, kind: Kind = "acceptance", *, seconds: float = MOST_SECONDS, report: Report = None
) -> AcceptanceTrace | ConfidenceTrace:
    """The trace in an uploaded file.

    Args:
        name: of the file; messages say it, and its ending says how to read it.
        content: its bytes.
        kind: of trace that is wanted.
        seconds: time limit of the worker.
        report: called now and then how many seconds have passed; may raise to stop the worker.

    Raises:
        InputError: too large, of an unknown ending, too slow to read, or no trace.
    """
    suffix = Path(name).suffix.lower().lstrip(".")
    if suffix not in SUFFIXES[kind]:
        raise InputError(f"must end in one of {', '.join(SUFFIXES[kind])}", key="upload", value=name[-40:])
    shown = "".join(letter for letter in Path(name).name if letter.isprintable())[-MOST_NAME:]
    if not 0 < len(content) <= MOST_BYTES:
        raise InputError(f"must hold 1 to {MOST_BYTES >> 20} MiB", key="upload", value=f"{len(content)} bytes")
    with tempfile.TemporaryDirectory(prefix="rooftree-upload-") as folder:
        given, made = Path(folder) / f"{NAME}.{suffix}", Path(folder) / "read.parquet"
        given.write_bytes(content)
        words = [sys.executable, "-P", "-m", "app.dashboard.uploads", given.name, made.name, kind]
        known = os.pathsep.join(os.path.abspath(path or ".") for path in sys.path)  # noqa: PTH100 — may not exist
        about = {"PYTHONPATH": known, "OMP_NUM_THREADS": "1", "HOME": folder, "NUMBA_CACHE_DIR": folder}
        code, output = _worked(words, folder, about, seconds, report)
        if code != 0 or not made.exists():
            last = output.decode(errors="replace").strip()[:MOST_MESSAGE].replace(given.name, shown)
            raise InputError(last or "could not be read within the limits of memory", key="upload")
        from traces.storage.acceptance_file import read_acceptance
        from traces.storage.confidence_file import read_confidence

        if kind == "confidence":
            return replace(read_confidence(made), file=shown)
        return replace(read_acceptance(made), file=shown)


def _worked(words: list[str], folder: str, about: dict[str, str], seconds: float, report: Report) -> tuple[int, bytes]:
    """Exit code and standard output of the worker, which never outlives this call."""
    began = time.monotonic()
    with subprocess.Popen(
        words, cwd=folder, env=about, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as worker:
        try:
            while True:
                try:
                    output, _ = worker.communicate(timeout=min(BEAT_S, seconds))
                    return worker.returncode, output
                except subprocess.TimeoutExpired:
                    passed = time.monotonic() - began
                    if passed >= seconds:
                        raise InputError(f"took longer than {seconds:g} s to read", key="upload") from None
                    if report is not None:
                        report(passed)
        finally:
            worker.kill()


def work(given: str, written: str, kind: str = "acceptance") -> int:
    """Read a file and write it as rooftree's own; the worker's side.

    Returns:
        0, or 2 with the reason on standard output.
    """
    from hardware_profiles.errors import RooftreeError
    from traces.library import read_trace
    from traces.storage.acceptance_file import write_acceptance
    from traces.storage.confidence_file import read_confidence, write_confidence

    with contextlib.suppress(ImportError, ValueError, OSError):  # no such limits on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    try:
        if kind == "confidence":
            write_confidence(read_confidence(given), written)
        else:
            write_acceptance(read_trace(given), written)
    except RooftreeError as error:
        sys.stdout.write(f"{error}\n")
        return 2
    except (MemoryError, ValueError, ArithmeticError, KeyError, IndexError, TypeError, OSError) as error:
        sys.stdout.write(f"is no recording that can be read ({type(error).__name__})\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(work(*sys.argv[1:4]))
