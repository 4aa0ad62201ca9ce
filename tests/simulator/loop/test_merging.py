"""Runs of iterations that are alike, advanced together, against one by one."""

import numpy as np
import pytest

from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions
from simulator.loop.request import Workload


def same(a, b):
    for name in (
        "arrival_s",
        "scheduled_s",
        "first_token_s",
        "last_token_s",
        "ending",
        "steps_by_batch",
    ):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    np.testing.assert_array_equal(a.itl.counts, b.itl.counts)
    assert (a.iterations, a.clock_s, a.busy_s, a.itl.total_s, a.kv_peak_ratio, a.counters) == (
        b.iterations,
        b.clock_s,
        b.busy_s,
        b.itl.total_s,
        b.kv_peak_ratio,
        b.counters,
    )
    for one, other in zip(a.series, b.series, strict=True):
        for name in ("t_s", "running", "waiting", "kv_used_ratio"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("seed", range(60))
def test_merged_runs_equal_single_steps_to_the_last_bit(random_scenario, tabled_timer, seed):
    merged, single = (
        simulate(
            random_scenario(seed, timer=tabled_timer, speculation=None, blocks=None, merge=merge)
        )
        for merge in (True, False)
    )
    same(merged, single)


def test_long_runs_are_merged_and_equal(tabled_timer):
    rng = np.random.default_rng(0)
    workload = Workload(
        arrival_s=np.sort(rng.uniform(0, 400, 60)),
        prompt_tokens=rng.integers(1, 300, 60),
        output_tokens=rng.integers(500, 3000, 60),
    )
    options = SchedulerOptions(kv_blocks=3000, max_requests=16, prefix_cache=True)
    made = [
        simulate(Scenario(workload=workload, scheduler=options, timer=tabled_timer, merge=merge))
        for merge in (True, False)
    ]
    same(*made)
    assert made[0].iterations > 4096  # the series has been thinned at least once


def test_a_tabled_timer_and_its_answers_one_by_one_agree(random_scenario, tabled_timer):
    def asked(*args):
        return tabled_timer(*args)

    for seed in range(100, 120):
        tabled, single = (
            simulate(
                random_scenario(
                    seed,
                    timer=each,
                    speculation=None,
                    blocks=None,
                    pass_tokens=0,
                    equal_passes=False,
                )  # what an engine adds to an iteration is counted for every pass by the call
            )
            for each in (tabled_timer, asked)
        )
        # sampled rows of prompts that do not end are counted by the call, which cannot know
        assert tabled.iterations == single.iterations
        np.testing.assert_allclose(tabled.clock_s, single.clock_s, rtol=1e-3)
