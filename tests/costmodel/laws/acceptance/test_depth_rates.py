"""Acceptance that is known as numbers: what it means at every draft length, and where it stops
being known."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.laws.acceptance import DepthRates, counted_rates, geometric, length_rates
from costmodel.laws.acceptance.decay import usual_ratio
from costmodel.laws.claims import rate_claim
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError
from traces.kinds.summary import Summary

falling = st.lists(st.floats(0, 1), min_size=1, max_size=8).map(
    lambda rates: tuple(sorted(rates, reverse=True))
)


@given(falling, st.integers(0, 16), st.floats(0, 1))
def test_a_chain_emits_one_token_and_its_rates(by_depth, draft_tokens, share):
    rates = DepthRates(by_depth=by_depth, measured=len(by_depth), proposal_ratio=share)
    found = rates.chain(draft_tokens)
    assert found.tokens_per_step == pytest.approx(1 + share * math.fsum(rates.at(draft_tokens)))
    assert (
        1 <= found.tokens_per_step <= 1 + draft_tokens + 1e-12
        and found.draft_tokens == draft_tokens
    )
    assert bool(found.remark) == (draft_tokens > len(by_depth)), (
        "what goes further than is known says so"
    )
    assert bool(found.samples.size) == (draft_tokens > len(by_depth)), (
        "what is known has no spread of its own"
    )
    assert np.all((found.samples >= 1.0) & (found.samples <= 1.0 + draft_tokens + 1e-9))


@given(falling, st.integers(1, 16))
def test_beyond_what_is_known_acceptance_goes_on_as_published_drafters_show(by_depth, more):
    known = DepthRates(by_depth=by_depth, measured=len(by_depth), drafted_by="head")
    rates = known.at(len(by_depth) + more)
    assert rates[: len(by_depth)] == by_depth
    assert all(after <= before for before, after in itertools.pairwise(rates)), (
        "never more at a depth further"
    )
    ratio = usual_ratio("head", len(by_depth))
    kept = [known.last_conditional * ratio**further for further in range(1, more + 1)]
    assert rates[-1] == pytest.approx(by_depth[-1] * math.prod(kept), rel=1e-9, abs=1e-300)


@given(falling, st.integers(1, 8))
def test_the_interval_beyond_what_is_known_holds_the_point_and_widens(by_depth, more):
    known = DepthRates(by_depth=by_depth, measured=len(by_depth), drafted_by="head")
    near, far = (known.chain(len(by_depth) + further) for further in (more, more + 1))
    for chain in (near, far):
        assert chain.samples.min() - 1e-9 <= chain.tokens_per_step <= chain.samples.max() + 1e-9
    assert np.ptp(far.samples) >= np.ptp(near.samples) - 1e-12


def test_one_known_position_is_not_taken_for_all():
    """Multi-token prediction kept at .85 was measured with one draft token; three need what nobody
    measured."""
    one, every = (
        DepthRates(by_depth=(0.85,), measured=1, drafted_by="head"),
        DepthRates(by_depth=(0.85,)),
    )
    assert one.chain(1).tokens_per_step == every.chain(1).tokens_per_step == 1.85
    assert one.chain(3).tokens_per_step < every.chain(3).tokens_per_step
    assert "known to K=1 and used to K=3" in one.chain(3).remark and not every.chain(3).remark


@given(falling, st.integers(0, 7), st.floats(0, 1), st.integers(0, 12))
def test_more_acceptance_at_a_depth_never_emits_less(by_depth, place, share, draft_tokens):
    place = min(place, len(by_depth) - 1)
    roof = 1.0 if place == 0 else by_depth[place - 1]
    # the sum is rounded, and never above the roof
    higher = min(roof, by_depth[place] + share * (roof - by_depth[place]))
    raised = (*by_depth[:place], higher, *by_depth[place + 1 :])
    known = min(draft_tokens, len(by_depth))
    less, more = (
        DepthRates(by_depth=each).chain(known).tokens_per_step for each in (by_depth, raised)
    )
    assert more >= less - 1e-12


@given(st.floats(0, 1), st.integers(0, 16))
def test_one_rate_is_the_geometric_law(rate, draft_tokens):
    one = DepthRates(by_depth=(rate,)).chain(draft_tokens)
    assert one.tokens_per_step == geometric(rate, draft_tokens).tokens_per_step
    written_out = DepthRates(by_depth=tuple(rate**depth for depth in range(1, 17)))
    assert written_out.chain(draft_tokens).tokens_per_step == pytest.approx(
        one.tokens_per_step, rel=1e-9, abs=1e-9
    )


@given(st.integers(1, 12), st.floats(0, 1), st.floats(0.05, 1))
def test_tokens_per_step_come_back_at_their_length(draft_tokens, part, share):
    stated = 1 + part * share * draft_tokens
    rates = length_rates(stated, draft_tokens, match_rate=share)
    assert rates.chain(draft_tokens).tokens_per_step == stated, (
        "taken as stated, not by way of the law"
    )
    through = DepthRates(by_depth=rates.by_depth, proposal_ratio=share)
    assert through.chain(draft_tokens).tokens_per_step == pytest.approx(stated)
    emitted = [rates.chain(k).tokens_per_step for k in range(draft_tokens + 3)]
    assert all(after >= before - 1e-9 for before, after in itertools.pairwise(emitted))


@pytest.mark.parametrize(
    ("wrong", "key", "said"),
    [
        (lambda: DepthRates(by_depth=()), "acceptance", "1 to"),
        (lambda: DepthRates(by_depth=(float("nan"),)), "acceptance", "[0, 1]"),
        (
            lambda: DepthRates(by_depth=(0.5, 0.7)),
            "acceptance",
            "position 2 (0.7) is accepted only in steps that",
        ),
        (lambda: DepthRates(by_depth=(0.5,), proposal_ratio=1.5), "match_rate", "[0, 1]"),
        (lambda: DepthRates(by_depth=(0.5,)).chain(-1), "draft_tokens", ">= 0"),
        (lambda: length_rates(0.9, 3), "tokens_per_step", "[1, 4]"),
        (lambda: length_rates(4.1, 3), "tokens_per_step", "[1, 4]"),
        (lambda: length_rates(2.0, 3, match_rate=0.2), "tokens_per_step", "[1, 1.6]"),
    ],
)
def test_what_cannot_be_is_refused(wrong, key, said):
    with pytest.raises(InputError) as caught:
        wrong()
    assert caught.value.key == key and said in str(caught.value)


def test_counters_are_rates_by_depth_or_first_candidates_or_a_mean():
    by_depth = counted_rates(
        Summary(acceptance_by_depth=(0.6, 0.3), drafts=10, draft_tokens=20, accepted_tokens=9)
    )
    assert (by_depth.by_depth, by_depth.measured) == ((0.6, 0.3), 2)
    siblings = counted_rates(Summary(sibling_vectors=((0.6, 0.2), (0.5, 0.1))))
    assert siblings.at(2) == pytest.approx((0.6, 0.3))
    mean = counted_rates(Summary(drafts=10, draft_tokens=30, accepted_tokens=12), match_rate=0.5)
    assert (mean.measured, mean.chain(3).tokens_per_step) == (3, 1 + 0.5 * 1.2), (
        "counts hold for steps with a proposal"
    )
    assert counted_rates(Summary(mean_tokens_per_step=2.2)) is None, (
        "a mean without a draft length says nothing"
    )
    assert counted_rates(Summary()) is None


@given(falling.filter(lambda rates: rates[0] > 0.01), st.integers(1, 8))
def test_methods_read_rates_by_depth_as_they_read_one_rate(by_depth, draft_tokens):
    """Serial drafts emit the rates; drafts made during verification those of the one rate that
    emits as many."""
    rates = DepthRates(by_depth=by_depth)
    serial = rate_claim(load_method("eagle-3"), rates, draft_tokens)
    assert serial.tokens_per_step == pytest.approx(1 + math.fsum(rates.at(draft_tokens)))
    pearl, one = load_method("pearl"), DepthRates(by_depth=by_depth[:1])
    assert rate_claim(pearl, one, draft_tokens).tokens_per_step == pytest.approx(
        rate_claim(pearl, by_depth[0], draft_tokens).tokens_per_step
    )
    assert 0 < rate_claim(pearl, rates, draft_tokens).tokens_per_step <= draft_tokens + 1
