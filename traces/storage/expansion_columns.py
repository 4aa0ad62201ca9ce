"""How do draft trees per position lie in a trace file?

List columns beside those of the positions: the size of every position's tree, and one value per
node. Leaves out what the trees mean (`traces.kinds.expansions`) and the other columns
(`traces.storage.acceptance_file`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.expansions import Expansions
from traces.kinds.naming import naming
from traces.storage.header import whole_number
from traces.storage.parquet_files import list_column, lists

SIZES = "expansion_sizes"
_NODE_COLUMNS = {
    "expansion_parents": "parents",
    "expansion_rank": "rank",
    "expansion_prob": "draft_prob",
    "expansion_on_path": "on_path",
}
EXPANSION_COLUMNS = (SIZES, *_NODE_COLUMNS)


def expansion_columns(expansions: Expansions, offsets: NDArray[np.int64]) -> dict[str, pa.Array]:
    """The columns of draft trees, one row per request.

    Args:
        expansions: the trees of n positions.
        offsets: int64[r+1], the positions that every request owns.
    """
    nodes = np.diff(expansions.offsets[offsets])
    columns = {SIZES: list_column(expansions.sizes.astype(np.int16), np.diff(offsets))}
    for column, name in _NODE_COLUMNS.items():
        values: NDArray[Any] = getattr(expansions, name)
        columns[column] = list_column(
            values.astype(np.int8) if values.dtype == np.bool_ else values, nodes
        )
    return columns


def read_expansions(
    table: pa.Table, header: Mapping[str, Any], lengths: NDArray[np.int64], file: str
) -> Expansions | None:
    """The draft trees of a file; None where it has none.

    Args:
        table: its rows.
        header: its header, with the limits that the trees were expanded under.
        lengths: int64[r], output positions of every request.
        file: name for messages.

    Raises:
        InputError: a column is absent, of another type or length, or holds values out of range.
    """
    if not any(name in table.column_names for name in EXPANSION_COLUMNS):
        return None
    limits = header.get("expansions")
    if not isinstance(limits, dict):
        raise InputError("must be an object", file=file, key="expansions", value=limits)
    sizes, counted = lists(table, SIZES, file)
    if not np.array_equal(counted, lengths):
        raise InputError("every list must be as long as emitted", file=file, key=SIZES)
    if sizes.dtype.kind not in "iu" or np.any(sizes < 0):
        raise InputError("must be whole numbers >= 0", file=file, key=SIZES)
    offsets = np.concatenate([[0], np.cumsum(sizes.astype(np.int64))])
    nodes = np.diff(offsets[np.concatenate([[0], np.cumsum(lengths)])])
    arrays: dict[str, Any] = {}
    for column, name in _NODE_COLUMNS.items():
        arrays[name], counted = lists(table, column, file)
        if not np.array_equal(counted, nodes):
            raise InputError(
                f"every list must be as long as {SIZES} adds up to", file=file, key=column
            )
    with naming(file):
        stated: dict[str, Any] = {
            key: whole_number(limits, key, file, 0) or 0 for key in ("nodes", "depth", "width")
        }
        return Expansions(offsets=offsets, **arrays, **stated)
