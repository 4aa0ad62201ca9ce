"""The fastest tree against brute force over all small trees, the published search, and the cost
model's own steps."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.answers.estimate import step_cost
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import Acceptance, geometric
from costmodel.optimizers.trees.priced_tree import TreePrice, fastest_tree
from costmodel.optimizers.trees.runtime_trees import expected_tokens
from costmodel.optimizers.trees.tree_price import tree_price
from hardware_profiles.errors import InputError
from tests.property_examples import examples
from traces.kinds.tree import Tree

pytestmark = pytest.mark.heavy

NODES, LEVELS = 6, 4


def every_tree(nodes, depth, width):
    """Every sibling-closed tree of at most so many nodes, as sets of paths."""

    def below(left, levels):
        yield ()
        if levels == 0:
            return
        for count in range(1, min(width, left) + 1):
            for subtrees in itertools.product(list(below(left - count, levels - 1)), repeat=count):
                paths = tuple(
                    (rank, *path) for rank, sub in enumerate(subtrees) for path in ((), *sub)
                )
                if len(paths) <= left:
                    yield paths

    return [
        Tree.from_paths(sorted(paths, key=lambda p: (len(p), p)))
        for paths in set(below(nodes - 1, depth - 1))
    ]


TREES = every_tree(NODES, LEVELS, 3)


@st.composite
def questions(draw):
    row = np.array(draw(st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3)))
    vector = row / max(1.0, row.sum()) * 0.97
    verify = np.array(draw(st.lists(st.floats(0.5, 3.0), min_size=NODES, max_size=NODES)))
    first, per_level, accepted = (
        draw(st.floats(0.0, 0.3)),
        draw(st.floats(0.0, 0.3)),
        draw(st.floats(0.0, 0.2)),
    )
    rows = np.concatenate(
        [[0.0], np.sort(draw(st.lists(st.floats(0.0, 0.6), min_size=NODES, max_size=NODES)))]
    )
    return vector, TreePrice(
        plain_s=draw(st.floats(0.5, 2.0)),
        verify_s=verify,
        accepted_s=accepted,
        draft_s=lambda widths: first + sum(per_level + float(rows[width]) for width in widths),
    )


@settings(max_examples=examples(40))
@given(questions())
def test_the_fastest_of_all_small_trees_lies_within_the_certificate(question):
    vector, price = question
    vectors = [vector] * (LEVELS - 1)
    rates = []
    for tree in TREES:
        tokens = expected_tokens(tree, vectors)
        rates.append(tokens / price.step_s(tree, tokens))
    found = fastest_tree(vector, price, LEVELS)
    assert found.tokens_per_s == pytest.approx(found.tokens_per_step / found.step_s)
    assert found.tokens_per_s <= max(rates) * (1 + 1e-9)
    assert max(rates) <= found.tokens_per_s + (found.certificate.gap or 0.0) + 1e-7
    by_depth = fastest_tree([vector.tolist()] * (LEVELS - 1), price, LEVELS)
    assert max(rates) <= by_depth.tokens_per_s + (by_depth.certificate.gap or 0.0) + 1e-7


@settings(max_examples=examples(40))
@given(questions(), st.floats(0.0, 0.3))
def test_draft_passes_whose_width_is_free_leave_no_gap(question, level_s):
    vector, price = question
    flat = TreePrice(
        plain_s=price.plain_s,
        verify_s=price.verify_s,
        accepted_s=price.accepted_s,
        draft_s=lambda widths: level_s * len(widths),
    )
    found = fastest_tree(vector, flat, LEVELS)
    best = max(
        t / flat.step_s(tree, t)
        for tree in TREES
        for t in [expected_tokens(tree, [vector] * (LEVELS - 1))]
    )
    assert found.tokens_per_s == pytest.approx(best, rel=1e-7)


@pytest.fixture(scope="module")
def eagle():
    names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="sglang")
    return build_setting(DecodingConfiguration(method="eagle-3", deployment=names))


def test_prices_are_the_steps_of_the_cost_model(eagle):
    price = tree_price(eagle, batch=8, context=1024, nodes=NODES)
    assert price.plain_s == pytest.approx(
        float(step_cost(eagle, geometric(0.0, 0), batch=8, context=1024).total_s)
    )
    for tree in (tree for tree in TREES if tree.nodes > 1):
        accepted = Acceptance(
            draft_tokens=tree.draft_tokens,
            tokens_per_step=1.7,
            proposed_tokens=float(tree.draft_tokens),
            tree=tree,
        )
        step_s = float(step_cost(eagle, accepted, batch=8, context=1024).total_s)
        assert price.step_s(tree, 1.7) == pytest.approx(step_s, rel=1e-12)


def test_larger_batches_take_smaller_trees_and_dear_drafts_none(eagle):
    vector = [0.7, 0.12, 0.05, 0.02]
    sizes = [
        fastest_tree(vector, tree_price(eagle, batch=batch, context=1024, nodes=48), 8).tree.nodes
        for batch in (1, 16, 256)
    ]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1]
    dear = TreePrice(plain_s=1.0, verify_s=np.ones(8), draft_s=lambda widths: 9.0 * len(widths))
    found = fastest_tree(vector, dear, 8)
    assert found.tree.nodes == 1 and found.tokens_per_s == 1.0 and found.certificate.kind == "exact"


def test_a_captured_pass_is_filled(eagle):
    """Rows that run anyway are verified: the tree ends at a captured number of rows."""
    price = tree_price(eagle, batch=4, context=1024, nodes=32, captured_rows=[4, 16, 64, 128])
    assert price.verify_s[3] < price.verify_s[4] == price.verify_s[15]
    assert fastest_tree([0.7, 0.12, 0.05, 0.02], price, 8).tree.nodes in (1, 4, 16, 32)


@pytest.mark.parametrize("asked", [{"batch": 0}, {"nodes": 1}, {"captured_rows": [0, 4]}])
def test_prices_need_numbers_that_make_sense(eagle, asked):
    with pytest.raises(InputError):
        tree_price(eagle, **({"batch": 1, "context": 8, "nodes": 4} | asked))
