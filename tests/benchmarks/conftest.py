"""How every benchmark measures: least CPU time of five rounds, with the first call left out."""

import time

import pytest


def _cpu_s(call, rounds=5):
    call()  # compiles or loads
    times = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


@pytest.fixture(scope="session")
def cpu_s():
    """CPU seconds of a call: (call, rounds=5)."""
    return _cpu_s
