"""`score`: how far off is the model on a table of measured serving runs, where, and through
what?
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from app.cli.output import Answered
from app.questions.field import Field, Group
from app.questions.fields import Csv, Json, Out, Quiet, Seed

if TYPE_CHECKING:
    from app.answers.scoring.summaries import Predicted
    from simulator.closed_loop.table_rows import RowAnswer


def score(
    tables: Annotated[
        list[Path],
        Field(
            (
                "Measured runs (Parquet, CSV or JSON Lines): backend, model_path, system, isl, osl,"
                " concurrency and "
                "ttft_ms, ttft_median_ms or tpot_ms (also measured_..., silicon_...); a median"
                " counts before a mean. Further columns as in `predict --table`; records of"
                " InferenceX are read as they are."
            ),
            Group.WORKLOAD,
            argument=True,
        ),
    ],
    baseline: Annotated[
        Path | None,
        Field(
            (
                "What stands beside: an earlier --json or --out of this verb or of `predict"
                " --table`, or another "
                "tool's table of id, ttft_ms and tpot_ms."
            ),
            Group.SEARCH,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        Field(
            "HTML page: predicted against measured times by engine.", Group.OUTPUT, also="--html"
        ),
    ] = None,
    leave_out: Annotated[
        str,
        Field(
            (
                "model or device: constants that were fitted to serving runs are fitted again to"
                " the other models or "
                "devices of the tables before each is answered (minutes); as shipped stands beside."
            ),
            Group.SEARCH,
        ),
    ] = "",
    out: Out = None,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Answer every row of tables of measured runs and say how far off, in which slices, and through
    which parts.

    Rows that hold one measurement count once (equal times of equal users, or an equal
    `measurement`).
    """
    from app.answers.scoring.held_out import GROUPS, held_out
    from app.answers.scoring.measured import measurements
    from app.answers.scoring.score import scored
    from app.cli.output import deliver
    from app.cli.progress import progress_line
    from app.cli.shown.score import print_score
    from app.questions.places import require_file
    from hardware_profiles.errors import InputError

    if plot is not None:
        require_file(plot, "--plot")
    if leave_out and (leave_out not in GROUPS or baseline is not None):
        rule = (
            "takes no --baseline" if baseline is not None else f"must be one of {', '.join(GROUPS)}"
        )
        raise InputError(rule, key="--leave-out", value=leave_out)
    other = None if baseline is None else read_baseline(baseline)
    fitted: list[dict[str, Any]] = []
    with progress_line(quiet or json) as told:
        records, answers = _answered(tables, seed, told)
        if leave_out:
            other = _times_by_id(answers)
            answers, fitted = held_out(
                records, by=leave_out, file=str(tables[0]), seed=seed, progress=told
            )
    found, unusable = measurements(records, answers)
    if not found:
        rule = next(iter(unusable), "has no rows")
        raise InputError(f"holds no measurement to score: {rule}", file=tables[0])
    inputs = {
        "tables": [str(table) for table in tables],
        "baseline": None if baseline is None else str(baseline),
        "leave_out": leave_out or None,
        "seed": seed,
    }
    body = {**scored(found, unusable, inputs, rows=len(records), other=other), "left_out": fitted}
    if plot is not None:
        _draw(body, plot)
    return deliver(
        body,
        name="score",
        json=json,
        out=out,
        quiet=quiet,
        csv=csv,
        rows=["slices"],
        show=lambda: print_score(body),
    )


def _answered(
    tables: "Sequence[Path]", seed: int, progress: "Callable[[str], None]"
) -> "tuple[list[dict[str, Any]], list[RowAnswer]]":
    """Rows of all tables and their answers."""
    from app.answers.scoring.measured import COLUMNS, MARKS
    from app.questions.record_files import read_records
    from simulator.closed_loop.table_rows import answer_rows

    more = (*MARKS, *(name for names in COLUMNS.values() for name in names))
    records: list[dict[str, Any]] = []
    answers: list[RowAnswer] = []
    for table in tables:
        own = read_records(table, more=more)
        progress(f"answering {len(own)} rows of {table.name}")
        records += own
        answers += answer_rows(own, file=str(table), seed=seed)
    return records, answers


def _times_by_id(answers: "Sequence[RowAnswer]") -> "Predicted":
    """Answered milliseconds by id and quantity."""
    pairs = {a.id: {"tpot": a.tpot_ms, "ttft": a.ttft_ms} for a in answers}
    return {
        name: {q: v for q, v in times.items() if v is not None} for name, times in pairs.items()
    }


def _draw(body: Mapping[str, Any], plot: Path) -> None:
    from app.render.html.score_page import write_score_page

    write_score_page(body, plot)


def read_baseline(path: Path) -> "Predicted":
    """Milliseconds by id and quantity, of an answer of ours or of a table of another tool.

    Raises:
        InputError: neither, or without a time.
    """
    from app.questions.record_files import read_table
    from hardware_profiles.errors import InputError
    from traces.importers.files import parse_json, read_text

    wanted = ("id", "ttft_ms", "tpot_ms")
    if path.suffix.casefold() == ".json":
        answer = parse_json(read_text(path), str(path))
        rows = (
            answer.get("measurements") or answer.get("rows")
            if isinstance(answer, Mapping)
            else None
        )
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise InputError(
                "must hold the measurements of `score` or the rows of `predict --table`", file=path
            )
    else:
        _, rows = read_table(path, wanted)
    found: dict[str, dict[str, float]] = {}
    for index, row in enumerate(rows):
        times = {
            q: _time(row.get(f"{q}_ms"), path, f"row {index}, {q}_ms") for q in ("ttft", "tpot")
        }
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
        raise InputError(
            "must be a time in milliseconds", file=path, key=key, value=str(value)[:40]
        ) from None
    return number if 0.0 < number < float("inf") else None
