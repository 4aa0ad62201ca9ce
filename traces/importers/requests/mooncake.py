"""How is the public Mooncake request trace read, shared prompt blocks included?

Format `mooncake`: JSON lines with `timestamp` (milliseconds), `input_length`, `output_length` and
`hash_ids`, one id per started block of 512 prompt tokens; or the same as Parquet (`arrival_s`,
`input_tokens`, `output_tokens`, `prefix_block512_ids`).

Reference: Qin et al. 2024, "Mooncake" (arXiv:2407.00079), section 4 and its public trace.
"""

from __future__ import annotations

from pathlib import Path

from hardware_profiles.units import MILLI
from traces.importers.recognition import Format
from traces.importers.request_tables import (
    block_ids,
    priority_column,
    read_columns,
    request_trace,
    second_column,
    time_column,
    whole_column,
)
from traces.kinds.acceptance import RequestTrace

BLOCK_TOKENS = 512
_COLUMNS = {
    "arrival_s": ("arrival_s",),
    "timestamp": ("timestamp",),
    "prompt_tokens": ("input_length", "input_tokens"),
    "output_tokens": ("output_length", "output_tokens"),
    "blocks": ("hash_ids", f"prefix_block{BLOCK_TOKENS}_ids"),
    "priority": ("priority",),
}


def read(path: str | Path) -> RequestTrace:
    """Read a Mooncake trace.

    Args:
        path: JSON lines or Parquet.

    Returns:
        Requests, arrivals of JSON lines since the first of them, and the ids of their prompts'
        blocks.

    Raises:
        InputError: anything that is not as described, unsorted arrivals included.
    """
    file = str(path)
    columns = read_columns(path, _COLUMNS, optional=("arrival_s", "timestamp", "priority"))
    if "arrival_s" in columns:
        arrival = second_column(columns["arrival_s"], file, "arrival_s")
    elif "timestamp" in columns:
        stamps = time_column(columns["timestamp"], file, "timestamp")
        arrival = (stamps - stamps[0]) * MILLI
    else:
        arrival = None
    return request_trace(
        file,
        arrival_s=arrival,
        prompt_tokens=whole_column(columns["prompt_tokens"], file, "input_length"),
        output_tokens=whole_column(columns["output_tokens"], file, "output_length"),
        prefix_blocks=block_ids(columns["blocks"], file, "hash_ids"),
        block_tokens=BLOCK_TOKENS,
        priority=priority_column(columns.get("priority"), file),
        source="a Mooncake trace",
    )


FORMATS = (
    Format(
        name="mooncake",
        kind="requests",
        claims=lambda sample: (
            sample.holds("input_length", "output_length", "hash_ids")
            or sample.tabulates("output_tokens", f"prefix_block{BLOCK_TOKENS}_ids")
        ),
        read=read,
    ),
)
