from hypothesis import example, given
from hypothesis import strategies as st

from app.exporters.tree_paths import children_by_level, depth, is_chain, rank_paths, widest
from traces.kinds.tree import Tree


@st.composite
def trees(draw):
    parents, ranks = [-1], [0]
    used = [0]
    for node in range(1, draw(st.integers(2, 12))):
        parent = draw(st.integers(0, node - 1))
        parents.append(parent)
        ranks.append(used[parent])
        used[parent] += draw(st.integers(1, 2))
        used.append(0)
    return Tree(parents=tuple(parents), ranks=tuple(ranks))


def test_paths_are_root_excluded_and_sorted_by_length_then_rank():
    given_tree = Tree(parents=(-1, 0, 1, 0, 3, 1), ranks=(0, 0, 1, 1, 0, 0))
    assert rank_paths(given_tree) == ((0,), (1,), (0, 0), (0, 1), (1, 0))


@given(trees())
def test_there_is_one_path_per_draft_node_and_every_prefix_is_a_node(built):
    paths = rank_paths(built)
    assert len(paths) == built.draft_tokens
    assert {path[:-1] for path in paths} <= {(), *paths}
    assert sorted(paths, key=lambda path: (len(path), path)) == list(paths)


@given(trees())
def test_depth_and_width_bound_the_size(built):
    paths = rank_paths(built)
    assert (
        depth(paths)
        <= len(paths)
        <= sum(widest(paths) ** level for level in range(1, depth(paths) + 1))
    )


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_level_uniform_trees_are_recognised_and_rebuilt_from_their_counts(counts):
    nodes, paths = [()], []
    for count in counts:
        nodes = [(*node, rank) for node in nodes for rank in range(count)]
        paths += nodes
    assert children_by_level(paths) == tuple(counts)
    assert is_chain(paths) == (set(counts) == {1})


@given(trees())
@example(
    Tree(parents=(-1, 0, 0, 1, 1), ranks=(0, 0, 1, 0, 1))
)  # one child a node on average, and none has one
def test_counts_per_level_exist_exactly_where_they_rebuild_the_tree(built):
    paths = set(rank_paths(built))
    counts = children_by_level(tuple(sorted(paths, key=lambda path: (len(path), path))))
    per_level = {
        level: {
            sum(child[:-1] == node for child in paths)
            for node in {(), *paths}
            if len(node) == level - 1
        }
        for level in range(1, depth(paths) + 1)
    }
    closed = all(path[-1] == 0 or (*path[:-1], path[-1] - 1) in paths for path in paths)
    uniform = closed and all(len(sizes) == 1 for sizes in per_level.values())
    assert (counts is not None) == uniform
