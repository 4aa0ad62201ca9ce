"""What does a row of a sweep say? A record whose attributes are the columns of its file.

Names and units are those of `predict --json`; ends of 80 % intervals stand as `_low` and `_high`,
as in its CSV. Under a load times and rates are those of a simulation, and `speedup` that of a request's
whole time by the law of a load.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_type_hints

import numpy as np
import pyarrow as pa

from app.answers.answer import Column, Row

SCHEMA_VERSION = 2

_Low = Annotated[float | None, Column("Lower end of its 80 % interval.")]
_High = Annotated[float | None, Column("Upper end of its 80 % interval.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class CellKeys(Row):
    """Which cell of a sweep; two sweeps have the same cell where all of these are equal."""

    model: Annotated[str, Column("Target, as the lists name it.")]
    device: Annotated[str, Column("As the lists name it.")]
    engine: Annotated[str, Column("As the lists name it.")]
    tensor_parallel: Annotated[int, Column("Devices that share every layer.", "tp")]
    drafter: Annotated[str, Column("`METHOD[:SOURCE]`, a trace, or `plain-decoding`.")]
    batch: Annotated[int | None, Column("Requests that decode together; None: a load says.")] = None
    context: Annotated[int | None, Column("Cached tokens per request; None: a load says.")] = None
    rate_per_s: Annotated[float | None, Column("Requests that arrive per second.")] = None
    users: Annotated[int | None, Column("Users with a request each.")] = None
    prompt_tokens: Annotated[str | None, Column("Law of the prompts' lengths.")] = None
    output_tokens: Annotated[str | None, Column("Law of the outputs' lengths.")] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepCell(CellKeys):
    """A cell with its best draft, or with the reason why there is none."""

    feasible: Annotated[bool, Column("Whether there is an answer.")] = False
    reason: Annotated[str | None, Column("Why there is none.")] = None
    method: Annotated[str | None, Column("Decoding method.")] = None
    topology: Annotated[str | None, Column("`off`, `chain`, `tree` or `dynamic_tree`.")] = None
    draft_tokens: Annotated[int | None, Column("Per request and step.", "K")] = None
    tree: Annotated[str | None, Column("The draft tree as JSON.")] = None
    tokens_per_step: Annotated[float | None, Column("Emitted per request and step.")] = None
    tokens_per_step_low: _Low = None
    tokens_per_step_high: _High = None
    step_s: Annotated[float | None, Column("A step.", unit="s")] = None
    step_s_low: _Low = None
    step_s_high: _High = None
    plain_tokens_per_s: Annotated[float | None, Column("Of plain decoding.")] = None
    tokens_per_s: Annotated[float | None, Column("Of all requests.", "tokens/s")] = None
    tokens_per_s_low: _Low = None
    tokens_per_s_high: _High = None
    speedup: Annotated[float | None, Column("Against plain decoding.")] = None
    speedup_low: _Low = None
    speedup_high: _High = None
    ttft_s: Annotated[
        float | None, Column("Time to first token; without load where none is asked.", unit="s")
    ] = None
    tpot_s: Annotated[float | None, Column("Time per output token.", unit="s")] = None
    e2e_s: Annotated[float | None, Column("Time of a whole request.", unit="s")] = None
    memory_bytes: Annotated[float | None, Column("That a device needs.", unit="bytes")] = None
    limit: Annotated[str | None, Column("What bounds the step.")] = None
    ttft_p99_s: Annotated[float | None, Column("Of 99 % of the requests.", unit="s")] = None
    tpot_p99_s: Annotated[float | None, Column("Of 99 % of the requests.", unit="s")] = None
    e2e_p99_s: Annotated[float | None, Column("Of 99 % of the requests.", unit="s")] = None
    good_ratio: Annotated[float | None, Column("Requests within the limits.")] = None
    goodput_per_s: Annotated[float | None, Column("Requests within the limits.")] = None
    sustained: Annotated[bool | None, Column("Whether no backlog grows.")] = None
    requests: Annotated[int | None, Column("That were simulated.")] = None
    remark: Annotated[str | None, Column("What was assumed of the drafts.")] = None
    acceptance_kind: Annotated[str | None, Column("How acceptance is known.")] = None
    acceptance_source: Annotated[str | None, Column("Where it stands.")] = None
    acceptance_label: Annotated[str | None, Column("What it is called.")] = None
    acceptance_borrowed: Annotated[bool | None, Column("Whether of another model.")] = None
    draft_model: Annotated[str | None, Column("Model that drafts.")] = None
    fidelity: Annotated[str | None, Column("`measured`, `calibrated` or `datasheet`.")] = None
    device_calibrated: Annotated[
        bool | None, Column("Whether the device's own kernels were measured.")
    ] = None
    constants_from: Annotated[str | None, Column("Whose kernels stand in for its own.")] = None
    overhead_source: Annotated[str | None, Column("Of the engine's overheads.")] = None


KEYS = tuple(CellKeys.__dataclass_fields__)
COLUMNS = tuple(SweepCell.__dataclass_fields__)


def schema(metadata: Mapping[str, str] | None = None) -> pa.Schema:
    """Columns and their types.

    Args:
        metadata: of the file.
    """
    stored = {str: pa.string(), int: pa.int64(), bool: pa.bool_(), float: pa.float64()}
    hints = get_type_hints(SweepCell)
    return pa.schema(
        [(name, stored[(get_args(hints[name]) or (hints[name],))[0]]) for name in COLUMNS],
        metadata=dict(metadata or {}),
    )


def table_of(cells: Sequence[SweepCell]) -> pa.Table:
    """Cells as a table; what a cell does not have is null."""
    form = schema()
    return pa.table(
        [
            _column([getattr(cell, name) for cell in cells], form.field(name).type)
            for name in COLUMNS
        ],
        schema=form,
    )


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values, some of them None, as an Arrow array.

    `pa.array` would import pandas wherever that is installed, for half a second and 50 MB in every
    process.
    """
    is_stated = np.array([value is not None for value in values], dtype=bool)
    buffers = [np.packbits(is_stated, bitorder="little")]
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
        kind, len(values), [pa.py_buffer(buffer) for buffer in buffers], int((~is_stated).sum())
    )
