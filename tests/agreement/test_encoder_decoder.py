"""Encoder-decoders in event simulations against the cost model: steps at a steady batch, and
prompts that are alone."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.answers.estimate import estimate, prefill_s, reading
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.claims import rate_claim
from costmodel.method_library import load_method
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import Workload
from simulator.timing.cost_timer import CostModelDraft, CostModelTimer
from traces.kinds.acceptance import AcceptanceTrace

PROMPT, OUTPUT, K = 500, 240, 4
SCHEDULER = SchedulerOptions(
    kv_blocks=100_000, token_budget=100_000, chunked_prefill=False, prefix_cache=False
)


def setting_of(model, engine="vllm", **chosen):
    where = DeploymentNames(model=model, device="h100-sxm", engine=engine)
    return reading(build_setting(DecodingConfiguration(deployment=where, **chosen)), PROMPT)


def run(setting, batch, speculation=None, arrival_s=None, prompt=PROMPT):
    work = Workload(
        arrival_s=np.zeros(batch) if arrival_s is None else arrival_s,
        prompt_tokens=np.full(batch, prompt),
        output_tokens=np.full(batch, OUTPUT),
    )
    scenario = Scenario(
        workload=work, scheduler=SCHEDULER, timer=CostModelTimer(setting), speculation=speculation
    )
    return simulate(scenario)


def recorded(accepts, tokens=4000):
    emitted = (
        np.minimum(np.arange(tokens, 0, -1), 4096) if accepts else np.ones(tokens, dtype=np.int64)
    )
    return AcceptanceTrace(offsets=np.array([0, tokens]), emitted=emitted)


def step_s(result):
    return (result.clock_s - result.first_token_s[0]) / (result.iterations - 1)


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("model", ["t5-xxl", "t5-v1.1-large"])
def test_plain_steps_cost_what_the_estimate_says(model, batch):
    setting, plain = setting_of(model, method="plain-decoding"), load_method("plain-decoding")
    price = estimate(
        setting, rate_claim(plain, 0.0, 0), batch=float(batch), context=PROMPT + OUTPUT / 2.0
    )
    assert step_s(run(setting, batch)) == pytest.approx(float(price.step_s), rel=0.02)


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("accepts", [False, True])
def test_steps_with_a_draft_model_cost_what_the_estimate_says(accepts, batch):
    setting = setting_of("t5-xxl", method="speculative-decoding", draft_model="t5-v1.1-small")
    options = SpeculationOptions(topology=K, trace=recorded(accepts), draft=CostModelDraft(setting))
    claim = rate_claim(load_method("speculative-decoding"), float(accepts), K)
    price = estimate(setting, claim, batch=float(batch), context=PROMPT + OUTPUT / 2.0)
    assert step_s(run(setting, batch, options)) == pytest.approx(float(price.step_s), rel=0.02)


@pytest.mark.parametrize("slug", ["canary", "encoder-decoder-slms", "ffn-fusion"])
def test_steps_of_rearranged_targets_cost_what_the_estimate_says(slug):
    setting = setting_of("llama-3.1-8b", method=slug)
    price = estimate(
        setting, rate_claim(load_method(slug), 0.0, 0), batch=8.0, context=PROMPT + OUTPUT / 2.0
    )
    assert step_s(run(setting, 8)) == pytest.approx(float(price.step_s), rel=0.02)


@pytest.mark.parametrize("prompt", [64, 500, 3000])
def test_a_prompt_alone_takes_what_the_estimate_says(prompt):
    """The first token comes when the encoder has read everything and the decoder has run once."""
    setting = setting_of("t5-xxl", "none", method="plain-decoding")
    result = run(setting, 3, arrival_s=np.array([0.0, 1e3, 2e3]), prompt=prompt)
    waited = float(np.mean(result.first_token_s - result.arrival_s))
    assert waited == pytest.approx(
        float(prefill_s(setting, prompt_tokens=prompt, drafts=False)), rel=0.02
    )


def test_prompts_and_decoding_tokens_share_no_rows():
    """Beside a prompt a decoding request waits for the encoder, and for no more rows of the decoder
    than there are."""
    setting = setting_of("t5-xxl", "none", method="plain-decoding")
    timer = CostModelTimer(setting)
    alone, beside, only = (
        timer(8, 1.0, 8.0 * 600, ()),
        timer(8, 1.0, 8.0 * 600, ((500, 0),)),
        timer(0, 1.0, 0.0, ((500, 0),)),
    )
    assert alone < beside < alone + only
    stack = replace(
        setting, deployment=replace(setting.deployment, architecture=setting.target.without_encoder)
    )
    assert CostModelTimer(stack)(8, 1.0, 8.0 * 600, ()) < alone
