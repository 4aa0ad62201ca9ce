"""How far off is a model, a device or a family that no fitted constant has seen?

Nearly everything in an answer comes from kernels, datasheets and engines' sources; the few
constants that were fitted to serving runs (`simulator.closed_loop.constants`) are refitted to the
rest of the table for every group that is left out. Families (model, device, engine) are left out by
halves. Leaves out mechanisms: those were found on published runs, and no refit can unlearn them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.answers.progress import Report
from app.answers.scoring.conformal import HALVES, half_of
from app.answers.scoring.measured import family, measured_times
from app.answers.scoring.names import shape
from app.answers.scoring.rows import LeftOutFamily
from hardware_profiles.errors import InputError
from simulator.closed_loop.fit import fit
from simulator.closed_loop.table_rows import RowAnswer, answer_rows

Record = Mapping[str, Any]
GROUPS = ("model", "device", "family")


def held_out(
    records: Sequence[Record], *, by: str, file: str, seed: int, progress: Report
) -> tuple[list[RowAnswer], list[LeftOutFamily]]:
    """Answers of every row, with constants fitted to the rows of other groups, and these constants
    by group.

    Args:
        records: rows of tables of measured runs.
        by: `model` (equal shapes are one), `device`, or `family`: one half of the families.
        file: where they come from, for messages.
        seed: of the draws behind the intervals, and of the halves.
        progress: called with what is fitted, and how many of how many groups are done.

    Raises:
        InputError: one group alone, or nothing in the others to fit to.
    """
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(_groups(records, by, seed)):
        groups.setdefault(name, []).append(index)
    if len(groups) < HALVES:
        raise InputError(
            f"the tables hold one {by}, so that nothing is left to fit to",
            key="--leave-out",
            value=by,
        )
    answers: dict[int, RowAnswer] = {}
    fitted = []
    for place, (name, rows) in enumerate(groups.items()):
        progress(f"fits without one {by}", place, len(groups))
        own = set(rows)
        constants = fit(
            _usable([record for index, record in enumerate(records) if index not in own])
        )
        own_answers = answer_rows(
            [records[index] for index in rows], file=file, seed=seed, constants=constants
        )
        answers |= dict(zip(rows, own_answers, strict=True))
        fitted.append(LeftOutFamily(left_out=name, rows=len(rows), constants=constants))
    return [answers[index] for index in range(len(records))], fitted


def _groups(records: Sequence[Record], by: str, seed: int) -> list[str]:
    """The group of every row, by the name of the row that it begins with."""
    if by == "family":
        families = [family(record) for record in records]
        half = half_of(families, seed=seed)
        return [f"families, half {half[own] + 1}" for own in families]
    names: dict[Any, str] = {}
    groups = []
    for record in records:
        if by == "model":
            name = str(record.get("model_path"))
            key: Any = shape(name) or name
        else:
            name = str(record.get("system"))
            key = name.casefold()
        groups.append(names.setdefault(key, name))
    return groups


def _usable(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Rows with both times measured, in the columns that a fit reads."""
    usable = []
    for record in records:
        try:
            times = measured_times(record)
        except InputError:
            continue
        if None not in times.values():
            usable.append(
                {**record, "silicon_tpot_ms": times["tpot"], "silicon_ttft_ms": times["ttft"]}
            )
    return usable
