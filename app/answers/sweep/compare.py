"""Which cells moved between two sweeps, which appeared and which disappeared, by how much?

Cells are the same where model, device, engine, tensor-parallel devices, drafter, and batch and context
or the load are. Leaves out why they moved; both files say which release and which lists they are of.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.answers.sweep.rows import LoneCell, MovedCell
from app.answers.sweep.table import KEYS, schema
from hardware_profiles.errors import InputError
from traces.storage.parquet_files import opened_parquet

_POINTS = KEYS[5:]
_LOADS = KEYS[7:]  # which files of earlier releases do not have
# what stands in a join for what is not there, since a null equals nothing
_ABSENT: dict[pa.DataType, Any] = {pa.string(): "", pa.int64(): -1, pa.float64(): -1.0}
RATES = ("tokens_per_s", "plain_tokens_per_s", "speedup")
_SAID = ("feasible", "reason", "topology", "draft_tokens", *RATES)


@dataclass(frozen=True, kw_only=True, slots=True)
class Differences:
    """What lies between two sweeps; `app.answers.sweep.rows.SweepComparison` says what each is."""

    moved: Sequence[MovedCell]
    appeared: Sequence[LoneCell]
    disappeared: Sequence[LoneCell]
    same: int


def compare(old: Path, new: Path, *, threshold: float) -> Differences:
    """Compare two sweeps cell by cell.

    Args:
        old: result of a sweep.
        new: result of another.
        threshold: a cell moves where a rate changes by more than this share of the old one.

    Raises:
        InputError: a file that is no sweep, or in which a cell stands twice.
    """
    before, after = _read(old), _read(new)
    both = before.join(
        after,
        list(KEYS),
        join_type="inner",
        left_suffix="_old",
        right_suffix="_new",
        use_threads=False,
    )
    alone = [
        one.join(other.select(KEYS), list(KEYS), join_type="left anti", use_threads=False)
        for one, other in ((after, before), (before, after))
    ]
    changes = {name: _change(both, name) for name in RATES}
    switched = _numbers(both, "feasible_old") != _numbers(both, "feasible_new")
    sizes = np.max(
        [np.nan_to_num(np.abs(change), nan=0.0) for change in changes.values()], axis=0, initial=0.0
    )
    sizes = np.where(switched, np.inf, sizes)
    places = np.flatnonzero(sizes > threshold)
    order = places[np.argsort(-sizes[places], kind="stable")]
    moved = [
        MovedCell(
            **row,
            tokens_per_s_change_ratio=_finite(changes["tokens_per_s"][place]),
            plain_tokens_per_s_change_ratio=_finite(changes["plain_tokens_per_s"][place]),
            speedup_change_ratio=_finite(changes["speedup"][place]),
        )
        for row, place in zip(_rows(both.take(pa.array(order))), order.tolist(), strict=True)
    ]
    appeared, disappeared = alone
    return Differences(
        moved=_sorted(moved, sizes[order]),
        appeared=_lone(appeared, "appeared"),
        disappeared=_lone(disappeared, "disappeared"),
        same=both.num_rows - len(moved),
    )


def _read(path: Path) -> pa.Table:
    """Keys and numbers of a sweep."""
    form = schema()
    with opened_parquet(path) as file:
        written = [name for name in KEYS if name in file.schema_arrow.names or name not in _LOADS]
        for name in (*written, *_SAID):
            if (
                name not in file.schema_arrow.names
                or file.schema_arrow.field(name).type != form.field(name).type
            ):
                rule = (
                    f"must be a column of {form.field(name).type}; `rooftree sweep FILE --out`"
                    " writes such files"
                )
                raise InputError(rule, file=path, key=name)
        table = file.read(columns=[*written, *_SAID])
    columns = {name: table[name] for name in (*written, *_SAID)}
    for name in _POINTS:
        kind = form.field(name).type
        column = columns.get(name, pa.nulls(table.num_rows, kind))
        columns[name] = pc.fill_null(column, _ABSENT[kind])
    table = pa.table({name: columns[name] for name in (*KEYS, *_SAID)})
    steady, *loads = (
        pc.greater(table[name], _ABSENT[form.field(name).type])
        for name in ("batch", "rate_per_s", "users")
    )
    says = pc.all(pc.or_(steady, pc.or_(*loads)), min_count=0).as_py()
    if not says or any(table[name].null_count for name in KEYS):
        raise InputError("must say of every cell which it is", file=path, key=", ".join(KEYS))
    if table.group_by(list(KEYS), use_threads=False).aggregate([]).num_rows != table.num_rows:
        raise InputError("holds a cell more than once", file=path)
    return table


def _numbers(table: pa.Table, name: str) -> Any:
    """A column as floats, NaN where there is none."""
    column = pc.fill_null(pc.cast(table[name], pa.float64()), float("nan"))
    parts = [np.from_dlpack(chunk) for chunk in column.chunks if len(chunk)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _change(both: pa.Table, name: str) -> Any:
    """New over old less 1; NaN where one of them is none."""
    old, new = _numbers(both, f"{name}_old"), _numbers(both, f"{name}_new")
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(old == new, 0.0, new / old - 1.0)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _sorted(cells: Sequence[MovedCell], sizes: Any) -> list[MovedCell]:
    """Cells by size, those alike by their keys: a join leaves no order."""
    ranked = sorted(
        zip(sizes.tolist(), cells, strict=True),
        key=lambda pair: (-pair[0], *_place(pair[1])),
    )
    return [cell for _, cell in ranked]


def _place(cell: MovedCell) -> list[Any]:
    """Where a cell stands among those of one size; what it does not have comes first."""
    return [(value is not None, value) for value in (getattr(cell, key) for key in KEYS)]


def _lone(table: pa.Table, what: str) -> list[LoneCell]:
    rows = _rows(table.sort_by([(name, "ascending") for name in KEYS]))
    return [LoneCell(what=what, **row) for row in rows]


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows of a table; None where a cell does not have a batch, a context or a load."""
    absent = {name: _ABSENT[table.schema.field(name).type] for name in _POINTS}
    return [
        {name: None if absent.get(name) == value else value for name, value in row.items()}
        for row in table.to_pylist()
    ]
