"""Which simulations stand beside measured loads? The same requests at the same times, a scenario
for all of them.

Leaves out comparing (`real_runs.validation.load_replay`) and printing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from app.answers.simulations.runs import Report, prepared_of
from hardware_profiles.errors import InputError
from real_runs.servers.load import ROWS
from real_runs.validation.load_replay import LoadReplay, compared, load_file, read_load
from simulator.engine import simulate
from simulator.scenario.file import ScenarioFile


def load_names(paths: Sequence[Path]) -> dict[str, Path]:
    """The file of every load by its name, which is that of its folder, or of its file where that
    has one of its own.

    Raises:
        InputError: a folder without a load, or two loads of one name.
    """
    named: dict[str, Path] = {}
    for path in paths:
        file = load_file(path)
        name = file.resolve().parent.name if file.name == ROWS else file.stem
        if name in named:
            raise InputError("two loads must not have one name", key="--beside", value=name)
        named[name] = file
    return named


def replayed(
    written: ScenarioFile, loads: dict[str, Path], seed: int, report: Report
) -> tuple[list[LoadReplay], list[str]]:
    """Every load beside its simulation, and what was assumed.

    Args:
        written: how requests are served; its requests are left out.
        loads: files by name.
        seed: of every draw.
        report: called with the load, and how many of its requests have ended.

    Raises:
        InputError: a file that holds no load, or a scenario that does not fit its requests.
    """
    replays: list[LoadReplay] = []
    notes: dict[str, None] = {}
    for name, file in loads.items():
        rows = read_load(file)
        requests = written.requests.model_copy(update={"file": str(file)})
        prepared = prepared_of(written.model_copy(update={"requests": requests}))
        result = simulate(prepared.scenario(seed), progress=partial(report, name))
        replays.append(compared(name, rows, result))
        notes |= dict.fromkeys(prepared.notes)
    return replays, list(notes)
