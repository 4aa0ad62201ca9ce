"""How are the shards of a sweep computed by several processes?

Each process is asked for one shard after the other; one that dies is replaced and its shard
computed again. Leaves out what a process does (`worker`) and what becomes of the shards (`run`).
"""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from app.answers.sweep.file import SweepTask
from app.answers.sweep.worker import REFUSED
from hardware_profiles.errors import InputError

MOST_TRIES = 3  # processes that may die of one shard


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def computed_by_processes(task: SweepTask, shards: Sequence[int], workers: int) -> Iterator[int]:
    """Compute shards in processes of their own.

    Args:
        task: what each is told, with the folder of the parts.
        shards: to compute.
        workers: processes.

    Yields:
        A shard when its file is whole, in no particular order.

    Raises:
        InputError: processes die of a shard again and again, as where memory is short.
    """
    pool = _Pool(task, shards)
    threads = [
        threading.Thread(target=pool.serve, daemon=True) for _ in range(min(workers, len(shards)))
    ]
    try:
        for thread in threads:
            thread.start()
        for _ in shards:
            finished = pool.finished.get()
            if isinstance(finished, BaseException):
                raise finished
            yield finished
    finally:
        pool.end()
        for thread in threads:
            if thread.ident is not None:  # an interrupt may come before all are started
                thread.join()


class _Pool:
    """The shards that are left, and the processes that compute them."""

    def __init__(self, task: SweepTask, shards: Sequence[int]) -> None:
        self.finished: SimpleQueue[int | BaseException] = SimpleQueue()
        self._task, self._left = task.model_dump_json(), SimpleQueue[int]()
        self._lock, self._ended = threading.Lock(), False
        self._processes: list[subprocess.Popen[str]] = []
        for shard in shards:
            self._left.put(shard)

    def serve(self) -> None:
        """Keep one process at work until no shard is left."""
        process, code = None, 0
        try:
            while not self._ended:
                try:
                    shard = self._left.get_nowait()
                except Empty:
                    return
                for _ in range(MOST_TRIES):
                    process = process or self._started()
                    if process is None or _computes(process, shard):
                        break
                    code, process = process.wait(), None
                    if self._ended:
                        return
                else:
                    rule = (
                        f"cannot be computed: {MOST_TRIES} processes ended in it (the last with"
                        f" {code})"
                    )
                    raise InputError(rule, key=f"shard {shard}")
                self.finished.put(shard)
        # whatever it is ends the sweep, in the thread that waits for its shards
        except BaseException as error:
            self.finished.put(error)

    def end(self) -> None:
        """End all processes."""
        with self._lock:
            self._ended = True
            for process in self._processes:
                if process.poll() is None:
                    process.kill()
        for process in self._processes:
            process.wait()
            for stream in filter(None, (process.stdin, process.stdout)):
                with suppress(OSError, ValueError):
                    stream.close()

    def _started(self) -> subprocess.Popen[str] | None:
        """A new process, told what the sweep is; None where the sweep has ended.

        A folder `app` where the sweep was called from is not taken for ours (`-P`).
        """
        root = str(Path(__file__).resolve().parents[3])
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
        with self._lock:
            if self._ended:
                return None
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "app.answers.sweep.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": path},
                text=True,
                process_group=0,
            )
            self._processes.append(process)
        _write(process, self._task)
        return process


def _computes(process: subprocess.Popen[str], shard: int) -> bool:
    """Whether a process answers for a shard; it does not where it has died.

    Raises:
        InputError: what the process says it cannot do, such as write.
    """
    assert process.stdout is not None
    if not _write(process, str(shard)):
        return False
    answer = process.stdout.readline()
    if answer.startswith(REFUSED):
        raise InputError(answer.removeprefix(REFUSED).strip())
    return answer == f"{shard}\n"


def _write(process: subprocess.Popen[str], line: str) -> bool:
    """Whether a process could be given a line."""
    assert process.stdin is not None
    try:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    except (OSError, ValueError):
        return False
    return True
