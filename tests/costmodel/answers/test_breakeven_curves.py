"""A curve crosses 1 where the speedup is 1, and its points are those of a prediction there."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.breakeven import break_even
from costmodel.answers.breakeven_curves import acceptance_curve, bandwidth_curve
from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.claims import rate_claim
from costmodel.optimizers.candidates.acceptance_law import acceptance_law

WHERE = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="vllm")
QUESTION = DecodingConfiguration(method="eagle-3", deployment=WHERE)
SETTING = build_setting(QUESTION)
RATES, LENGTHS = st.floats(0.05, 0.95), st.integers(1, 8)
BATCHES = st.sampled_from([1, 16, 128, 400])


def drafted(rate, length):
    return rate_claim(SETTING.drafter.method, rate, length)


def speedup(setting, acceptance, batch):
    return float(estimate(setting, acceptance, batch=batch, context=1024).speedup)


@given(rate=RATES, length=LENGTHS, batch=BATCHES)
def test_the_speedup_is_one_where_acceptance_crosses(rate, length, batch):
    a = drafted(rate, length)
    law = acceptance_law(SETTING.drafter.method, a)
    curve = acceptance_curve(SETTING, law, batch=batch, context=1024, known=a)
    for at in curve.crossings:
        assert speedup(SETTING, law.at(at.value), batch) == pytest.approx(1.0, abs=1e-6)
        assert at.pays_above
    assert curve.own == pytest.approx(rate) and len(curve.crossings) <= 1
    solved = break_even(
        SETTING, a, law, batch=batch, context=1024, has_recording=True,
        generator=np.random.default_rng(0),
    )  # fmt: skip
    if curve.crossings:
        assert curve.crossings[0].value == pytest.approx(solved.least_rate)
        assert (rate > solved.least_rate) == (curve.own_speedup > 1.0)


@given(rate=RATES, length=LENGTHS, batch=BATCHES)
def test_the_speedup_is_one_where_bandwidth_crosses(rate, length, batch):
    a = drafted(rate, length)
    curve = bandwidth_curve(SETTING, a, batch=batch, context=1024)
    now = SETTING.device.bandwidth_bytes_per_s
    assert curve.own == now and curve.own_speedup == pytest.approx(speedup(SETTING, a, batch))
    assert curve.values == sorted(curve.values)
    sides = [value >= 1.0 for value in curve.speedups]
    assert len(curve.crossings) == sum(x != y for x, y in pairwise(sides))
    for at in curve.crossings:
        there = build_setting(
            replace(
                QUESTION,
                deployment=replace(WHERE, overrides=(f"device.bandwidth_bytes_per_s={at.value}",)),
            )
        )
        assert speedup(there, a, batch) == pytest.approx(1.0, abs=1e-4)


def test_a_curve_of_unknown_acceptance_has_no_own_point():
    a = drafted(0.5, 3)
    law = acceptance_law(SETTING.drafter.method, a)
    curve = acceptance_curve(SETTING, law, batch=1, context=1024, known=None)
    assert curve.own is curve.own_speedup is None and curve.crossings
