"""Shards hold every cell of the product once, in its order."""

from itertools import product
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from app.answers.sweep.cells import MOST_GROUPS, MOST_POINTS, PLAIN, Cells
from app.answers.sweep.file import Sweep, SweepFile
from app.answers.sweep.table import KEYS
from tests.property_examples import examples

SIZES = st.integers(1, 4)


def axis(name, size):
    return [f"{name}-{i}" for i in range(size)]


@given(
    sizes=st.tuples(SIZES, SIZES, SIZES, SIZES, st.integers(0, 3), st.integers(0, 2)),
    points=st.tuples(st.integers(1, 40), st.integers(1, 40)),
)
@settings(max_examples=examples(60), deadline=None)
def test_shards_hold_every_cell_once_and_in_order(sizes, points):
    models, devices, engines, tensor, drafters, traces = sizes
    lists = SweepFile(
        models=axis("m", models),
        devices=axis("d", devices),
        engines=axis("e", engines),
        tensor_parallel=[*range(1, tensor + 1)],
        drafters=axis("x", drafters),
        traces=axis("t", traces),
        batches=[*range(1, points[0] + 1)],
        contexts=[*range(points[1])],
    )
    cells = Cells(Sweep(lists=lists, folder=Path()))
    who = [*lists.drafters, *lists.traces] or [PLAIN]
    expected = list(
        product(
            lists.models,
            lists.devices,
            lists.engines,
            lists.tensor_parallel,
            who,
            lists.batches,
            lists.contexts,
        )
    )
    found = []
    for shard in range(cells.shards):
        blocks = list(cells.blocks(shard))
        assert len(blocks) <= MOST_GROUPS
        assert cells.size(shard) == sum(len(batches) for _, batches, _ in blocks)
        for group, batches, contexts in blocks:
            assert 0 < len(batches) == len(contexts) <= MOST_POINTS
            assert group.recorded == (group.drafter in lists.traces)
            own = [group.cell(b, c) for b, c in zip(batches, contexts, strict=True)]
            found += [tuple(getattr(cell, key) for key in KEYS) for cell in own]
    assert found == expected
    assert cells.count == len(expected)
