"""Every lossless rule gives exactly the target's distribution; wrong rules are caught by the same
sums."""

from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.method_library import load_method, method_names
from hardware_profiles.errors import InputError, UnknownNameError
from real_runs.decoding.sampled import candidates, judging
from real_runs.decoding.speculative import DraftedTokens
from real_runs.decoding.tree import TreeLayout
from real_runs.decoding.verifiers import (
    VERIFIERS,
    NodeVerdict,
    best_path,
    best_path_rows,
    block_probabilities,
    block_residual,
    drawn,
    fixed_candidates,
    normalised,
    rejection,
    verifier_named,
    without,
)
from tests.property_examples import examples

V = 3


@st.composite
def rows(draw, count=1, vocabulary=V):
    """Distributions with zeros among them; `count` rows."""
    made = []
    for _ in range(count):
        weights = draw(
            st.lists(st.integers(0, 9), min_size=vocabulary, max_size=vocabulary).filter(any)
        )
        made.append(np.asarray(weights) / sum(weights))
    return np.asarray(made)


def draw_chances(drafter, count, draws):
    """Every way of drawing candidates, with its chance."""
    if draws == "largest":
        return [(tuple(np.argsort(-drafter, kind="stable")[:count]), 1.0)]
    ways = []
    for ids in product(range(drafter.size), repeat=count):
        chance, left = 1.0, drafter
        for token in ids:
            chance *= left[token]
            if draws == "distinct" and chance:
                left = normalised(without(left, token), left)
        if chance > 0 and (draws == "independent" or len(set(ids)) == count):
            ways.append((ids, chance))
    return ways


def emitted(rule, target, drafter, count, draws):
    """Exact distribution of the next token, and the chance that it is one of the candidates."""
    distribution, kept = np.zeros(target.size), 0.0
    for ids, drawn_chance in draw_chances(drafter, count, draws):
        verdict, chance = rule(target, drafter, ids), drawn_chance
        for token, accept in zip(ids, verdict.accept, strict=True):
            assert 0 <= accept <= 1
            distribution[token] += chance * accept
            kept += chance * accept
            chance *= 1 - accept
        distribution += chance * verdict.residual
    return distribution, kept


EXACT = [
    (VERIFIERS["token_rejection"], 1, "independent"),
    (VERIFIERS["with_replacement"], 1, "independent"),
    (VERIFIERS["with_replacement"], 3, "independent"),
    (VERIFIERS["without_replacement"], 1, "distinct"),
    (VERIFIERS["without_replacement"], 2, "distinct"),
    (VERIFIERS["without_replacement"], 4, "distinct"),
    (VERIFIERS["fixed_candidates"], 2, "largest"),
    (VERIFIERS["fixed_candidates"], 2, "independent"),
    (VERIFIERS["fixed_candidates"], 3, "distinct"),
    (VERIFIERS["match"], 2, "largest"),
]


def labelled(value):
    return getattr(value, "name", str(value))


@pytest.mark.parametrize(("verifier", "count", "draws"), EXACT, ids=labelled)
@given(rows(2, 4))
def test_the_next_token_has_the_targets_distribution(verifier, count, draws, pair):
    target, drafter = pair
    if draws == "distinct" and np.count_nonzero(drafter) < count:
        return
    assert verifier.lossless
    np.testing.assert_allclose(
        emitted(verifier.rule, target, drafter, count, draws)[0], target, atol=1e-12
    )


@pytest.mark.parametrize(("verifier", "count", "draws"), EXACT[:5], ids=labelled)
@settings(max_examples=examples(15))
@given(st.data())
def test_two_tokens_have_the_targets_joint_distribution(verifier, count, draws, data):
    """The tree of two levels, played through to the end: siblings, residuals, and a bonus from the
    target."""
    target, drafter = data.draw(rows(1 + V)), data.draw(rows(1 + V))
    if draws == "distinct" and np.count_nonzero(drafter, axis=1).min() < count:
        return
    joint = np.zeros((V, V))
    for ids, drawn_chance in draw_chances(drafter[0], count, draws):
        verdict, chance = verifier.rule(target[0], drafter[0], ids), drawn_chance
        for token, accept in zip(ids, verdict.accept, strict=True):
            below = emitted(verifier.rule, target[1 + token], drafter[1 + token], count, draws)[0]
            joint[token] += chance * accept * below
            chance *= 1 - accept
        joint += chance * verdict.residual[:, None] * target[1:]
    np.testing.assert_allclose(joint, target[0][:, None] * target[1:], atol=1e-12)


def never_normalised(target, drafter, ids):
    verdict = rejection(target, drafter, ids, distinct=False)
    return NodeVerdict(accept=verdict.accept, residual=np.maximum(target - drafter, 0.0))


def original_as_residual(target, drafter, ids):
    return NodeVerdict(
        accept=rejection(target, drafter, ids, distinct=False).accept, residual=target
    )


@pytest.mark.parametrize(
    ("rule", "count", "draws"),
    [
        (never_normalised, 1, "independent"),
        (original_as_residual, 1, "independent"),
        (partial(rejection, distinct=False), 2, "distinct"),  # q used again after a candidate fell
        (partial(rejection, distinct=True), 2, "independent"),
        (VERIFIERS["near_match"].rule, 1, "largest"),
        (VERIFIERS["typical"].rule, 1, "largest"),
        (VERIFIERS["typical"].rule, 2, "independent"),
    ],
)
def test_wrong_and_lossy_rules_are_distinguished_from_right_ones(rule, count, draws):
    target, drafter = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4])
    assert np.abs(emitted(rule, target, drafter, count, draws)[0] - target).max() > 0.01


@given(rows(2, 4), st.integers(1, 4))
def test_how_often_candidates_stay(pair, count):
    """One candidate: sum min(p, q). More candidates never stay less often; fixed ones stay with
    their mass."""
    target, drafter = pair
    kept = {
        draws: [
            emitted(partial(rejection, distinct=draws == "distinct"), target, drafter, k, draws)[1]
            for k in ks
        ]
        for draws, ks in (
            ("independent", (1, 2, 3)),
            ("distinct", range(1, np.count_nonzero(drafter) + 1)),
        )
    }
    for rates in kept.values():
        assert rates[0] == pytest.approx(np.minimum(target, drafter).sum())
        assert (np.diff(rates) > -1e-12).all()
    largest = np.argsort(-drafter, kind="stable")[:count]
    assert emitted(fixed_candidates, target, drafter, count, "largest")[1] == pytest.approx(
        target[largest].sum()
    )


def test_all_of_a_perfect_drafters_support_drawn_without_replacement_always_stays():
    target = np.array([0.1, 0.6, 0.3])
    other = np.array([0.6, 0.1, 0.3])
    assert emitted(partial(rejection, distinct=True), target, target, 1, "distinct")[
        1
    ] == pytest.approx(1)
    assert emitted(partial(rejection, distinct=True), target, other, 3, "distinct")[
        1
    ] == pytest.approx(1)


@given(rows(2, 5))
def test_matching_is_right_for_fixed_drafts_and_wasteful_for_drawn_ones(pair):
    """A draft is kept where an answer drawn from p equals it: chance p(x), and sum p q <= sum
    min(p, q)."""
    target, drafter = pair
    best = int(drafter.argmax())
    assert fixed_candidates(target, drafter, [best]).accept == (target[best],)
    matched = float((target * drafter).sum())
    assert matched <= np.minimum(target, drafter).sum() + 1e-12


def test_what_matching_costs_when_the_drafter_is_the_target():
    """Chains of 4 from q = p = ten equally likely tokens: matching keeps 0.11 of them, rejection
    all."""
    row, chain = np.full(10, 0.1), 4
    match = sum((row * row).sum() ** depth for depth in range(1, chain + 1))
    assert match == pytest.approx(0.1111)
    assert emitted(VERIFIERS["token_rejection"].rule, row, row, 1, "independent")[
        1
    ] == pytest.approx(1)


def block_outcome(target, drafter, length, residual_of=block_residual):
    """Exact joint distribution of length + 1 tokens under block verification, and the mean length
    kept."""
    joint, kept = np.zeros((V,) * (length + 1)), 0.0
    for tokens in product(range(V), repeat=length):
        qs = [drafter[tokens[:depth]] for depth in range(length)]
        ps = [target[tokens[:depth]] for depth in range(length + 1)]
        chance = np.prod([q[token] for q, token in zip(qs, tokens, strict=True)])
        if not chance:
            continue
        chances, ratios = block_probabilities(ps, qs, tokens)
        for cut in range(length, -1, -1):
            here = chance * (chances[cut - 1] if cut else 1.0)
            chance -= here
            kept += cut * here
            residual = residual_of(ps[cut], qs[cut] if cut < length else None, ratios[cut])
            for token in range(V):
                prefix = (*tokens[:cut], token)
                joint[prefix] += here * residual[token] * later(target, prefix, length)
    return joint, kept


def later(target, prefix, length):
    """The target's joint distribution of the tokens after a prefix, up to length + 1 tokens."""
    if len(prefix) == length + 1:
        return 1.0
    row = target[prefix]
    return np.stack([row[token] * later(target, (*prefix, token), length) for token in range(V)])


def several_outcome(target, drafter, length, count, residual_of=block_residual):
    """As `block_outcome`, of the best of several chains: every way to draw all of them."""
    joint, kept = np.zeros((V,) * (length + 1)), 0.0
    chains = list(product(range(V), repeat=length))
    qs = [[drafter[tokens[:depth]] for depth in range(length)] for tokens in chains]
    ps = [[target[tokens[:depth]] for depth in range(length + 1)] for tokens in chains]
    alone = [
        np.prod([q[token] for q, token in zip(*each, strict=True)])
        for each in zip(qs, chains, strict=True)
    ]
    for ids in product(range(len(chains)), repeat=count):
        chance = np.prod([alone[i] for i in ids])
        if not chance:
            continue
        best = ids[best_path([ps[i] for i in ids], [qs[i] for i in ids], [chains[i] for i in ids])]
        tokens, rows = chains[best], best_path_rows(ps[best], qs[best], chains[best], count)
        chances, ratios = block_probabilities(ps[best], rows, tokens)
        for cut in range(length, -1, -1):
            here = chance * (chances[cut - 1] if cut else 1.0)
            chance -= here
            kept += cut * here
            residual = residual_of(ps[best][cut], rows[cut] if cut < length else None, ratios[cut])
            for token in range(V):
                prefix = (*tokens[:cut], token)
                joint[prefix] += here * residual[token] * later(target, prefix, length)
    return joint, kept


def token_kept(target, drafter, length):
    """Mean length kept by rejection token after token."""
    kept = 0.0
    for tokens in product(range(V), repeat=length):
        chance = 1.0
        for depth, token in enumerate(tokens):
            p, q = target[tokens[:depth]][token], drafter[tokens[:depth]][token]
            chance *= min(p, q)
            kept += chance / V ** (length - depth - 1)
    return kept


@st.composite
def conditionals(draw, length):
    prefixes = [tokens for depth in range(length + 1) for tokens in product(range(V), repeat=depth)]
    return dict(zip(prefixes, draw(rows(len(prefixes))), strict=True))


@settings(max_examples=examples(25))
@given(st.data(), st.integers(1, 3))
def test_blocks_keep_the_joint_distribution_and_more_tokens(data, length):
    target, drafter = data.draw(conditionals(length)), data.draw(conditionals(length))
    joint, kept = block_outcome(target, drafter, length)
    np.testing.assert_allclose(joint, later(target, (), length), atol=1e-12)
    by_token = token_kept(target, drafter, length)
    assert kept >= by_token - 1e-12
    if length == 1:
        assert kept == pytest.approx(by_token)


def test_blocks_do_keep_more_and_reuse_of_a_token_residual_is_caught():
    generator = np.random.default_rng(5)
    prefixes = [tokens for depth in range(4) for tokens in product(range(V), repeat=depth)]
    target, drafter = (
        {prefix: generator.dirichlet(np.ones(V)) for prefix in prefixes} for _ in range(2)
    )
    joint, kept = block_outcome(target, drafter, 3)
    assert kept > token_kept(target, drafter, 3) * 1.01
    wrong = block_outcome(
        target, drafter, 3, residual_of=lambda p, q, ratio: block_residual(p, q, 1.0)
    )[0]
    assert np.abs(wrong - joint).max() > 1e-3


@settings(max_examples=examples(15), deadline=None)
@given(st.data(), st.integers(1, 2), st.integers(1, 3))
def test_the_best_of_several_chains_keeps_the_joint_distribution(data, length, count):
    target, drafter = data.draw(conditionals(length)), data.draw(conditionals(length))
    joint, kept = several_outcome(target, drafter, length, count)
    np.testing.assert_allclose(joint, later(target, (), length), atol=1e-12)
    if count == 1:
        assert kept == pytest.approx(block_outcome(target, drafter, length)[1])


def test_a_mass_that_rounding_alone_leaves_passes_for_certain():
    """Equal rows whose difference is a rounding error, beside a ratio of 1."""
    drafter = np.array([5 / 17, 9 / 17, 3 / 17])
    target = drafter.copy()
    target[1] = np.nextafter(drafter[1], 1.0)
    passing, ratios = block_probabilities([drafter, target, target], [drafter, drafter], [1, 1])
    assert ratios[1] == 1.0 and passing[0] == 1.0


def test_two_chains_keep_more_than_one_and_must_be_judged_by_their_own_law():
    generator = np.random.default_rng(6)
    prefixes = [tokens for depth in range(3) for tokens in product(range(V), repeat=depth)]
    target, drafter = (
        {prefix: generator.dirichlet(np.ones(V)) for prefix in prefixes} for _ in range(2)
    )
    joint, kept = several_outcome(target, drafter, 2, 2)
    assert kept > several_outcome(target, drafter, 2, 1)[1] * 1.05
    wrong = several_outcome(target, drafter, 2, 2, residual_of=lambda p, q, ratio: p)[0]
    assert np.abs(wrong - joint).max() > 1e-3


WALKED = [
    ("token_rejection", (-1, 0, 1)),
    ("block", (-1, 0, 1)),
    ("fixed_candidates", (-1, 0, 0, 1, 1)),
]
WALKED += [("multi_path_block", (-1, 0, 0, 1, 2)), ("match", (-1, 0, 0, 1, 1))]
WALKED += [(name, (-1, 0, 0, 1, 1, 2)) for name in ("with_replacement", "without_replacement")]


@pytest.mark.parametrize("steps", [2000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "parents"), [*WALKED, ("typical", (-1, 0, 0, 1, 1))])
def test_the_walk_draws_what_the_rule_says(name, parents, steps):
    """Steps from tables over six tokens: chi-squared of the first two tokens against the target."""
    generator = np.random.default_rng(11)
    target, drafter = (generator.dirichlet(np.full(6, 2.0), size=7) for _ in range(2))
    layout, verifier = TreeLayout(parents, 1), VERIFIERS[name]
    judge = judging(verifier, 1.0, generator)
    counts = np.zeros((6, 6))
    for _ in range(steps):
        tokens, kept_rows = [6], {}
        for node in range(len(parents)):
            below = layout.children[node]
            if below:
                row = drafter[tokens[node]]
                tokens += candidates(
                    row, len(below), generator, distinct=verifier.draws == "distinct"
                )
                kept_rows[node] = row
        made = DraftedTokens(tokens=tokens, layout=layout, rows=kept_rows)
        _, text = judge(made, torch.from_numpy(np.log(target[tokens])), 0)
        text += [drawn(target[text[-1]], generator)] if len(text) == 1 else []
        counts[text[0], text[1]] += 1
    expected = steps * target[6][:, None] * target[:6]
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    if verifier.lossless:
        assert chi_squared < 66.6  # 35 degrees of freedom, p = .001
    else:
        assert chi_squared > 150


def test_typical_acceptance_takes_the_longest_path_that_stays():
    layout, row = TreeLayout((-1, 0, 0, 2), 1), torch.log(torch.tensor([0.5, 0.45, 0.05]))
    judge = judging(VERIFIERS["typical"], 1.0, np.random.default_rng(0))
    assert judge(DraftedTokens(tokens=[0, 0, 1, 1], layout=layout), row.expand(4, 3), 0) == (
        [0, 2, 3],
        [1, 1, 0],
    )
    assert judge(DraftedTokens(tokens=[0, 0, 1, 2], layout=layout), row.expand(4, 3), 0) == (
        [0, 1],
        [0, 0],
    )


@given(rows(1, 6), st.integers(1, 6))
def test_distinct_candidates_differ_while_there_are_any(table, count):
    chosen = candidates(table[0], count, np.random.default_rng(3), distinct=True)
    some = min(count, np.count_nonzero(table[0]))
    assert len(set(chosen[:some])) == some
    assert set(chosen[some:]) <= {chosen[0]}
    assert (table[0][chosen] > 0).all()


@given(rows(2, 4))
def test_a_repeated_candidate_never_stays(pair):
    """It is what fills places when nothing is left to draw."""
    target, drafter = pair
    token = int(drafter.argmax())
    verdict = rejection(target, np.eye(4)[token], [token, token], distinct=True)
    assert (1 - verdict.accept[0]) * verdict.accept[1] == 0
    after = emitted(partial(rejection, distinct=True), target, np.eye(4)[token], 1, "independent")[
        0
    ]
    np.testing.assert_allclose(after, target, atol=1e-12)


def test_unknown_names_and_missing_distributions_are_refused():
    with pytest.raises(UnknownNameError, match="typical"):
        verifier_named("typicl")
    with pytest.raises(InputError, match="drafter"):
        rejection(np.array([0.5, 0.5]), None, [0], distinct=False)
    assert not VERIFIERS["typical"].lossless


def test_entries_that_keep_the_text_are_verified_by_rules_that_pass():
    """Rules of every entry of the catalogue whose text is the target's are among those that are
    walked above."""
    drafting = [method for method in map(load_method, method_names()) if method.drafts]
    kept = {method.verify.rule for method in drafting if method.exactness != "lossy"}
    assert kept <= {name for name, _ in WALKED} and all(VERIFIERS[rule].lossless for rule in kept)
    relaxed = {
        method.verify.rule
        for method in drafting
        if method.exactness == "lossy" and not method.verify.relaxed
    }
    assert relaxed & {name for name, verifier in VERIFIERS.items() if not verifier.lossless}
