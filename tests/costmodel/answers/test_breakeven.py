"""Break-evens: the speedup is 1 there, more on one side and less on the other, in acceptance, cost and batch."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.answers.breakeven import MOST_BATCH, RateLaw, break_even, least_rate, paying_batches
from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.drafters.drafter import custom_drafter
from costmodel.laws.acceptance import Acceptance, geometric
from hardware_profiles.errors import InputError
from traces.kinds.tree import Tree, chain_tree

EAGLE = build_setting(
    DecodingConfiguration(method="eagle-3", deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm"))
)
NGRAM = build_setting(
    DecodingConfiguration(
        method="n-gram", deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none")
    )
)
MOE = build_setting(
    DecodingConfiguration(
        method="n-gram", deployment=DeploymentNames(model="mixtral-8x7b", device="h100-sxm", tensor_parallel=2)
    )
)
CUSTOM = custom_drafter(EAGLE.drafter.method, EAGLE.target, name="mine", passes=2, bytes_read=40e9, weight_bytes=2.0)
SLOW = replace(EAGLE, drafter=CUSTOM)


def at(setting, acceptance, batch=1, context=1024, known=True):
    return break_even(
        setting, acceptance, batch=batch, context=context, known=known, generator=np.random.default_rng(0)
    )  # fmt: skip


def speedup(setting, acceptance, batch=1, context=1024):
    return float(estimate(setting, acceptance, batch=batch, context=context).speedup)


@given(batch=st.integers(1, 200), context=st.integers(0, 8192), k=st.integers(1, 8))
def test_at_the_least_acceptance_the_speedup_is_one(batch, context, k):
    found = at(EAGLE, geometric(0.5, k), batch, context)
    if found.verdict != "on":
        assert found.verdict == "never" and speedup(EAGLE, geometric(1.0, k), batch, context) < 1.0
        return
    rate = found.least_rate
    assert speedup(EAGLE, geometric(rate, k), batch, context) == pytest.approx(1.0, abs=1e-6)
    if 0.01 < rate < 0.99:
        assert speedup(EAGLE, geometric(rate - 0.01, k), batch, context) < 1.0
        assert speedup(EAGLE, geometric(rate + 0.01, k), batch, context) > 1.0


@given(batch=st.integers(1, 128), rate=st.floats(0.0, 1.0), k=st.integers(1, 6))
def test_at_the_greatest_draft_cost_the_speedup_is_one(batch, rate, k):
    accepted = geometric(rate, k)
    found = at(EAGLE, accepted, batch)
    result = estimate(EAGLE, accepted, batch=batch, context=1024)
    beside = float(result.step_s) - found.draft_s
    if found.greatest_draft_s > 0:
        paid = accepted.tokens_per_step * float(result.plain.total_s) / (beside + found.greatest_draft_s)
        assert paid == pytest.approx(1.0, abs=1e-9)
    else:
        assert accepted.tokens_per_step * float(result.plain.total_s) <= beside
    assert (found.greatest_draft_s > found.draft_s) == (found.speedup > 1.0)


def test_tokens_and_speedup_agree_with_the_estimate():
    accepted = geometric(0.6, 4)
    found = at(EAGLE, accepted, 16, 2048)
    assert found.speedup == pytest.approx(speedup(EAGLE, accepted, 16, 2048))
    assert accepted.tokens_per_step / found.least_tokens_per_step == pytest.approx(found.speedup)


def test_intervals_hold_their_points():
    found = at(EAGLE, geometric(0.6, 4), 16)
    assert found.least_tokens_bounds[0] < found.least_tokens_per_step < found.least_tokens_bounds[1]
    assert found.least_rate_bounds[0] < found.least_rate < found.least_rate_bounds[1]
    assert found.speedup_bounds[0] < found.speedup < found.speedup_bounds[1]
    assert found.greatest_draft_bounds[0] < found.greatest_draft_s < found.greatest_draft_bounds[1]


@settings(max_examples=25)
@given(rate=st.floats(0.05, 0.95), k=st.integers(1, 8), batch=st.integers(1, 512), context=st.integers(0, 32_768))
def test_any_interval_holds_its_point_and_says_the_same_of_all_four(rate, k, batch, context):
    """Speedup and least tokens are each other's reciprocal, and so are the ends of their intervals."""
    accepted = geometric(rate, k)
    found = at(EAGLE, accepted, batch, context)
    for low, point, high in (
        (found.least_tokens_bounds[0], found.least_tokens_per_step, found.least_tokens_bounds[1]),
        (found.speedup_bounds[0], found.speedup, found.speedup_bounds[1]),
        (found.greatest_draft_bounds[0], found.greatest_draft_s, found.greatest_draft_bounds[1]),
    ):
        assert low <= point <= high
    least = [accepted.tokens_per_step / each for each in reversed(found.speedup_bounds)]
    assert found.least_tokens_bounds == pytest.approx(least, rel=0.02)


def test_a_drafter_slower_than_its_target_never_pays():
    found = at(SLOW, geometric(0.9, 2))
    assert found.verdict == "never" and found.least_rate is None
    assert found.least_tokens_per_step > found.most_tokens_per_step == 3.0
    assert found.speedup < 1.0 and 0 < found.greatest_draft_s < found.draft_s


def test_what_costs_nothing_always_pays():
    assert least_rate(geometric(0.5, 3), 1.0) == 0.0
    assert least_rate(geometric(0.5, 3), 0.97) == 0.0
    assert least_rate(geometric(0.5, 3), 4.0) == 1.0
    assert least_rate(geometric(0.5, 3), 4.0001) is None


def test_without_an_acceptance_only_the_least_is_answered():
    found = at(EAGLE, geometric(0.0, 3), known=False)
    assert found.speedup is None and found.greatest_draft_s is None and 0 < found.least_rate < 1


def test_no_draft_has_no_break_even():
    with pytest.raises(InputError, match="draft_tokens"):
        at(EAGLE, geometric(0.5, 0))


@given(rate=st.floats(0.0, 1.0), k=st.integers(1, 10), share=st.floats(0.0, 1.0))
def test_the_law_is_the_geometric_one(rate, k, share):
    accepted = geometric(rate, k, match_rate=share)
    assert float(RateLaw(accepted)(rate)) == pytest.approx(accepted.tokens_per_step)


@given(rate=st.floats(0.0, 1.0), k=st.integers(1, 10))
def test_a_tree_that_is_a_chain_has_the_chain_s_law(rate, k):
    shape = Acceptance(draft_tokens=k, tokens_per_step=1.0, proposed_tokens=float(k), tree=chain_tree(k))
    assert float(RateLaw(shape)(rate)) == pytest.approx(geometric(rate, k).tokens_per_step)


def test_siblings_help_by_hand():
    tree = Tree.from_paths([(0,), (1,), (0, 0)])
    shape = Acceptance(draft_tokens=3, tokens_per_step=1.0, proposed_tokens=3.0, tree=tree)
    assert float(RateLaw(shape)(0.5)) == pytest.approx(1 + 0.5 + 0.25 * 0.5 + 0.25)
    assert least_rate(shape, 1.875) == pytest.approx(0.5)


def test_proposals_of_mean_length_count_the_last_token_in_part():
    resting = Acceptance(draft_tokens=4, tokens_per_step=1.2, proposal_ratio=0.4, proposed_tokens=1.5)
    assert float(RateLaw(resting)(0.5)) == pytest.approx(1 + 0.4 * (0.5 + 0.5 * 0.25))


def batches(setting, acceptance, context=1024, largest=512):
    return paying_batches(setting, acceptance, context=context, largest=largest, generator=np.random.default_rng(0))


def test_batches_are_those_whose_speedup_exceeds_one():
    accepted = geometric(0.6, 3)
    found = batches(EAGLE, accepted, 512)
    every = np.arange(1, 513)
    pays = estimate(EAGLE, accepted, batch=every.astype(float), context=512).speedup > 1.0
    listed = np.concatenate([np.arange(a, b + 1) for a, b in found.ranges])
    assert found.verdict == "some" and list(listed) == list(every[pays])
    assert found.last == found.ranges[-1][1]
    assert speedup(EAGLE, accepted, found.last, 512) > 1.0 >= speedup(EAGLE, accepted, found.last + 1, 512)
    assert 1 <= found.last_bounds[0] <= found.last <= found.last_bounds[1] <= 512


def test_never_and_always_are_said():
    assert batches(EAGLE, geometric(0.05, 3)).verdict == "never"
    assert batches(EAGLE, geometric(0.05, 3)).last is None
    always = batches(NGRAM, geometric(0.9, 2), 8192, 32)
    assert always.verdict == "always" and list(always.ranges) == [(1, 32)] and always.last_bounds[1] == 32


def test_experts_let_drafts_pay_only_from_some_batch():
    """Alone, drafted tokens wake experts that plain decoding leaves idle; in a batch they are awake anyway."""
    found = batches(MOE, geometric(0.35, 5))
    assert found.verdict == "some" and found.ranges[0][0] > 1


def test_more_acceptance_pays_longer():
    lasts = [batches(EAGLE, geometric(rate, 3), 512).last for rate in (0.5, 0.6, 0.7)]
    assert lasts == sorted(lasts) and lasts[0] < lasts[-1]


def test_batches_are_bounded():
    assert batches(EAGLE, geometric(0.7, 3), largest=10**6).largest == MOST_BATCH
    with pytest.raises(InputError, match="largest"):
        batches(EAGLE, geometric(0.7, 3), largest=0)
