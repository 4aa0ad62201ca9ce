"""Which cells moved between two sweeps, which appeared and which disappeared, by how much?

Cells are the same where model, device, engine, tensor-parallel devices, drafter, batch and context
are. Leaves out why they moved; both files say which release and which lists they are of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.answers.sweep.table import KEYS, schema
from hardware_profiles.errors import InputError
from traces.storage.parquet_files import opened_parquet

RATES = ("tokens_per_s", "plain_tokens_per_s", "speedup")
_SAID = ("feasible", "reason", "topology", "draft_tokens", *RATES)


@dataclass(frozen=True, kw_only=True)
class SweepComparison:
    """What lies between two sweeps.

    Args:
        moved: cells of both, largest change first: those with an answer in one alone, then by the
            largest of the three rates' changes. A row has the keys, the values of both (`_old`,
            `_new`), and the changes (`_change_ratio`, new over old less 1).
        appeared: cells of the new one alone.
        disappeared: cells of the old one alone.
        same: cells of both that moved by no more than the threshold.
    """

    moved: Sequence[Mapping[str, Any]]
    appeared: Sequence[Mapping[str, Any]]
    disappeared: Sequence[Mapping[str, Any]]
    same: int


def compare(old: Path, new: Path, *, threshold: float) -> SweepComparison:
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
    moved = both.take(pa.array(order)).to_pylist()
    for row, place in zip(moved, order.tolist(), strict=True):
        row |= {f"{name}_change_ratio": _finite(change[place]) for name, change in changes.items()}
    return SweepComparison(
        moved=_sorted(moved, sizes[order]),
        appeared=_listed(alone[0]),
        disappeared=_listed(alone[1]),
        same=both.num_rows - len(moved),
    )


def _read(path: Path) -> pa.Table:
    """Keys and numbers of a sweep."""
    form = schema()
    with opened_parquet(path) as found:
        for name in (*KEYS, *_SAID):
            if (
                name not in found.schema_arrow.names
                or found.schema_arrow.field(name).type != form.field(name).type
            ):
                rule = (
                    f"must be a column of {form.field(name).type}; `rooftree sweep FILE --out`"
                    " writes such files"
                )
                raise InputError(rule, file=path, key=name)
        table = found.read(columns=[*KEYS, *_SAID])
    if any(table[name].null_count for name in KEYS):
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


def _sorted(rows: list[dict[str, Any]], sizes: Any) -> list[dict[str, Any]]:
    """Rows by size, those alike by their keys: a join leaves no order."""
    ranked = sorted(
        zip(sizes.tolist(), rows, strict=True),
        key=lambda pair: (-pair[0], *(pair[1][k] for k in KEYS)),
    )
    return [row for _, row in ranked]


def _listed(table: pa.Table) -> list[dict[str, Any]]:
    return list(table.sort_by([(name, "ascending") for name in KEYS]).to_pylist())
