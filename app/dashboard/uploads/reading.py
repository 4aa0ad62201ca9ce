"""How is a recording, an engine's log or its counters from outside read without trusting it?

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from hardware_profiles.errors import InputError
from traces.importers.engines.ran import RUNNING_KEY, with_extra
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.confidence import ConfidenceTrace

Kind = Literal["acceptance", "confidence"]
Report = Callable[[float], None] | None
Files = Sequence[tuple[str, bytes]]  # names, for messages, with contents

MOST_BYTES = 32 << 20
MOST_SECONDS = 20.0
BEAT_S = 0.2  # between two reports
MOST_MEMORY_BYTES = 4 << 30
MOST_MESSAGE = 500
MOST_NAME = 60
MOST_ENDING = 8
NAME = "recording"
PASTED = "pasted text"
UNCLEAR = 3  # exit code of a worker that cannot tell the format
MOST_FILES = 2
SERVER_FORMATS = (
    "vllm-metrics",
    "sglang-metrics",
    "tensorrt-llm-metrics",
    "llama-cpp-metrics",
    "vllm-log",
    "sglang-log",
    "vllm-responses",
    "sglang-responses",
    "tensorrt-llm-responses",
)
"""Formats that tell what an engine ran, beside the acceptance that it counted."""
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


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Dropped:
    """What was read of files that were dropped.

    Args:
        trace: the acceptance that they hold; of an engine's it says what the engine ran
            (`traces.importers.engines.ran`).
        unjudged: why nothing is said of what the engine ran, where they are an engine's; else
            empty.
    """

    trace: AcceptanceTrace
    unjudged: str = ""


def parsed_drop(
    files: Files, *, format: str = "", seconds: float = MOST_SECONDS, report: Report = None
) -> Dropped:
    """The acceptance in a file that was dropped, in a text that was pasted, or between two scrapes
    of an engine's counters, in either order.

    Args:
        files: one, or two scrapes.
        format: name of the format of an engine's or a benchmark's file; empty: what it shows of
            itself says.
        seconds: time limit of the worker.
        report: called now and then how many seconds have passed; may raise to stop the worker.

    Raises:
        UnclearFormatError: its format has to be named.
        InputError: too large, too many, too slow to read, or no acceptance.
    """
    from traces.storage.acceptance_file import read_acceptance

    if not 1 <= len(files) <= MOST_FILES:
        rule = "must be one file, or two scrapes of one engine's /metrics"
        raise InputError(rule, key="upload", value=f"{len(files)} files")
    with _worked_on(files, "acceptance", format, seconds, report) as (recording, said, shown):
        trace = replace(read_acceptance(recording), file=" and ".join(shown.values()))
    if isinstance(kept := trace.provenance.extra.get(RUNNING_KEY), dict):
        named = [shown.get(str(file), str(file)) for file in kept.get("files") or ()]
        trace = with_extra(trace, {RUNNING_KEY: {**kept, "files": named}})
    return Dropped(trace=trace, unjudged=said)


def parsed_confidence(
    name: str, content: bytes, *, seconds: float = MOST_SECONDS, report: Report = None
) -> ConfidenceTrace:
    """The confidence trace in an uploaded file.

    Args:
        name: of the file, which messages say.
        content: its bytes.
        seconds: as in `parsed_drop`.
        report: as in `parsed_drop`.

    Raises:
        InputError: too large, too slow to read, or no confidence trace.
    """
    from traces.storage.confidence_file import read_confidence

    with _worked_on([(name, content)], "confidence", "", seconds, report) as (recording, _, shown):
        return replace(read_confidence(recording), file=" and ".join(shown.values()))


@contextlib.contextmanager
def _worked_on(
    files: Files, kind: Kind, format: str, seconds: float, report: Report
) -> Iterator[tuple[Path, str, Mapping[str, str]]]:
    """The recording that the worker wrote, what it said, and what its files are called, by the name
    of each there.
    """
    size = sum(len(content) for _, content in files)
    if not 0 < size <= MOST_BYTES:
        raise InputError(
            f"must hold 1 to {MOST_BYTES >> 20} MiB", key="upload", value=f"{size} bytes"
        )
    with tempfile.TemporaryDirectory(prefix="rooftree-upload-") as folder:
        recording, shown = Path(folder) / "read.parquet", dict[str, str]()
        for place, (name, content) in enumerate(files):
            there = f"{NAME}{f'-{place}' * bool(place)}{_ending(name, content)}"
            (Path(folder) / there).write_bytes(content)
            shown[there] = _shown(name)
        words = [sys.executable, "-P", "-m", "app.dashboard.uploads.reading"]
        words += [recording.name, kind, format, *shown]
        search_path = os.pathsep.join(os.path.abspath(path or ".") for path in sys.path)  # noqa: PTH100 — may not exist
        about = {
            "PYTHONPATH": search_path,
            "OMP_NUM_THREADS": "1",
            "HOME": folder,
            "NUMBA_CACHE_DIR": folder,
        }
        code, output = _worked(words, folder, about, seconds, report)
        first, _, rest = output.decode(errors="replace").strip().partition("\n")
        said = (rest if code == UNCLEAR else first)[:MOST_MESSAGE]
        for there, name in shown.items():
            said = said.replace(there, name)
        if code == UNCLEAR:
            raise UnclearFormatError(said, formats=first.split(","))
        if code != 0 or not recording.exists():
            raise InputError(said or "could not be read within the limits of memory", key="upload")
        yield recording, said, shown


def _shown(name: str) -> str:
    """What messages call a file, without folders."""
    letters = "".join(letter for letter in Path(name).name if letter.isprintable())
    return letters[-MOST_NAME:] or PASTED


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


def work(written: str, kind: str, format: str, *uploads: str) -> int:
    """Read files and write what they hold as rooftree's own; the worker's side.

    Returns:
        0, with why nothing is said of the engine on standard output where that is so; 2 with the
        reason there; or `UNCLEAR` with the formats in question on a line before it.
    """
    from hardware_profiles.errors import RooftreeError

    with contextlib.suppress(ImportError, ValueError, OSError):  # no such limits on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    try:
        if kind == "confidence":
            return _read_confidence(uploads[0], written)
        if len(uploads) > 1:
            return _read_scrapes(uploads, written)
        return _read_acceptance(uploads[0], written, format)
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


def _read_scrapes(uploads: Sequence[str], written: str) -> int:
    """Two scrapes, in either order, which alone are more than one file."""
    from traces.importers.engines.ran import with_running
    from traces.importers.engines.running import read_running
    from traces.storage.acceptance_file import write_acceptance

    running = read_running(*uploads)
    write_acceptance(with_running(running.trace, running), written)
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
    trace = import_trace(names[0], upload)
    write_acceptance(_judged(trace, upload) if names[0] in SERVER_FORMATS else trace, written)
    return 0


def _judged(trace: AcceptanceTrace, upload: str) -> AcceptanceTrace:
    """A recording that says what its engine ran, where that is told; why not, on standard output."""
    from traces.importers.engines.ran import with_running
    from traces.importers.engines.running import read_adapters, read_running

    try:
        if read_adapters([upload]):
            sys.stdout.write(f"{upload}: holds several adapters, which the command line judges\n")
            return trace
        return with_running(trace, read_running(upload))
    except InputError as error:
        sys.stdout.write(f"{error}\n")
        return trace


if __name__ == "__main__":
    raise SystemExit(work(*sys.argv[1:]))
