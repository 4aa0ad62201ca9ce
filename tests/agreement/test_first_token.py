"""The law of the first token and of the time per token under a load agrees with simulations of that
load."""

import numpy as np
import pytest

from app.answers.simulations.runs import prepared_of
from costmodel.answers.capacity import plan
from costmodel.answers.estimate import chunked_prefill_s, mixed_prefill_s
from costmodel.answers.replicas import replica_curve
from costmodel.answers.settings import build_setting
from costmodel.answers.workload import Limits, load_of_means
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions
from simulator.loop.request import Workload
from simulator.results.steady import steady_summary
from simulator.scenario.file import checked_scenario
from simulator.timing.cost_timer import CostModelTimer

pytestmark = pytest.mark.heavy

REQUESTS = 2500
CASES = [
    # model, device, engine, devices, prompt, output, requests per second, draft tokens
    ("llama-3.1-8b", "h100-sxm", "vllm", 1, 1024, 256, 0.5, 0),
    ("llama-3.1-8b", "h100-sxm", "vllm", 1, 1024, 256, 5.0, 0),
    ("llama-3.1-8b", "h100-sxm", "vllm", 1, 1024, 256, 10.0, 0),
    ("llama-3.1-8b", "h100-sxm", "vllm", 1, 1024, 256, 15.0, 0),
    ("llama-3.1-8b", "h100-sxm", "vllm", 1, 1024, 256, 17.0, 0),
    ("llama-3.1-8b", "h100-sxm", "vllm", 1, 256, 512, 12.0, 0),
    ("llama-3.1-8b", "l4", "vllm", 1, 512, 128, 1.0, 0),
    ("llama-3.3-70b", "h100-sxm", "vllm", 4, 2000, 200, 2.0, 0),
    ("llama-3.1-8b", "h100-sxm", "sglang", 1, 1024, 256, 5.0, 0),
    ("llama-3.1-8b", "h100-sxm", "vllm", 1, 512, 128, 10.0, 3),
    ("llama-3.1-8b", "h100-sxm", "vllm", 1, 512, 128, 30.0, 3),
]


@pytest.mark.parametrize(
    ("model", "device", "engine", "devices", "prompt", "output", "rate", "drafted"), CASES
)
def test_times_under_a_load_are_those_of_a_simulation(
    model, device, engine, devices, prompt, output, rate, drafted
):
    """Within 10 % of the mean to the first token and 5 % of the means per token and of whole requests, to 3/4 of what a
    replica finishes."""
    names = DeploymentNames(model=model, device=device, engine=engine, tensor_parallel=devices)
    method = "eagle-3" if drafted else "plain-decoding"
    setting = build_setting(DecodingConfiguration(method=method, deployment=names))
    load = load_of_means(requests_per_s=rate, prompt_tokens=prompt, output_tokens=output)
    accepted = geometric(0.7 if drafted else 0.0, drafted)
    found = plan(
        setting, [accepted], load, Limits(), generator=np.random.default_rng(0), utilisation=0.8
    )
    assert found.replicas == 1
    sections = {
        "requests": {
            "count": REQUESTS,
            "rate_per_s": rate,
            "prompt_tokens": str(prompt),
            "output_tokens": str(output),
        },
        "deployment": {
            "model": model,
            "device": device,
            "engine": engine,
            "tensor_parallel": devices,
        },
    }
    if drafted:
        sections["speculation"] = {
            "method": method,
            "acceptance": [0.7, 0.49, 0.343],
            "draft_tokens": drafted,
        }
    seen = steady_summary(simulate(prepared_of(checked_scenario(sections, None)).scenario(0)))
    assert seen["window"]["reason"] is None
    assert found.ttft_s == pytest.approx(seen["ttft_s"]["mean"], rel=0.10)
    assert found.tpot_s == pytest.approx(seen["tpot_s"]["mean"], rel=0.05)
    assert found.e2e_s == pytest.approx(seen["e2e_s"]["mean"], rel=0.05)


@pytest.mark.parametrize(
    ("prompt", "output", "rate", "budget"),
    [(1024, 256, 5.0, 1024), (6000, 200, 2.0, 2048), (20_000, 200, 0.5, 8192)],
)
def test_prompts_that_a_token_budget_splits_take_as_long_as_in_a_simulation(
    prompt, output, rate, budget
):
    """A prompt takes whole iterations, of which the rows that decode leave a part of the budget."""
    setting = build_setting(
        DecodingConfiguration(deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm"))
    )
    load = load_of_means(requests_per_s=rate, prompt_tokens=prompt, output_tokens=output)
    curve = replica_curve(setting, geometric(0.0, 0), load, largest=64, token_budget=budget)
    found = curve.under(np.array([rate]), curve.batch[-1:])
    sections = {
        "requests": {
            "count": 1500,
            "rate_per_s": rate,
            "prompt_tokens": str(prompt),
            "output_tokens": str(output),
        },
        "deployment": {"model": "llama-3.1-8b", "device": "h100-sxm"},
        "scheduler": {"token_budget": budget, "max_requests": 64},
    }
    seen = steady_summary(simulate(prepared_of(checked_scenario(sections, None)).scenario(0)))
    assert found.ttft_s[0] == pytest.approx(seen["ttft_s"]["mean"], rel=0.10)
    assert found.tpot_s[0] == pytest.approx(seen["tpot_s"]["mean"], rel=0.06)


@pytest.mark.parametrize(("prompt", "budget"), [(3000, 4096), (2560, 2048), (3000, 512)])
@pytest.mark.parametrize("model", ["llama-3.2-1b", "deepseek-v2-lite", "phi-4-mini-flash"])
def test_a_prompt_alone_takes_what_its_law_says_whole_or_split(model, prompt, budget):
    """Every part runs the output head and expands latent vectors of the tokens before it; layers of a
    cross-decoder run for its last token alone."""
    setting = build_setting(
        DecodingConfiguration(deployment=DeploymentNames(model=model, device="h100-sxm"))
    )
    work = Workload(
        arrival_s=np.array([0.0, 1e3]),
        prompt_tokens=np.full(2, prompt),
        output_tokens=np.full(2, 2),
    )
    options = SchedulerOptions(kv_blocks=100_000, token_budget=budget)
    result = simulate(Scenario(workload=work, scheduler=options, timer=CostModelTimer(setting)))
    law = chunked_prefill_s(setting, prompt_tokens=prompt, chunk_tokens=budget, drafts=False)
    first_s = result.first_token_s - result.arrival_s
    assert first_s == pytest.approx(float(law), rel=0.015)


@pytest.mark.parametrize("model", ["llama-3.2-1b", "phi-4-mini-flash"])
def test_a_prompt_beside_requests_that_decode_adds_what_its_law_says(model):
    setting = build_setting(
        DecodingConfiguration(deployment=DeploymentNames(model=model, device="h100-sxm"))
    )
    timer, held = CostModelTimer(setting), (32, 1.0, 32 * 1024.0)
    added = timer(*held, ((2000, 0),)) - timer(*held, ())
    law = mixed_prefill_s(setting, prompt_tokens=2000, decode_rows=32, drafts=False)
    assert added == pytest.approx(float(law), rel=0.02)
