"""The engine against a plain one, and its machine code against the Python that it is made from:
every time of every request is the same.

The twin keeps objects instead of arrays, names every cache block and sums nothing up in advance.
"""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simulator.engine import simulate

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def check():
    """Compare a scenario's result with the plain engine's; the result."""
    names = ("engine", "blocks", "arrivals", "cache", "timing")
    engine = type(
        "Plain", tuple(getattr(loaded(f"plain_{name}"), name.title()) for name in names), {}
    )
    return lambda scenario: compared(scenario, engine(scenario).run())


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compared(scenario, plain):
    result = simulate(scenario)
    jobs = plain.jobs
    assert result.state.tolist() == [job.state for job in jobs]
    assert result.iterations == plain.iterations
    assert result.counters["preemptions"] == plain.preemptions
    assert result.counters["prefix_hit_tokens"] == plain.hits
    assert result.counters["rolled_back"] == plain.rolled_back
    assert result.counters["unselected"] == plain.unselected
    for name in ("arrival", "scheduled", "last"):
        mine = getattr(result, {"last": "last_token_s"}.get(name, f"{name}_s"))
        theirs = np.array([job.sent if name == "arrival" else getattr(job, name) for job in jobs])
        np.testing.assert_array_equal(mine, theirs, err_msg=name)
    reached = np.array([job.first for job in jobs])
    np.testing.assert_array_equal(result.first_token_s, reached)
    return result


def identical(one, other):
    """To the last bit."""
    for name in (
        "arrival_s",
        "scheduled_s",
        "first_token_s",
        "last_token_s",
        "ending",
        "replica",
        "steps_by_batch",
        "emitted_by_batch",
        "iterations_by_rows",
        "iterations_by_sampled",
    ):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    np.testing.assert_array_equal(one.itl.counts, other.itl.counts)
    for name in ("counters", "iterations", "clock_s", "busy_s", "exposed_host_s", "kv_peak_ratio"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.itl.total_s == other.itl.total_s


def few_and_many(few, many):
    """Seeds of every suite, and those of the slow one."""
    return pytest.mark.parametrize(
        "seeds", [few, pytest.param(many, marks=pytest.mark.slow)], ids=str
    )


@few_and_many(range(24), range(24, 600))
def test_every_time_equals_the_plain_engine(check, random_scenario, seeds):
    for seed in seeds:
        result = check(random_scenario(seed, merge=False))
        assert result.finished.sum() + (result.ending != 4).sum() == result.request.size


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
@few_and_many(range(1013, 1019), range(1000, 1025))
def test_a_tight_cache_equals_the_plain_engine(check, random_scenario, preemption, seeds):
    preempted = sum(
        check(
            random_scenario(
                seed, preemption=preemption, kv_blocks=40, block_tokens=4, horizon_s=None
            )
        ).counters["preemptions"]
        > 0
        for seed in seeds
    )
    assert preempted >= len(seeds) / 5


@few_and_many(range(4000, 4005), range(4005, 4200))
def test_recorded_blocks_equal_the_plain_engine(check, blocks_scenario, seeds):
    for seed in seeds:
        check(blocks_scenario(seed))


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
@few_and_many(range(5016, 5023), range(5000, 5025))
def test_recorded_blocks_in_a_tight_cache_equal_the_plain_engine(
    check, blocks_scenario, preemption, seeds
):
    tight = {
        "preemption": preemption,
        "kv_blocks": 150,
        "block_tokens": 1,
        "chunked_prefill": True,
        "prefix_cache": False,
        "max_requests": 8,
        "reserve_ratio": None,
        "slo_ttft_s": None,
        "slo_tpot_s": None,
        "horizon_s": None,
    }
    preempted = sum(
        check(blocks_scenario(seed, **tight)).counters["preemptions"] > 0 for seed in seeds
    )
    assert preempted >= len(seeds) / 5


@few_and_many(range(3000, 3015), range(3015, 3200))
def test_tables_are_read_alike_by_python_and_by_machine_code(
    random_scenario, blocks_scenario, tabled_timer, as_python, seeds
):
    """Runs that are merged, parts and groups of passes, branches, full passes: with tables for both
    timers."""
    for seed in seeds:
        scenario = blocks_scenario(seed, timer=tabled_timer)
        identical(as_python(simulate, scenario), simulate(scenario))
        scenario = random_scenario(seed, timer=tabled_timer)
        drawn = scenario.speculation
        if drawn is not None and drawn.draft is not None:
            scenario = replace(scenario, speculation=replace(drawn, draft=tabled_timer))
        identical(as_python(simulate, scenario), simulate(scenario))
