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
        assert cells.size(shard) == sum(len(own) for _, own in blocks)
        for group, own in blocks:
            assert 0 < len(own) <= MOST_POINTS
            assert group.recorded == (group.drafter in lists.traces)
            found += [tuple(getattr(cell, key) for key in KEYS[:7]) for cell in own]
            assert not any(getattr(cell, key) for cell in own for key in KEYS[7:])
    assert found == expected
    assert cells.count == len(expected)


@given(
    sizes=st.tuples(SIZES, SIZES, st.integers(1, 3), st.integers(1, 3), st.integers(1, 40)),
    closed=st.booleans(),
)
@settings(max_examples=examples(30), deadline=None)
def test_loads_take_the_place_of_batches_and_contexts(sizes, closed):
    models, drafters, prompts, outputs, loads = sizes
    load = {"users": [*range(1, loads + 1)]} if closed else {"rates": [*range(1, loads + 1)]}
    lists = SweepFile(
        models=axis("m", models),
        drafters=axis("x", drafters),
        prompt_tokens=[*range(100, 100 + prompts)],
        output_tokens=[f"exponential:{i + 1}" for i in range(outputs)],
        **load,
    )
    cells = Cells(Sweep(lists=lists, folder=Path()))
    own = [
        cell for shard in range(cells.shards) for _, block in cells.blocks(shard) for cell in block
    ]
    assert cells.count == len(own)
    assert [
        (c.model, c.drafter, c.prompt_tokens, c.output_tokens, c.users if closed else c.rate_per_s)
        for c in own
    ] == list(
        product(
            lists.models,
            lists.drafters,
            [str(100 + i) for i in range(prompts)],
            lists.output_tokens,
            range(1, loads + 1),
        )
    )
    assert all(c.batch is None and c.context is None for c in own)
