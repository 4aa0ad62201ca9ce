"""Which question does a request ask, and is its answer there soon?

An answer is written once for each request, by one thread, from the answers that the pages show.
Leaves out what it looks like (`document`).
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

SOON_S = 2.0  # in which a browser loads Streamlit's own scripts, which wait for nothing
MOST_HELD = 64
MOST_WAITING = 4
_writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="first")
_answers: dict[object, Future[str]] = {}


def begin(path: str, query: Mapping[str, str]) -> Future[str] | None:
    """Answer a request in the background; None where too many wait already.

    Args:
        path: of the request, without the slash at its start; empty for the first page.
        query: of the request.
    """
    asked = (path, tuple(query.items()))
    if (found := _answers.get(asked)) is not None:
        return found
    if sum(not each.done() for each in list(_answers.values())) >= MOST_WAITING:
        return None
    found = _answers[asked] = _writer.submit(_written, path, dict(query))
    while len(_answers) > MOST_HELD:
        del _answers[next(iter(_answers))]
    return found


async def first_answer(path: str, query: Mapping[str, str]) -> str:
    """What stands in front of the page; empty where its question cannot be answered, or not soon.

    Args:
        path: of the request, without the slash at its start; empty for the first page.
        query: of the request.
    """
    if (found := begin(path, query)) is None:
        return ""
    if not found.done():
        await asyncio.wait([asyncio.wrap_future(found)], timeout=SOON_S)
    return found.result() if found.done() else ""


def _written(path: str, query: dict[str, str]) -> str:
    try:
        from app.dashboard.first_page.document import document
        from app.dashboard.first_page.question import question
        from app.dashboard.pages import answered

        if (asked := question(path, query)) is None:
            return ""
        state, is_first = asked
        return document(state, answered(state), is_first=is_first)
    except Exception:  # which the page itself says
        return ""
