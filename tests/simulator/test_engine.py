"""Schedulers as their users know them: what each option buys and costs, limits, and input that is
refused."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.answers.workload import Limits
from hardware_profiles.errors import InfeasibleError, InputError
from simulator.engine import simulate
from simulator.loop.options import Disaggregation, Scenario, SchedulerOptions
from simulator.loop.request import Workload


def traffic(requests=80, span_s=10.0, seed=0, prompts=(200, 3000), outputs=(20, 80), **changes):
    rng = np.random.default_rng(seed)
    return Workload(
        arrival_s=np.sort(rng.uniform(0, span_s, requests)),
        prompt_tokens=rng.integers(*prompts, requests),
        output_tokens=rng.integers(*outputs, requests),
        **changes,
    )


def run(timer, workload=None, **options):
    scheduler = SchedulerOptions(**({"kv_blocks": 5000, "token_budget": 512} | options))
    return simulate(Scenario(workload=workload or traffic(), scheduler=scheduler, timer=timer))


def test_chunked_prefill_trades_first_tokens_for_smooth_ones(plain_timer):
    """SARATHI's effect: with chunks beside decodes waits between tokens stay short; prompts alone
    come first sooner."""
    mixed = run(plain_timer)
    first = run(plain_timer, prefill_first=True, token_budget=8192)
    assert mixed.finished.all() and first.finished.all()
    assert mixed.itl.percentile_s(99) < 0.7 * first.itl.percentile_s(99)
    assert np.nanmean(first.ttft_s) < np.nanmean(mixed.ttft_s)


def test_smaller_chunks_mean_shorter_waits_and_later_first_tokens(plain_timer):
    waits, firsts = [], []
    for budget in (128, 512, 2048):
        result = run(plain_timer, token_budget=budget)
        waits.append(result.itl.percentile_s(99))
        firsts.append(np.nanmean(result.ttft_s))
    assert waits == sorted(waits) and firsts == sorted(firsts, reverse=True)


def test_a_single_request_takes_exactly_its_iterations(plain_timer):
    workload = Workload(
        arrival_s=np.array([2.0]), prompt_tokens=np.array([100]), output_tokens=np.array([5])
    )
    result = run(plain_timer, workload, token_budget=64)
    first = 2.0 + plain_timer(0, 0.0, 0.0, [(64, 0)]) + plain_timer(0, 0.0, 0.0, [(36, 64)])
    assert result.first_token_s[0] == first
    assert result.last_token_s[0] == pytest.approx(
        first + sum(plain_timer(1, 1.0, 100.0 + i, []) for i in range(4))
    )
    assert result.scheduled_s[0] == result.arrival_s[0] == 2.0
    assert result.iterations == 6


def test_overlapped_scheduling_costs_a_late_request_one_iteration(plain_timer):
    workload = Workload(
        arrival_s=np.array([0.0, 0.05, 5.0]),
        prompt_tokens=np.full(3, 10),
        output_tokens=np.array([60, 5, 5]),
    )
    overlapped, at_once = (
        run(plain_timer, workload, overlapped_scheduling=each) for each in (True, False)
    )
    late = overlapped.scheduled_s - at_once.scheduled_s
    assert late[0] == late[2] == 0.0  # nothing was running when they came
    assert plain_timer(1, 1.0, 10.0, []) <= late[1] <= plain_timer(1, 1.0, 30.0, [])


def test_shared_prefixes_are_computed_once(plain_timer):
    ids = tuple(tuple(range(50)) for _ in range(10))
    workload = Workload(
        arrival_s=np.arange(10) * 1.0,
        prompt_tokens=np.full(10, 820),
        output_tokens=np.full(10, 3),
        prefix_ids=ids,
    )
    with_cache, without = (
        run(plain_timer, workload, prefix_cache=cache) for cache in (True, False)
    )
    assert with_cache.counters["prefix_hit_tokens"] == 9 * 800
    assert with_cache.counters["prompt_tokens_computed"] == 820 + 9 * 20
    assert without.counters["prompt_tokens_computed"] == 8200
    assert with_cache.ttft_s[1:].max() < 0.6 * without.ttft_s[1:].min()


def test_a_prompt_that_is_wholly_cached_still_computes_a_token(plain_timer):
    workload = Workload(
        arrival_s=np.arange(2) * 1.0,
        prompt_tokens=np.full(2, 32),
        output_tokens=np.full(2, 2),
        prefix_ids=((1, 2),) * 2,
    )
    result = run(plain_timer, workload, prefix_cache=True)
    assert result.counters["prefix_hit_tokens"] == 16 and result.finished.all()


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_a_tight_cache_preempts_and_everybody_finishes(plain_timer, preemption):
    workload = traffic(prompts=(30, 60), outputs=(100, 200), span_s=1.0)
    tight = run(plain_timer, workload, kv_blocks=60, preemption=preemption, swap_block_s=1e-4)
    roomy = run(plain_timer, workload)
    assert (
        tight.finished.all()
        and tight.counters["preemptions"] > 20
        and roomy.counters["preemptions"] == 0
    )
    extra = tight.counters["prompt_tokens_computed"] - roomy.counters["prompt_tokens_computed"]
    assert (extra > 0) == (preemption == "recompute")
    assert tight.clock_s > roomy.clock_s and tight.kv_peak_ratio > 0.95


def test_reserving_outputs_never_preempts(plain_timer):
    workload = traffic(prompts=(30, 60), outputs=(100, 200), span_s=1.0)
    result = run(plain_timer, workload, kv_blocks=60, reserve_ratio=1.0)
    assert result.finished.all() and result.counters["preemptions"] == 0


def test_priorities_go_first(plain_timer):
    workload = traffic(span_s=0.5, priority=np.arange(80) % 2)
    with_them, without = (
        run(plain_timer, workload, priorities=p, max_requests=4) for p in (True, False)
    )
    urgent = workload.priority == 0
    assert with_them.ttft_s[urgent].mean() < 0.7 * without.ttft_s[urgent].mean()
    assert with_them.ttft_s[~urgent].mean() > without.ttft_s[~urgent].mean()


def test_a_limit_on_waiting_sheds_load_and_keeps_the_rest_fast(plain_timer):
    workload = traffic(requests=300)
    shed, patient = (
        run(plain_timer, workload, slo_ttft_s=limit, max_requests=8) for limit in (1.0, None)
    )
    assert 0 < (shed.state == "rejected").sum() < 300
    assert patient.finished.all()
    assert np.nanmax(shed.queue_s) <= 1.0 < np.nanmax(patient.queue_s)
    limits = Limits(ttft_s=1.2)
    assert shed.goodput_per_s(limits) > patient.goodput_per_s(limits)


def test_a_limit_on_tokens_keeps_the_batch_small(plain_timer):
    workload = traffic(requests=60, span_s=1.0, prompts=(10, 50), outputs=(100, 200))
    limited, free = (run(plain_timer, workload, slo_tpot_s=limit) for limit in (0.0053, None))
    assert limited.finished.all()
    assert np.nanmean(limited.tpot_s) < np.nanmean(free.tpot_s)
    assert limited.series[0].running.max() < free.series[0].running.max()


def test_a_horizon_fails_what_is_left(plain_timer):
    result = run(plain_timer, horizon_s=4.0)
    states = result.state
    assert (states == "failed").any() and (states == "finished").any()
    assert np.all(result.last_token_s[states == "finished"] < 4.1)


def test_what_can_never_fit_is_rejected_and_the_rest_goes_on(plain_timer):
    workload = Workload(
        arrival_s=np.zeros(3),
        prompt_tokens=np.array([50, 5000, 50]),
        output_tokens=np.array([5, 5, 3000]),
    )
    result = run(plain_timer, workload, kv_blocks=100)
    assert result.state.tolist() == ["finished", "rejected", "rejected"]
    whole = run(plain_timer, workload, chunked_prefill=False, token_budget=1000, kv_blocks=1000)
    assert whole.state.tolist() == ["finished", "rejected", "finished"]
    assert np.isnan(result.last_token_s[1]) and result.summary()["rejected"] == 2


def test_only_what_cannot_fit_ends_at_once(plain_timer):
    workload = Workload(
        arrival_s=np.zeros(1), prompt_tokens=np.array([500]), output_tokens=np.array([5])
    )
    result = run(plain_timer, workload, kv_blocks=1)
    assert result.state.tolist() == ["rejected"] and result.iterations == 0
    assert result.summary()["tokens_per_s"] is None


def test_a_closed_loop_keeps_its_users_busy(plain_timer):
    workload = traffic(requests=40, span_s=0.0, users=4, think_s=0.5)
    result = run(plain_timer, workload)
    assert result.finished.all()
    order = np.sort(result.last_token_s)
    np.testing.assert_allclose(result.arrival_s[4:], order[:36] + 0.5)
    alive = [
        ((result.arrival_s <= t) & (result.last_token_s > t)).sum()
        for t in np.linspace(0, result.clock_s, 200)
    ]
    assert max(alive) == 4


def test_equal_seeds_give_equal_results(plain_timer, random_scenario):
    for seed in (3, 4, 5):
        one, other = (simulate(random_scenario(seed)) for _ in range(2))
        np.testing.assert_array_equal(one.last_token_s, other.last_token_s)


def test_progress_is_reported_and_never_goes_back(plain_timer):
    seen = []
    workload = traffic(requests=400, outputs=(100, 200))
    scenario = Scenario(
        workload=workload,
        scheduler=SchedulerOptions(kv_blocks=50_000, max_requests=8),
        timer=plain_timer,
        replicas=2,
        router="least-loaded",
    )
    simulate(scenario, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (400, 400) and [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_service_levels_that_nobody_can_meet_are_infeasible(plain_timer):
    with pytest.raises(InfeasibleError, match="one request alone"):
        run(plain_timer, slo_tpot_s=1e-4)
    with pytest.raises(InfeasibleError, match="smallest prompt"):
        run(plain_timer, slo_ttft_s=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kv_blocks": 0}, "kv_blocks"),
        ({"token_budget": 0}, "token_budget"),
        ({"max_requests": 0}, "max_requests"),
        ({"block_tokens": 0}, "block_tokens"),
        ({"watermark_ratio": 1.0}, "watermark_ratio"),
        ({"preemption": "kill"}, "recompute or swap"),
        ({"swap_block_s": -1.0}, "swap_block_s"),
        ({"slo_ttft_s": 0.0}, "slo_ttft_s"),
        ({"slo_tpot_s": float("nan")}, "slo_tpot_s"),
        ({"horizon_s": -1.0}, "horizon"),
    ],
)
def test_options_out_of_range_are_named(options, message):
    with pytest.raises(InputError, match=message):
        SchedulerOptions(**({"kv_blocks": 10} | options))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"arrival_s": np.zeros(0)}, "1.."),
        ({"arrival_s": np.array([1.0, 0.5])}, "sorted"),
        ({"arrival_s": np.array([0.0, np.inf])}, "finite"),
        ({"prompt_tokens": np.array([0, 1])}, "prompt_tokens"),
        ({"prompt_tokens": np.array([1])}, "2 whole"),
        ({"output_tokens": np.array([1.5, 2.0])}, "whole"),
        ({"priority": np.array([1])}, "priority"),
        ({"prefix_ids": ((1,),)}, "one tuple per request"),
        ({"users": 0}, "users"),
        ({"think_s": -1.0}, "think_s"),
        ({"prefix_block_tokens": 0}, "prefix_block_tokens"),
    ],
)
def test_workloads_that_make_no_sense_are_refused(columns, message):
    good = {
        "arrival_s": np.zeros(2),
        "prompt_tokens": np.array([1, 1]),
        "output_tokens": np.array([1, 1]),
    }
    with pytest.raises(InputError, match=message):
        Workload(**(good | columns))


def test_scenarios_that_make_no_sense_are_refused(plain_timer):
    good = Scenario(workload=traffic(), scheduler=SchedulerOptions(kv_blocks=10), timer=plain_timer)
    for changes, message in (({"replicas": 0}, "replicas"), ({"router": "ring"}, "one of")):
        with pytest.raises(InputError, match=message):
            replace(good, **changes)
    for changes in (
        {"prefill_replicas": 0},
        {"transfer_token_s": -1.0},
        {"transfer_latency_s": np.inf},
    ):
        with pytest.raises(InputError, match=next(iter(changes))):
            Disaggregation(**changes)
    ids = tuple((1,) for _ in range(80))
    uneven = replace(good.workload, prefix_ids=ids, prefix_block_tokens=24)
    with pytest.raises(InputError, match="24 tokens"):
        simulate(
            replace(
                good, workload=uneven, scheduler=SchedulerOptions(kv_blocks=10, prefix_cache=True)
            )
        )


def test_prompts_wait_for_company_a_few_iterations(plain_timer):
    workload = Workload(
        arrival_s=np.array([0.0, 0.05, 0.2]),
        prompt_tokens=np.full(3, 10),
        output_tokens=np.full(3, 60),
    )

    def scheduled(**changes):
        return run(plain_timer, workload, token_budget=100, **changes).scheduled_s

    at_once = scheduled()
    few, many = scheduled(wait_iterations=5), scheduled(wait_iterations=1000)
    step = plain_timer(1, 1.0, 10.0, [])
    assert few[0] == many[0] == at_once[0]  # nobody decoded
    assert 4 * step < few[1] - at_once[1] < 6.5 * step
    assert many[1] == many[2] > few[2]  # once the first has ended
    enough = scheduled(
        wait_iterations=1000, wait_ratio=0.2
    )  # 1 token of who decodes and two prompts of 10
    assert enough[1] == enough[2] == pytest.approx(at_once[2], abs=step)
    assert np.array_equal(scheduled(wait_iterations=1000, wait_ratio=0.1), at_once)


def test_the_scheduler_looks_for_requests_every_few_iterations(plain_timer):
    workload = Workload(
        arrival_s=np.array([0.0, 0.05]), prompt_tokens=np.full(2, 10), output_tokens=np.full(2, 60)
    )
    often, seldom = (
        run(plain_timer, workload, receive_iterations=each).scheduled_s for each in (1, 8)
    )
    assert seldom[0] == often[0]
    assert 0.0 < seldom[1] - often[1] < 8 * plain_timer(1, 1.0, 30.0, [])
