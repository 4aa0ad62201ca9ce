"""What is one measured operation made of, whatever table it stood in?

Sizes as named columns, seconds, and where they come from. Leaves out reading (`tables`) and timing
(`timing`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from costmodel.passes.ops import Array, Mask
from hardware_profiles.errors import InputError

OPERATIONS = (
    "gemm",
    "attention_generation",
    "attention_context",
    "attention_verify",
    "mla_generation",
    "moe",
    "allreduce",
)
COLUMNS: dict[str, tuple[str, ...]] = {
    "gemm": ("rows", "outputs", "inputs", "converts"),
    "attention_generation": (
        "requests",
        "query_tokens",
        "context",
        "heads",
        "kv_heads",
        "head_dim",
    ),
    "attention_context": ("requests", "query_tokens", "context", "heads", "kv_heads", "head_dim"),
    "attention_verify": (
        "requests",
        "query_tokens",
        "context",
        "heads",
        "kv_heads",
        "head_dim",
        "beside_requests",
        "beside_context",
    ),
    "mla_generation": ("requests", "context", "heads"),
    "moe": (
        "tokens",
        "hidden",
        "width",
        "experts",
        "experts_per_token",
        "visited",
        "padded_rows",
        "least_padded_rows",
    ),
    "allreduce": ("bytes", "devices", "graphs"),
}
# flags that a source may leave out: the time of a product holds the conversion of its inputs from
# 16 bits
ABSENT = {"gemm": {"converts": 0.0}}
MOST_ROWS = 2_000_000


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Measurements:
    """Rows of one operation; arrays have one entry per row.

    Args:
        operation: one of `OPERATIONS`.
        columns: sizes by name, those of `COLUMNS`; flags are 0 or 1.
        seconds: measured time of one call, > 0.
        dtype: number format by row; "" where a table does not say.
        part: what rows are distinguished by beside the operation: the library of an all-reduce, the
            routing of experts; "" where there is nothing.
        cold: False for rows known to have run from a warm cache.
        file: name of the table, or names joined by ", ".
        resolution_s: step that the times were rounded to.

    Raises:
        InputError: an unknown operation, missing columns, or lengths that differ.
    """

    operation: str
    columns: Mapping[str, Array]
    seconds: Array
    dtype: npt.NDArray[np.str_]
    part: npt.NDArray[np.str_]
    cold: Mask
    file: str
    resolution_s: float

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            raise InputError(
                f"must be one of {', '.join(OPERATIONS)}", key="operation", value=self.operation
            )
        missing = [name for name in COLUMNS[self.operation] if name not in self.columns]
        if missing:
            raise InputError(
                f"needs the columns {', '.join(missing)}", file=self.file, key=self.operation
            )
        arrays = (*self.columns.values(), self.dtype, self.part, self.cold)
        if any(len(array) != len(self.seconds) for array in arrays):
            raise InputError(
                "every column needs one value per row", file=self.file, key=self.operation
            )

    def __len__(self) -> int:
        return len(self.seconds)

    def select(self, rows: Mask) -> "Measurements":
        """The rows where `rows` holds."""
        return Measurements(
            operation=self.operation,
            columns={name: values[rows] for name, values in self.columns.items()},
            seconds=self.seconds[rows],
            dtype=self.dtype[rows],
            part=self.part[rows],
            cold=self.cold[rows],
            file=self.file,
            resolution_s=self.resolution_s,
        )


def measurements(
    operation: str,
    columns: Mapping[str, npt.ArrayLike],
    seconds: npt.ArrayLike,
    *,
    file: str,
    dtype: npt.ArrayLike = "",
    part: npt.ArrayLike = "",
    cold: npt.ArrayLike = True,
    resolution_s: float = 1e-8,
) -> Measurements:
    """Measurements from anything that broadcasts to one value per row.

    Args:
        operation: of the table.
        columns: sizes of the calls by name; those of `ABSENT` may lack.
        seconds: measured, > 0.
        file: name for messages.
        dtype: format of operands; empty: any.
        part: kernel or library, where there are several.
        cold: whether operands came from memory.
        resolution_s: of the clock.

    Raises:
        InputError: as `Measurements`.
    """
    times = np.asarray(seconds, dtype=np.float64)
    columns = {**ABSENT.get(operation, {}), **columns}
    count = times.shape

    def spread(values: npt.ArrayLike, kind: npt.DTypeLike) -> npt.NDArray[np.generic]:
        return np.broadcast_to(np.asarray(values, dtype=kind), count)

    return Measurements(
        operation=operation,
        columns={
            name: np.asarray(spread(values, np.float64), dtype=np.float64)
            for name, values in columns.items()
        },
        seconds=times,
        dtype=np.asarray(spread(dtype, np.str_), dtype=np.str_),
        part=np.asarray(spread(part, np.str_), dtype=np.str_),
        cold=np.asarray(spread(cold, np.bool_), dtype=np.bool_),
        file=file,
        resolution_s=resolution_s,
    )


def together(tables: Sequence[Measurements]) -> dict[str, Measurements]:
    """Rows of several tables by operation; the coarsest resolution of an operation's tables counts.

    Raises:
        InputError: more rows than `MOST_ROWS`.
    """
    if sum(len(table) for table in tables) > MOST_ROWS:
        raise InputError(f"at most {MOST_ROWS} rows altogether", key="kernels")
    merged: dict[str, Measurements] = {}
    for operation in OPERATIONS:
        mine = [table for table in tables if table.operation == operation]
        if mine:
            merged[operation] = Measurements(
                operation=operation,
                columns={
                    name: np.concatenate([table.columns[name] for table in mine])
                    for name in COLUMNS[operation]
                },
                seconds=np.concatenate([table.seconds for table in mine]),
                dtype=np.concatenate([table.dtype for table in mine]),
                part=np.concatenate([table.part for table in mine]),
                cold=np.concatenate([table.cold for table in mine]),
                file=", ".join(dict.fromkeys(table.file for table in mine)),
                resolution_s=max(table.resolution_s for table in mine),
            )
    return merged
