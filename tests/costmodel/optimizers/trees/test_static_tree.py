"""The tree search against brute force, published optima and laws that hold for every vector."""

import heapq
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.optimizers.acceptance_vectors import acceptance_levels
from costmodel.optimizers.trees import static_tree
from costmodel.optimizers.trees.static_tree import (
    optimal_trees,
    optimal_values,
    read_acceptance,
)
from hardware_profiles.errors import InfeasibleError, InputError
from traces.kinds.tree import Tree


def expected_tokens(tree, acceptance):
    """The sum over nodes of the product of p along the node's path; what lies beyond the vectors
    counts 0."""
    vectors, _ = acceptance_levels(acceptance, tree.depth)
    values, levels = [1.0], [0]
    for parent, rank in zip(tree.parents[1:], tree.ranks[1:], strict=True):
        level = levels[parent]
        known = level < len(vectors) and rank < vectors[level].size
        values.append(values[parent] * float(vectors[level][rank]) if known else 0.0)
        levels.append(level + 1)
    return float(np.sum(values))


def path_sum(tree, vector_at):
    """A tree's value from its rank paths alone."""
    total = 1.0
    for path in tree.paths():
        total += np.prod([vector_at(level)[rank] for level, rank in enumerate(path)])
    return total


def greedy_value(vector, nodes, depth):
    """Repeatedly take the likeliest node that is open: first child of a taken one, or its next
    sibling."""
    opened = [(-vector[0], 1.0, 0, 1)] if depth > 1 else []
    total, taken = 1.0, 1
    while taken < nodes:
        if not opened:
            return -np.inf
        negative, parent_value, rank, level = heapq.heappop(opened)
        total, taken = total - negative, taken + 1
        if rank + 1 < len(vector):
            heapq.heappush(
                opened, (-parent_value * vector[rank + 1], parent_value, rank + 1, level)
            )
        if level + 1 < depth:
            heapq.heappush(opened, (negative * vector[0], -negative, 0, level + 1))
    return total


def all_trees(nodes, depth, width):
    """Every sibling-closed shape of exactly that many nodes, as nested tuples."""
    if nodes == 1:
        return [()]
    if depth == 1:
        return []
    shapes = []
    for children in range(1, min(width, nodes - 1) + 1):
        for cuts in itertools.combinations(range(1, nodes - 1), children - 1):
            sizes = np.diff([0, *cuts, nodes - 1])
            shapes += itertools.product(*[all_trees(int(size), depth - 1, width) for size in sizes])
    return shapes


def shape_value(shape, vectors):
    return 1.0 + sum(
        vectors[0][rank] * shape_value(child, vectors[1:]) for rank, child in enumerate(shape)
    )


def probabilities(draw, width):
    weights = [draw(st.integers(0, 20)) for _ in range(width)]
    return [weight / max(1, sum(weights)) * 0.95 for weight in weights]


@st.composite
def vectors(draw, most=6):
    return probabilities(draw, draw(st.integers(1, most)))


@st.composite
def vectors_by_depth(draw):
    return [probabilities(draw, draw(st.integers(1, 4))) for _ in range(draw(st.integers(1, 4)))]


def test_equal_to_brute_force_over_all_small_trees(published):
    rows = json.loads((published / "small_trees.json").read_text())["rows"]
    assert rows
    for row in rows:
        vector = row["p"]
        for nodes, depth, best, _ in row["cases"]:
            value = optimal_values(vector, nodes, depth)[nodes, depth]
            if best is None:
                assert value == -np.inf
                with pytest.raises(InfeasibleError):
                    optimal_trees(vector, [nodes], depth)
            else:
                (choice,) = optimal_trees(vector, [nodes], depth)
                assert value == pytest.approx(best, abs=1e-9)
                assert path_sum(choice.tree, lambda _, p=vector: p) == pytest.approx(best, abs=1e-9)


def test_equal_to_published_optima_of_heads(published):
    truth = json.loads((published / "medusa_heads.json").read_text())
    heads, cases = truth["heads"], truth["cases"]
    assert cases
    for nodes, best in cases:
        (choice,) = optimal_trees(heads, [nodes], depth=len(heads) + 1)
        assert choice.tokens_per_step == pytest.approx(best, abs=1e-9)
        assert path_sum(choice.tree, heads.__getitem__) == pytest.approx(best, abs=1e-9)


def plain_optima(vector, nodes, depth):
    """The best value by number of nodes: children of a node are taken in order, and each takes the
    best share of the nodes; no arrays, no pruning."""
    trees = [-np.inf, 1.0] + [-np.inf] * (nodes - 1)  # of one level
    for _ in range(depth - 1):
        # values of a node's first children together, by their nodes, from the last rank to the first
        forest = [0.0] + [-np.inf] * nodes
        for rank in reversed(range(len(vector))):
            forest = [0.0] + [
                max(
                    vector[rank] * trees[size] + forest[total - size]
                    for size in range(1, total + 1)
                )
                for total in range(1, nodes + 1)
            ]
        trees = [-np.inf] + [1.0 + forest[count - 1] for count in range(1, nodes + 1)]
    return trees


@given(vectors(most=5), st.integers(2, 40), st.integers(1, 7))
def test_equal_to_a_plain_recursion_up_to_40_nodes(vector, nodes, depth):
    best = plain_optima(vector, nodes, depth)
    assert optimal_values(vector, nodes, depth)[1:, depth] == pytest.approx(best[1:])


@given(vectors(most=4), st.integers(1, 6), st.integers(1, 5))
def test_equal_to_enumeration(vector, nodes, depth):
    values = [
        shape_value(shape, [vector] * depth) for shape in all_trees(nodes, depth, len(vector))
    ]
    found = optimal_values(vector, nodes, depth)[nodes, depth]
    assert found == pytest.approx(max(values)) if values else found == -np.inf


@given(vectors_by_depth(), st.integers(1, 6), st.integers(1, 5))
def test_equal_to_enumeration_by_depth(heads, nodes, depth):
    def shapes(left, levels):
        """Shapes whose width follows the vector of their level."""
        if left == 1:
            return [()]
        if not levels:
            return []
        found = []
        for children in range(1, min(len(levels[0]), left - 1) + 1):
            for cuts in itertools.combinations(range(1, left - 1), children - 1):
                sizes = np.diff([0, *cuts, left - 1])
                found += itertools.product(*[shapes(int(size), levels[1:]) for size in sizes])
        return found

    values = [shape_value(shape, heads) for shape in shapes(nodes, heads[: depth - 1])]
    found = optimal_values(heads, nodes, depth)[nodes, depth]
    assert found == pytest.approx(max(values)) if values else found == -np.inf


@given(vectors(), st.integers(1, 40), st.integers(1, 8))
def test_structure_is_worth_what_it_claims(vector, nodes, depth):
    if optimal_values(vector, nodes, depth)[nodes, depth] == -np.inf:
        return
    (choice,) = optimal_trees(vector, [nodes], depth)
    tree = choice.tree
    assert (tree.nodes, choice.nodes, choice.depth) == (nodes, nodes, depth)
    assert tree.depth <= depth
    assert tree.is_sibling_closed
    assert choice.certificate.to_json() == {"kind": "exact"}
    assert path_sum(tree, lambda _: vector) == pytest.approx(choice.tokens_per_step)
    assert expected_tokens(tree, vector) == pytest.approx(choice.tokens_per_step)
    assert choice.tokens_per_step == pytest.approx(
        optimal_values(vector, nodes, depth)[nodes, depth], abs=1e-12
    )


@given(vectors_by_depth(), st.integers(1, 20), st.integers(1, 6))
def test_structure_by_depth_is_worth_what_it_claims(heads, nodes, depth):
    value = optimal_values(heads, nodes, depth)[nodes, depth]
    if value == -np.inf:
        return
    (choice,) = optimal_trees(heads, [nodes], depth)
    assert path_sum(choice.tree, heads.__getitem__) == pytest.approx(value)
    assert choice.tree.depth <= min(depth, len(heads) + 1)


def test_a_published_vector_up_to_768_nodes(published):
    """Where elder siblings are likelier, taking the likeliest path left is the best there is."""
    vector = json.loads((published / "medusa_heads.json").read_text())["heads"][0]
    table = optimal_values(vector, 768, 20)
    for nodes in (32, 64, 256, 768):
        for depth in (5, 10, 20):
            best = greedy_value(vector, nodes, depth)
            assert table[nodes, depth] == pytest.approx(best, abs=1e-9)


def test_published_trees_are_met_or_beaten_at_equal_size(published):
    """Trees of Medusa, EAGLE and Token Recycling, on the accuracies that Medusa published."""
    heads = json.loads((published / "medusa_heads.json").read_text())["heads"]
    trees = json.loads((published / "trees.json").read_text())
    shares = {}
    for name, paths in trees.items():
        kept = [path for path in paths if len(path) <= len(heads) and max(path) < len(heads[0])]
        tree = Tree.from_paths(kept)
        (best,) = optimal_trees(heads, [tree.nodes], depth=len(heads) + 1)
        shares[name] = path_sum(tree, heads.__getitem__) / best.tokens_per_step
    assert max(shares.values()) <= 1.0 + 1e-9
    medusa = [share for name, share in shares.items() if name.startswith("medusa/mc_sim")]
    assert medusa and min(medusa) >= 0.97  # made for such accuracies


@given(vectors(), st.integers(1, 40), st.integers(1, 8))
def test_greedy_expansion_suffices_when_elder_siblings_are_likelier(vector, nodes, depth):
    ordered = sorted(vector, reverse=True)
    found = optimal_values(ordered, nodes, depth)[nodes, depth]
    assert greedy_value(ordered, nodes, depth) == pytest.approx(found)
    assert (
        greedy_value(vector, nodes, depth)
        <= optimal_values(vector, nodes, depth)[nodes, depth] + 1e-12
    )


@given(vectors())
def test_values_rise_with_nodes_and_depth_within_bounds(vector):
    nodes, depth = 30, 7
    table = optimal_values(vector, nodes, depth)
    feasible = np.isfinite(table)
    assert not feasible[0].any()
    assert not feasible[:, 0].any()
    assert np.all(table[:, 1:] >= table[:, :-1])
    both = feasible[1:] & feasible[:-1]
    assert np.all((table[1:] - np.where(both, table[:-1], 0))[both] >= -1e-12)
    for level in range(1, depth + 1):
        deepest = sum(sum(vector) ** power for power in range(level))
        assert np.all(table[1:, level] <= deepest + 1e-9)
        count = int(feasible[:, level].sum())
        assert feasible[1 : count + 1, level].all()
    assert np.all(table[1:, -1] <= np.arange(1, nodes + 1) + 1e-9)


@given(vectors(), st.data())
def test_likelier_siblings_never_hurt(vector, data):
    lift = data.draw(st.integers(0, len(vector) - 1))
    better = list(vector)
    better[lift] += (1 - sum(vector)) / 2
    before, after = optimal_values(vector, 20, 5), optimal_values(better, 20, 5)
    assert np.array_equal(np.isfinite(before), np.isfinite(after))
    feasible = np.isfinite(before)
    assert np.all(after[feasible] >= before[feasible] - 1e-12)


def test_equal_vectors_by_depth_are_one_vector():
    vector = [0.5, 0.0, 0.2, 0.1]
    one, many = optimal_values(vector, 50, 6), optimal_values([vector] * 5, 50, 6)
    assert np.allclose(one[1:, 1:], many[1:, 1:])
    assert np.array_equal(
        optimal_values([vector] * 2, 20, 6)[:, 3], optimal_values([vector] * 2, 20, 6)[:, 6]
    )


def test_budgets_of_one_call_agree_with_calls_of_one_budget():
    vector = [0.55, 0.0, 0.2, 0.05, 0.1]
    together = optimal_trees(vector, [30, 1, 7, 30], depth=6)
    assert [choice.nodes for choice in together] == [30, 1, 7, 30]
    for choice in together:
        assert choice == optimal_trees(vector, [choice.nodes], depth=6)[0]
    assert together[1].tree == Tree(parents=(-1,), ranks=(0,))


def test_a_worthless_sibling_is_crossed_to_reach_a_good_one():
    (choice,) = optimal_trees([0.1, 0.0, 0.8], [4], depth=3)
    assert choice.tree.paths() == ((0,), (1,), (2,))
    assert choice.tokens_per_step == pytest.approx(1.9)


def test_depth_without_end_stops_where_it_no_longer_helps():
    (deep,) = optimal_trees([0.5, 0.2], [40], depth=4096)
    (enough,) = optimal_trees([0.5, 0.2], [40], depth=40)
    assert deep.tokens_per_step == enough.tokens_per_step
    (chain,) = optimal_trees([1.0], [300], depth=300)
    assert chain.tokens_per_step == 300


def test_expected_tokens_of_foreign_trees():
    skipping = Tree.from_paths([(1,), (1, 0), (1, 5)])
    assert expected_tokens(skipping, [0.5, 0.25]) == pytest.approx(1 + 0.25 + 0.125)
    assert expected_tokens(skipping, [[0.5, 0.25]]) == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("acceptance", "key"),
    [
        ([], "acceptance"),
        ([[]], "acceptance[0]"),
        ([0.5, -0.1], "acceptance[1]"),
        ([0.5, float("nan")], "acceptance[1]"),
        ([0.5, float("inf")], "acceptance[1]"),
        ([0.5, True], "acceptance[1]"),
        ([0.5, "0.1"], "acceptance[1]"),
        ([0.5, [0.1]], "acceptance[1]"),
        ([[0.5], 0.1], "acceptance[1]"),
        ([[0.5], [0.2, None]], "acceptance[1][1]"),
        ([0.7, 0.4], "acceptance"),
        ([0.0] * 4097, "acceptance"),
        ([[0.5]] * 257, "acceptance"),
    ],
)
def test_refuses_what_is_no_acceptance(acceptance, key, tmp_path):
    with pytest.raises(InputError) as caught:
        optimal_trees(acceptance, [4], depth=3)
    assert caught.value.key == key
    path = tmp_path / "vector.json"
    path.write_text(json.dumps(acceptance))
    with pytest.raises(InputError) as caught:
        read_acceptance(path)
    assert caught.value.key == key
    assert str(path) in str(caught.value)


def test_sums_may_exceed_one_by_rounding_only():
    assert optimal_values([0.5, 0.5 + 5e-7], 3, 2)[3, 2] == pytest.approx(2, abs=1e-6)
    with pytest.raises(InputError, match="sum to at most 1"):
        optimal_values([0.5, 0.5 + 5e-6], 3, 2)


@pytest.mark.parametrize(
    ("nodes", "depth", "key"),
    [
        ([0], 3, "nodes"),
        ([4097], 3, "nodes"),
        ([], 3, "nodes"),
        ([4], 0, "depth"),
        ([4], 5000, "depth"),
    ],
)
def test_refuses_sizes_out_of_range(nodes, depth, key):
    with pytest.raises(InputError) as caught:
        optimal_trees([0.5], nodes, depth)
    assert caught.value.key == key


def test_values_refuse_tables_beyond_memory(monkeypatch):
    monkeypatch.setattr(static_tree, "MAX_TABLE_CELLS", 10 * 3 * 3)
    assert optimal_values([0.1, 0.5], 10, depth=4)[4, 4] > 1
    with pytest.raises(InputError, match="table cells"):
        optimal_values([0.1, 0.5], 10, depth=5)


@pytest.mark.parametrize(
    ("vector", "nodes", "depth"),
    [([0.5], 2, 1), ([0.5], 4, 3), ([0.5, 0.3], 8, 3), ([[0.5], [0.3]], 4, 9)],
)
def test_says_when_a_tree_cannot_exist(vector, nodes, depth):
    with pytest.raises(InfeasibleError) as caught:
        optimal_trees(vector, [nodes], depth)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    "content", ["", "{", '{"p": [0.5]}', "0.5", '"x"', "[" * 100_000, "[1" + "0" * 5000 + "]"]
)
def test_refuses_junk_files(content, tmp_path):
    path = tmp_path / "junk.json"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        read_acceptance(path)
    assert caught.value.file == str(path)


def test_refuses_absent_and_oversized_files(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_acceptance(tmp_path / "none.json")
    large = tmp_path / "large.json"
    large.write_bytes(b" " * ((8 << 20) + 1))
    with pytest.raises(InputError, match="at most 8388608 bytes"):
        read_acceptance(large)


@pytest.mark.parametrize("acceptance", [[0.5, 0.25, 0], [[0.5, 0.1], [0.3]]])
def test_reads_what_it_accepts(acceptance, tmp_path):
    path = tmp_path / "vector.json"
    path.write_text(json.dumps(acceptance))
    read = read_acceptance(path)
    assert json.loads(json.dumps(read)) == acceptance
    assert optimal_trees(read, [3], 3) == optimal_trees(acceptance, [3], 3)
