"""How are many requests sent to one server, at their times or by users who wait for their answers?

One event loop sends all of them. Answers are handed on as they come, so that what was measured
before Ctrl-C or the end of the server is kept. Leaves out which requests
(`real_runs.servers.load`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from hardware_profiles.errors import InputError
from real_runs.servers.client import Completion, StreamedAnswer, complete
from real_runs.servers.event_loop import run
from real_runs.servers.exchange import Patience, UnreachableError
from real_runs.servers.identify import Server

MOST_AT_ONCE = 1000


def run_requests(
    server: Server,
    requests: Sequence[Completion],
    *,
    users: int | None = None,
    arrivals_s: Sequence[float] | None = None,
    think_s: float | Sequence[float] = 0.0,
    most_at_once: int = MOST_AT_ONCE,
    patience: Patience | None = None,
    tell: Callable[[int, int], None] = lambda answered, under_way: None,
    on_answer: Callable[[int, StreamedAnswer], None] = lambda index, answer: None,
) -> list[StreamedAnswer]:
    """Send requests and wait for all answers.

    Args:
        server: from `identify`.
        requests: in the order in which they are sent.
        users: closed loop: so many send their next request when the last one is answered; >= 1.
        arrivals_s: open loop: seconds after the start, sorted, one per request; either this or
            `users`.
        think_s: of a user between an answer and the next request, >= 0: one time, or one per
            request in the order of answers.
        most_at_once: requests under way at a time, which later arrivals wait for; their `due_s`
            says since when.
        patience: None is the usual.
        tell: called with the requests answered and under way after every answer.
        on_answer: called with a request's index and its answer, in the order in which they come.

    Returns:
        Answers in the order of the requests; one that failed has an `error`.

    Raises:
        InputError: neither or both of `users` and `arrivals_s`, or the server takes no more
            connections; what was answered before was handed to `on_answer`.
        KeyboardInterrupt: Ctrl-C; what was answered before was handed on, and connections are
            closed.
    """
    if (users is None) == (arrivals_s is None):
        raise InputError("either users of a closed loop or arrivals must be given", key="users")
    if arrivals_s is not None and len(arrivals_s) != len(requests):
        raise InputError(
            f"must be {len(requests)}, one per request", key="arrivals_s", value=len(arrivals_s)
        )
    most = most_at_once if users is None else min(most_at_once, users)
    if most < 1:
        raise InputError(
            "must be at least 1", key="most_at_once" if users is None else "users", value=most
        )
    times = [think_s] * len(requests) if isinstance(think_s, int | float) else list(think_s)
    return run(_run(server, requests, arrivals_s, most, times, patience, tell, on_answer))


async def _run(
    server: Server,
    requests: Sequence[Completion],
    arrivals_s: Sequence[float] | None,
    most: int,
    think_s: list[float],
    patience: Patience | None,
    tell: Callable[[int, int], None],
    on_answer: Callable[[int, StreamedAnswer], None],
) -> list[StreamedAnswer]:
    answers: dict[int, StreamedAnswer] = {}
    failures: list[Exception] = []
    free, failed, reading = asyncio.Semaphore(most), asyncio.Event(), asyncio.Lock()
    loop, started_s = asyncio.get_running_loop(), time.monotonic()

    async def send(index: int, due_s: float) -> None:
        try:
            answer = await complete(
                server, requests[index], due_s=due_s, patience=patience, reading=reading
            )
            answers[index] = answer
            on_answer(index, answer)
            tell(len(answers), len(tasks) - 1)
        except Exception as error:
            failures.append(error)
            failed.set()
        finally:
            loop.call_later(think_s.pop(0), free.release)

    tasks: set[asyncio.Task[None]] = set()
    try:
        for index in range(len(requests)):
            due_s = None if arrivals_s is None else started_s + arrivals_s[index]
            if due_s is not None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(failed.wait(), max(due_s - time.monotonic(), 0.0))
            await free.acquire()
            if failed.is_set():
                break
            tasks.add(
                task := asyncio.create_task(
                    send(index, time.monotonic() if due_s is None else due_s)
                )
            )
            task.add_done_callback(tasks.discard)
        while tasks:
            await asyncio.wait(tasks)
    finally:
        for task in tasks:
            task.cancel()
    for error in failures:
        if isinstance(error, UnreachableError):
            whole = sum(answer.error is None for answer in answers.values())
            lost = f"{error.message}; {whole} of {len(requests)} requests were answered before"
            raise UnreachableError(lost, key=error.key) from None
        raise error
    return [answers[index] for index in range(len(requests))]
