"""A recording that is drawn from rates replays, on average, as the rates say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.laws.acceptance import DepthRates, drawn_recording
from hardware_profiles.errors import InputError
from tests.property_examples import examples
from traces.replay.statistics import acceptance_by_depth
from traces.replay.walk import replay_chain

falling = st.lists(st.floats(0, 1), min_size=1, max_size=6).map(
    lambda rates: tuple(sorted(rates, reverse=True))
)


@given(falling, st.integers(1, 8), st.sampled_from([1.0, 0.6]), st.integers(0, 99))
@settings(max_examples=examples(40), deadline=None)
def test_the_replay_of_a_drawn_recording_is_what_was_stated(by_depth, draft_tokens, share, seed):
    rates = DepthRates(by_depth=by_depth, proposal_ratio=share)
    trace = drawn_recording(rates, draft_tokens, generator=np.random.default_rng(seed))
    replay, wanted = replay_chain(trace, draft_tokens), rates.chain(draft_tokens)
    spread = (
        draft_tokens / 2 / np.sqrt(replay.steps.sum())
    )  # of a mean of so many lengths in 1..K + 1, at most
    assert replay.tokens_per_step == pytest.approx(wanted.tokens_per_step, abs=5 * spread)
    assert replay.proposal_ratio == pytest.approx(share, abs=5 * 0.5 / np.sqrt(replay.steps.sum()))
    found = acceptance_by_depth(trace, draft_tokens)
    at = share * np.array(rates.at(draft_tokens))
    np.testing.assert_allclose(found, at, atol=5 * 0.5 / np.sqrt(replay.steps.sum()))
    shorter = max(draft_tokens - 1, 1)
    assert replay_chain(trace, shorter).tokens_per_step == pytest.approx(
        rates.chain(shorter).tokens_per_step, abs=5 * spread
    )


def test_certain_rates_are_drawn_exactly():
    always = drawn_recording(
        DepthRates(by_depth=(1.0, 0.0)), 3, generator=np.random.default_rng(0), requests=2, tokens=8
    )
    assert set(always.emitted.tolist()) == {2} and always.drafted is None and always.level == 1
    never = drawn_recording(
        DepthRates(by_depth=(0.5,), proposal_ratio=0.0), 3, generator=np.random.default_rng(0)
    )
    assert set(never.emitted.tolist()) == {1} and set(never.drafted.tolist()) == {0}


@pytest.mark.parametrize("draft_tokens", [0, 4096])
def test_no_draft_is_no_recording(draft_tokens):
    with pytest.raises(InputError, match="4095"):
        drawn_recording(
            DepthRates(by_depth=(0.5,)), draft_tokens, generator=np.random.default_rng(0)
        )
