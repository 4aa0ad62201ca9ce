"""How does a page compute what takes long without holding up the next question?

Streamlit leaves a run of the script only where the script speaks to it. What takes long is computed
in another thread while the script waits and speaks to Streamlit now and then. Leaves out what is
computed (`pages`).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

Result = TypeVar("Result")
BEAT_S = 0.03
_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="rest")


def waited(compute: Callable[[], Result], beat: Callable[[], object]) -> Result:
    """The result of a computation that a new question may interrupt.

    Args:
        compute: called in another thread; its errors are raised here.
        beat: called meanwhile, some thirty times a second; what it raises ends the waiting.
    """
    future = _threads.submit(compute)
    try:
        while not wait([future], BEAT_S).done:
            beat()
        return future.result()
    finally:
        future.cancel()
