"""What does a row of a sweep say? Column names, types and units.

Names and units are those of `predict --json`; ends of 80 % intervals stand as `_low` and `_high`,
as in its CSV.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

SCHEMA_VERSION = 1
KEYS = ("model", "device", "engine", "tensor_parallel", "drafter", "batch", "context")
_TEXTS = (
    "model",
    "device",
    "engine",
    "drafter",
    "reason",
    "method",
    "topology",
    "tree",
    "limit",
    "remark",
    "acceptance_kind",
    "acceptance_source",
    "acceptance_label",
    "draft_model",
    "fidelity",
    "constants_from",
    "overhead_source",
)
_WHOLE = ("tensor_parallel", "batch", "context", "draft_tokens")
_TRUE = ("feasible", "acceptance_borrowed", "device_calibrated")

COLUMNS = (
    *KEYS,
    "feasible",
    "reason",
    "method",
    "topology",
    "draft_tokens",
    "tree",
    "tokens_per_step",
    "tokens_per_step_low",
    "tokens_per_step_high",
    "step_s",
    "step_s_low",
    "step_s_high",
    "plain_tokens_per_s",
    "tokens_per_s",
    "tokens_per_s_low",
    "tokens_per_s_high",
    "speedup",
    "speedup_low",
    "speedup_high",
    "ttft_s",
    "tpot_s",
    "memory_bytes",
    "limit",
    "remark",
    "acceptance_kind",
    "acceptance_source",
    "acceptance_label",
    "acceptance_borrowed",
    "draft_model",
    "fidelity",
    "device_calibrated",
    "constants_from",
    "overhead_source",
)


def schema(metadata: Mapping[str, str] | None = None) -> pa.Schema:
    """Columns and their types.

    Args:
        metadata: of the file.
    """
    kinds = (
        dict.fromkeys(_TEXTS, pa.string())
        | dict.fromkeys(_WHOLE, pa.int64())
        | dict.fromkeys(_TRUE, pa.bool_())
    )
    return pa.schema(
        [(name, kinds.get(name, pa.float64())) for name in COLUMNS], metadata=dict(metadata or {})
    )


def table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as a table; what a row does not have is null."""
    form = schema()
    return pa.table(
        [_column([row.get(name) for row in rows], form.field(name).type) for name in COLUMNS],
        schema=form,
    )


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values, some of them None, as an Arrow array.

    `pa.array` would import pandas wherever that is installed, for half a second and 50 MB in every
    process.
    """
    known = np.array([value is not None for value in values], dtype=bool)
    buffers = [np.packbits(known, bitorder="little")]
    if kind == pa.string():
        texts = [b"" if value is None else value.encode() for value in values]
        buffers += [
            np.cumsum([0, *map(len, texts)], dtype=np.int32),
            np.frombuffer(b"".join(texts), dtype=np.uint8),
        ]
    elif kind == pa.bool_():
        buffers += [
            np.packbits(np.array([bool(value) for value in values], dtype=bool), bitorder="little")
        ]
    else:
        numbers = [0 if value is None else value for value in values]
        buffers += [np.array(numbers, dtype=np.int64 if kind == pa.int64() else np.float64)]
    return pa.Array.from_buffers(
        kind, len(values), [pa.py_buffer(each) for each in buffers], int((~known).sum())
    )
