"""Processes around the engines: events against one run at a stretch, routers, prompts computed
apart."""

from dataclasses import replace

import numpy as np
import pytest

from hardware_profiles.errors import InputError
from simulator.engine import collect, simulate
from simulator.loop.options import Disaggregation, Scenario, SchedulerOptions
from simulator.loop.request import Workload
from tests.simulator.plain_service import Service

pytestmark = pytest.mark.heavy


def compared(scenario, rtol=1e-12):
    """A simulation, and the same with an event for every iteration of every replica."""
    direct, service = simulate(scenario), Service(scenario)
    service.run()
    events = collect(scenario, service.stages)
    assert direct.state.tolist() == events.state.tolist()
    assert direct.replica.tolist() == events.replica.tolist()
    for name in ("arrival_s", "scheduled_s", "first_token_s", "last_token_s"):
        np.testing.assert_allclose(
            getattr(direct, name), getattr(events, name), rtol=rtol, err_msg=name
        )
    assert direct.counters == events.counters
    assert direct.iterations == events.iterations
    return direct


def seeds(first, few, many):
    """Seeds of every suite, and those of the slow one."""
    more = (pytest.param(n, marks=pytest.mark.slow) for n in range(first + few, first + many))
    return pytest.mark.parametrize("seed", [*range(first, first + few), *more])


@seeds(300, 16, 40)
def test_an_event_per_iteration_changes_nothing(random_scenario, seed):
    scenario = random_scenario(seed)
    if seed % 2:
        workload = replace(scenario.workload, users=None)
        scenario = replace(scenario, replicas=3, workload=workload)
    compared(scenario)


@seeds(340, 8, 60)
@pytest.mark.parametrize("router", ["least-loaded", "prefix", "random"])
def test_replicas_that_are_asked_at_every_request_equal_an_event_per_iteration(
    random_scenario, tabled_timer, router, seed
):
    """By tables, in runs of iterations that are alike, and by timers that are asked."""
    routed = {"router": router, "replicas": 1 + seed % 5}
    if seed % 2:
        compared(random_scenario(seed, **routed))
        return
    plain = {"speculation": None, "blocks": None, "pass_tokens": 0, "equal_passes": False}
    scenario = random_scenario(seed, timer=tabled_timer, **plain, **routed)
    compared(replace(scenario, workload=replace(scenario.workload, users=None)))


@seeds(600, 8, 60)
@pytest.mark.parametrize("users", [None, 3])
def test_stages_that_feed_each_other_equal_an_event_per_iteration(random_scenario, seed, users):
    apart = Disaggregation(
        prefill_replicas=1 + seed % 3,
        transfer_token_s=1e-4,
        delivers="decode" if seed % 2 else "prefill",
    )
    scenario = random_scenario(
        seed, disaggregation=apart, replicas=2, router="least-loaded", blocks=None
    )
    times = np.random.default_rng(seed).exponential(0.01 * (seed % 3), scenario.workload.requests)
    workload = replace(scenario.workload, users=users, think_s=times)
    compared(replace(scenario, workload=workload))


@pytest.mark.parametrize("name", ["round-robin", "random", "least-loaded", "prefix"])
@pytest.mark.parametrize("users", [None, 5])
def test_every_request_ends_behind_every_router(random_scenario, name, users):
    for seed in range(400, 408):
        scenario = random_scenario(seed, router=name, replicas=3)
        scenario = replace(scenario, workload=replace(scenario.workload, users=users))
        result = simulate(scenario)
        assert set(result.state.tolist()) <= {"finished", "rejected", "failed"}
        assert result.scheduled_s[result.finished].size == result.finished.sum()
        assert np.all(result.arrival_s[result.finished] <= result.scheduled_s[result.finished])


def uneven(timer, **changes):
    """Long and short outputs in turn, which a round robin deals out badly."""
    output = np.where(np.arange(80) % 2 == 0, 200, 2)
    workload = Workload(
        arrival_s=np.arange(80) * 0.05, prompt_tokens=np.full(80, 20), output_tokens=output
    )
    options = SchedulerOptions(kv_blocks=2000, max_requests=4)
    return Scenario(workload=workload, scheduler=options, timer=timer, replicas=2, **changes)


def test_least_loaded_beats_round_robin_on_uneven_requests(plain_timer):
    dealt = simulate(uneven(plain_timer))
    chosen = simulate(uneven(plain_timer, router="least-loaded"))
    assert np.mean(chosen.ttft_s) < 0.7 * np.mean(dealt.ttft_s)
    assert set(np.unique(chosen.replica)) == {0, 1}


def test_a_router_goes_by_the_latest_report(plain_timer):
    # the first two take a replica each; the second has ended long before the third comes, which
    # only a router that has heard of it can know
    workload = Workload(
        arrival_s=np.array([0.0, 0.0, 5.0, 5.5, 10.5]),
        prompt_tokens=np.full(5, 20),
        output_tokens=np.array([5000, 2, 5000, 2, 2]),
    )
    scenario = Scenario(
        workload=workload,
        scheduler=SchedulerOptions(kv_blocks=2000),
        timer=plain_timer,
        replicas=2,
        router="least-loaded",
    )
    assert simulate(scenario).replica.tolist()[:3] == [0, 1, 1]
    assert simulate(replace(scenario, report_s=4.0)).replica.tolist()[:3] == [0, 1, 1]
    # without a report both hold one request
    assert simulate(replace(scenario, report_s=100.0)).replica.tolist()[:3] == [0, 1, 0]
    with pytest.raises(InputError, match="report_s"):
        replace(scenario, report_s=-1.0)


@pytest.mark.parametrize("router", ["least-loaded", "prefix"])
def test_reports_without_pause_change_little(random_scenario, tabled_timer, router):
    for seed in range(440, 446):
        scenario = random_scenario(seed, timer=tabled_timer, router=router, replicas=3)
        scenario = replace(scenario, workload=replace(scenario.workload, users=None))
        reported = simulate(replace(scenario, report_s=1e-9))
        np.testing.assert_array_equal(reported.replica, simulate(scenario).replica)


def test_replicas_on_all_cores_equal_one_after_the_other(tabled_timer, monkeypatch):
    from simulator.cluster import stage

    rng = np.random.default_rng(2)
    workload = Workload(
        arrival_s=np.sort(rng.uniform(0, 9, 200)),
        prompt_tokens=rng.integers(1, 300, 200),
        output_tokens=rng.integers(1, 90, 200),
    )
    scenario = Scenario(
        workload=workload,
        scheduler=SchedulerOptions(kv_blocks=900),
        timer=tabled_timer,
        replicas=5,
    )
    one = simulate(scenario)
    monkeypatch.setattr(stage, "_SHARED_OUT", 1)
    monkeypatch.setattr(stage, "_cores", lambda: 3)
    other = simulate(scenario)
    for name in ("replica", "scheduled_s", "last_token_s", "iterations_by_rows"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert (one.clock_s, one.busy_s, one.itl.total_s) == (
        other.clock_s,
        other.busy_s,
        other.itl.total_s,
    )


def test_the_prefix_router_finds_what_round_robin_scatters(plain_timer):
    rng = np.random.default_rng(5)
    group = rng.integers(0, 6, 90)
    ids = tuple(tuple(int(g) * 100 + i for i in range(12)) for g in group)
    workload = Workload(
        arrival_s=np.arange(90) * 0.02,
        prompt_tokens=np.full(90, 200),
        output_tokens=np.full(90, 5),
        prefix_ids=ids,
    )
    options = SchedulerOptions(kv_blocks=40, prefix_cache=True, max_requests=2)
    hits = {}
    for name in ("round-robin", "prefix"):
        scenario = Scenario(
            workload=workload, scheduler=options, timer=plain_timer, replicas=3, router=name
        )
        hits[name] = simulate(scenario).counters["prefix_hit_tokens"]
    assert hits["prefix"] > 1.5 * hits["round-robin"]


def test_a_transfer_stands_between_first_and_second_token(plain_timer):
    workload = Workload(
        arrival_s=np.zeros(1), prompt_tokens=np.array([100]), output_tokens=np.array([4])
    )
    apart = Disaggregation(transfer_token_s=1e-3, transfer_latency_s=0.02)
    scenario = Scenario(
        workload=workload,
        scheduler=SchedulerOptions(kv_blocks=50),
        timer=plain_timer,
        disaggregation=apart,
    )
    result = simulate(scenario)
    steps = [plain_timer(1, 1.0, float(100 + i), []) for i in range(3)]
    assert result.first_token_s[0] == plain_timer(0, 0.0, 0.0, [(100, 0)])
    np.testing.assert_allclose(
        result.last_token_s[0], result.first_token_s[0] + 0.12 + sum(steps), rtol=1e-12
    )
    assert result.itl.count == 3
    np.testing.assert_allclose(result.itl.total_s, 0.12 + sum(steps), rtol=1e-12)


def test_disaggregated_decoding_is_not_held_up_by_prompts(plain_timer):
    rng = np.random.default_rng(3)
    workload = Workload(
        arrival_s=np.sort(rng.uniform(0, 5, 60)),
        prompt_tokens=rng.integers(500, 3000, 60),
        output_tokens=rng.integers(20, 60, 60),
    )
    options = SchedulerOptions(kv_blocks=4000, prefill_first=True)
    together = simulate(
        Scenario(workload=workload, scheduler=options, timer=plain_timer, replicas=2)
    )
    apart = simulate(
        Scenario(
            workload=workload, scheduler=options, timer=plain_timer, disaggregation=Disaggregation()
        )
    )
    assert apart.finished.all() and together.finished.all()
    assert apart.summary()["itl_s"]["p99"] < 0.5 * together.summary()["itl_s"]["p99"]
    assert apart.replicas == together.replicas == 2


@pytest.mark.parametrize(
    "seed", [*range(500, 510), *(pytest.param(n, marks=pytest.mark.slow) for n in range(510, 530))]
)
def test_every_request_ends_where_stages_are_disaggregated(random_scenario, seed):
    apart = Disaggregation(prefill_replicas=2, transfer_token_s=1e-4)
    result = simulate(
        random_scenario(seed, disaggregation=apart, replicas=2, router="least-loaded")
    )
    assert set(result.state.tolist()) <= {"finished", "rejected", "failed"}
    done = result.finished
    assert np.all(result.first_token_s[done] <= result.last_token_s[done])
    assert np.all(np.isfinite(result.first_token_s[done]))


def test_a_timer_that_answers_nonsense_is_refused():
    workload = Workload(
        arrival_s=np.zeros(1), prompt_tokens=np.array([1]), output_tokens=np.array([1])
    )
    with pytest.raises(InputError, match="positive, finite"):
        simulate(
            Scenario(
                workload=workload,
                scheduler=SchedulerOptions(kv_blocks=9),
                timer=lambda *args: float("nan"),
            )
        )
