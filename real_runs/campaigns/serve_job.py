"""What do steps of a serving engine cost whose acceptance is stated?

A server is started for every draft length and acceptance with the words of the job, and as many
requests as asked are decoded at a time on prompts that repeat, after which a lookup proposes at
every step. Leaves out predictions (`validate --engine llama.cpp --synthetic`) and where runs go
(`results`).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import whole_file
from real_runs.campaigns.jobs import ServeJob
from real_runs.recording.log import RecordingLog
from real_runs.servers.address import Address
from real_runs.servers.asking import asked_together, repeating_prompt
from real_runs.servers.exchange import Patience
from real_runs.servers.identify import Server, identify
from real_runs.servers.llama_cpp.launch import launched

RUNS = "serve.part.jsonl"
_GRACE_S, _POLL_S = 20.0, 0.5
_SHORT = Patience(connect_s=1.0, silence_s=5.0)


def run_serve(
    job: ServeJob,
    *,
    folder: Path,
    threads: int,
    model: str,
    deadline: float,
    should_stop: Callable[[], bool],
) -> tuple[list[dict[str, Any]], int]:
    """Measure what is not measured yet.

    Args:
        job: which lengths, acceptances and numbers of requests.
        folder: for the runs and the server's log.
        threads: CPU threads of a server of llama.cpp.
        model: file or hub id that the server loads.
        deadline: `time.monotonic()` at which to end.
        should_stop: asked between runs.

    Returns:
        All runs there are, and how many are missing. A run has the values of `asked_together` and
        `draft_tokens`, `acceptance`, `requests` and `round`.

    Raises:
        InputError: a server that does not come up, or an answer that is not whole.
    """
    prompts = [repeating_prompt(place, job.prompt_tokens) for place in range(max(job.requests))]
    wanted = [
        {"draft_tokens": k, "acceptance": rate, "requests": count, "round": turn}
        for k in job.draft_tokens
        for rate in job.acceptance
        for turn in range(job.rounds)
        for count in job.requests
    ]
    folder.mkdir(parents=True, exist_ok=True)
    with RecordingLog(folder / RUNS, {"job": job.identity()}, resume=True) as log:
        for k in job.draft_tokens:
            for rate in job.acceptance:
                left = [
                    combination
                    for combination in wanted
                    if (combination["draft_tokens"], combination["acceptance"]) == (k, rate)
                    and not any(combination.items() <= entry.items() for entry in log.finished)
                ]
                if not left or should_stop() or time.monotonic() > deadline:
                    continue
                with _started(
                    job, job.words(model=model, draft_tokens=k, acceptance=rate), folder, threads
                ) as url:
                    server = identify(Address.parse(url))
                    _compute(server, prompts)
                    for combination in left:
                        if should_stop() or time.monotonic() > deadline:
                            break
                        own = prompts[: int(combination["requests"])]
                        log.append(
                            {
                                **asked_together(server, own, max_tokens=job.new_tokens),
                                **combination,
                            }
                        )
        runs = list(log.finished)
    return runs, len(wanted) - len(runs)


def write_served(runs: list[dict[str, Any]], path: Path) -> None:
    """Leave the runs of a job as JSON."""
    with whole_file(path) as part:
        part.write_text(json.dumps(runs), encoding="utf-8")


def _compute(server: Server, prompts: list[tuple[int, ...]]) -> None:
    """Have the server hold the prompts, so that their time is in no run."""
    asked_together(server, prompts, max_tokens=16)


def _started(
    job: ServeJob, words: list[str], folder: Path, threads: int
) -> AbstractContextManager[str]:
    if job.engine == "llama.cpp":
        return _llama_cpp(words[1:], folder, threads, job.wait_s)
    return _program(words, folder, job.wait_s)


@contextmanager
def _llama_cpp(arguments: list[str], folder: Path, threads: int, wait_s: float) -> Iterator[str]:
    with launched(arguments, folder=folder, threads=threads, wait_s=wait_s) as running:
        yield running.url


@contextmanager
def _program(words: list[str], folder: Path, wait_s: float) -> Iterator[str]:
    """A server that its own program starts, on loopback; ended with all that it started."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "server.log"
    try:
        with log.open("wb") as written:
            server = subprocess.Popen(
                [*words, "--host", "127.0.0.1", "--port", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                start_new_session=True,
            )
    except OSError as error:
        raise InputError(
            f"cannot be started ({error.strerror})", key="start", value=words[0]
        ) from None
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + wait_s
    try:
        while not _answers(url):
            if server.poll() is not None or time.monotonic() > until:
                rule = (
                    f"did not answer within {wait_s:g} s"
                    if server.poll() is None
                    else "ended before it answered"
                )
                raise InputError(rule, file=log, key="start", value=words[0])
            time.sleep(_POLL_S)
        yield url
    finally:
        _end(server)


def _answers(url: str) -> bool:
    try:
        identify(Address.parse(url), patience=_SHORT)
    except InputError:
        return False
    return True


def _end(server: subprocess.Popen[bytes]) -> None:
    for sent in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, sent)
            server.wait(_GRACE_S)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    server.wait()
