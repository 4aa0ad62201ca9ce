"""How is a recording from outside read without trusting it?

In a process of its own with limits on time and memory, inside a temporary folder that is gone
afterwards; what comes back is rooftree's own format, checked again. What a file is, its content
says; its name's ending does not matter. Leaves out the widget.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
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
MOST_ENDING = 8
SUFFIXES: dict[Kind, tuple[str, ...]] = {"acceptance": (), "confidence": ("parquet",)}
"""Endings of the files that a browser offers; none: of any file."""
NAME = "recording"
PASTED = "pasted text"
UNCLEAR = 3  # exit code of a worker that cannot tell the format
_PARQUET = b"PAR1"


class UnclearFormatError(InputError):
    """What a file shows of itself fits several formats, or none.

    Args:
        message: as of every error.
        formats: names that may be meant.
    """

    def __init__(self, message: str, *, formats: Sequence[str]) -> None:
        super().__init__(message, key="upload")
        self.formats = tuple(formats)


@overload
def parsed_upload(
    name: str,
    content: bytes,
    kind: Literal["acceptance"] = ...,
    *,
    format: str = ...,
    seconds: float = ...,
    report: Report = ...,
) -> AcceptanceTrace: ...
@overload
def parsed_upload(
    name: str,
    content: bytes,
    kind: Literal["confidence"],
    *,
    format: str = ...,
    seconds: float = ...,
    report: Report = ...,
) -> ConfidenceTrace: ...
def parsed_upload(
    name: str,
    content: bytes,
    kind: Kind = "acceptance",
    *,
    format: str = "",
    seconds: float = MOST_SECONDS,
    report: Report = None,
) -> AcceptanceTrace | ConfidenceTrace:
    """The trace in an uploaded file, or in a text that was pasted.

    Args:
        name: of the file, which messages say.
        content: its bytes.
        kind: of trace that is wanted.
        format: name of the format of an engine's or a benchmark's file; empty: what it shows of
            itself says.
        seconds: time limit of the worker.
        report: called now and then how many seconds have passed; may raise to stop the worker.

    Raises:
        UnclearFormatError: its format has to be named.
        InputError: too large, too slow to read, or no trace of that kind.
    """
    shown = (
        "".join(letter for letter in Path(name).name if letter.isprintable())[-MOST_NAME:] or PASTED
    )
    if not 0 < len(content) <= MOST_BYTES:
        raise InputError(
            f"must hold 1 to {MOST_BYTES >> 20} MiB", key="upload", value=f"{len(content)} bytes"
        )
    with tempfile.TemporaryDirectory(prefix="rooftree-upload-") as folder:
        upload, recording = (
            Path(folder) / f"{NAME}{_ending(name, content)}",
            Path(folder) / "read.parquet",
        )
        upload.write_bytes(content)
        words = [
            sys.executable,
            "-P",
            "-m",
            "app.dashboard.uploads.reading",
            upload.name,
            recording.name,
            kind,
            format,
        ]
        search_path = os.pathsep.join(os.path.abspath(path or ".") for path in sys.path)  # noqa: PTH100 — may not exist
        about = {
            "PYTHONPATH": search_path,
            "OMP_NUM_THREADS": "1",
            "HOME": folder,
            "NUMBA_CACHE_DIR": folder,
        }
        code, output = _worked(words, folder, about, seconds, report)
        if code != 0 or not recording.exists():
            first, _, rest = output.decode(errors="replace").strip().partition("\n")
            last = (rest if code == UNCLEAR else first)[:MOST_MESSAGE].replace(upload.name, shown)
            if code == UNCLEAR:
                raise UnclearFormatError(last, formats=first.split(","))
            raise InputError(last or "could not be read within the limits of memory", key="upload")
        from traces.storage.acceptance_file import read_acceptance
        from traces.storage.confidence_file import read_confidence

        if kind == "confidence":
            return replace(read_confidence(recording), file=shown)
        return replace(read_acceptance(recording), file=shown)


def _ending(name: str, content: bytes) -> str:
    """That of Parquet for what begins so; else the name's own, where it is a plain one."""
    if content.startswith(_PARQUET):
        return ".parquet"
    own = Path(name).suffix.lower()
    return own if own[1:].isascii() and own[1:].isalnum() and len(own) <= MOST_ENDING else ".txt"


def _worked(
    words: list[str], folder: str, about: dict[str, str], seconds: float, report: Report
) -> tuple[int, bytes]:
    """Exit code and standard output of the worker, which never outlives this call."""
    began = time.monotonic()
    with subprocess.Popen(
        words,
        cwd=folder,
        env=about,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as worker:
        try:
            while True:
                try:
                    output, _ = worker.communicate(timeout=min(BEAT_S, seconds))
                    return worker.returncode, output
                except subprocess.TimeoutExpired:
                    passed = time.monotonic() - began
                    if passed >= seconds:
                        raise InputError(
                            f"took longer than {seconds:g} s to read", key="upload"
                        ) from None
                    if report is not None:
                        report(passed)
        finally:
            worker.kill()


def work(upload: str, written: str, kind: str = "acceptance", format: str = "") -> int:
    """Read a file and write it as rooftree's own; the worker's side.

    Returns:
        0, 2 with the reason on standard output, or `UNCLEAR` with the formats in question on a line
        before it.
    """
    from hardware_profiles.errors import RooftreeError

    with contextlib.suppress(ImportError, ValueError, OSError):  # no such limits on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    try:
        return (
            _read_confidence(upload, written)
            if kind == "confidence"
            else _read_acceptance(upload, written, format)
        )
    except RooftreeError as error:
        sys.stdout.write(f"{error}\n")
        return 2
    except (
        MemoryError,
        ValueError,
        ArithmeticError,
        KeyError,
        IndexError,
        TypeError,
        OSError,
    ) as error:
        sys.stdout.write(f"is no recording that can be read ({type(error).__name__})\n")
        return 2


def _read_confidence(upload: str, written: str) -> int:
    from traces.storage.confidence_file import read_confidence, write_confidence

    write_confidence(read_confidence(upload), written)
    return 0


def _read_acceptance(upload: str, written: str, format: str) -> int:
    from traces.importers.formats import acceptance_formats, import_trace, possible
    from traces.library import is_confidence, read_trace
    from traces.storage.acceptance_file import write_acceptance

    if format:
        write_acceptance(import_trace(format, upload), written)
        return 0
    if is_confidence(upload):
        raise InputError(
            "is a confidence trace of masked blocks, which the diffusion page reads", file=upload
        )
    if upload.endswith(".parquet"):
        write_acceptance(read_trace(upload), written)
        return 0
    names = possible(upload)
    if len(names) > 1:
        shown = (
            "shows nothing of any format"
            if len(names) == len(acceptance_formats())
            else "is claimed by several formats"
        )
        sys.stdout.write(f"{','.join(names)}\n{upload}: {shown}: choose one\n")
        return UNCLEAR
    write_acceptance(import_trace(names[0], upload), written)
    return 0


if __name__ == "__main__":
    raise SystemExit(work(*sys.argv[1:5]))
