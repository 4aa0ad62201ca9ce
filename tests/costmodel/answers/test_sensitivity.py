"""Elasticities obey Euler's rule and agree with the model itself; shares of variance agree with
drawn intervals."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.estimate import estimate
from costmodel.answers.sensitivity import LEVERS, elasticities, scaled, variance_shares
from costmodel.answers.settings import build_setting
from costmodel.answers.uncertainty import draw_steps
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import Acceptance, geometric
from hardware_profiles.errors import InputError

pytestmark = pytest.mark.heavy

EAGLE = build_setting(
    DecodingConfiguration(
        method="eagle-3", deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm")
    )
)
BARE = build_setting(
    DecodingConfiguration(
        method="eagle-3",
        deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none"),
    )
)
WIDE = build_setting(
    DecodingConfiguration(
        method="eagle-3",
        deployment=DeploymentNames(model="llama-3.1-70b", device="h100-sxm", tensor_parallel=4),
    )
)
NGRAM = build_setting(
    DecodingConfiguration(
        method="n-gram", deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm")
    )
)


def moved(setting, acceptance, batch=1, context=1024):
    return {e.lever: e for e in elasticities(setting, acceptance, batch=batch, context=context)}


@given(
    batch=st.integers(1, 256),
    context=st.integers(1, 16_384),
    k=st.integers(0, 7),
    which=st.integers(0, 2),
)
def test_time_is_homogeneous_in_rates_and_fixed_times(batch, context, k, which):
    """Twice the rates and half the fixed times is half the step: elasticities to the hardware sum
    to -1."""
    found = moved((EAGLE, BARE, WIDE)[which], geometric(0.7, k), batch, context)
    rates = sum(found[lever].step for lever in ("bandwidth", "peak", "link") if lever in found)
    fixed = sum(found[lever].step for lever in ("launch", "overhead") if lever in found)
    assert rates - fixed == pytest.approx(-1.0, abs=1e-4)


def test_a_step_bound_by_bandwidth_follows_it_alone():
    found = moved(
        build_setting(
            DecodingConfiguration(
                method="n-gram",
                deployment=DeploymentNames(model="llama-3.1-70b", device="h100-sxm", engine="none"),
            )
        ),
        geometric(0.5, 3),
    )
    assert found["bandwidth"].step == pytest.approx(-1.0, abs=0.1)
    assert abs(found["peak"].step) < 1e-3
    assert found["bandwidth"].tokens_per_s == pytest.approx(-found["bandwidth"].step)


@given(batch=st.integers(1, 128), k=st.integers(1, 7), rate=st.floats(0.1, 0.95))
def test_levers_pull_the_way_they_must(batch, k, rate):
    found = moved(EAGLE, geometric(rate, k), batch)
    for lever in ("bandwidth", "peak"):
        assert found[lever].step <= 1e-6 and found[lever].tokens_per_s >= -1e-6
    for lever in ("launch", "overhead"):
        assert found[lever].step >= -1e-6
    assert found["draft_cost"].speedup < 0 < found["acceptance"].speedup
    assert found["acceptance"].step == 0.0


def test_acceptance_and_draft_cost_have_closed_forms():
    accepted = geometric(0.7, 3)
    found, result = moved(EAGLE, accepted, 8), estimate(EAGLE, accepted, batch=8, context=1024)
    tokens = accepted.tokens_per_step
    assert found["acceptance"].speedup == pytest.approx((tokens - 1) / tokens, rel=1e-6)
    assert found["draft_cost"].step == pytest.approx(
        float(result.step.draft_s / result.step_s), rel=1e-6
    )


@pytest.mark.parametrize("lever", ["bandwidth", "peak", "link", "launch", "overhead"])
def test_an_elasticity_predicts_a_small_change(lever):
    accepted, factor = geometric(0.7, 3), 1.02
    before = float(estimate(WIDE, accepted, batch=64, context=2048).step_s)
    after = float(estimate(scaled(WIDE, lever, factor), accepted, batch=64, context=2048).step_s)
    slope = moved(WIDE, accepted, 64, 2048)[lever].step
    assert np.log(after / before) == pytest.approx(slope * np.log(factor), rel=0.05, abs=1e-6)


def test_levers_that_mean_nothing_are_left_out():
    assert set(moved(WIDE, geometric(0.7, 3))) == set(LEVERS)
    assert {"link", "overhead"}.isdisjoint(moved(BARE, geometric(0.7, 3)))
    assert {"acceptance", "draft_cost"}.isdisjoint(moved(BARE, geometric(0.7, 0)))
    assert "context" not in moved(BARE, geometric(0.7, 3), context=0)


def test_plain_decoding_has_no_speedup_to_move():
    for e in moved(EAGLE, geometric(0.7, 0)).values():
        assert e.speedup == pytest.approx(0.0, abs=1e-9)


def test_scaling_by_one_changes_nothing_and_unknown_levers_are_refused():
    assert scaled(EAGLE, "launch", 1.0).device.constants == EAGLE.device.constants
    with pytest.raises(InputError, match="lever"):
        scaled(EAGLE, "colour", 2.0)


def shares(setting, acceptance, batch=8):
    result = estimate(setting, acceptance, batch=batch, context=1024)
    return result, variance_shares(setting, result, generator=np.random.default_rng(0))


def test_shares_of_variance_sum_to_one():
    _, found = shares(EAGLE, geometric(0.7, 3))
    assert sum(s.step_ratio for s in found) == pytest.approx(1.0, abs=1e-6)
    assert sum(s.speedup_ratio for s in found) == pytest.approx(1.0, abs=1e-6)
    assert [s.speedup_ratio for s in found] == sorted(
        (s.speedup_ratio for s in found), reverse=True
    )


def test_sources_of_error_add_up_to_the_drawn_variance():
    """Errors are drawn one at a time here; together they give the interval that predictions
    carry."""
    result, _ = shares(EAGLE, geometric(0.7, 3))
    ratios, silent = EAGLE.device.constants.residuals, replace(EAGLE.overhead, spread_ratio=0.0)

    def variance(residuals, overhead):
        drawn = draw_steps(
            result.plain,
            result.step,
            residuals,
            overhead,
            generator=np.random.default_rng(1),
            draws=20_000,
        )
        return float(np.var(np.log(drawn.step_s)))

    none = dict.fromkeys(ratios, 0.0)
    parts = sum(variance(ratios.only(name), silent) for name in ratios) + variance(
        none, EAGLE.overhead
    )
    assert parts == pytest.approx(variance(ratios, EAGLE.overhead), rel=0.05)


def test_an_engine_that_is_unsure_dominates_small_steps():
    unsure = replace(EAGLE, overhead=replace(EAGLE.overhead, spread_ratio=2.0))
    assert shares(unsure, geometric(0.7, 3))[1][0].term == "overhead"


def test_a_short_recording_dominates_a_speedup():
    wild = Acceptance(
        draft_tokens=3,
        tokens_per_step=2.0,
        proposed_tokens=3.0,
        samples=np.random.default_rng(0).uniform(1.0, 3.0, 200),
    )
    found = {s.term: s for s in shares(NGRAM, wild)[1]}
    assert found["acceptance"].speedup_ratio > 0.8 and found["acceptance"].step_ratio == 0.0


def test_plain_decoding_is_sure_of_its_speedup():
    _, found = shares(EAGLE, geometric(0.7, 0))
    assert all(s.speedup_ratio == 0.0 for s in found)
    assert sum(s.step_ratio for s in found) == pytest.approx(1.0, abs=1e-6)
