"""What is the summary of a campaign's results?

Passes of whole models as rates beside the measured copy rate, and speeds of real decoding. Leaves
out the rows themselves (`results`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from real_runs.campaigns.decode_summary import speeds
from real_runs.campaigns.results import read_results, read_runs
from traces.storage.kernels import KernelRow

_SEED = 0


def measures(folder: Path) -> dict[str, Any]:
    """Copy rate, passes and speeds of a results folder, as JSON values.

    Args:
        folder: results of a campaign.

    Returns:
        `copy_bytes_per_s` (None where no cold copy was measured), `steps` as `step_rates`, `decode`
        as `Speed`.

    Raises:
        InputError: a damaged file.
    """
    trace, runs = read_results(folder), read_runs(folder)
    rows = () if trace is None else trace.rows
    copy = copy_rate(rows)
    found = [] if runs is None else speeds(runs, generator=np.random.default_rng(_SEED))
    return {
        "copy_bytes_per_s": copy,
        "steps": step_rates(rows, copy),
        "decode": [asdict(each) for each in found],
    }


def copy_rate(rows: Sequence[KernelRow]) -> float | None:
    """Best rate of a cold copy, bytes read and written per second."""
    return max(
        (row.bytes / row.median_s for row in rows if row.operation == "copy" and row.cold),
        default=None,
    )


def step_rates(rows: Sequence[KernelRow], copy_bytes_per_s: float | None) -> list[dict[str, Any]]:
    """Every pass with its rate, weights and cache read once, and the ratio of that to the copy
    rate.
    """
    return [
        {
            "model": row.model,
            "layers": row.layers,
            "implementation": row.implementation,
            "dtype": row.dtype,
            "mask": row.mask,
            "requests": row.requests,
            "query_tokens": row.query_tokens,
            "context": row.context,
            "median_s": row.median_s,
            "bytes_per_s": row.bytes / row.median_s,
            "copy_ratio": row.bytes / row.median_s / copy_bytes_per_s if copy_bytes_per_s else None,
        }
        for row in rows
        if row.operation == "step"
    ]
