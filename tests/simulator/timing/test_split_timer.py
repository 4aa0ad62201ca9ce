"""Attention and feed-forward layers apart: tables against calls, bounds, and a simulation."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.answers.estimate import Setting
from costmodel.architectures.library import load_model
from costmodel.drafters.drafter import build_drafter
from costmodel.engine_library import load_engine
from costmodel.method_library import load_method
from costmodel.parallel.plan import Link
from costmodel.passes.deployment import Deployment
from costmodel.passes.forward import pass_cost
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from simulator.engine import simulate
from simulator.loop.options import Disaggregation, Scenario, SchedulerOptions
from simulator.loop.request import Workload
from simulator.timing.cost_timer import CostModelTimer, TabledTimer
from simulator.timing.split_timer import SplitTimer

pytestmark = pytest.mark.heavy

FAST = Link(bytes_per_s=400e9, latency_s=2e-6)


@pytest.fixture(scope="module", params=["llama-3.1-8b", "qwen3-30b-a3b"])
def setting(request):
    target = load_model(request.param)
    deployment = Deployment(
        architecture=target, device=load_device("h100-sxm"), precision=Precision()
    )
    none = load_engine("vllm").overhead("none")
    drafter = build_drafter(load_method("plain-decoding"), target)
    return Setting(deployment=deployment, drafter=drafter, overhead=none, plain_overhead=none)


def test_one_micro_batch_over_a_perfect_link_costs_the_pass(setting):
    perfect = Link(bytes_per_s=1e18, latency_s=0.0)
    split = SplitTimer(setting, setting.deployment, perfect, micro_batches=1)
    exact = pass_cost(
        setting.deployment, batch=16.0, query_tokens=1.0, context=2048.0, logits="none"
    ).total_s
    assert float(split.layers_s(np.array(16.0), np.array(1.0), np.array(2048.0))) == pytest.approx(
        float(exact)
    )
    assert split(16, 1.0, 16 * 2048.0, []) == pytest.approx(
        CostModelTimer(setting)(16, 1.0, 16 * 2048.0, []), rel=1e-6
    )


def test_micro_batches_hide_one_side_and_links_cost(setting):
    def step(link, micro_batches):
        timer = SplitTimer(setting, setting.deployment, link, micro_batches=micro_batches)
        return float(timer.layers_s(np.array(512.0), np.array(1.0), np.array(8192.0)))

    slow = Link(bytes_per_s=10e9, latency_s=50e-6)
    assert step(slow, 1) > step(FAST, 1)
    # both sides work at once: better than in turns, and not better than twice
    assert 0.5 * step(FAST, 1) < step(FAST, 3) < 1.6 * step(FAST, 1)
    # with others under way the link is waited for less, here not at all
    assert step(slow, 3) - step(FAST, 3) < 0.1 * (step(slow, 1) - step(FAST, 1))


def test_fewer_requests_than_micro_batches_still_run(setting):
    timer = SplitTimer(setting, setting.deployment, FAST)
    times = timer.layers_s(np.array([1.0, 2.0, 3.0]), np.array(1.0), np.array(512.0))
    assert np.all(times > 0) and np.all(np.isfinite(times))


def test_more_copies_share_the_cache(setting):
    long = np.array(32768.0)
    one, four = (
        SplitTimer(setting, setting.deployment, FAST, copies=n, micro_batches=1).layers_s(
            np.array(64.0), np.array(1.0), long
        )
        for n in (1, 4)
    )
    assert 0.2 * one < four < one


def test_a_simulation_runs_on_tables_that_say_what_calls_say(setting):
    timer = SplitTimer(setting, setting.deployment, FAST, copies=2)
    assert isinstance(timer, TabledTimer)
    rng = np.random.default_rng(0)
    workload = Workload(
        arrival_s=np.sort(rng.uniform(0, 1, 40)),
        prompt_tokens=rng.integers(50, 400, 40),
        output_tokens=rng.integers(20, 100, 40),
    )
    scenario = Scenario(
        workload=workload,
        scheduler=SchedulerOptions(kv_blocks=4000, max_requests=32),
        timer=timer,
        disaggregation=Disaggregation(prefill_timer=CostModelTimer(setting), transfer_token_s=1e-6),
    )
    tabled = simulate(scenario)
    asked = simulate(replace(scenario, timer=timer.__call__))
    assert tabled.finished.all() and asked.finished.all()
    assert np.nanmean(tabled.tpot_s) == pytest.approx(np.nanmean(asked.tpot_s), rel=0.01)


def test_two_models_or_no_copies_are_refused(setting):
    other = replace(setting.deployment, architecture=load_model("llama-3.2-1b"))
    with pytest.raises(InputError, match="attention side's model"):
        SplitTimer(setting, other, FAST)
    with pytest.raises(InputError, match="copies"):
        SplitTimer(setting, setting.deployment, FAST, copies=0)
