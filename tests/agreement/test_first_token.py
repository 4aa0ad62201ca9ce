"""The law of the first token and of the time per token under a load agrees with simulations of that
load."""

import numpy as np
import pytest

from app.answers.simulations.runs import prepared_of
from costmodel.answers.capacity import plan
from costmodel.answers.replicas import replica_curve
from costmodel.answers.settings import build_setting
from costmodel.answers.workload import Limits, load_of_means
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from simulator.engine import simulate
from simulator.results.steady import steady_window
from simulator.scenario.file import checked_scenario

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
    seen = steady_window(simulate(prepared_of(checked_scenario(sections, None)).scenario(0)))
    assert not seen.is_growing
    assert found.ttft_s == pytest.approx(seen.ttft_s["mean"], rel=0.10)
    assert found.tpot_s == pytest.approx(seen.tpot_s["mean"], rel=0.05)
    assert found.e2e_s == pytest.approx(seen.e2e_s["mean"], rel=0.05)


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
    seen = steady_window(simulate(prepared_of(checked_scenario(sections, None)).scenario(0)))
    assert found.ttft_s[0] == pytest.approx(seen.ttft_s["mean"], rel=0.10)
    assert found.tpot_s[0] == pytest.approx(seen.tpot_s["mean"], rel=0.06)
