"""Drawn errors: their quantiles are the profile's, in the regime at hand; every term says where its
spread is from."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.answers.uncertainty import dominant_terms, draw_steps, interval, term_source
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.engine_library import load_engine
from costmodel.engines.record.overhead import BARE
from costmodel.laws.acceptance import geometric
from costmodel.passes.kernels.timing import shares
from hardware_profiles.fitted.constants import OPERATIONS
from hardware_profiles.fitted.residuals import Regime, Residuals
from tests.property_examples import examples

SETTING = build_setting(
    DecodingConfiguration(
        method="eagle-3",
        deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none"),
    )
)
SURE = dict.fromkeys(OPERATIONS, 0.0)


def plain_draws(residuals, *, batch=1, draws=20_000):
    result = estimate(SETTING, geometric(0.7, 0), batch=batch, context=0)
    plain = replace(
        result.plain, verify={"gemm": result.plain.verify["gemm"]}, overhead_s=np.zeros(())
    )
    drawn = draw_steps(
        plain, plain, residuals, BARE, generator=np.random.default_rng(0), draws=draws
    ).plain_s
    return drawn[:, 0] / float(plain.verify["gemm"]), plain


@given(low=st.floats(-0.5, 0.0), high=st.floats(0.0, 0.5))
@settings(max_examples=examples(15), deadline=None)
def test_tenth_and_ninetieth_percentiles_are_the_regimes(low, high):
    everywhere = Regime(launch=(0.0, 1.0), compute=(0.0, 1.0), low_ratio=low, high_ratio=high)
    ratio, _ = plain_draws(Residuals(SURE | {"gemm": 0.3}, {"gemm": (everywhere,)}))
    ends = np.quantile(ratio, [0.1, 0.5, 0.9])
    assert ends[0] == pytest.approx(1.0 + low, abs=0.02)
    assert ends[1] == pytest.approx(1.0, abs=0.02)
    assert ends[2] == pytest.approx(1.0 + high, abs=0.02)


def test_a_pass_over_several_regimes_takes_their_mean_by_time():
    _, plain = plain_draws(SURE)
    calls = [
        each for _, cost in plain.verify_passes for each in cost.operations if each.name == "gemm"
    ]
    launch = sorted({float(shares(each.timing).launch) for each in calls})
    cut = (launch[0] + launch[-1]) / 2.0
    parts = [
        Regime(launch=(0.0, cut), compute=(0.0, 1.0), low_ratio=0.0, high_ratio=0.4),
        Regime(launch=(cut, 1.0), compute=(0.0, 1.0), low_ratio=0.0, high_ratio=0.0),
    ]
    weights = np.array([each.calls * float(each.timing.seconds) for each in calls])
    inside = np.array([float(shares(each.timing).launch) < cut for each in calls])
    assert 0 < inside.sum() < len(inside)
    expected = np.exp(np.log1p(0.4) * weights[inside].sum() / weights.sum())
    ratio, _ = plain_draws(Residuals(SURE, {"gemm": tuple(parts)}))
    assert np.quantile(ratio, 0.9) == pytest.approx(expected, rel=0.02)


def test_verification_has_the_spread_of_its_own_attention():
    result = estimate(SETTING, geometric(0.7, 3), batch=32, context=16_384)
    only = {
        name: draw_steps(
            result.plain, result.step, SURE | {name: 0.3}, BARE, generator=np.random.default_rng(1)
        )
        for name in ("attention", "verify")
    }
    spread = {name: (np.std(drawn.plain_s), np.std(drawn.step_s)) for name, drawn in only.items()}
    assert spread["verify"][0] < 1e-12 < spread["verify"][1]
    assert spread["attention"][0] > 0.0
    assert spread["attention"][1] < 0.1 * spread["verify"][1], "the drafter's attention alone"


def test_an_operation_without_a_residual_gets_a_tenth():
    ratio, _ = plain_draws({})
    low, high = interval(ratio)
    assert (float(low), float(high)) == (
        pytest.approx(1 / 1.1, abs=0.01),
        pytest.approx(1.1, abs=0.01),
    )


def test_terms_say_where_their_spread_comes_from():
    engine = load_engine("sglang").overhead("none")
    result = estimate(SETTING, geometric(0.7, 3), batch=4, context=4096)
    names = [
        name
        for name, _ in dominant_terms(result.step, SETTING.device.constants.residual_ratio, engine)
    ]
    found = {name: term_source(name, SETTING.device, engine) for name in names}
    assert (
        found["verify gemm"].kind == "measured" and "kernel tables" in found["verify gemm"].source
    )
    assert found["verify head"] == found["verify gemm"]
    assert found["verify sampler"].kind == "assumed"
    assert found["overhead"].kind == "assumed"
    assert (
        term_source("overhead", SETTING.device, load_engine("vllm").overhead("none")).kind
        == "measured"
    )
    assert "no profile states" in term_source("verify sorting", SETTING.device, engine).source
