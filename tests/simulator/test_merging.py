"""Runs of iterations that are alike, advanced together, against one by one."""

import numpy as np
import pytest

from simulator.engine import simulate
from simulator.request import Workload
from simulator.scenario import Scenario, SchedulerOptions
from simulator.tables import Tables, target_seconds


class Tabled:
    """A timer with tables: rows, and a cache read whose time bends with context."""

    def __init__(self):
        axis, context = np.array([1.0, 2.0, 100.0]), np.arange(40.0)
        grid = 1e-5 * axis[None, :, None] * np.sqrt(1.0 + context)[None, None, :] * np.array([1.0, 1.5])[:, None, None]
        below = np.clip(np.searchsorted(axis, np.arange(101), side="right") - 1, 0, 1).astype(np.int32)
        self.made = Tables(
            row_s=4e-3 + 1e-5 * np.arange(3.0), head_s=1e-6 * np.arange(3.0), attention_s=grid,
            together_s=np.zeros((2, 3)), query_axis=np.array([1.0, 6.0]), query_below=np.zeros(7, np.int32),
            request_axis=axis, request_below=below, context_step=16.0, prompt_s=1e-5 * np.arange(3.0) ** 2,
            reread_s=1e-7 * np.arange(3.0), prompt_step=64.0, prompt_launch_s=1e-5, step_s=1e-4, token_s=1e-7,
            speculative_step_s=1e-4, speculative_token_s=0.0, verify_ratio=0.01, draft_s=grid / 3,
            draft_row_s=np.zeros(2),
        )  # fmt: skip

    def tables(self, size, *, drafts):
        return self.made

    def __call__(self, decode_requests, query_tokens, decode_context_tokens, prefill, longest_context=0.0):
        chunks = np.ascontiguousarray(np.asarray(prefill, dtype=np.int32).reshape(-1, 2).T)
        count = chunks.shape[1]
        return target_seconds(self.made, decode_requests, query_tokens, decode_context_tokens, chunks, count, count)


def same(a, b):
    for name in ("arrival_s", "scheduled_s", "first_token_s", "last_token_s", "ending", "steps_by_batch"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    np.testing.assert_array_equal(a.itl.counts, b.itl.counts)
    assert (a.iterations, a.clock_s, a.busy_s, a.itl.total_s, a.kv_peak_ratio, a.counters) == (
        b.iterations, b.clock_s, b.busy_s, b.itl.total_s, b.kv_peak_ratio, b.counters
    )  # fmt: skip
    for one, other in zip(a.series, b.series, strict=True):
        for name in ("t_s", "running", "waiting", "kv_used_ratio"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("seed", range(60))
def test_merged_runs_equal_single_steps_to_the_last_bit(random_scenario, seed):
    timer = Tabled()
    merged, single = (
        simulate(random_scenario(seed, timer=timer, speculation=None, blocks=None, merge=merge))
        for merge in (True, False)
    )
    same(merged, single)


def test_long_runs_are_merged_and_equal():
    rng = np.random.default_rng(0)
    workload = Workload(
        arrival_s=np.sort(rng.uniform(0, 400, 60)), prompt_tokens=rng.integers(1, 300, 60),
        output_tokens=rng.integers(500, 3000, 60),
    )  # fmt: skip
    options = SchedulerOptions(kv_blocks=3000, max_requests=16, prefix_cache=True)
    made = [
        simulate(Scenario(workload=workload, scheduler=options, timer=Tabled(), merge=merge)) for merge in (True, False)
    ]
    same(*made)
    assert made[0].iterations > 4096  # the series has been thinned at least once


def test_a_tabled_timer_and_its_answers_one_by_one_agree(random_scenario):
    timer = Tabled()

    def asked(*args):
        return timer(*args)

    for seed in range(100, 120):
        tabled, single = (
            simulate(random_scenario(seed, timer=each, speculation=None, blocks=None)) for each in (timer, asked)
        )
        # sampled rows of prompts that do not end are counted by the call, which cannot know
        assert tabled.iterations == single.iterations
        np.testing.assert_allclose(tabled.clock_s, single.clock_s, rtol=1e-3)
