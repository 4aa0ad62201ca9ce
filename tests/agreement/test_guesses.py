"""Guesses of a pool that ride beside a window: event simulations against the law of the longest and
its price."""

import numpy as np
import pytest

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import DepthRates, drawn_recording
from costmodel.laws.claims import rate_claim, step_rates
from costmodel.method_library import load_method
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import Workload
from simulator.timing.cost_timer import CostModelDraft, CostModelTimer

PROMPT, OUTPUT, K = 500, 5000, 4


@pytest.mark.parametrize("users", [1, 16])
@pytest.mark.parametrize("proposing", [1.0, 0.4])
def test_simulated_guesses_emit_and_take_what_their_law_says(users, proposing):
    lookahead = load_method("lookahead")
    names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="vllm")
    setting = build_setting(DecodingConfiguration(method="lookahead", deployment=names))
    rates = DepthRates(by_depth=(0.2,), proposal_ratio=proposing)
    law = rate_claim(lookahead, rates, K)
    trace = drawn_recording(step_rates(lookahead, rates, K), K, generator=np.random.default_rng(2))
    work = Workload(
        arrival_s=np.zeros(users),
        prompt_tokens=np.full(users, PROMPT),
        output_tokens=np.full(users, OUTPUT),
    )
    options = SpeculationOptions(topology=K, trace=trace, draft=CostModelDraft(setting))
    scheduler = SchedulerOptions(kv_blocks=100_000, token_budget=100_000)
    scenario = Scenario(
        workload=work, scheduler=scheduler, timer=CostModelTimer(setting), speculation=options
    )
    result = simulate(scenario)
    assert result.tokens_per_step == pytest.approx(law.tokens_per_step, rel=0.02)
    price = estimate(setting, law, batch=float(users), context=PROMPT + OUTPUT / 2.0)
    assert result.busy_s / result.iterations == pytest.approx(float(price.step_s), rel=0.02)
