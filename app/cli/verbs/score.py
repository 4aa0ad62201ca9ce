"""`score`: how far off is the model on a table of measured serving runs, where, and through what?"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.options import Csv, Json, Out, Quiet, Seed
from app.cli.output import Answered

if TYPE_CHECKING:
    from app.answers.scoring.summaries import Predicted


def score(
    tables: Annotated[
        list[Path],
        typer.Argument(
            help="Measured runs (Parquet, CSV or JSON Lines): backend, model_path, system, isl, osl, concurrency and "
            "ttft_ms or tpot_ms (also measured_..., silicon_...); further columns as in `predict --table`."
        ),
    ],
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline",
            help="What stands beside: an earlier --json or --out of this verb or of `predict --table`, or another "
            "tool's table of id, ttft_ms and tpot_ms.",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", "--html", help="HTML page: predicted against measured times by engine.")
    ] = None,
    out: Out = None,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Answer every row of tables of measured runs and say how far off, in which slices, and through which parts.

    Rows that hold one measurement count once (equal times of equal users, or an equal `measurement`).
    """
    from app.answers.scoring.measured import COLUMNS, MARKS, measurements
    from app.answers.scoring.score import scored
    from app.cli.output import deliver, progress_line, require_file
    from app.cli.record_files import read_records
    from app.cli.shown.score import print_score
    from hardware_profiles.errors import InputError
    from simulator.closed_loop.table_rows import answer_rows

    if plot is not None:
        require_file(plot, "--plot")
    other = None if baseline is None else read_baseline(baseline)
    more = (*MARKS, *(name for names in COLUMNS.values() for name in names))
    records, answers = [], []
    with progress_line(quiet or json) as told:
        for table in tables:
            own = read_records(table, more=more)
            told(f"answering {len(own)} rows of {table.name}")
            records += own
            answers += answer_rows(own, file=str(table), seed=seed)
        found, unusable = measurements(records, answers)
    if not found:
        rule = next(iter(unusable), "has no rows")
        raise InputError(f"holds no measurement to score: {rule}", file=tables[0])
    inputs = {
        "tables": [str(table) for table in tables],
        "baseline": None if baseline is None else str(baseline),
        "seed": seed,
    }
    body = scored(found, unusable, inputs, rows=len(records), other=other)
    if plot is not None:
        _draw(body, plot)
    return deliver(body, name="score", json=json, out=out, quiet=quiet, csv=csv, rows=["slices"],
                   show=lambda: print_score(body))  # fmt: skip


def _draw(body: Mapping[str, Any], plot: Path) -> None:
    from app.reports.score_page import write_score_page

    write_score_page(body, plot)


def read_baseline(path: Path) -> "Predicted":
    """Milliseconds by id and quantity, of an answer of ours or of a table of another tool.

    Raises:
        InputError: neither, or without a time.
    """
    from app.cli.record_files import read_table
    from hardware_profiles.errors import InputError
    from traces.importers.files import parse_json, read_text

    wanted = ("id", "ttft_ms", "tpot_ms")
    if path.suffix.casefold() == ".json":
        answer = parse_json(read_text(path), str(path))
        rows = answer.get("measurements") or answer.get("rows") if isinstance(answer, Mapping) else None
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise InputError("must hold the measurements of `score` or the rows of `predict --table`", file=path)
    else:
        _, rows = read_table(path, wanted)
    found: dict[str, dict[str, float]] = {}
    for index, row in enumerate(rows):
        times = {q: _time(row.get(f"{q}_ms"), path, f"row {index}, {q}_ms") for q in ("ttft", "tpot")}
        ids = row.get("ids") or [row.get("id") or index]
        if known := {q: value for q, value in times.items() if value is not None}:
            found |= {str(each): known for each in ids}
    if not found:
        raise InputError("holds no ttft_ms or tpot_ms by id", file=path)
    return found


def _time(value: Any, path: Path, key: str) -> float | None:
    from hardware_profiles.errors import InputError

    if value is None or value == "":
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError("must be a time in milliseconds", file=path, key=key, value=str(value)[:40]) from None
    return number if 0.0 < number < float("inf") else None
