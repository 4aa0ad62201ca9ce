"""Stated acceptance: rates of one token, rates by depth, and the number itself."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from costmodel.laws.acceptance import DepthRates, geometric, means_rates, stated
from hardware_profiles.errors import InputError
from traces.kinds.tree import Tree

BUSH = Tree.from_paths([(0,), (1,), (0, 0)])


@given(st.floats(0, 1), st.integers(0, 20), st.floats(0, 1))
def test_one_rate_is_a_geometric_sum(rate, count, share):
    found = geometric(rate, count, match_rate=share)
    inside = sum(rate**depth for depth in range(count + 1))
    assert found.tokens_per_step == pytest.approx(share * inside + 1 - share)
    assert found.draft_tokens == count
    again = stated(min(found.tokens_per_step, 1 + share * count), count, proposal_ratio=share)
    assert (again.proposal_ratio, again.proposed_tokens) == (
        found.proposal_ratio,
        found.proposed_tokens,
    )


def test_a_stated_number_is_taken_as_it_is():
    chain, tree = stated(2.5, 3), stated(2.5, BUSH)
    assert (chain.tokens_per_step, chain.draft_tokens, chain.tree) == (2.5, 3, None)
    assert (tree.tokens_per_step, tree.draft_tokens, tree.tree) == (2.5, 3, BUSH)
    assert chain.samples.size == 0 and chain.rule == ""
    assert stated(1.0, 0).proposal_ratio == 0.0


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        (lambda: stated(0.9, 3), "tokens_per_step"),
        (lambda: stated(4.1, 3), "tokens_per_step"),
        (lambda: stated(3.1, BUSH), "tokens_per_step"),
        (lambda: stated(float("nan"), 3), "tokens_per_step"),
        (lambda: stated(2.6, 3, proposal_ratio=0.5), "tokens_per_step"),
        (lambda: stated(1.0, 3, proposal_ratio=1.5), "proposal_ratio"),
        (lambda: geometric(1.2, 3), "acceptance"),
        (lambda: geometric(0.5, -1), "draft_tokens"),
        (lambda: DepthRates(by_depth=(0.5, 0.6)), "acceptance"),
    ],
)
def test_what_no_shape_can_emit_is_refused(wrong, key):
    with pytest.raises(InputError) as caught:
        wrong()
    assert caught.value.key == key


@given(
    st.lists(st.floats(0.05, 0.95), min_size=8, max_size=8),
    st.sets(st.integers(1, 8), min_size=1, max_size=4),
)
@example([0.0625, *[0.5] * 7], {2, 3, 5})
def test_lengths_that_were_stated_keep_their_tokens(conditional, lengths):
    kept = np.cumprod(conditional)
    means = {k: 1.0 + float(kept[:k].sum()) for k in lengths}
    rates = means_rates(means)
    emitted = [rates.chain(k).tokens_per_step for k in range(max(lengths) + 1)]
    assert all(emitted[k] == pytest.approx(mean) for k, mean in means.items())
    known = sorted(means)
    for short, long in pairwise(known):
        assert all(
            means[short] - 1e-9 <= emitted[k] <= means[long] + 1e-9 for k in range(short + 1, long)
        )


@pytest.mark.parametrize("means", [{3: 4.2, 5: 3.0}, {0: 1.0, 2: 1.5}, {2: 0.9, 3: 1.5}])
def test_lengths_that_no_chain_emits_are_refused(means):
    with pytest.raises(InputError, match="tokens_per_step"):
        means_rates(means)
