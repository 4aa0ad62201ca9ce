"""What stated numbers bring under an entry, and what entries make of a step's price."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.drafters.pass_costs import draft_pass, emitted_by
from costmodel.laws.acceptance import DepthRates, geometric, longest_of
from costmodel.laws.claims import rate_claim, tokens_claim
from costmodel.laws.refining import refined
from costmodel.method import Shape
from costmodel.method_library import load_method, method_names
from costmodel.passes.forward import pass_cost
from hardware_profiles.errors import InputError
from traces.kinds.tree import Tree

AT = {"batch": 2, "context": 8000}


def setting(slug, **changes):
    draft = "llama-3.2-1b" if load_method(slug).needs_draft_model else None
    names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none")
    return build_setting(
        DecodingConfiguration(method=slug, draft_model=draft, deployment=names, **changes)
    )


def step(slug, accepted, **changes):
    return estimate(setting(slug, **changes), accepted, **AT).step


@given(rate=st.floats(0.0, 1.0), k=st.integers(0, 12))
def test_a_rate_is_the_geometric_law_where_nothing_is_shared(rate, k):
    claim, law = rate_claim(load_method("speculative-decoding"), rate, k), geometric(rate, k)
    assert claim.tokens_per_step == pytest.approx(law.tokens_per_step)


@given(rate=st.floats(0.0, 1.0), k=st.integers(1, 10), slug=st.sampled_from(method_names()))
def test_no_entry_emits_more_than_it_drafts_and_one(rate, k, slug):
    method = load_method(slug)
    if method.drafts:
        claim = rate_claim(method, rate, k)
        assert 1.0 <= claim.tokens_per_step <= k + 1 + 1e-9
        assert (
            claim.tokens_per_step
            <= rate_claim(method, min(rate + 0.1, 1.0), k).tokens_per_step + 1e-9
        )


def test_a_budget_verifies_fewer_than_are_drafted():
    tetris = load_method("tetris")
    all_of_them = rate_claim(
        replace(tetris, batch=replace(tetris.batch, budget_per_request=4.0)), 0.8, 4
    )
    three, some = (
        rate_claim(tetris, 0.8, 4),
        rate_claim(replace(tetris, batch=replace(tetris.batch, budget_per_request=2.5)), 0.8, 4),
    )
    assert three.tokens_per_step == pytest.approx(geometric(0.8, 3).tokens_per_step)
    assert geometric(0.8, 2).tokens_per_step < some.tokens_per_step < three.tokens_per_step
    assert all_of_them.tokens_per_step == pytest.approx(geometric(0.8, 4).tokens_per_step)
    assert float(step("tetris", three).verify_s) < float(
        step("speculative-decoding", geometric(0.8, 4)).verify_s
    )


@pytest.mark.parametrize("tokens", [0.0, 0.99, 4.1, float("inf"), float("nan")])
def test_tokens_that_a_shape_cannot_emit_are_refused(tokens):
    for slug, shape in (
        ("eagle-3", 3),
        ("eagle-3", Tree.from_paths([(0,), (0, 0), (0, 0, 0), (1,)])),
    ):
        with pytest.raises(InputError, match="tokens_per_step"):
            tokens_claim(load_method(slug), tokens, shape)


def test_an_entrys_own_shape_stands_in_for_draft_tokens():
    assert tokens_claim(load_method("kangaroo"), 2.0).draft_tokens == 6
    own = tokens_claim(load_method("eagle-2"), 4.0)
    assert (own.draft_tokens, own.lengths.mean_passes) == (59, 6.0)
    with pytest.raises(InputError, match="no shape"):
        tokens_claim(load_method("dyspec"), 3.0)
    with pytest.raises(InputError, match="drafts nothing"):
        tokens_claim(load_method("gear"), 1.5, 3)
    with pytest.raises(InputError, match="shape of its own"):
        tokens_claim(load_method("fast-dllm"), 2.0, 3)
    with pytest.raises(InputError, match="rate"):
        rate_claim(load_method("fast-dllm"), 0.5, 3)


def test_a_step_that_overlaps_takes_its_longer_phase():
    claim = rate_claim(load_method("pearl"), 0.8, 4)
    found = step("pearl", claim)
    assert float(found.total_s) == pytest.approx(max(float(found.draft_s), float(found.verify_s)))
    serial = step("speculative-decoding", geometric(0.8, 4))
    assert float(found.draft_s) == pytest.approx(float(serial.draft_s))


def test_the_layers_that_drafted_are_not_run_again():
    found, whole = (step(slug, geometric(0.7, 4)) for slug in ("kangaroo", "early-exit"))
    s = setting("kangaroo")
    first, rest = (
        replace(s.deployment, architecture=s.target.with_layers(layers)) for layers in (2, 30)
    )
    unread = pass_cost(first, query_tokens=1, logits="none", **AT)  # the last draft token
    assert float(found.verify_s) == pytest.approx(
        float(pass_cost(rest, query_tokens=5, **AT).total_s + unread.total_s)
    )
    assert float(found.verify_s) < float(whole.verify_s)


def test_rows_that_ride_are_query_tokens_of_the_pass():
    found = step("lookahead", geometric(0.5, 4))
    rows = pass_cost(setting("lookahead").deployment, query_tokens=1 + (15 + 15) * 4, **AT)
    assert float(found.verify_s) == pytest.approx(float(rows.total_s))
    assert float(found.draft_s) == 0.0


def test_guesses_are_rows_of_steps_with_a_proposal_and_the_window_of_all():
    found = step("lookahead", replace(geometric(0.5, 4), proposal_ratio=0.0))
    rows = pass_cost(setting("lookahead").deployment, query_tokens=1 + 15 * 4, **AT)
    assert float(found.verify_s) == pytest.approx(float(rows.total_s))


@given(st.floats(0.0, 1.0), st.integers(1, 30), st.integers(1, 12))
def test_the_longest_of_several_guesses(rate, guesses, tokens):
    """Expected tokens as the paper writes them; one guess is the geometric law, and one more never
    keeps less."""
    one = DepthRates(by_depth=(rate,))
    found, more = (
        longest_of(one, count, tokens).chain(tokens).tokens_per_step
        for count in (guesses, guesses + 1)
    )
    missed = sum((1.0 - rate**depth) ** guesses for depth in range(1, tokens + 1))
    assert found == pytest.approx(tokens + 1.0 - missed)
    assert found <= more + 1e-12 and more <= tokens + 1.0
    assert longest_of(one, 1, tokens).chain(tokens).tokens_per_step == pytest.approx(
        geometric(rate, tokens).tokens_per_step
    )


def test_one_rate_of_a_pool_is_that_of_each_guess_and_rates_by_position_of_the_longest():
    lookahead = load_method("lookahead")
    assert rate_claim(lookahead, 0.3, 4).tokens_per_step == pytest.approx(
        5.0 - sum((1.0 - 0.3**depth) ** 15 for depth in range(1, 5))
    )
    longest = DepthRates(by_depth=(0.5, 0.3), measured=2)
    assert rate_claim(lookahead, longest, 2).tokens_per_step == pytest.approx(1.8)
    drawn = replace(DepthRates(by_depth=(0.3,)), proposal_ratio=0.5)
    assert rate_claim(lookahead, drawn, 4).tokens_per_step == pytest.approx(
        1.0 + 0.5 * (rate_claim(lookahead, 0.3, 4).tokens_per_step - 1.0)
    )


def test_nested_stages_repeat_an_inner_step():
    s = setting("triforce")
    outer, inner = s.drafter.stages
    one = {"batch": AT["batch"], "context": AT["context"]}
    small = draft_pass(s.deployment, s.drafter, inner, query_tokens=1.0, **one).total_s
    large = draft_pass(s.deployment, s.drafter, outer, query_tokens=3.0, **one).total_s
    steps = 6 / emitted_by(0.46, 2)
    assert float(step("triforce", geometric(0.9, 6)).draft_s) == pytest.approx(
        float(steps * (2 * small + large))
    )
    capped = draft_pass(
        s.deployment, s.drafter, outer, query_tokens=3.0, batch=2, context=4096
    ).total_s
    assert float(large) == pytest.approx(float(capped))
    with pytest.raises(InputError, match="chains"):
        step("triforce", tokens_claim(s.drafter.method, 1.5, Tree.from_paths([(0,), (1,)])))


def test_stated_draft_passes_have_their_price():
    claim = geometric(0.7, 8)
    found = [
        float(step("speculative-decoding", claim, draft_passes=n, draft_bytes=1e9).draft_s)
        for n in (1, 2, 5, 9)
    ]
    assert found == pytest.approx([n * found[0] for n in (1, 2, 5, 9)])


def test_masked_blocks_cost_their_passes():
    dual, full = (
        estimate(setting(slug), refined(load_method(slug)), **AT) for slug in ("fast-dllm", "llada")
    )
    assert float(dual.acceptance.tokens_per_step) == 2.77 and full.acceptance.tokens_per_step == 1.0
    assert float(dual.step_s) < 0.5 * float(full.step_s)
    even = refined(load_method("llada"), 3.0)
    assert even.tokens_per_step == pytest.approx(32 / 11)  # a whole number of passes
    assert (
        refined(load_method("fast-dllm"), 32.0).tokens_per_step == 16.0
    )  # the cache is used once at least
    for tokens in (0.5, 33.0):
        with pytest.raises(InputError, match="tokens_per_step"):
            refined(load_method("llada"), tokens)


def test_a_tree_of_ones_own_shape_has_the_tokens_that_are_stated():
    shape = Shape(kind="dynamic_tree", nodes=5, depth=4, width=3, beam=3)
    found = tokens_claim(load_method("eagle-3"), 2.5, shape)
    assert (found.tokens_per_step, found.draft_tokens, found.shape) == (2.5, 5, shape)
    assert found.lengths.rows.tolist() == [1.0, 3.0, 3.0, 3.0]
    with pytest.raises(InputError, match="4 draft levels"):
        tokens_claim(load_method("eagle-3"), 5.5, shape)
    with pytest.raises(InputError, match="nodes and depth"):
        tokens_claim(load_method("eagle-3"), 2.5, replace(shape, depth=0))
