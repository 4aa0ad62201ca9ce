"""Draft trees per position: what is refused, what is carried along, and that files bring them
back."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.expansions import Expansions, joined
from traces.storage.acceptance_file import describe, read_acceptance, write_acceptance

ARRAYS = ("offsets", "parents", "rank", "draft_prob", "on_path")
SOUND = {
    "offsets": [0, 4, 4, 6],
    "parents": [-1, 0, -1, 1, -1, 0],
    "rank": [0, 0, 1, 2, 1, 0],
    "draft_prob": [0.6, 0.9, 0.2, 0.5, 1.0, 0.3],
    "on_path": [True, False, False, False, True, True],
}


def make(seed, positions, width=3, most=9):
    """Random trees, best-first as a drafter would leave them, with a true path through some."""
    generator = np.random.default_rng(seed)
    parts = []
    for _ in range(positions):
        parents, rank, chance, true = [], [], [], []
        frontier = [(-p, -1, k) for k, p in enumerate(generator.dirichlet(np.ones(width)))]
        size = int(generator.integers(0, most + 1))
        given = dict.fromkeys(range(-1, size), None)
        given[-1] = [-each[0] for each in frontier]
        chances = {-1: 1.0}
        for node in range(size):
            frontier.sort(key=lambda each: each[0])
            value, parent, k = frontier.pop(0)
            parents.append(parent)
            rank.append(k)
            chance.append(given[parent][k])
            chances[node] = -value
            given[node] = generator.dirichlet(np.ones(width)).tolist()
            frontier += [(-chances[node] * p, node, j) for j, p in enumerate(given[node])]
            taken = {p for p, t in zip(parents, true, strict=False) if t}
            below = parent < 0 or true[parent]
            true.append(bool(below and parent not in taken and generator.random() < 0.5))
        parts.append((parents, rank, chance, true))
    offsets = np.cumsum([0, *(len(part[0]) for part in parts)])
    flat = [[value for part in parts for value in part[i]] for i in range(4)]
    return Expansions(
        offsets=offsets,
        parents=np.array(flat[0], dtype=int),
        rank=np.array(flat[1], dtype=int),
        draft_prob=np.array(flat[2]),
        on_path=np.array(flat[3], dtype=bool),
        nodes=most,
        width=width,
    )


def trace_of(expansions, sizes, first=1):
    """A trace of texts of these lengths; what runs past a text is no true path."""
    offsets = np.cumsum([0, *sizes])
    left = np.repeat(offsets[1:], sizes) - np.arange(offsets[-1])
    inside = expansions.levels() <= np.repeat(left, expansions.sizes)
    parts = {name: getattr(expansions, name) for name in ARRAYS} | {
        "on_path": expansions.on_path & inside
    }
    trees = Expansions(**parts, nodes=expansions.nodes, width=expansions.width)
    emitted = np.ones(offsets[-1], dtype=np.int16)
    return AcceptanceTrace(
        offsets=offsets, emitted=emitted, expansions=trees, first_step_position=first
    )


def test_levels_limits_and_sizes():
    trees = Expansions(**SOUND)
    assert trees.levels().tolist() == [1, 2, 1, 3, 1, 2]
    assert (trees.positions, trees.size, trees.sizes.tolist()) == (3, 6, [4, 0, 2])
    assert (trees.nodes, trees.depth, trees.width) == (4, 3, 3)
    assert Expansions(**SOUND, nodes=64, depth=8, width=10).nodes == 64
    assert not trees.parents.flags.writeable


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"offsets": [0, 4, 3, 6]}, "offsets"),
        ({"offsets": [1, 4, 4, 6]}, "offsets"),
        ({"offsets": [0, 4, 4, 7]}, "parents"),
        ({"parents": [0, 0, -1, 1, -1, 0]}, "parents"),
        ({"parents": [-1, 2, -1, 1, -1, 0]}, "parents"),
        ({"parents": [-2, 0, -1, 1, -1, 0]}, "parents"),
        ({"rank": [1, 0, 1, 2, 1, 0]}, "rank"),
        ({"rank": [-1, 0, 1, 2, 1, 0]}, "rank"),
        ({"rank": [0, 0, 1, 128, 1, 0]}, "rank"),
        ({"draft_prob": [1.1, 0.9, 0.2, 0.5, 1.0, 0.3]}, "draft_prob"),
        ({"draft_prob": [np.nan, 0.9, 0.2, 0.5, 1.0, 0.3]}, "draft_prob"),
        ({"on_path": [False, True, False, False, True, True]}, "on_path"),
        ({"on_path": [True, False, True, False, True, True]}, "on_path"),
        ({"on_path": [True]}, "on_path"),
        ({"nodes": 3}, "nodes"),
        ({"depth": 2}, "depth"),
        ({"width": 2}, "width"),
        ({"width": 200}, "width"),
    ],
)
def test_what_is_no_tree_is_refused(changes, key):
    with pytest.raises(InputError) as caught:
        Expansions(**{**SOUND, **changes})
    assert caught.value.key == f"expansions.{key}"


@given(st.integers(0, 2**32), st.lists(st.integers(0, 6), min_size=1, max_size=5), st.data())
def test_choosing_requests_takes_their_trees_along(seed, sizes, data):
    trace = trace_of(make(seed, sum(sizes)), sizes)
    chosen = data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=6))
    part = trace.select(chosen)
    at = 0
    for request in chosen:
        for position in range(trace.offsets[request], trace.offsets[request + 1]):
            mine = slice(*part.expansions.offsets[at : at + 2])
            theirs = slice(*trace.expansions.offsets[position : position + 2])
            for name in ARRAYS[1:]:
                assert np.array_equal(
                    getattr(part.expansions, name)[mine], getattr(trace.expansions, name)[theirs]
                )
            at += 1
    assert at == part.expansions.positions
    assert part.expansions.nodes == trace.expansions.nodes


@given(st.integers(0, 2**32), st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_joined_trees_are_those_of_the_parts(seed, sizes):
    whole = make(seed, sum(sizes))
    bounds = np.cumsum([0, *sizes])
    parts = [whole.select(np.arange(a, b)) for a, b in itertools.pairwise(bounds)]
    for name in ARRAYS:
        assert np.array_equal(getattr(joined(parts), name), getattr(whole, name))


@given(seed=st.integers(0, 2**32), sizes=st.lists(st.integers(0, 6), max_size=4))
def test_files_bring_them_back(tmp_path_factory, seed, sizes):
    trace = trace_of(make(seed, sum(sizes)), sizes)
    file = tmp_path_factory.mktemp("trees") / "trace.parquet"
    write_acceptance(trace, file)
    again = read_acceptance(file).expansions
    for name in ARRAYS:
        one, other = getattr(trace.expansions, name), getattr(again, name)
        assert one.dtype == other.dtype and np.array_equal(one, other), name
    for name in ("nodes", "depth", "width"):
        assert getattr(again, name) == getattr(trace.expansions, name)
    assert describe(file)["metadata"]["expansions"]["nodes"] == trace.expansions.nodes


def test_a_trace_needs_a_tree_per_position_and_no_truth_behind_its_end():
    trees = Expansions(**SOUND)
    with pytest.raises(InputError, match="one tree per output position"):
        AcceptanceTrace(offsets=[0, 2], emitted=[1, 1], expansions=trees)
    with pytest.raises(InputError, match="behind the end"):
        AcceptanceTrace(offsets=[0, 3], emitted=[1, 1, 1], expansions=trees)
    assert (
        AcceptanceTrace(
            offsets=[0, 2, 4], emitted=[1] * 4, expansions=trees.select([0, 1, 2, 1])
        ).level
        == 1
    )


def test_damaged_columns_are_refused(tmp_path):
    import json

    import pyarrow as pa
    import pyarrow.parquet as pq

    from traces.storage.header import METADATA_KEY

    sound = tmp_path / "sound.parquet"
    write_acceptance(trace_of(make(5, 4), [4]), sound)
    table = pq.read_table(sound)
    header = json.loads(table.schema.metadata[METADATA_KEY])
    bad = {
        "expansion_sizes": pa.array([[1, 1, 1]]),
        "expansion_parents": pa.array([[0]]),
        "expansion_rank": pa.array([["a"]]),
        "expansion_on_path": pa.array([[9] * int(trace_of(make(5, 4), [4]).expansions.size)]),
    }
    file = tmp_path / "bad.parquet"
    cases = [
        (table.drop_columns([name]).append_column(name, values), header)
        for name, values in bad.items()
    ]
    cases += [
        (table.drop_columns(["expansion_prob"]), header),
        (table, {**header, "expansions": None}),
    ]
    cases += [(table, {**header, "expansions": {"nodes": -1}})]
    for changed, about in cases:
        pq.write_table(
            changed.replace_schema_metadata({METADATA_KEY: json.dumps(about).encode()}), file
        )
        with pytest.raises(InputError, match=r"bad\.parquet"):
            read_acceptance(file)
