"""`predict --table`: times to first and per output token for every row of a table of serving runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.cli.output import Answered
    from simulator.closed_loop.table_rows import RowAnswer

_MOST_BYTES = 64 << 20
_MOST_ROWS = 100_000
_OF_ROWS = ("model", "trace", "acceptance", "tokens_per_step", "drafter", "tree", "overrides", "dynamic_tree", "stop",
            "transform")  # fmt: skip


def predict_table(table: Path, *, json: bool, out: Path | None, csv: Path | None, quiet: bool, seed: int) -> "Answered":
    """Answer a table and hand the answer over.

    Args:
        table: Parquet or CSV file.
        json: print one JSON object.
        out: file for that object, or a folder for `rows.json`.
        csv: file for its rows as comma-separated values.
        quiet: print no table.
        seed: of the draws behind the intervals.

    Raises:
        InputError: the file cannot be read, lacks a column or holds a value that makes no sense.
    """
    from app.answers.optimize import table_rows
    from app.cli.output import deliver, require_file, write_json
    from simulator.closed_loop.table_rows import answer_rows

    place = out / "rows.json" if out is not None and out.is_dir() else out
    if place is not None:
        require_file(place)
    answers = answer_rows(read_records(table), file=str(table), seed=seed)
    found = {"inputs": {"table": str(table), "seed": seed}, "rows": table_rows(answers)}
    if place is not None:
        write_json(found, place)
    return deliver(found, name="rows", json=json, out=None, quiet=quiet, csv=csv, rows=["rows"],
                   show=lambda: _print(answers, table))  # fmt: skip


def read_records(table: Path) -> list[dict[str, Any]]:
    """Rows of a Parquet or CSV file by column; columns that nothing asks for are left out.

    Raises:
        InputError: not such a file, too large, or without a needed column.
    """
    from hardware_profiles.errors import InputError
    from simulator.closed_loop.columns import COUNTS, REQUIRED, TEXTS

    try:
        size = table.stat().st_size
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=table) from None
    if not table.is_file() or size > _MOST_BYTES:
        raise InputError(f"must be a file of at most {_MOST_BYTES >> 20} MiB", file=table)
    columns, rows = _parquet(table, (*COUNTS, *TEXTS)) if _is_parquet(table) else _csv(table, (*COUNTS, *TEXTS))
    for name in REQUIRED:
        if name not in columns:
            raise InputError(f"lacks the column; needed are {', '.join(REQUIRED)}", file=table, key=name)
    return rows


def _is_parquet(table: Path) -> bool:
    with table.open("rb") as file:
        return file.read(4) == b"PAR1"


def _parquet(table: Path, wanted: tuple[str, ...]) -> tuple[list[str], list[dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from hardware_profiles.errors import InputError

    try:
        with pq.ParquetFile(table) as file:
            columns = list(file.schema_arrow.names)
            if file.metadata.num_rows > _MOST_ROWS:
                raise InputError(f"may have {_MOST_ROWS} rows", file=table, value=file.metadata.num_rows)
            rows = file.read([name for name in wanted if name in columns]).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"is no readable Parquet file ({str(error).splitlines()[0]})", file=table) from None
    return columns, rows


def _csv(table: Path, wanted: tuple[str, ...]) -> tuple[list[str], list[dict[str, Any]]]:
    import csv

    from hardware_profiles.errors import InputError

    rows: list[dict[str, Any]] = []
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            columns = list(reader.fieldnames or [])
            for record in reader:
                if len(rows) >= _MOST_ROWS:
                    raise InputError(f"may have {_MOST_ROWS} rows", file=table)
                if None in record:
                    raise InputError("has more values than columns", file=table, key=f"row {len(rows)}")
                rows.append({name: record[name] for name in wanted if name in record})
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"is neither Parquet nor CSV ({error})", file=table) from None
    return columns, rows


def _print(answers: "list[RowAnswer]", table: Path) -> None:
    from app.cli.formatting import ranged
    from app.cli.output import print_table

    def shown(value: float | None, spread: tuple[float, float] | None) -> str:
        return "" if value is None else ranged(value, spread)

    cells = [
        [a.id, shown(a.ttft_ms, a.ttft_ms_interval), shown(a.tpot_ms, a.tpot_ms_interval), a.reason or ""]
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
            raise InputError("does not go with --table, whose rows say it themselves", key=option, value=str(value))
