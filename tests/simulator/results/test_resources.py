"""Use of devices: never above what they have, what one request's weights say, and the energy of the
steps."""

import dataclasses

import numpy as np
import pytest

from costmodel.answers.energy import board_power_w, idle_w, step_draw
from costmodel.answers.steps.step import chain_step
from simulator.engine import simulate
from simulator.results.resources import resources
from simulator.scenario.build import prepare
from simulator.scenario.file import checked_scenario


def run(users, *, prompt=600, output=200, count=None, **sections):
    requests = {
        "arrivals": "closed",
        "users": users,
        "count": count or 4 * users,
        "prompt_tokens": prompt,
        "output_tokens": output,
    }
    given = {"requests": requests, "deployment": {"model": "llama-3.1-8b"}} | sections
    prepared = prepare(checked_scenario(given))
    return simulate(prepared.scenario()), prepared.setting


def test_one_request_reads_the_weights_once_per_token():
    result, setting = run(1, prompt=16, output=400, count=3)
    found = resources(result, setting)
    weights = (
        setting.target.parameters * 2 - setting.target.embedding_parameters * 2
    )  # one row of the embedding
    read = weights * result.iterations / (result.clock_s * setting.device.bandwidth_bytes_per_s)
    assert found.bandwidth_ratio == pytest.approx(read, rel=0.02)
    assert found.compute_ratio < 0.02


@pytest.mark.parametrize("users", [1, 16, 128])
def test_nothing_is_used_more_than_it_is_there(users):
    result, setting = run(users)
    found = resources(result, setting)
    assert 0.0 < found.bandwidth_ratio < 1.0 and 0.0 < found.compute_ratio < 1.0
    assert idle_w(setting.device) < found.watts <= setting.device.power_w
    assert found.joules == pytest.approx(found.watts * found.devices * result.clock_s)


def test_flops_are_two_per_weight_and_token():
    result, setting = run(64)
    tokens = result.counters["prompt_tokens_computed"] + result.counters["steps"]
    layers = setting.target.parameters - 2 * setting.target.embedding_parameters
    least = 2.0 * layers * tokens / (result.clock_s * setting.device.peak("bf16"))
    assert least < resources(result, setting).compute_ratio < 1.2 * least


def test_load_makes_tokens_cheaper():
    found = [resources(*run(users)) for users in (1, 8, 64)]
    energy, price = (
        [getattr(f, name) for f in found] for name in ("joules_per_token", "usd_per_million_tokens")
    )
    assert energy == sorted(energy, reverse=True) and price == sorted(price, reverse=True)


def test_long_decoding_draws_what_its_steps_draw():
    result, setting = run(8, prompt=16, output=600)
    step = chain_step(
        setting.deployment,
        setting.drafter,
        setting.plain_overhead,
        batch=8,
        context=316,
        draft_tokens=0,
    )
    assert resources(result, setting).watts == pytest.approx(
        step_draw(setting, step).watts, rel=0.03
    )


def test_drafting_moves_bytes_too():
    speculation = {"trace": "smollm2-135m--early-exit--greedy", "draft_tokens": 3}
    drafted, setting = run(4, speculation=speculation)
    found = resources(drafted, setting)
    without = drafted.iterations * setting.target.parameters * 2.0
    moved = found.bandwidth_ratio * drafted.clock_s * setting.device.bandwidth_bytes_per_s
    assert moved > 1.2 * without


def test_replicas_and_shared_models_count_all_devices():
    one, setting = run(8)
    two, _ = run(8, replicas=2, router="round-robin")
    assert resources(two, setting).devices == 2 * resources(one, setting).devices == 2
    wide, spread = run(8, deployment={"model": "llama-3.1-8b", "tensor_parallel": 4})
    found = resources(wide, spread)
    assert found.devices == 4 and found.bandwidth_ratio < 1.0


def test_an_idle_service_draws_idle_power():
    requests = {
        "count": 3,
        "prompt_tokens": 10,
        "output_tokens": 2,
        "arrivals": "poisson",
        "rate_per_s": 0.001,
    }
    prepared = prepare(
        checked_scenario({"requests": requests, "deployment": {"model": "llama-3.1-8b"}})
    )
    found = resources(simulate(prepared.scenario()), prepared.setting)
    device = prepared.setting.device
    assert found.watts == pytest.approx(
        float(board_power_w(device, running=0, memory=0, compute=0)), rel=1e-3
    )
    assert np.isfinite(found.joules_per_token)


def test_without_a_price_there_is_none():
    result, setting = run(2)
    device = dataclasses.replace(setting.device, price_usd_per_hour=None)
    unpriced = dataclasses.replace(
        setting, deployment=dataclasses.replace(setting.deployment, device=device)
    )
    found = resources(result, unpriced)
    assert found.usd_per_million_tokens is None
    assert found.joules == resources(result, setting).joules
