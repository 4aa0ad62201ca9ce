"""Which passes did the scored runs of a validation consist of?

Kept beside the report, so that a later cost model can be scored on them. Leaves out the scoring.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from real_runs.validation.runs import Run
from traces.storage.parquet_files import write_parquet

PASSES = "passes.parquet"
COLUMNS = ("loop", "mask", "requests", "query_tokens", "context", "seconds")


def keep_passes(runs: Sequence[tuple[str, bool, Run]], folder: Path) -> None:
    """Write the passes of scored runs to `passes.parquet`.

    Args:
        runs: the loop that each ran in, whether it verified trees, and the run.
        folder: of the report.
    """
    rows = [
        (loop, "tree" if tree else "causal", b, n, c, seconds)
        for loop, tree, run in runs
        for b, n, c, seconds in run.passes
    ]
    columns = {name: [row[place] for row in rows] for place, name in enumerate(COLUMNS)}
    write_parquet(pa.table(columns), folder / PASSES)
