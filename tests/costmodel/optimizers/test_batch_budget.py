"""Shares of a batch's verify budget against exhaustive splits."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.optimizers.batch_budget import best_split, chain_split, fastest_chain_split
from costmodel.optimizers.static_tree import optimal_values
from hardware_profiles.errors import InfeasibleError, InputError

TABLES = st.lists(st.lists(st.one_of(st.floats(0, 9), st.just(np.nan)), min_size=1, max_size=5), min_size=1, max_size=4)
SURVIVAL = st.lists(
    st.lists(st.integers(0, 20), max_size=5).map(lambda row: [each / 20 for each in sorted(row)[::-1]]),
    min_size=1,
    max_size=4,
)


def best_by_enumeration(tables, total):
    best = -np.inf
    for shares in itertools.product(*[range(len(table)) for table in tables]):
        value = sum(table[share] for table, share in zip(tables, shares, strict=True))
        if sum(shares) <= total and value > best:
            best = value
    return best


def test_equal_to_exhaustive_splits_over_tree_values(reference_data):
    rows = json.loads((reference_data / "reference/groundtruth_batch_alloc.json").read_text())["rows"]
    for row in rows:
        total = row["total_nodes_incl_roots"]
        tables = [optimal_values(p, total, row["max_levels_incl_root"])[:, -1] for p in row["p"]]
        split = best_split(tables, total)
        assert split.tokens == pytest.approx(row["optimal_total"], abs=1e-9)
        attained = sum(table[share] for table, share in zip(tables, split.shares, strict=True))
        assert attained == pytest.approx(row["optimal_total"], abs=1e-9)
        assert sum(split.shares) <= total
        assert min(split.shares) >= 1
    assert len(rows) == 24


@given(TABLES, st.integers(0, 12))
def test_equal_to_enumeration(tables, total):
    best = best_by_enumeration(tables, total)
    if best == -np.inf:
        with pytest.raises(InfeasibleError):
            best_split(tables, total)
        return
    split = best_split(tables, total)
    assert split.tokens == pytest.approx(best)
    assert sum(split.shares) <= total
    attained = sum(table[share] for table, share in zip(tables, split.shares, strict=True))
    assert attained == pytest.approx(split.tokens)


@given(SURVIVAL, st.integers(0, 12))
def test_greedy_slots_are_the_best_split_of_chains(survival, total):
    tables = [1 + np.concatenate([[0.0], np.cumsum(row)]) for row in survival]
    greedy = chain_split(survival, total)
    assert greedy.tokens == pytest.approx(best_split(tables, total).tokens)
    assert greedy.tokens == pytest.approx(sum(table[share] for table, share in zip(tables, greedy.shares, strict=True)))
    assert sum(greedy.shares) == min(total, sum(len(row) for row in survival))


@given(SURVIVAL, st.lists(st.floats(0.1, 10), min_size=1, max_size=12))
def test_no_other_budget_is_faster(survival, step_s):
    found = fastest_chain_split(survival, step_s)
    budgets = range(min(len(step_s), sum(map(len, survival)) + 1))
    rates = [chain_split(survival, budget).tokens / step_s[budget] for budget in budgets]
    assert found.tokens_per_s == pytest.approx(max(rates))
    assert found.step_s == step_s[sum(found.split.shares)]


@given(SURVIVAL)
def test_free_verification_takes_every_slot_worth_something_and_dear_none(survival):
    slots = sum(map(len, survival))
    free = fastest_chain_split(survival, [1.0] * (slots + 1))
    assert sum(free.split.shares) == sum(chance > 0 for row in survival for chance in row)
    dear = fastest_chain_split(survival, 1.0 + 2.0 * np.arange(slots + 1))
    assert sum(dear.split.shares) == 0


def test_ties_go_to_the_shorter_prefix_then_to_the_earlier_request():
    assert chain_split([[0.5, 0.5], [0.5]], 2).shares == (1, 1)
    assert chain_split([[0.5, 0.5], [0.5]], 1).shares == (1, 0)
    assert chain_split([], 3).shares == ()


@pytest.mark.parametrize(
    ("call", "key"),
    [
        (lambda: best_split([[]], 3), "values[0]"),
        (lambda: best_split([[1.0], [np.inf]], 3), "values[1]"),
        (lambda: best_split([[[1.0]]], 3), "values[0]"),
        (lambda: best_split([[1.0]], -1), "total"),
        (lambda: best_split([[1.0]] * 10, 1 << 24), "total"),
        (lambda: chain_split([[0.5, 0.6]], 1), "survival[0]"),
        (lambda: chain_split([[0.5], [1.5]], 1), "survival[1]"),
        (lambda: chain_split([[0.5], [np.nan]], 1), "survival[1]"),
        (lambda: chain_split([[0.5]], -1), "total"),
        (lambda: fastest_chain_split([], [1.0]), "survival"),
        (lambda: fastest_chain_split([[0.5]], []), "step_s"),
        (lambda: fastest_chain_split([[0.5]], [1.0, 0.0]), "step_s"),
        (lambda: fastest_chain_split([[0.5]], [1.0, np.nan]), "step_s"),
    ],
)
def test_refuses_what_is_no_question(call, key):
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.key == key


def test_says_when_roots_alone_exceed_the_budget():
    with pytest.raises(InfeasibleError):
        best_split([[np.nan, 1.0]] * 3, 2)
