"""What does a page of the dashboard answer? Each answer is computed once and cached for all
sessions.

The cache needs a module of its own: Streamlit runs the dashboard's script again at every change,
which would empty it. Leaves out answers that need more than the state of the page: an uploaded
recording, a simulation.
"""

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from threading import RLock

from app.dashboard.answer import DeferredAnswer, PageAnswer
from app.dashboard.question import DRAFTED, DRAFTER_CARD, WHERE
from app.dashboard.state import State, with_values

CACHED_ANSWERS = 512
_turns = tuple(RLock() for _ in range(64))
ASKED_BY_BUTTON = "serving"  # the page whose answer nobody waits for
# pages whose answers have parts of their own
FOLDERS = frozenset({"run", "tree", "trace", "diffusion", "validation"})
# pages that answer about models that decode masked blocks; the others ask what to draft
OF_MASKED_MODELS = frozenset({"trace", "diffusion", "validation"})
ASKED = {
    "tree": (*WHERE, *DRAFTER_CARD, "trace", "tree_nodes", "depth"),
    "trace": (
        *WHERE,
        *DRAFTED,
        "other_trace",
        "draft_tokens",
        "slo_tpot",
        "slo_ttft",
    ),
    "diffusion": (
        *WHERE,
        "commit",
        "threshold",
        "block",
        "cache",
        "confidence",
        "recorded_prompt",
        "agreement_ratio",
        "slo_tpot",
    ),
    "validation": ("measured", "seed"),
}
"""What pages ask that leave out parts of the question; the others ask all of it."""


def answered(state: State) -> PageAnswer:
    """The answer of a page that needs nothing but its state; of a session's own recording it is not
    kept.

    Raises:
        RooftreeError: the question cannot be answered; the message says why.
    """
    question = _page_question(state)
    if question.upload:
        return _answered(question)
    with _turn(question):
        return _cached(question)


def completed(state: State) -> DeferredAnswer:
    """The deferred part of a page's answer.

    Raises:
        RooftreeError: it cannot be answered; the message says why.
    """
    question = _page_question(state)
    if question.upload:
        return _completed(question)
    with _turn(question):
        return _cached_rest(question)


def unfolded(state: State) -> DeferredAnswer:
    """What stands behind the fold of a page alone.

    Raises:
        RooftreeError: it cannot be answered; the message says why.
    """
    question = _page_question(state)
    if question.upload:
        return _unfolded(question)
    with _turn(question):
        return _cached_behind(question)


def _page_question(state: State) -> State:
    """The state with the usual values of what its page does not ask."""
    names = ASKED.get(state.page)
    return (
        with_values(state, {"pinned": ""})
        if names is None
        else with_values(State(page=state.page), {name: getattr(state, name) for name in names})
    )


def _turn(state: State) -> RLock:
    """A question that is being answered already, ahead or for another session, is waited for."""
    return _turns[hash(state) % len(_turns)]


def answering(page: str) -> Callable[..., PageAnswer]:
    """What answers the questions of a page, from a module that is loaded when a page is asked."""
    place = f"app.dashboard.answers.{page}{'.page' * (page in FOLDERS)}"
    answer: Callable[..., PageAnswer] = getattr(import_module(place), f"answer_{page}")
    return answer


def _answered(state: State) -> PageAnswer:
    return answering(state.page)(state)


def _completed(state: State) -> DeferredAnswer:
    answer = answered(state)
    return answer.deferred() if answer.deferred else DeferredAnswer()


def _unfolded(state: State) -> DeferredAnswer:
    answer = answered(state)
    return answer.behind() if answer.behind else DeferredAnswer()


_cached = lru_cache(maxsize=CACHED_ANSWERS)(_answered)
_cached_rest = lru_cache(maxsize=CACHED_ANSWERS)(_completed)
_cached_behind = lru_cache(maxsize=CACHED_ANSWERS)(_unfolded)
