"""Which questions will probably be asked next, and can they be answered before they are asked?

A slider that was moved is moved on, most of the time, and some start a whole search. Where it goes
next is answered in a background thread while the page is idle; the thread stops after the answer it
is working on as soon as something else is asked. Leaves out lists, whose next choice nobody knows,
but those of results, which are few.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import count
from threading import Event
from typing import TypeVar

from app.dashboard.state import CONTEXTS, FIELDS, State, known_names, with_values

MOST_FURTHER = 2
Result = TypeVar("Result")
BEAT_S = 0.03
TURN_S = 0.0005
_worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefetch")
_beside = ThreadPoolExecutor(max_workers=2, thread_name_prefix="rest")
IDLE_S = 5.0
_requests = count(1)
_current = 0
_superseded = Event()


def cancel() -> int:
    """Cancel the questions that are still waiting; returns the number of the request that is
    current from now on.
    """
    global _current, _superseded  # one server, one current request
    _superseded.set()
    _current, _superseded = next(_requests), Event()
    return _current


def neighbours(state: State) -> list[State]:
    """The questions one slider step away that take longest, nearest first; every one of a page that
    has but a few.
    """
    if state.page == "validation":
        return [
            replace(state, measured=name)
            for name in known_names("measured") or ()
            if name != state.measured
        ]
    if state.page != "run":
        return []
    low, high = FIELDS["tree_nodes"].metadata["range"] if state.known_by == "recording" else (1, 0)
    near = [replace(state, context=value) for value in _contexts_beside(state.context)]
    return [
        *near,
        *(
            replace(state, tree_nodes=n)
            for n in (state.tree_nodes + 1, state.tree_nodes - 1)
            if low <= n <= high
        ),
    ]


def further(before: State, state: State) -> list[State]:
    """The questions that the slider asks that was just moved, further along its way; empty where
    none was.

    Args:
        before: the question before the last move.
        state: the question after it.
    """
    moved = [name for name in FIELDS if getattr(before, name) != getattr(state, name)]
    if len(moved) != 1:
        return []
    (name,) = moved
    was, now, values = getattr(before, name), getattr(state, name), _positions(name, state)
    if now not in values:
        return []
    onward = (
        [value for value in values if value > now]
        if now > was
        else [v for v in values[::-1] if v < now]
    )
    return [with_values(state, {name: value}) for value in onward[:MOST_FURTHER]]


def _positions(name: str, state: State) -> Sequence[float]:
    """A slider's positions, as far as they are near; none of a list."""
    from app.dashboard.controls.widgets import TICKS, threshold_positions

    if name in TICKS:
        return TICKS[name]
    if name == "threshold":
        return threshold_positions(state.commit)
    if isinstance(now := getattr(state, name), str):
        return ()
    low, high = FIELDS[name].metadata["range"]
    step = 0.01 if high == 1.0 else 1
    near = (round(now + n * step, 10) for n in range(-MOST_FURTHER, MOST_FURTHER + 1))
    return [type(now)(value) for value in near if low <= value <= high]


def start(
    questions: Sequence[State], answer: Callable[[State], object], *, idle: Sequence[State] = ()
) -> None:
    """Answer questions in the background, in order, until `cancel` or another call of this
    function.

    Args:
        questions: the questions that may be asked next.
        answer: computes and caches one answer. Its errors are ignored here and raised again when
            the question is asked.
        idle: more questions, which begin when nobody has asked anything for `IDLE_S`.
    """
    request = cancel()
    superseded = _superseded

    def work() -> None:
        for place, question in enumerate((*questions, *idle)):
            if place == len(questions) and superseded.wait(IDLE_S):
                return
            if request != _current:
                return
            with contextlib.suppress(Exception), _short_turns():
                answer(question)

    if questions or idle:
        _worker.submit(work)


@contextlib.contextmanager
def _short_turns() -> Iterator[None]:
    """A script gives up the interpreter at every message that it sends, and waits for a turn of
    this thread each time.

    Only while there is such a thread: otherwise messages would reach the browser one by one, which
    draws for each.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(TURN_S)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def waited(compute: Callable[[], Result], beat: Callable[[], object]) -> Result:
    """What takes long, computed beside the script, which goes on to the next question in the midst
    of it.

    Args:
        compute: called in another thread; its errors are raised here.
        beat: called meanwhile, some thirty times a second; what it raises ends the waiting.
    """
    found = _beside.submit(compute)
    try:
        while not wait([found], BEAT_S).done:
            beat()
        return found.result()
    finally:
        found.cancel()


def _contexts_beside(context: int) -> list[int]:
    above = [value for value in CONTEXTS if value > context][:1]
    below = [value for value in CONTEXTS if value < context][-1:]
    return [*above, *below]
