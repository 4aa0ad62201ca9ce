"""Which passes should the scored runs of a server consist of?

Kept beside the report, so that a later cost model can be scored on what was measured without
running anything. Leaves out steps whose acceptance was drawn, which are no replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from costmodel.answers.steps.setting import Setting
from hardware_profiles.errors import InputError
from real_runs.validation.servers.predict import predicted_group
from real_runs.validation.servers.steps import MeasuredSteps, Passes
from traces.storage.parquet_files import numbers, opened_parquet, write_parquet

STEPS = "steps.parquet"
_PASS = ("step", "requests", "query_tokens", "context")
_MOST_ROWS = 1 << 22


def keep_steps(groups: Sequence[tuple[int, MeasuredSteps]], folder: Path) -> None:
    """Write the steps of groups of requests to `steps.parquet`.

    Args:
        groups: place of a point in the report, and the steps of one of its groups.
        folder: of the report.
    """
    rows = []
    for group, (point, steps) in enumerate(groups):
        about = {"group": group, "point": point}
        for draft, passes in enumerate((steps.verify, steps.draft)):
            table = np.stack([getattr(passes, name) for name in _PASS], axis=1)
            rows += [
                about | {"what": draft, **dict(zip(_PASS, row, strict=True))}
                for row in table.tolist()
            ]
        rows += [
            about | {"what": 2, "step": step, "requests": count, "query_tokens": 0, "context": 0}
            for step, count in enumerate(steps.served.tolist())
        ]
        rows += [
            about | {"what": 3, "step": end, "requests": tokens, "query_tokens": 0, "context": 0}
            for end, tokens in zip(steps.ends.tolist(), steps.tokens.tolist(), strict=True)
        ]
    write_parquet(pa.Table.from_pylist(rows), folder / STEPS)


def read_steps(folder: Path) -> list[tuple[int, MeasuredSteps]]:
    """What `keep_steps` wrote.

    Raises:
        InputError: no such file, or another one.
    """
    file = folder / STEPS
    with opened_parquet(file) as parquet:
        if parquet.metadata.num_rows > _MOST_ROWS:
            raise InputError(f"must not exceed {_MOST_ROWS} rows", file=file)
        table = parquet.read()
    names = ("group", "point", "what", *_PASS)
    values = {name: numbers(table, name, str(file)).astype(np.int64) for name in names}
    measured = []
    for group in np.unique(values["group"]):
        parts = []
        for what in range(4):
            mine = (values["group"] == group) & (values["what"] == what)
            parts.append({name: values[name][mine] for name in _PASS})
        verify, draft, served, ends = parts
        steps = MeasuredSteps(
            served=served["requests"],
            verify=Passes(**verify),
            draft=Passes(**draft),
            ends=ends["step"],
            tokens=ends["requests"],
        )
        measured.append((int(values["point"][values["group"] == group][0]), steps))
    return measured


def rate(
    setting: Setting, draft_layers: int, groups: Sequence[MeasuredSteps], *, draft_tokens: int
) -> float:
    """Tokens per second that groups of requests, one after the other, should be given.

    Args:
        setting: target, device, engine.
        draft_layers: layers of a draft model; 0: none drafts.
        groups: their steps.
        draft_tokens: K; 0 decodes plainly.
    """
    runs = [
        predicted_group(setting, draft_layers, [steps], draft_tokens=draft_tokens).run
        for steps in groups
    ]
    return sum(run.tokens for run in runs) / sum(run.decode_s for run in runs)
