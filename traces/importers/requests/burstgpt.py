"""How is the public BurstGPT trace read?

Format `burstgpt`: CSV with `Timestamp` (seconds), `Model`, `Request tokens` and `Response tokens`.
Yields requests; failed ones, whose response has no token, are left out, and nothing tells which
prompts share a prefix.

Reference: Wang et al. 2024, "BurstGPT" (arXiv:2401.17644), BurstGPT_1.csv to BurstGPT_3.csv.
"""

from __future__ import annotations

from pathlib import Path

from traces.importers.recognition import Format
from traces.importers.request_tables import read_columns, request_trace, time_column, whole_column
from traces.kinds.acceptance import RequestTrace

_COLUMNS = {
    "arrival": ("Timestamp",),
    "prompt": ("Request tokens",),
    "output": ("Response tokens",),
}


def read(path: str | Path) -> RequestTrace:
    """Read a BurstGPT trace.

    Args:
        path: CSV.

    Returns:
        Requests, arrivals since the first of them.

    Raises:
        InputError: anything that is not as described, unsorted arrivals included.
    """
    file = str(path)
    columns = read_columns(path, _COLUMNS)
    times = time_column(columns["arrival"], file, "Timestamp")
    return request_trace(
        file,
        arrival_s=times - times[0],
        prompt_tokens=whole_column(columns["prompt"], file, "Request tokens"),
        output_tokens=whole_column(columns["output"], file, "Response tokens"),
        source="a BurstGPT trace",
    )


FORMATS = (
    Format(
        name="burstgpt",
        kind="requests",
        claims=lambda sample: sample.tabulates("Timestamp", "Request tokens", "Response tokens"),
        read=read,
    ),
)
