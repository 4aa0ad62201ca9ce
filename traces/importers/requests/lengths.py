"""How is a table of prompt and output lengths read?

Format `lengths`: Parquet, CSV or JSON lines with `input_tokens` and `output_tokens`
(`prompt_tokens` and `completion_tokens` will do), such as lengths counted over ShareGPT. Yields
requests that all arrive at 0: arrivals are to be drawn.
"""

from __future__ import annotations

from pathlib import Path

from traces.importers.recognition import Format, Sample
from traces.importers.request_tables import (
    priority_column,
    read_columns,
    request_trace,
    whole_column,
)
from traces.kinds.acceptance import RequestTrace

_COLUMNS = {
    "prompt_tokens": ("input_tokens", "prompt_tokens", "input_length"),
    "output_tokens": ("output_tokens", "completion_tokens", "output_length"),
    "priority": ("priority",),
}


def read(path: str | Path) -> RequestTrace:
    """Read a table of lengths.

    Args:
        path: Parquet, CSV or JSON lines.

    Returns:
        Requests in the order of the file, all at 0.

    Raises:
        InputError: anything that is not as described.
    """
    file = str(path)
    columns = read_columns(path, _COLUMNS, optional=("priority",))
    return request_trace(
        file,
        arrival_s=None,
        prompt_tokens=whole_column(columns["prompt_tokens"], file, "input_tokens"),
        output_tokens=whole_column(columns["output_tokens"], file, "output_tokens"),
        priority=priority_column(columns.get("priority"), file),
        source="a table of lengths",
    )


def _claims(sample: Sample) -> bool:
    names = sample.columns or tuple(sample.first if sample.document is None else ())
    timed = any(
        name in names for name in ("arrival_s", "timestamp", "Timestamp", "TIMESTAMP", "hash_ids")
    )
    prompt, output = (
        any(name in names for name in _COLUMNS[side]) for side in ("prompt_tokens", "output_tokens")
    )
    return prompt and output and not timed


FORMATS = (Format(name="lengths", kind="requests", claims=_claims, read=read),)
