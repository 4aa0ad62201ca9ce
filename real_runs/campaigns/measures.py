"""What is the summary of a campaign's results?

Passes of whole models as rates beside the measured copy rate, and speeds of real decoding. Leaves
out the rows themselves (`results`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from real_runs.campaigns.decode_summary import Speed, speeds
from real_runs.campaigns.results import read_results, read_runs
from traces.storage.kernels import KernelRow

_SEED = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class PassRate:
    """A pass of a whole model as a rate, weights and cache read once.

    Attributes:
        model: whose layers ran.
        layers: how many of them.
        implementation: of attention.
        dtype: number format.
        mask: causal or tree.
        requests: that ran together.
        query_tokens: new tokens of each.
        context: cached tokens of each.
        median_s: seconds of the pass.
        bytes_per_s: what it read and wrote.
        copy_ratio: that over the copy rate; None where no cold copy was measured.
    """

    model: str
    layers: int
    implementation: str
    dtype: str
    mask: str
    requests: int
    query_tokens: int
    context: int
    median_s: float
    bytes_per_s: float
    copy_ratio: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Measures:
    """The summary of a campaign's results.

    Attributes:
        copy_bytes_per_s: best rate of a cold copy; None where none was measured.
        steps: passes of whole models.
        decode: speeds of real decoding.
    """

    copy_bytes_per_s: float | None = None
    steps: tuple[PassRate, ...] = ()
    decode: tuple[Speed, ...] = ()


def measures(folder: Path) -> Measures:
    """Copy rate, passes and speeds of a results folder.

    Args:
        folder: results of a campaign.

    Raises:
        InputError: a damaged file.
    """
    trace, runs = read_results(folder), read_runs(folder)
    rows = () if trace is None else trace.rows
    copy = copy_rate(rows)
    decoded = [] if runs is None else speeds(runs, generator=np.random.default_rng(_SEED))
    return Measures(copy_bytes_per_s=copy, steps=step_rates(rows, copy), decode=tuple(decoded))


def copy_rate(rows: Sequence[KernelRow]) -> float | None:
    """Best rate of a cold copy, bytes read and written per second."""
    return max(
        (row.bytes / row.median_s for row in rows if row.operation == "copy" and row.cold),
        default=None,
    )


def step_rates(rows: Sequence[KernelRow], copy_bytes_per_s: float | None) -> tuple[PassRate, ...]:
    """Every pass with its rate, and the ratio of that to the copy rate."""
    return tuple(
        PassRate(
            model=row.model,
            layers=row.layers,
            implementation=row.implementation,
            dtype=row.dtype,
            mask=row.mask,
            requests=row.requests,
            query_tokens=row.query_tokens,
            context=row.context,
            median_s=row.median_s,
            bytes_per_s=row.bytes / row.median_s,
            copy_ratio=row.bytes / row.median_s / copy_bytes_per_s if copy_bytes_per_s else None,
        )
        for row in rows
        if row.operation == "step"
    )
