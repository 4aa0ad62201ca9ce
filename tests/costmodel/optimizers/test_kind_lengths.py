"""Draft lengths by kind of request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.kind_lengths import kind_lengths, mixed_chains

LENGTHS = (0, 1, 3, 5)


def contender():
    names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm")
    eagle = DecodingConfiguration(method="eagle-3", deployment=names)
    chains = [geometric(0.5, k) for k in LENGTHS]
    return Contender(configuration=eagle, setting=build_setting(eagle), candidates=chains)


@given(
    rates=st.lists(st.floats(0.0, 0.9), min_size=2, max_size=3),
    batch=st.sampled_from([1, 16, 256]),
)
def test_kinds_never_lose_and_alike_kinds_gain_nothing(rates, batch):
    share = 1.0 / len(rates)
    own = {
        f"kind {i}": (share, [geometric(rate, k) for k in LENGTHS]) for i, rate in enumerate(rates)
    }
    found = kind_lengths(contender(), own, batch=batch, context=1024)
    assert found.gain_ratio >= 0.0
    assert sum(length.share for length in found.lengths) == pytest.approx(1.0)
    alike = dict.fromkeys(own, (share, own["kind 0"][1]))
    assert kind_lengths(contender(), alike, batch=16, context=1024).gain_ratio < 0.005


def test_one_length_for_all_is_a_chain():
    setting, one = contender().setting, geometric(0.7, 3)
    mixed = mixed_chains([0.25, 0.75], [one, one])
    at = {"batch": 32, "context": 1024}
    assert float(estimate(setting, mixed, **at).tokens_per_s) == pytest.approx(
        float(estimate(setting, one, **at).tokens_per_s), rel=1e-6
    )


def test_a_kind_that_opts_out_takes_one_token_a_step():
    mixed = mixed_chains([0.5, 0.5], [geometric(0.8, 4), geometric(0.0, 0)])
    assert mixed.tokens_per_step == pytest.approx((geometric(0.8, 4).tokens_per_step + 1.0) / 2.0)
    assert mixed.draft_tokens == 4 and mixed.lengths.mean_tokens == 2.0
