"""How is a server of llama.cpp started with an exported command line, and ended whatever happens?

On loopback, on a port that the system chooses, in a process of its own that does not outlive its
parent. Leaves out what is asked of it (`real_runs.servers.client`).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import make_folder
from real_runs.servers.llama_cpp.arguments import read_arguments

LOG = "server.log"
PROGRAM = "llama-server"
_MODULE = "real_runs.servers.llama_cpp.server_process"
_LISTENING = re.compile(rb"listening on (http://[\w.:\[\]-]+)\s")
_LOG_HEAD_BYTES = 4 << 20
_LOG_TAIL_BYTES = 4096
_SHOWN_LINES = 4
_GRACE_S = 5.0  # between asking a server to end and killing it
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningServer:
    """A server that answers.

    Attributes:
        url: where, without a slash at its end.
        pid: of the process that computes.
        command: the server's arguments as it was started, with those that were added.
        log: what it writes.
    """

    url: str
    pid: int
    command: tuple[str, ...]
    log: Path


@contextmanager
def launched(
    arguments: Sequence[str],
    *,
    folder: Path,
    binary: Path | None = None,
    threads: int = 1,
    cpu: int | None = None,
    wait_s: float = 60.0,
) -> Iterator[RunningServer]:
    """A server that runs while the block does.

    Runs `binary`, else `llama-server` on the PATH, else the server inside the package `xllamacpp`.
    `--host`, `--port`, `--metrics` and `--threads` are added where they are not given. On Linux the
    server is killed when the thread that launched it ends, so that thread must outlive the block.

    Args:
        arguments: an exported command line without the program's name.
        folder: where its log goes; made where it is missing, an earlier log there is replaced.
        binary: a build of `llama-server`.
        threads: of its computation, at least 1.
        cpu: number of the one CPU to stay on; None leaves it to the system.
        wait_s: seconds within which it must answer.

    Raises:
        InputError: no server is installed, a flag that it does not read, a host that is not
            loopback, or it ended or did not answer in time, with the last lines of its log.
    """
    program = _program(binary)
    command = _completed(arguments, threads)
    if not program:
        read_arguments(arguments)  # a flag that is not read is named before anything starts
    if cpu is not None and cpu not in _cpus():
        raise InputError(f"must be one of {sorted(_cpus())}", key="cpu", value=cpu)
    make_folder(folder)
    log = folder / LOG
    words = [
        sys.executable,
        "-P",
        "-m",
        _MODULE,
        str(os.getpid()),
        str("" if cpu is None else cpu),
        program,
        *command,
    ]
    # a group of its own: an interrupt from the keyboard is for the parent to deal with
    with log.open("wb") as written:
        server = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=written,
            stderr=written,
            env=_environment(),
            process_group=0,
        )
    try:
        url = _answering(server, log, wait_s)
        yield RunningServer(url=url, pid=server.pid, command=command, log=log)
    finally:
        _end(server)


def _program(binary: Path | None) -> str:
    """The program to run; empty for the server inside `xllamacpp`."""
    if binary is not None:
        if not os.access(binary, os.X_OK) or binary.is_dir():
            raise InputError("must be a program", key="binary", value=str(binary))
        return str(binary.resolve())
    program = shutil.which(PROGRAM)
    if program is None and importlib.util.find_spec("xllamacpp") is None:
        raise InputError(
            f"no {PROGRAM} on the PATH, and no xllamacpp: pip install 'rooftree[llama]'",
            key="engine",
        )
    return program or ""


def _completed(arguments: Sequence[str], threads: int) -> tuple[str, ...]:
    """The arguments and those that a launch adds."""
    if threads < 1:
        raise InputError("must be at least 1", key="threads", value=threads)
    for flag, value in pairwise(arguments):
        if flag == "--host" and value not in _LOOPBACK:
            raise InputError(
                "a server that is started here listens on loopback alone", key=flag, value=value
            )
    added = (("--host", "127.0.0.1"), ("--port", "0"), ("--threads", str(threads)), ("--metrics",))
    return (*arguments, *(word for words in added if words[0] not in arguments for word in words))


def _cpus() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _environment() -> Mapping[str, str]:
    """The environment without what would set further parameters of the server, nor let it fetch
    anything.
    """
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("LLAMA_", "AIP_"))
    }
    root = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(filter(None, (root, variables.get("PYTHONPATH", ""))))
    return variables | {"PYTHONPATH": path, "LLAMA_ARG_OFFLINE": "1"}


def _answering(server: subprocess.Popen[bytes], log: Path, wait_s: float) -> str:
    """Wait until the server says where it listens and that it is well."""
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise _failure(
                f"llama.cpp's server ended with {server.returncode} before it answered", log
            )
        with log.open("rb") as written:
            listening = _LISTENING.search(written.read(_LOG_HEAD_BYTES))
        if listening is not None and _is_well(
            url := listening[1].decode("ascii").rstrip("/"), deadline
        ):
            return url
        time.sleep(0.02)
    raise _failure(f"llama.cpp's server did not answer within {wait_s:g} s", log)


def _is_well(url: str, deadline: float) -> bool:
    """Whether the server says that its model is loaded; no proxy is asked."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/health", timeout=max(deadline - time.monotonic(), 0.1)) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _failure(what: str, log: Path) -> InputError:
    text = log.read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return InputError(
        f"{what}: {' | '.join(lines[-_SHOWN_LINES:]) or 'it wrote nothing'}", file=log
    )


def _end(server: subprocess.Popen[bytes]) -> None:
    if server.stdin is not None:
        server.stdin.close()
    try:
        if server.poll() is None:
            server.send_signal(signal.SIGTERM)
            server.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        # also where an interrupt cut the waiting short
        if server.poll() is None:
            server.kill()
        server.wait()
