"""What stands in the files of a measured kernel profile?

Reads the columns of one file for a number of devices, checked. Leaves out what they mean
(`profile_tables` and `profile_experts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from hardware_profiles.units import MICRO
from traces.storage.parquet_files import numbers, opened_parquet, texts

Floats = NDArray[np.float64]
Rows = Mapping[str, NDArray[Any]]
LEAST_ROWS = 4  # of a file, below which there is nothing to interpolate between
_MOST_SIZE = 1 << 17  # of any row count, context or batch in a profile


def read_rows(
    prefix: str | Path, part: str, keys: tuple[str, ...], shared: int, time: str = "time_us"
) -> Rows:
    """The rows of one file for a number of devices.

    Args:
        prefix: path of the profile's files up to `_PART.parquet`.
        part: which of them.
        keys: columns.
        shared: devices that shared the model; a file without a column `tp` holds for any.
        time: column of microseconds.

    Returns:
        Columns by name, and `s`, the times in seconds.

    Raises:
        InputError: no such file or column, too few rows, sizes or times out of range.
    """
    file = f"{prefix}_{part}.parquet"
    with opened_parquet(file) as parquet:
        table: pa.Table = parquet.read()
    rows: dict[str, NDArray[Any]] = {}
    for key in (*keys, time):
        rows[key] = (
            np.array(texts(table, key, file))
            if key in ("layer", "regime")
            else numbers(table, key, file)
        )
    if "tp" in table.column_names:
        devices = numbers(table, "tp", file)
        if not np.any(devices == shared):
            measured = ", ".join(map(str, np.unique(devices).tolist()))
            raise InputError(
                f"is measured on {measured} devices", file=file, key="tp", value=shared
            )
        rows = {key: values[devices == shared] for key, values in rows.items()}
    for key, values in rows.items():
        if values.dtype.kind not in "iuf":
            continue
        least, most = (np.nextafter(0.0, 1.0), np.inf) if key == time else (0, _MOST_SIZE)
        if (
            not np.all(np.isfinite(values))
            or values.min(initial=least) < least
            or values.max(initial=0) > most
        ):
            raise InputError("holds sizes or times out of range", file=file, key=key)
    if rows[time].size < LEAST_ROWS:
        raise InputError(
            f"must hold at least {LEAST_ROWS} rows", file=file, key="rows", value=rows[time].size
        )
    return {**rows, "s": rows[time] * MICRO}
