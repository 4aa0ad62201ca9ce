"""What will be asked next? The steps beside a slider that a whole search stands behind, answered while nobody waits.

One thread works on them and leaves off after the answer at hand as soon as anything else is asked. Leaves out the
sliders that are quick anyway.
"""

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count

from app.dashboard.state import CONTEXTS, FIELDS, State

_worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ahead")
_turns = count(1)
_turn = 0


def leave() -> int:
    """End what was begun before: its next answer is not begun. Gives the number of the turn that starts now."""
    global _turn  # noqa: PLW0603 — one server, one turn
    _turn = next(_turns)
    return _turn


def beside(state: State) -> list[State]:
    """The questions one step away whose answers take longest, nearest first; none on pages that are quick."""
    if state.page != "run":
        return []
    low, high = FIELDS["tree_nodes"].metadata["range"]
    near = [replace(state, context=value) for value in _neighbours(state.context)]
    return [*near, *(replace(state, tree_nodes=n) for n in (state.tree_nodes + 1, state.tree_nodes - 1)
                     if low <= n <= high)]  # fmt: skip


def prepare(questions: Sequence[State], answer: Callable[[State], object]) -> None:
    """Have questions answered in the background, in order, until `leave` or another call.

    Args:
        questions: what may come next.
        answer: keeps what it found out; its errors are met again by whoever asks.
    """
    turn = leave()

    def work() -> None:
        for question in questions:
            if turn != _turn:
                return
            with contextlib.suppress(Exception):
                answer(question)

    if questions:
        _worker.submit(work)


def _neighbours(context: int) -> list[int]:
    above = [value for value in CONTEXTS if value > context][:1]
    below = [value for value in CONTEXTS if value < context][-1:]
    return [*above, *below]
