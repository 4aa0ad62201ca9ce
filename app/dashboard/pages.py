"""What does a page answer to a question? Each answer is worked out once for all who ask.

A module of its own because the dashboard's script is run anew at every change, and would forget. Leaves out answers
that need more than their state: an uploaded recording, a simulation.
"""

from functools import lru_cache

from app.dashboard.answer import Answer, Later
from app.dashboard.state import State

KEPT = 512


@lru_cache(maxsize=KEPT)
def answered(state: State) -> Answer:
    """The answer of a page that needs nothing but its state.

    Raises:
        RooftreeError: the question cannot be answered; the message says why.
    """
    if state.page == "run":
        from app.dashboard.answers_run import answer_run

        return answer_run(state)
    if state.page == "map":
        from app.dashboard.answers_map import answer_map

        return answer_map(state)
    if state.page == "tree":
        from app.dashboard.answers_tree import answer_tree

        return answer_tree(state)
    if state.page == "hardware":
        from app.dashboard.answers_hardware import answer_hardware

        return answer_hardware(state)
    if state.page == "trace":
        from app.dashboard.answers_trace import answer_trace

        return answer_trace(state)
    from app.dashboard.answers_validation import answer_validation

    return answer_validation(state.seed, state.measured)


@lru_cache(maxsize=KEPT)
def completed(state: State) -> Later:
    """What the answer of a page says later.

    Raises:
        RooftreeError: it cannot be answered; the message says why.
    """
    answer = answered(state)
    return answer.later() if answer.later else Later()
