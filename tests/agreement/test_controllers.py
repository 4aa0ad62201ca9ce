"""Drafts that end early and controllers of draft lengths: event simulations against their laws on
one recording."""

from functools import cache

import numpy as np
import pytest

from costmodel.answers.settings import build_setting
from costmodel.answers.verify_widths import verify_seconds
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import accepted_by, accepted_shares, law_for
from costmodel.laws.controllers import cost_chain, ema_chain, goodput_chain
from costmodel.laws.drafting import stopped_chain
from costmodel.method import Batch, Stop
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import Workload
from simulator.timing.cost_timer import CostModelDraft, CostModelTimer
from tests.traces.confident_texts import confident_text
from traces.library import read_trace, trace_file
from traces.replay.calibration import calibrated

USERS, OUTPUT, K = 8, 6000, 6


@cache
def text():
    return confident_text([0.35, 0.6, 0.9, 0.97], stretch=8, positions=40_000)


def step_s(requests, query_tokens, context, prefill, longest=0.0):
    return (1e-2 if requests or prefill else 0.0) + 1e-4 * (
        requests * query_tokens + sum(new for new, _ in prefill)
    )


@cache
def drafting(each_s):
    def draft(requests, draft_tokens, context, prefill_tokens):
        return each_s * draft_tokens if draft_tokens else 0.0

    return draft


def simulated(timer=step_s, draft=None, **options):
    work = Workload(
        arrival_s=np.zeros(USERS),
        prompt_tokens=np.full(USERS, 4),
        output_tokens=np.full(USERS, OUTPUT),
    )
    speculation = SpeculationOptions(
        topology=K, trace=text(), draft=draft or drafting(1e-3), **options
    )
    scheduler = SchedulerOptions(kv_blocks=100_000)
    scenario = Scenario(workload=work, scheduler=scheduler, timer=timer, speculation=speculation)
    result = simulate(scenario)
    return result.tokens_per_step, result.counters["drafted"] / result.counters["steps"]


@pytest.mark.parametrize(
    ("rule", "unlikely"), [("probability", 0), ("probability", 1), ("product", 0)]
)
@pytest.mark.parametrize(("at", "least"), [(0.5, 0), (0.8, 1), (0.3, 2)])
def test_drafts_end_early_as_in_the_simulator(rule, unlikely, at, least):
    stop = Stop(rule=rule, at=at, least_tokens=least, unlikely_tokens=unlikely)
    tokens, drafted = simulated(stop=stop)
    law = stopped_chain(text(), K, stop, None)
    assert tokens == pytest.approx(law.tokens_per_step, rel=0.03)
    assert drafted == pytest.approx(law.lengths.mean_tokens, rel=0.04)


@pytest.mark.parametrize("weight", [0.1, 0.5, 1.0])
def test_the_moving_average_is_that_of_the_simulator(weight):
    tokens, drafted = simulated(stop=Stop(rule="ema"), ema_weight=weight)
    law = ema_chain(text(), K, Stop(rule="ema", at=weight), None)
    assert tokens == pytest.approx(law.tokens_per_step, rel=0.03)
    assert drafted == pytest.approx(law.lengths.mean_tokens, rel=0.03)


@pytest.mark.parametrize(
    ("method", "device"), [("eagle-3", "h100-sxm"), ("medusa", "h100-sxm"), ("mtp", "l4")]
)
def test_goodput_is_that_of_the_simulator(method, device):
    deployment = DeploymentNames(model="llama-3.1-8b", device=device)
    setting = build_setting(DecodingConfiguration(method=method, deployment=deployment))
    timer, draft = CostModelTimer(setting), CostModelDraft(setting)
    tokens, drafted = simulated(timer, draft, stop=Stop(rule="goodput"))
    context = USERS * OUTPUT / 2.0  # on average over the run
    seconds = np.array(
        [timer(USERS, 1.0 + k, context, []) + draft(USERS, k, context, 0) for k in range(K + 1)]
    )
    law = goodput_chain(
        text(), K, Stop(rule="goodput", least_tokens=0), None, seconds=seconds, batch=USERS
    )
    assert tokens == pytest.approx(law.tokens_per_step, rel=0.03)
    assert drafted == pytest.approx(law.lengths.mean_tokens, rel=0.05)
    assert law.lengths.shared and law.draft_tokens == K


@pytest.mark.parametrize("weight", [0.0, 0.05])
@pytest.mark.parametrize(("method", "device"), [("eagle-3", "h100-sxm"), ("medusa", "l4")])
def test_verification_that_pays_is_that_of_the_simulator(method, device, weight):
    deployment = DeploymentNames(model="llama-3.1-8b", device=device)
    setting = build_setting(DecodingConfiguration(method=method, deployment=deployment))
    timer, draft = CostModelTimer(setting), CostModelDraft(setting)
    stop = Stop(rule="cost", at=weight)
    tokens, verified = simulated(timer, draft, stop=stop)
    context = USERS * OUTPUT / 2.0  # on average over the run
    seconds = np.array(
        [
            timer(USERS, 1.0 + n / USERS, context, []) + draft(USERS, K, context, 0)
            for n in range(USERS * K + 1)
        ]
    )
    law = cost_chain(
        text(), K, stop, None, seconds=seconds, batch=USERS, calibration=calibrated(text())
    )
    assert 0.5 < law.lengths.mean_tokens < K - 0.5, "neither all nor nothing is verified"
    assert tokens == pytest.approx(law.tokens_per_step, rel=0.03)
    assert verified == pytest.approx(law.lengths.mean_tokens, rel=0.05)


def test_the_seconds_of_a_width_are_those_of_the_simulator():
    deployment = DeploymentNames(model="llama-3.1-8b", device="h100-sxm")
    setting = build_setting(DecodingConfiguration(method="eagle-3", deployment=deployment))
    timer, draft = CostModelTimer(setting), CostModelDraft(setting)
    for batch in (1, 8, 64):
        seconds = verify_seconds(setting, K, batch=batch, context=1024.0)
        drafting = draft(batch, K, 1024.0 * batch, 0)
        some = [batch, batch * K // 2, batch * K]
        ran = [timer(batch, 1.0 + n / batch, 1024.0 * batch, []) for n in some]
        assert seconds[some] == pytest.approx(np.array(ran) + drafting, rel=0.02)


@pytest.mark.parametrize("stop", [Stop(rule="cost"), Stop()])
def test_batches_that_choose_walk_along_drafts_that_are_drawn(stop):
    """By the rejection test; a batch with a budget (TETRIS) too."""
    trace = read_trace(trace_file("level-3/smollm2-135m--draft-model--t0.8"))
    rejecting = law_for(trace, "token_rejection", [K])
    assert not rejecting.by_matching
    batch = Batch() if stop.rule == "cost" else Batch(slots="likeliest", budget_per_request=K)
    deployment = DeploymentNames(model="llama-3.1-8b", device="l4")
    setting = build_setting(DecodingConfiguration(method="medusa", deployment=deployment))
    timer, draft = CostModelTimer(setting), CostModelDraft(setting)
    work = Workload(
        arrival_s=np.zeros(USERS),
        prompt_tokens=np.full(USERS, 4),
        output_tokens=np.full(USERS, OUTPUT // 3),
    )
    speculation = SpeculationOptions(
        topology=K, trace=trace, draft=draft, stop=stop, law=rejecting, batch=batch
    )
    scheduler = SchedulerOptions(kv_blocks=100_000)
    scenario = Scenario(workload=work, scheduler=scheduler, timer=timer, speculation=speculation)
    result = simulate(scenario)
    if stop.rule == "length":  # a budget for everybody
        law = accepted_by(trace, rejecting, K, None)
    else:
        context = USERS * OUTPUT / 6.0  # on average over the run
        seconds = np.array(
            [
                timer(USERS, 1.0 + n / USERS, context, []) + draft(USERS, K, context, 0)
                for n in range(USERS * K + 1)
            ]
        )
        law = cost_chain(
            trace,
            K,
            stop,
            None,
            seconds=seconds,
            batch=USERS,
            calibration=calibrated(trace, accepted_shares(trace, rejecting)),
            law=rejecting,
        )
        verified = result.counters["drafted"] / result.counters["steps"]
        assert verified == pytest.approx(law.lengths.mean_tokens, rel=0.05)
    assert result.tokens_per_step == pytest.approx(law.tokens_per_step, rel=0.04)
