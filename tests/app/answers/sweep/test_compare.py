"""What moved between two sweeps: every cell once, largest change first."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.answers.sweep.compare import RATES, compare
from app.answers.sweep.table import KEYS, SweepCell, table_of
from hardware_profiles.errors import InputError
from tests.property_examples import examples


def cell(batch, rate, *, plain=100.0, feasible=True):
    keys = {
        "model": "m",
        "device": "d",
        "engine": "e",
        "tensor_parallel": 1,
        "drafter": "n-gram",
        "context": 8,
    }
    row = {**keys, "batch": batch, "feasible": feasible}
    if not feasible:
        return SweepCell(**row, reason="too large")
    return SweepCell(
        **row,
        topology="chain",
        draft_tokens=3,
        tokens_per_s=rate,
        plain_tokens_per_s=plain,
        speedup=rate / plain,
    )


def written(path, cells):
    pq.write_table(table_of(cells), path)
    return path


def test_cells_that_moved_appeared_and_disappeared(tmp_path):
    old = written(
        tmp_path / "old",
        [
            cell(1, 200.0),
            cell(2, 200.0),
            cell(4, 200.0),
            cell(8, 200.0),
            cell(16, 9.0),
            cell(32, 200.0),
        ],
    )
    new = written(
        tmp_path / "new",
        [
            cell(32, 200.1),
            cell(8, 0, feasible=False),
            cell(4, 210.0),
            cell(2, 100.0),
            cell(1, 200.0),
            cell(64, 9.0),
        ],
    )
    found = compare(old, new, threshold=0.01)
    assert [row.batch for row in found.moved] == [8, 2, 4]
    lost, halved, gained = found.moved
    assert (lost.feasible_old, lost.feasible_new, lost.reason_new) == (
        True,
        False,
        "too large",
    )
    assert lost.tokens_per_s_change_ratio is None
    assert halved.tokens_per_s_change_ratio == pytest.approx(-0.5)
    assert halved.plain_tokens_per_s_change_ratio == 0.0
    assert gained.tokens_per_s_change_ratio == pytest.approx(0.05)
    assert [row.batch for row in found.appeared] == [64]
    assert [row.batch for row in found.disappeared] == [16]
    assert found.same == 2
    assert len(compare(old, new, threshold=0.0).moved) == 4


CELLS = st.dictionaries(
    st.integers(1, 12),
    st.tuples(st.floats(0.5, 1e6), st.floats(0.5, 1e6), st.booleans()),
    max_size=12,
)


@given(before=CELLS, after=CELLS, threshold=st.floats(0.0, 2.0))
@settings(max_examples=examples(12), deadline=None)
def test_every_cell_is_accounted_for_once(tmp_path_factory, before, after, threshold):
    folder = tmp_path_factory.mktemp("pair")
    old, new = (
        written(
            folder / name,
            [cell(b, rate, plain=plain, feasible=ok) for b, (rate, plain, ok) in cells.items()],
        )
        for name, cells in (("old", before), ("new", after))
    )
    found = compare(old, new, threshold=threshold)
    both = before.keys() & after.keys()
    assert len(found.moved) + found.same == len(both)
    assert {row.batch for row in found.appeared} == after.keys() - before.keys()
    assert {row.batch for row in found.disappeared} == before.keys() - after.keys()
    sizes = []
    for row in found.moved:
        changes = [abs(getattr(row, f"{name}_change_ratio") or 0.0) for name in RATES]
        switched = row.feasible_old != row.feasible_new
        assert switched or max(changes) > threshold
        sizes.append(float("inf") if switched else max(changes))
    assert sizes == sorted(sizes, reverse=True)
    back = compare(new, old, threshold=threshold)
    assert [r.batch for r in back.appeared] == [r.batch for r in found.disappeared]
    assert compare(old, old, threshold=0.0).same == len(before)


def loaded(rate, tokens, *, users=None):
    row = replace(cell(1, tokens), batch=None, context=None, plain_tokens_per_s=None)
    return replace(row, rate_per_s=rate, users=users, prompt_tokens="100", output_tokens="50")


def test_cells_under_a_load_are_told_by_their_load(tmp_path):
    old = written(tmp_path / "old", [loaded(1.0, 50.0), loaded(2.0, 90.0), loaded(4.0, 99.0)])
    new = written(
        tmp_path / "new",
        [loaded(1.0, 50.0), loaded(2.0, 45.0), loaded(None, 99.0, users=4), cell(8, 1.0)],
    )
    found = compare(old, new, threshold=0.01)
    (moved,) = found.moved
    assert moved.rate_per_s == 2.0 and moved.batch is None and moved.users is None
    assert moved.tokens_per_s_change_ratio == pytest.approx(-0.5) and found.same == 1
    assert sorted((row.users, row.batch) for row in found.appeared if row.users) == [(4, None)]
    assert [row.batch for row in found.appeared if row.batch] == [8]
    assert [row.rate_per_s for row in found.disappeared] == [4.0]


def test_files_of_before_loads_are_compared(tmp_path):
    new = written(tmp_path / "new", [cell(1, 2.0), cell(2, 3.0), loaded(1.0, 5.0)])
    table = table_of([cell(1, 2.0), cell(2, 6.0)])
    pq.write_table(table.drop_columns(list(KEYS[7:])), tmp_path / "old")
    found = compare(tmp_path / "old", new, threshold=0.0)
    assert [row.batch for row in found.moved] == [2] and found.same == 1
    assert [row.rate_per_s for row in found.appeared] == [1.0] and not found.disappeared


def test_what_is_no_sweep_is_refused(tmp_path):
    good = written(tmp_path / "good", [cell(1, 2.0)])
    twice = written(tmp_path / "twice", [cell(1, 2.0), cell(1, 3.0)])
    with pytest.raises(InputError, match="holds a cell more than once"):
        compare(good, twice, threshold=0.0)
    nameless = table_of([replace(cell(1, 2.0), drafter=None)])
    pq.write_table(nameless, tmp_path / "nameless")
    with pytest.raises(InputError, match="must say of every cell"):
        compare(tmp_path / "nameless", good, threshold=0.0)
    pq.write_table(nameless.drop_columns(["speedup"]), tmp_path / "short")
    with pytest.raises(InputError, match="speedup: must be a column of double"):
        compare(good, tmp_path / "short", threshold=0.0)
    pq.write_table(pa.table({name: [1] for name in KEYS}), tmp_path / "typed")
    with pytest.raises(InputError, match="model: must be a column of string"):
        compare(good, tmp_path / "typed", threshold=0.0)
    (tmp_path / "text").write_text("no parquet")
    with pytest.raises(InputError, match="is no whole Parquet file"):
        compare(good, tmp_path / "text", threshold=0.0)
