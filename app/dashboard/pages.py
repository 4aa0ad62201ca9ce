"""What does a page of the dashboard answer? Each answer is computed once and cached for all sessions.

The cache needs a module of its own: Streamlit runs the dashboard's script again at every change, which would empty it.
Leaves out answers that need more than the state of the page: an uploaded recording, a simulation.
"""

from functools import lru_cache
from importlib import import_module
from threading import RLock

from app.dashboard.answer import Answer, DeferredAnswer
from app.dashboard.state import State

CACHED_ANSWERS = 512
_turns = tuple(RLock() for _ in range(64))
FOLDERS = frozenset({"run", "tree", "trace", "diffusion"})  # whose answers have parts of their own


def answered(state: State) -> Answer:
    """The answer of a page that needs nothing but its state; of a session's own recording it is not kept.

    Raises:
        RooftreeError: the question cannot be answered; the message says why.
    """
    if state.upload:
        return _answered(state)
    with _turn(state):
        return _cached(state)


def completed(state: State) -> DeferredAnswer:
    """The deferred part of a page's answer.

    Raises:
        RooftreeError: it cannot be answered; the message says why.
    """
    if state.upload:
        return _completed(state)
    with _turn(state):
        return _cached_rest(state)


def _turn(state: State) -> RLock:
    """A question that is being answered already, ahead or for another session, is waited for."""
    return _turns[hash(state) % len(_turns)]


def _answered(state: State) -> Answer:
    if state.page != "validation":
        place = f"app.dashboard.answers.{state.page}{'.page' * (state.page in FOLDERS)}"
        answer: Answer = getattr(import_module(place), f"answer_{state.page}")(state)
        return answer
    from app.dashboard.answers.validation.page import answer_validation

    return answer_validation(state.seed, state.measured)


def _completed(state: State) -> DeferredAnswer:
    answer = answered(state)
    return answer.deferred() if answer.deferred else DeferredAnswer()


_cached = lru_cache(maxsize=CACHED_ANSWERS)(_answered)
_cached_rest = lru_cache(maxsize=CACHED_ANSWERS)(_completed)
