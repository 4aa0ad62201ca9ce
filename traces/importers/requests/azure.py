"""How are the public Azure request traces read?

Format `azure`: the public traces of 2023 and 2024 as CSV (`TIMESTAMP`, `ContextTokens`,
`GeneratedTokens`), or the same as Parquet (`arrival_s`, `input_tokens`, `output_tokens`). Yields
requests; nothing tells which prompts share a prefix.

Reference: Patel et al. 2024, "Splitwise" (arXiv:2311.18677), the traces
AzureLLMInferenceTrace_{code,conv}.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from hardware_profiles.units import NANO
from traces.importers.recognition import Format
from traces.importers.request_tables import (
    read_columns,
    request_trace,
    second_column,
    time_column,
    whole_column,
)
from traces.kinds.acceptance import RequestTrace

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(?:Z|[+-]\d\d:?\d\d)?", re.ASCII
)
_COLUMNS = {
    "arrival": ("arrival_s", "TIMESTAMP"),
    "prompt_tokens": ("ContextTokens", "input_tokens"),
    "output_tokens": ("GeneratedTokens", "output_tokens"),
}


def read(path: str | Path) -> RequestTrace:
    """Read an Azure trace.

    Args:
        path: CSV or Parquet.

    Returns:
        Requests; arrivals of a CSV count from the first of them.

    Raises:
        InputError: anything that is not as described, unsorted arrivals included.
    """
    file = str(path)
    columns = read_columns(path, _COLUMNS)
    return request_trace(
        file,
        arrival_s=_arrivals(columns["arrival"], file),
        prompt_tokens=whole_column(columns["prompt_tokens"], file, "ContextTokens"),
        output_tokens=whole_column(columns["output_tokens"], file, "GeneratedTokens"),
        source="a trace of Azure's language models",
    )


def _arrivals(values: object, file: str) -> NDArray[np.float64]:
    if not isinstance(values, list) or ":" not in str(values[0]):
        return second_column(values, file, "arrival_s")
    # a time zone is the same in all rows, and only differences count
    matches = [_TIME.fullmatch(str(value).strip()) for value in values]
    wrong = next((row for row, match in enumerate(matches) if match is None), None)
    if wrong is not None:
        raise InputError(
            "must be times",
            file=file,
            key=f"row {wrong + 1}, TIMESTAMP",
            value=str(values[wrong])[:60],
        )
    try:
        stamps = np.array(
            [f"{match[1]}T{match[2]}"[:29] for match in matches if match], "datetime64[ns]"
        )
    except ValueError as error:
        raise InputError(f"must be times ({error})", file=file, key="TIMESTAMP") from None
    return time_column((stamps - stamps[0]).astype(np.int64) * NANO, file, "TIMESTAMP")


FORMATS = (
    Format(
        name="azure",
        kind="requests",
        claims=lambda sample: sample.tabulates("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
        read=read,
    ),
)
