"""How is a job isolated from the campaign that started it?

A child process with a deadline, asked to end at the deadline and killed when it does not; a lock on
the results folder that a child holds on to when its campaign was killed; signals as a flag. Leaves
out what a job does (`job_process`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError

LOG = "log.txt"
GRACE_S = 20.0  # between asking a job to end and killing it
LOCK_WAIT_S = 30.0  # what a job whose campaign was killed may take to notice
_LATE_S = 3.0
_LOG_BYTES = 1 << 20


@dataclass(kw_only=True, slots=True)
class StopSignal:
    """Set by SIGTERM or SIGINT while a campaign runs.

    Attributes:
        signals: numbers of those that came, in order.
    """

    signals: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.signals)


def run_child(
    order: Mapping[str, Any],
    out: Path,
    *,
    module: str,
    title: str,
    limit_s: float,
    stop: StopSignal,
    lock: int | None,
    waiting: Callable[[], None] = lambda: None,
) -> None:
    """Run a module in a child process with JSON on its standard input.

    Args:
        order: the input.
        out: folder of the log.
        module: what to run.
        title: names the job in the log.
        limit_s: seconds after which it is asked to end.
        stop: ends it early.
        lock: file descriptor that it inherits, so that the lock is held while it lives.
        waiting: called many times a second while it works.

    Raises:
        RuntimeError: the child failed, with the last line that it wrote, or had to be killed.
    """
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    log_path = out / LOG
    with log_path.open("ab") as log:
        log.write(f"== {title}\n".encode())
        log.flush()
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": path},
            pass_fds=() if lock is None else (lock,),
        )
        try:
            assert child.stdin is not None
            with child.stdin as stream:
                stream.write(json.dumps(order).encode())
            await_child(child, time.monotonic() + limit_s, stop, waiting)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    _shorten(log_path)
    if child.returncode:
        raise RuntimeError(f"ended with {child.returncode}: {_last_line(log_path)}")


def await_child(
    child: subprocess.Popen[bytes],
    deadline: float,
    stop: StopSignal,
    waiting: Callable[[], None] = lambda: None,
) -> None:
    """Wait for a child; after the deadline or a stop it has `GRACE_S` to end by itself.

    Raises:
        RuntimeError: it had to be killed.
    """
    signalled_at: float | None = None
    while child.poll() is None:
        now = time.monotonic()
        if signalled_at is None and (stop or now > deadline + _LATE_S):
            child.send_signal(signal.SIGTERM)
            signalled_at = now
        if signalled_at is not None and now > signalled_at + GRACE_S:
            child.kill()
            child.wait()
            raise RuntimeError("did not end when asked to, and was killed")
        waiting()
        time.sleep(0.05)


@contextmanager
def locked(folder: Path) -> Iterator[int | None]:
    """Hold a folder against other campaigns; what a killed one left running is waited for.

    Yields:
        A file descriptor of the lock; None where the system has no such locks.

    Raises:
        InputError: another campaign holds it.
    """
    try:
        import fcntl
    except ImportError:
        yield None
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise InputError("another run is at work in it", file=folder) from None
                time.sleep(0.05)
            except OSError:  # a file system without locks
                break
        yield handle
    finally:
        os.close(handle)


@contextmanager
def stopping() -> Iterator[StopSignal]:
    """Turn SIGTERM and SIGINT into a flag while the block runs; a second one ends the process as
    usual.
    """
    stop = StopSignal()
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
    lines = [
        line
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
        if line.strip()
    ]
    return lines[-1][:300] if lines else "nothing was written"


def _shorten(log: Path) -> None:
    """Keep the end of a log that has grown past its limit."""
    raw = log.read_bytes()
    if len(raw) > _LOG_BYTES:
        log.write_bytes(raw[-_LOG_BYTES // 2 :])
