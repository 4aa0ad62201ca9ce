"""How every benchmark measures, and how it says what it aims at.

Only wrong results fail a benchmark: an aim in seconds, ratios or bytes that is missed is printed as
missed, here and in the summary at the end, because a busy machine misses aims that the code meets.
"""

import os
import time

import pytest

MOST_ROUNDS = int(os.environ.get("ROOFTREE_BENCH_ROUNDS", "5"))

_MISSED = pytest.StashKey[list[str]]()


def _cpu_s(call, rounds=5):
    call()  # compiles or loads
    times = []
    for _ in range(min(rounds, MOST_ROUNDS)):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


@pytest.fixture(scope="session")
def cpu_s():
    """Least CPU seconds of a call, the first one left out: (call, rounds=5);
    `ROOFTREE_BENCH_ROUNDS` allows fewer."""
    return _cpu_s


@pytest.fixture
def aim(request):
    """Print a number beside its aim: (name, value, least=... or most=...)."""

    def say(name, value, *, least=float("-inf"), most=float("inf")):
        bound = f"at least {least:,.4g}" if least > float("-inf") else f"at most {most:,.4g}"
        line = f"{name}: {value:,.4g} (aim: {bound}{'' if least <= value <= most else ', MISSED'})"
        print(line)
        if not least <= value <= most:
            request.config.stash.setdefault(_MISSED, []).append(f"{request.node.name}: {line}")

    return say


def pytest_terminal_summary(terminalreporter, config):
    """List the aims that were missed, which fail nothing."""
    missed = config.stash.get(_MISSED, [])
    for line in [f"{len(missed)} aims missed, which fails nothing:", *missed] if missed else []:
        terminalreporter.write_line(line)
