"""The compiled engine against a plain one, written for reading: every time of every request is the same.

The twin keeps objects instead of arrays, names every cache block and sums nothing up in advance.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from simulator.engine import simulate


@pytest.fixture(scope="module")
def check():
    """Compare a scenario's result with the plain engine's; the result."""
    spec = importlib.util.spec_from_file_location("plain_engine", Path(__file__).with_name("plain_engine.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda scenario: compared(scenario, module.Plain(scenario).run())


def compared(scenario, plain):
    result = simulate(scenario)
    jobs = plain.jobs
    assert result.state.tolist() == [job.state for job in jobs]
    assert result.iterations == plain.iterations
    assert result.counters["preemptions"] == plain.preemptions
    assert result.counters["prefix_hit_tokens"] == plain.hits
    for name in ("arrival", "scheduled", "last"):
        mine = getattr(result, {"last": "last_token_s"}.get(name, f"{name}_s"))
        theirs = np.array([getattr(job, name) for job in jobs])
        np.testing.assert_array_equal(mine, theirs, err_msg=name)
    reached = np.array([job.first for job in jobs])
    np.testing.assert_array_equal(result.first_token_s, reached)
    return result


@pytest.mark.parametrize("seed", range(150))
def test_every_time_equals_the_plain_engine(check, random_scenario, seed):
    result = check(random_scenario(seed, merge=False))
    assert result.finished.sum() + (result.ending != 4).sum() == result.request.size


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_a_tight_cache_equals_the_plain_engine(check, random_scenario, preemption):
    preempted = sum(
        check(random_scenario(seed, preemption=preemption, kv_blocks=40, block_tokens=4, horizon_s=None))
        .counters["preemptions"] > 0
        for seed in range(1000, 1025)
    )  # fmt: skip
    assert preempted >= 5
