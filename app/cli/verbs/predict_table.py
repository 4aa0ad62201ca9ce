"""`predict --table`: times to first and per output token for every row of a table of serving
runs.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.cli.output import Answered
    from simulator.closed_loop.table_rows import RowAnswer

_OF_ROWS = (
    "model",
    "trace",
    "acceptance",
    "tokens_per_step",
    "drafter",
    "tree",
    "overrides",
    "shape",
    "stop",
    "transform",
)


def predict_table(
    table: Path, *, json: bool, out: Path | None, csv: Path | None, quiet: bool, seed: int
) -> "Answered":
    """Answer a table and hand the answer over.

    Args:
        table: Parquet, CSV or JSON Lines file.
        json: print one JSON object.
        out: file for that object, or a folder for `rows.json`.
        csv: file for its rows as comma-separated values.
        quiet: print no table.
        seed: of the draws behind the intervals.

    Raises:
        InputError: the file cannot be read, lacks a column or holds a value that makes no sense.
    """
    from app.answers.optimize import table_rows
    from app.cli.output import deliver
    from app.cli.record_files import read_records
    from app.questions.places import require_file
    from app.render.json import write_json
    from simulator.closed_loop.table_rows import answer_rows

    place = out / "rows.json" if out is not None and out.is_dir() else out
    if place is not None:
        require_file(place)
    answers = answer_rows(read_records(table), file=str(table), seed=seed)
    found = {"inputs": {"table": str(table), "seed": seed}, "rows": table_rows(answers)}
    if place is not None:
        write_json(found, place)
    return deliver(
        found,
        name="rows",
        json=json,
        out=None,
        quiet=quiet,
        csv=csv,
        rows=["rows"],
        show=lambda: _print(answers, table),
    )


def _print(answers: "list[RowAnswer]", table: Path) -> None:
    from app.render.numbers import ranged
    from app.render.text import print_table

    def shown(value: float | None, spread: tuple[float, float] | None) -> str:
        return "" if value is None else ranged(value, spread)

    cells = [
        [
            a.id,
            shown(a.ttft_ms, a.ttft_ms_interval),
            shown(a.tpot_ms, a.tpot_ms_interval),
            a.reason or "",
        ]
        for a in answers
    ]
    unanswered = sum(a.reason is not None for a in answers)
    caption = f"brackets: 80 % intervals; {unanswered} of {len(answers)} rows without an answer"
    print_table(table.name, ["id", "TTFT ms", "TPOT ms", "reason"], cells, caption=caption)


def refuse_others(given: Mapping[str, object]) -> None:
    """Refuse options that a table's rows say themselves.

    Args:
        given: options of `predict` by parameter.

    Raises:
        InputError: naming the first that was given.
    """
    from hardware_profiles.errors import InputError

    for name in _OF_ROWS:
        if value := given.get(name):
            option = "--set" if name == "overrides" else f"--{name.replace('_', '-')}"
            raise InputError(
                "does not go with --table, whose rows say it themselves",
                key=option,
                value=str(value),
            )
