"""llama.cpp's server, simulated with every slot busy, against its law: one step of the cost model
after the other."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from costmodel.answers.settings import build_setting
from costmodel.answers.steps.step import chain_step
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import drawn_recording
from costmodel.laws.acceptance.stated import DepthRates
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import Workload
from simulator.timing.cost_timer import CostModelDraft, CostModelTimer

PROMPT, OUTPUT = 300, 65


def setting_of(method="plain-decoding", draft_model=None):
    names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="llama.cpp")
    return build_setting(
        DecodingConfiguration(method=method, draft_model=draft_model, deployment=names)
    )


def served(setting, slots, requests, speculation=None, output=OUTPUT):
    workload = Workload(
        arrival_s=np.zeros(requests),
        prompt_tokens=np.full(requests, PROMPT),
        output_tokens=np.full(requests, output),
        users=slots,
    )
    engine = setting.engine
    started = replace(engine.scheduling, max_requests=slots)
    scheduler = SchedulerOptions(
        **asdict(started), block_tokens=engine.memory.block_tokens, kv_blocks=1 << 20
    )
    result = simulate(
        Scenario(
            workload=workload,
            scheduler=scheduler,
            timer=CostModelTimer(setting),
            speculation=speculation,
        )
    )
    assert result.finished.all()
    assert result.counters["prompt_tokens_computed"] == requests * PROMPT
    assert result.counters["emitted"] == requests * (output - 1)
    return result


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_busy_slots_take_a_step_of_the_law_for_every_token(slots):
    setting = setting_of()
    step = chain_step(
        setting.deployment,
        setting.drafter,
        setting.plain_overhead,
        batch=slots,
        context=PROMPT + OUTPUT / 2,
        draft_tokens=0,
    )
    result = served(setting, slots, slots)
    assert result.tpot_s.mean() == pytest.approx(float(step.total_s), rel=0.01)


def test_a_slot_that_drafts_takes_a_step_of_the_law_for_every_emitted_run():
    setting, k = setting_of("speculative-decoding", "llama-3.2-1b"), 3
    rates = DepthRates(by_depth=(0.8, 0.5, 0.3))
    trace = drawn_recording(rates, k, generator=np.random.default_rng(0))
    plan = SpeculationOptions(topology=k, trace=trace, draft=CostModelDraft(setting))
    result = served(setting, 1, 30, plan, output=400)
    step = chain_step(
        setting.deployment,
        setting.drafter,
        setting.overhead,
        batch=1,
        context=PROMPT + 200,
        draft_tokens=k,
    )
    steps = result.counters["steps"] / 30
    decoding_s = (result.last_token_s - result.first_token_s).mean()
    assert decoding_s == pytest.approx(
        steps * float(step.total_s), rel=0.02
    )  # but for the last, shorter drafts


def test_accepted_tokens_take_the_time_that_the_engine_states_of_each():
    setting, accepted_s, requests = setting_of("speculative-decoding", "llama-3.2-1b"), 1e-4, 20
    rates = DepthRates(by_depth=(0.8, 0.5, 0.3))
    trace = drawn_recording(rates, 3, generator=np.random.default_rng(1))
    charged = replace(setting, overhead=replace(setting.overhead, accepted_s=accepted_s))
    free, paid = (
        served(
            each,
            1,
            requests,
            SpeculationOptions(topology=3, trace=trace, draft=CostModelDraft(each)),
        )
        for each in (setting, charged)
    )
    accepted = paid.counters["accepted"]
    assert accepted == free.counters["accepted"] > 0
    more_s = float(
        (paid.last_token_s - paid.first_token_s).sum()
        - (free.last_token_s - free.first_token_s).sum()
    )
    # those of a request's last step come after its last token
    assert accepted_s * (accepted - 3 * requests) <= more_s + 1e-9 <= accepted_s * accepted + 2e-9
