"""How do timed steps lie in a trace file?

List columns with one value per step of the request, and the shapes of steps in the header. Leaves
out what steps mean (`traces.kinds.timed_steps`) and the other columns
(`traces.storage.acceptance_file`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from hardware_profiles.errors import InputError
from traces.kinds.naming import naming
from traces.kinds.timed_steps import COUNTS, MAX_SHAPES, SECONDS, TimedSteps
from traces.kinds.tree import Tree
from traces.storage.parquet_files import list_column, lists

STEP_COLUMNS = tuple(f"step_{name}" for name in (*COUNTS, *SECONDS))


def step_columns(steps: TimedSteps) -> dict[str, pa.Array]:
    """The columns of timed steps, one row per request."""
    lengths = np.diff(steps.offsets)
    return {
        column: list_column(getattr(steps, column.removeprefix("step_")), lengths)
        for column in STEP_COLUMNS
    }


def read_steps(table: pa.Table, header: Mapping[str, Any], file: str) -> TimedSteps | None:
    """The timed steps of a file; None where it has none.

    Args:
        table: its rows.
        header: its header, with the shapes.
        file: name for messages.

    Raises:
        InputError: a column is absent, of another type or length, or holds values out of range.
    """
    if not any(name in table.column_names for name in STEP_COLUMNS):
        return None
    stated = header.get("steps")
    shapes = stated.get("shapes") if isinstance(stated, dict) else None
    if not isinstance(shapes, list) or not 1 <= len(shapes) <= MAX_SHAPES:
        rule = f"must be an object with 1 to {MAX_SHAPES} shapes"
        raise InputError(rule, file=file, key="steps", value=type(stated).__name__)
    arrays: dict[str, Any] = {}
    lengths = None
    for column in STEP_COLUMNS:
        arrays[column.removeprefix("step_")], counted = lists(table, column, file)
        lengths = counted if lengths is None else lengths
        if not np.array_equal(counted, lengths):
            rule = f"every list must be as long as {STEP_COLUMNS[0]}"
            raise InputError(rule, file=file, key=column)
    assert lengths is not None
    with naming(file):
        return TimedSteps(
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            shapes=tuple(Tree.from_json(shape, file=file) for shape in shapes),
            **arrays,
        )
