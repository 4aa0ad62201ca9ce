"""Which questions will probably be asked next, and can they be answered before they are asked?

Some sliders start a whole search. The positions next to the current one are answered in a background thread while the
page is idle; the thread stops after the answer it is working on as soon as something else is asked. Leaves out
the sliders whose answers take no noticeable time.
"""

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count

from app.dashboard.state import CONTEXTS, FIELDS, State

_worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefetch")
_requests = count(1)
_current = 0


def cancel() -> int:
    """Cancel the questions that are still waiting; returns the number of the request that is current from now on."""
    global _current  # noqa: PLW0603 — one server, one current request
    _current = next(_requests)
    return _current


def neighbours(state: State) -> list[State]:
    """The questions one slider step away whose answers take longest, nearest first; empty on pages without a search."""
    if state.page != "run":
        return []
    low, high = FIELDS["tree_nodes"].metadata["range"] if state.known_by == "recording" else (1, 0)
    near = [replace(state, context=value) for value in _contexts_beside(state.context)]
    return [*near, *(replace(state, tree_nodes=n) for n in (state.tree_nodes + 1, state.tree_nodes - 1)
                     if low <= n <= high)]  # fmt: skip


def start(questions: Sequence[State], answer: Callable[[State], object]) -> None:
    """Answer questions in the background, in order, until `cancel` or another call of this function.

    Args:
        questions: the questions that may be asked next.
        answer: computes and caches one answer. Its errors are ignored here and raised again when the question is asked.
    """
    request = cancel()

    def work() -> None:
        for question in questions:
            if request != _current:
                return
            with contextlib.suppress(Exception):
                answer(question)

    if questions:
        _worker.submit(work)


def _contexts_beside(context: int) -> list[int]:
    above = [value for value in CONTEXTS if value > context][:1]
    below = [value for value in CONTEXTS if value < context][-1:]
    return [*above, *below]
