"""How does work on an event loop run to its end, wherever it is called?

In a script the loop is the caller's thread's; in a notebook, where one runs already, it is that of
a thread beside it, and an interrupt reaches both. Leaves out what the work is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

_T = TypeVar("_T")


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run work to its end.

    Args:
        work: a coroutine that nobody has awaited.

    Raises:
        KeyboardInterrupt: Ctrl-C; the work is cancelled first.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    begun: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def cancellable() -> _T:
        if (task := asyncio.current_task()) is not None:
            begun.append((asyncio.get_running_loop(), task))
        return await work

    with ThreadPoolExecutor(max_workers=1) as thread:
        ending = thread.submit(asyncio.run, cancellable())
        try:
            return ending.result()
        except KeyboardInterrupt:
            for loop, task in begun:
                loop.call_soon_threadsafe(task.cancel)
            raise
