"""Break-evens: the speedup is 1 there, more on one side and less on the other, in acceptance, cost
and batch."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.answers.breakeven import MOST_BATCH, break_even, paying_batches
from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.drafters.drafter import custom_drafter
from costmodel.laws.acceptance import Acceptance, DepthRates, geometric, stated_tree
from costmodel.laws.claims import rate_claim, tokens_claim
from costmodel.laws.own_pace import own_pace
from costmodel.method_library import load_method, method_names
from costmodel.optimizers.candidates.acceptance_law import acceptance_law
from costmodel.optimizers.candidates.state_candidates import state_candidates
from costmodel.optimizers.drafters.origin import proposal_share
from costmodel.optimizers.drafters.sources import rates_source
from hardware_profiles.errors import InputError
from tests.property_examples import examples
from traces.kinds.tree import Tree, chain_tree

EAGLE = build_setting(
    DecodingConfiguration(
        method="eagle-3", deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm")
    )
)
NGRAM = build_setting(
    DecodingConfiguration(
        method="n-gram",
        deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none"),
    )
)
MOE = build_setting(
    DecodingConfiguration(
        method="n-gram",
        deployment=DeploymentNames(model="mixtral-8x7b", device="h100-sxm", tensor_parallel=2),
    )
)
CUSTOM = custom_drafter(
    EAGLE.drafter.method, EAGLE.target, name="mine", passes=2, bytes_read=40e9, weight_bytes=2.0
)
SLOW = replace(EAGLE, drafter=CUSTOM)


def at(setting, acceptance, batch=1, context=1024, known=True):
    law = acceptance_law(setting.drafter.method, acceptance)
    return break_even(
        setting,
        acceptance,
        law,
        batch=batch,
        context=context,
        has_recording=known,
        generator=np.random.default_rng(0),
    )


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
        paid = (
            accepted.tokens_per_step
            * float(result.plain.total_s)
            / (beside + found.greatest_draft_s)
        )
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


@settings(max_examples=examples(25))
@given(
    rate=st.floats(0.05, 0.95),
    k=st.integers(1, 8),
    batch=st.integers(1, 512),
    context=st.integers(0, 32_768),
)
def test_any_interval_holds_its_point_and_says_the_same_of_all_four(rate, k, batch, context):
    """Speedup and least tokens are each other's reciprocal, and so are the ends of their
    intervals."""
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
    """Superposed decoding writes further drafts in the rows of the first: any pace of more than one
    token is a gain."""
    setting = build_setting(
        DecodingConfiguration(
            method="superposed-decoding",
            deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm"),
        )
    )
    free = at(setting, own_pace(setting.drafter.method))
    assert (
        free.verdict == "always" and free.least_tokens_per_step == 1.0 and free.least_rate is None
    )


def test_without_an_acceptance_only_the_least_is_answered():
    found = at(EAGLE, geometric(0.0, 3), known=False)
    assert found.speedup is None and found.greatest_draft_s is None and 0 < found.least_rate < 1


def test_no_draft_has_no_break_even():
    with pytest.raises(InputError, match="draft_tokens"):
        at(EAGLE, geometric(0.5, 0))


CHAINS = load_method("speculative-decoding")


def emits(acceptance, rate):
    return acceptance_law(CHAINS, acceptance).at(rate).tokens_per_step


@given(rate=st.floats(0.0, 1.0), k=st.integers(1, 10), share=st.floats(0.0, 1.0))
def test_the_law_is_the_geometric_one(rate, k, share):
    accepted = geometric(rate, k, match_rate=share)
    assert emits(accepted, rate) == pytest.approx(accepted.tokens_per_step)


@given(rate=st.floats(0.0, 1.0), k=st.integers(1, 10))
def test_a_tree_that_is_a_chain_has_the_chain_s_law(rate, k):
    shape = Acceptance(
        draft_tokens=k, tokens_per_step=1.0, proposed_tokens=float(k), tree=chain_tree(k)
    )
    assert emits(shape, rate) == pytest.approx(geometric(rate, k).tokens_per_step)


def test_siblings_help_by_hand():
    tree = Tree.from_paths([(0,), (1,), (0, 0)])
    shape = Acceptance(draft_tokens=3, tokens_per_step=1.0, proposed_tokens=3.0, tree=tree)
    assert emits(shape, 0.5) == pytest.approx(1 + 0.5 + 0.25 * 0.5 + 0.25)


def test_a_tree_that_is_not_always_there_emits_its_share():
    tree = Tree.from_paths([(0,), (1,)])
    seldom = stated_tree(DepthRates(by_depth=(0.5,), proposal_ratio=0.25), tree)
    assert (
        emits(seldom, 0.5)
        == pytest.approx(seldom.tokens_per_step)
        == pytest.approx(1 + 0.25 * 0.625)
    )


def test_proposals_of_mean_length_count_the_last_token_in_part():
    resting = Acceptance(
        draft_tokens=4, tokens_per_step=1.2, proposal_ratio=0.4, proposed_tokens=1.5
    )
    assert emits(resting, 0.5) == pytest.approx(1 + 0.4 * (0.5 + 0.5 * 0.25))


PRICED = [load_method(slug) for slug in method_names() if not load_method(slug).refusal]
DRAFTING = [method.slug for method in PRICED if method.drafts]
OWN_PACE = [method.slug for method in PRICED if method.advance is not None]


def named(slug):
    draft = "llama-3.2-1b" if load_method(slug).needs_draft_model else None
    where = DeploymentNames(model="llama-3.1-8b", device="h100-sxm")
    return build_setting(DecodingConfiguration(method=slug, draft_model=draft, deployment=where))


def claimed(method, rate, share, k):
    """What `predict` takes for a stated rate."""
    source = rates_source(method.slug, (rate,), match_rate=share)
    if method.shape.kind == "state_trees":
        return state_candidates(source, [k])[0]
    return rate_claim(method, source.rates, k)


@pytest.mark.parametrize("slug", DRAFTING)
def test_at_its_root_a_stated_rate_is_predicted_to_break_even(slug):
    setting, method = named(slug), load_method(slug)
    shares = (1.0, 0.3) if method.may_propose_nothing else (1.0,)
    for share in shares:
        for batch, k in ((1, 4), (64, 3)):
            unknown = geometric(0.0, k, match_rate=proposal_share(slug, share))
            solved = at(setting, unknown, batch, known=False)
            if solved.verdict != "on":
                end = 1.0 if solved.verdict == "never" else 0.0
                pays = speedup(setting, claimed(method, end, share, k), batch) >= 1.0
                assert pays == (solved.verdict == "always")
                continue
            reached = speedup(setting, claimed(method, solved.least_rate, share, k), batch)
            assert reached == pytest.approx(1.0, abs=1e-3)
            if method.shape.kind == "state_trees":
                continue  # whose trees have sizes, and no draft length to state tokens at
            stated = tokens_claim(
                method, solved.least_tokens_per_step, k, match_rate=proposal_share(slug, share)
            )
            assert speedup(setting, stated, batch) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("slug", OWN_PACE)
def test_a_pace_of_its_own_is_predicted_to_break_even(slug):
    setting, method = named(slug), load_method(slug)
    solved = at(setting, own_pace(method), 8)
    assert solved.least_rate is None
    ends = [speedup(setting, own_pace(method, tokens), 8) >= 1.0 for tokens in (1.0, 4095.0)]
    assert solved.verdict == ("always" if ends[0] else "on" if ends[1] else "never")
    if solved.verdict == "on":
        reached = speedup(setting, own_pace(method, solved.least_tokens_per_step), 8)
        assert reached == pytest.approx(1.0, abs=1e-3)


def test_a_tree_known_by_its_tokens_breaks_even_in_tokens():
    """EAGLE-2's own tree of 59 nodes is no chain of 59: no single rate of a token describes it."""
    setting = named("eagle-2")
    own = tokens_claim(setting.drafter.method, 4.0)
    solved = at(setting, own)
    assert solved.verdict == "on" and solved.least_rate is None
    assert solved.most_tokens_per_step == 1.0 + own.shape.depth
    stated = tokens_claim(setting.drafter.method, solved.least_tokens_per_step)
    assert speedup(setting, stated) == pytest.approx(1.0, abs=1e-3)


def batches(setting, acceptance, context=1024, largest=512):
    return paying_batches(
        setting, acceptance, context=context, largest=largest, generator=np.random.default_rng(0)
    )


def test_batches_are_those_whose_speedup_exceeds_one():
    accepted = geometric(0.6, 3)
    found = batches(EAGLE, accepted, 512, 1024)
    every = np.arange(1, 1025)
    pays = estimate(EAGLE, accepted, batch=every.astype(float), context=512).speedup > 1.0
    listed = np.concatenate([np.arange(a, b + 1) for a, b in found.ranges])
    assert found.verdict == "some" and found.last == found.ranges[-1][1]
    for batch in np.setxor1d(
        listed, every[pays]
    ).tolist():  # in ranges that are no wider than the doubt allows
        low, high = at(EAGLE, accepted, batch, 512).speedup_bounds
        assert low < 1.0 < high
    assert 1 <= found.last_bounds[0] <= found.last <= found.last_bounds[1] <= 1024


A100 = build_setting(
    DecodingConfiguration(
        method="eagle-3", deployment=DeploymentNames(model="llama-3.1-8b", device="a100-sxm-80")
    )
)


@pytest.mark.parametrize("rate", [0.4, 0.5, 0.6])
def test_no_narrow_range_or_gap_within_its_interval(rate):
    """Tiles of matrix kernels make the speedup jagged around 1, which no interval tells from 1."""
    accepted = geometric(rate, 3)
    every = np.arange(1, 513).astype(float)
    jagged = estimate(A100, accepted, batch=every, context=1024).speedup
    found = batches(A100, accepted)
    edges = [edge for low, high in found.ranges for edge in (low, high + 1)]
    ends = [1, *(edge for edge in edges if 1 < edge <= 512), 513]
    for low, behind in pairwise(ends):
        if len(ends) > 2 and behind < 1.125 * low:
            assert np.abs(np.log(jagged[low - 1 : behind - 1])).max() > 0.02
    assert len(found.ranges) <= 1


def test_never_and_always_are_said():
    assert batches(EAGLE, geometric(0.05, 3)).verdict == "never"
    assert batches(EAGLE, geometric(0.05, 3)).last is None
    always = batches(NGRAM, geometric(0.9, 2), 8192, 32)
    assert (
        always.verdict == "always"
        and list(always.ranges) == [(1, 32)]
        and always.last_bounds[1] == 32
    )


def test_experts_let_drafts_pay_only_from_some_batch():
    """Alone, drafted tokens wake experts that plain decoding leaves idle; in a batch they are awake
    anyway."""
    found = batches(MOE, geometric(0.35, 5))
    assert found.verdict == "some" and found.ranges[0][0] > 1


def test_more_acceptance_pays_longer():
    lasts = [batches(EAGLE, geometric(rate, 3), 512).last for rate in (0.5, 0.6, 0.7)]
    assert lasts == sorted(lasts) and lasts[0] < lasts[-1]


def test_batches_are_bounded():
    assert batches(EAGLE, geometric(0.7, 3), largest=10**6).largest == MOST_BATCH
    with pytest.raises(InputError, match="largest"):
        batches(EAGLE, geometric(0.7, 3), largest=0)
