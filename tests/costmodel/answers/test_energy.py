"""Power stays between idle and the board's limit, and near what was measured; joules and dollars by
hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.energy import (
    POWER,
    board_power_w,
    idle_w,
    power_model,
    prefill_draw,
    step_draw,
    usd_per_million,
)
from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from hardware_profiles.loader import device_names, load_device

EAGLE = build_setting(
    DecodingConfiguration(
        method="eagle-3", deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm")
    )
)
CPU = build_setting(
    DecodingConfiguration(deployment=DeploymentNames(model="llama-3.2-1b", device="epyc-9654"))
)


def test_every_kind_has_a_model_with_its_source():
    for model in POWER.values():
        assert 0 < model.idle_ratio < 1 and 0 < model.spread_ratio < 1 and "ASSUMED" in model.source
    assert {power_model(load_device(name)) for name in device_names()} <= set(POWER.values())


@given(running=st.floats(0, 1), memory=st.floats(0, 1.2), compute=st.floats(0, 1.2))
def test_power_lies_between_idle_and_the_limit_and_grows(running, memory, compute):
    h100 = load_device("h100-sxm")

    def watts(**more):
        return float(
            board_power_w(
                h100, **({"running": running, "memory": memory, "compute": compute} | more)
            )
        )

    assert idle_w(h100) <= watts() <= h100.power_w
    assert watts(memory=memory + 0.1) >= watts() and watts(compute=compute + 0.1) >= watts()


@given(batch=st.integers(1, 512), context=st.integers(0, 8192), k=st.integers(0, 7))
def test_energy_of_a_step_lies_between_idle_and_the_limit(batch, context, k):
    for setting in (EAGLE, CPU):
        accepted = geometric(0.7, k if setting is EAGLE else 0)
        step = estimate(setting, accepted, batch=batch, context=context).step
        draw = step_draw(setting, step)
        device = setting.device
        assert draw.seconds == pytest.approx(float(step.total_s))
        assert (
            idle_w(device) * draw.seconds
            <= draw.joules
            <= device.power_w * draw.seconds * (1 + 1e-12)
        )


def test_a_prompt_draws_more_than_a_lone_token():
    step = estimate(EAGLE, geometric(0.7, 0), batch=1, context=1024).step
    prompt, token = prefill_draw(EAGLE, prompt_tokens=2048), step_draw(EAGLE, step)
    assert prompt.watts > token.watts > idle_w(EAGLE.device)
    assert prompt.joules / 2048 < token.joules  # a prompt's tokens share the reads


def test_joules_per_token_fall_with_batch():
    joules = []
    for batch in (1, 8, 64):
        result = estimate(EAGLE, geometric(0.7, 0), batch=batch, context=512)
        joules.append(step_draw(EAGLE, result.step).joules / batch)
    assert joules == sorted(joules, reverse=True) and joules[0] > 10 * joules[-1]


def test_waiting_for_the_engine_draws_less():
    bare = build_setting(
        DecodingConfiguration(
            deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none")
        )
    )
    slow = build_setting(
        DecodingConfiguration(
            deployment=DeploymentNames(
                model="llama-3.1-8b", device="h100-sxm", engine="transformers"
            )
        )
    )
    fast, held = (
        step_draw(s, estimate(s, geometric(0, 0), batch=1, context=512).step) for s in (bare, slow)
    )
    assert held.watts < fast.watts and held.joules > fast.joules


def test_dollars_by_hand():
    assert usd_per_million(3.0, 1e6 / 3600) == pytest.approx(3.0)
    assert usd_per_million(None, 100.0) is None and usd_per_million(1.0, 0.0) is None


@pytest.mark.parametrize(
    ("devices", "token_ms", "power_ratio"),
    [(2, 54.84, 0.736), (4, 44.96, 0.599), (8, 44.91, 0.435)],
)
def test_power_agrees_with_what_was_measured_on_a100(devices, token_ms, power_ratio):
    """Llama-2-70B at batch 1, 512 prompt and 128 output tokens: mean draw over the limit, from the
    time of a token that was measured (Splitwise, arXiv:2311.18677; data of Mutinifni/splitwise-sim,
    MIT, means of its repeats)."""
    device = load_device("a100-sxm-80")
    seconds, share = token_ms * 1e-3, load_model("llama-2-70b").parameters / devices
    watts = board_power_w(
        device,
        running=1.0,
        memory=2 * share / seconds / device.bandwidth_bytes_per_s,
        compute=2 * share / seconds / device.peak("bf16"),
    )
    assert float(watts) / device.power_w == pytest.approx(power_ratio, abs=0.08)
