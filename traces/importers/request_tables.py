"""Which requests does a table from outside list: when, how long, sharing which prompt blocks?

Reads columns by any of their names out of Parquet, CSV or JSON lines and makes a request trace of
them. Leaves out what a source calls its columns: `traces.importers.requests.tables` lists that.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from hardware_profiles.units import NANO
from traces.importers.files import json_lines, read_text
from traces.kinds.acceptance import Provenance, RequestTrace
from traces.kinds.provenance import BLOCK_TOKENS_KEY
from traces.storage.parquet_files import MAX_ROWS, lists, numbers, opened_parquet

_MOST_TOKENS = (1 << 31) - 1
_BLOCK_COLUMN = re.compile("prefix_block([0-9]{1,6})_ids")
_DATE = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)"
    r" ?(?:Z|UTC|([+-])(\d\d):?(\d\d)?)?",
    re.ASCII,
)

Columns = Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrivalColumn:
    """A column that tells when requests were sent.

    Attributes:
        name: of the column.
        unit_s: seconds of its unit.
        since_first: whether arrivals are counted from the first of them; else from 0.
        has_dates: whether it may hold dates with times of day, which count from the first of them.
    """

    name: str
    unit_s: float = 1.0
    since_first: bool = False
    has_dates: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestTable:
    """What the columns of a table of requests are called; of several names the first counts that
    the table has.

    Attributes:
        source: what the file is, for the notes.
        arrival: columns of arrivals; without any, all requests stand at 0.
        prompt_tokens: column of prompt lengths, in tokens.
        output_tokens: column of output lengths, in tokens.
        priority: column of priorities, lower first; a table may lack it.
        prefix_blocks: column of lists, the ids of a prompt's blocks; empty: not told.
        block_tokens: tokens of a block.
        needs_arrival: whether a table without arrivals or blocks is refused.
    """

    source: str
    arrival: Sequence[ArrivalColumn] = ()
    prompt_tokens: Sequence[str]
    output_tokens: Sequence[str]
    priority: Sequence[str] = ()
    prefix_blocks: Sequence[str] = ()
    block_tokens: int = 16
    needs_arrival: bool = True

    @property
    def columns(self) -> Columns:
        """Names of the columns to read, by what they hold."""
        names = {
            "arrival": [column.name for column in self.arrival],
            "prompt_tokens": self.prompt_tokens,
            "output_tokens": self.output_tokens,
            "priority": self.priority,
            "prefix_blocks": self.prefix_blocks,
        }
        return {quantity: listed for quantity, listed in names.items() if listed}


class Column(NamedTuple):
    """A column of a table: its name there, and an array of numbers or a list of texts or lists."""

    name: str
    values: Any


def read_table(path: str | Path, table: RequestTable) -> RequestTrace:
    """Read a table of requests.

    Args:
        path: `.parquet`, `.csv`, or JSON lines under any other ending.
        table: what its columns are called.

    Raises:
        InputError: absent, no such table, a column that is missing or holds something else, or
            arrivals that are not sorted.
    """
    file = str(path)
    optional = ("priority",) if table.needs_arrival else ("priority", "arrival", "prefix_blocks")
    columns = read_columns(path, table.columns, optional=optional)
    arrival, blocks = columns.get("arrival"), columns.get("prefix_blocks")
    prompt, output = columns["prompt_tokens"], columns["output_tokens"]
    forms = {column.name: column for column in table.arrival}
    return request_trace(
        file,
        arrival_s=None if arrival is None else _arrival_s(arrival, forms[arrival.name], file),
        prompt_tokens=whole_column(prompt.values, file, prompt.name),
        output_tokens=whole_column(output.values, file, output.name),
        prefix_blocks=None if blocks is None else block_ids(blocks.values, file, blocks.name),
        block_tokens=table.block_tokens,
        priority=_priorities(columns.get("priority"), file),
        source=table.source,
    )


def _arrival_s(column: Column, form: ArrivalColumn, file: str) -> NDArray[np.float64]:
    name, values = column
    if form.has_dates and isinstance(values, list) and ":" in str(values[0]):
        return time_column(date_seconds(values, file, name), file, name)
    times = time_column(values, file, name)
    if form.since_first:
        return np.asarray((times - times[0]) * form.unit_s)
    if times[0] < 0.0:
        raise InputError("must be >= 0", file=file, key=f"row 1, {name}", value=float(times[0]))
    return times * form.unit_s


def date_seconds(values: Sequence[Any], file: str, key: str) -> NDArray[np.float64]:
    """Seconds of dates with times of day since the first of them, float64[values]; where a date has
    a time zone it counts.

    Args:
        values: of all rows, such as `2024-05-10 00:00:00.009930+00:00`.
        file: name for messages.
        key: column for messages.

    Raises:
        InputError: a value that is no such date.
    """
    matches = [_DATE.fullmatch(str(value).strip()) for value in values]
    wrong = next((row for row, match in enumerate(matches) if match is None), None)
    if wrong is not None:
        rule = "must be times: seconds, or dates such as 2024-05-10T08:30:00Z"
        shown = str(values[wrong])[:60]
        raise InputError(rule, file=file, key=f"row {wrong + 1}, {key}", value=shown)
    dates = [match for match in matches if match is not None]
    try:
        stamps = np.array(
            # 18 characters: nine digits of a second, as many as nanoseconds have
            [f"{m[1]}-{m[2]}-{m[3]}T{m[4].replace(',', '.')[:18]}" for m in dates],
            "datetime64[ns]",
        )
    except ValueError as error:
        raise InputError(f"must be times ({error})", file=file, key=key) from None
    east_s = np.array(
        [
            (-1 if m[5] == "-" else 1) * (3600.0 * int(m[6]) + 60.0 * int(m[7] or 0))
            if m[5]
            else 0.0
            for m in dates
        ]
    )
    seconds = (stamps - stamps[0]).astype(np.int64) * NANO
    return np.asarray(seconds - (east_s - east_s[0]))


def read_columns(
    path: str | Path, columns: Columns, *, optional: Sequence[str] = ()
) -> dict[str, Column]:
    """Columns of a table.

    Args:
        path: `.parquet`, `.csv`, or JSON lines under any other ending.
        columns: quantities to read, with the column names of each in order of preference.
        optional: which of it may be absent.

    Returns:
        By quantity; absent ones are left out.

    Raises:
        InputError: absent, no such table, empty, or without a column that is not optional.
    """
    file, ending = str(path), Path(path).suffix.casefold()
    if ending == ".parquet":
        return _parquet(path, columns, optional, file)
    rows = (
        _csv_rows(path, file)
        if ending == ".csv"
        else [row for _, row in json_lines(read_text(path), file)]
    )
    if not rows:
        raise InputError("must list at least one request", file=file, key="rows", value=0)
    if len(rows) > MAX_ROWS:
        raise InputError(
            f"must list at most {MAX_ROWS} requests", file=file, key="rows", value=len(rows)
        )
    columns_read: dict[str, Column] = {}
    for quantity, names in columns.items():
        name = _present(quantity, names, rows[0], optional, file)
        if name is None:
            continue
        gap = next((row for row, values in enumerate(rows) if values.get(name) is None), None)
        if gap is not None:
            raise InputError("must stand in every row", file=file, key=f"row {gap + 1}, {name}")
        columns_read[quantity] = Column(name, [row[name] for row in rows])
    return columns_read


def whole_column(values: Any, file: str, key: str) -> NDArray[np.int64]:
    """Values as token counts.

    Args:
        values: an array of numbers, or a list of numbers or texts, one per request.
        file: name for messages.
        key: column for messages.

    Raises:
        InputError: no whole numbers in 0..2^31-1.
    """
    return _whole(values, file, key, least=0)


def time_column(values: Any, file: str, key: str) -> NDArray[np.float64]:
    """Values as times of any unit and beginning.

    Args:
        values: an array of numbers, or a list of numbers or texts, one per request.
        file: name for messages.
        key: column for messages.

    Raises:
        InputError: not finite, or earlier than the one before.
    """
    times = _numbers(values, file, key, "must be numbers")
    if not times.size or not np.all(np.isfinite(times)):
        raise InputError("must be there and finite", file=file, key=key)
    back = np.nonzero(np.diff(times) < 0)[0]
    if back.size:
        raise InputError("arrivals must be sorted", file=file, key=f"row {int(back[0]) + 2}, {key}")
    return times


def _priorities(column: Column | None, file: str) -> NDArray[np.int32] | None:
    """Priorities, of which lower ones are served first; None where there is no such column."""
    if column is None:
        return None
    return _whole(column.values, file, column.name, least=-_MOST_TOKENS).astype(np.int32)


def _whole(values: Any, file: str, key: str, *, least: int) -> NDArray[np.int64]:
    counts = _numbers(values, file, key, "must be whole numbers")
    wrong = ~((counts >= least) & (counts <= _MOST_TOKENS) & (counts == np.floor(counts)))
    if wrong.any():
        row = int(np.argmax(wrong))
        rule = f"must be whole numbers in {least}..{_MOST_TOKENS}"
        raise InputError(rule, file=file, key=f"row {row + 1}, {key}", value=float(counts[row]))
    return counts.astype(np.int64)


def _numbers(values: Any, file: str, key: str, rule: str) -> NDArray[np.float64]:
    try:
        return np.asarray(
            [float(value) for value in values] if isinstance(values, list) else values,
            dtype=np.float64,
        )
    except (TypeError, ValueError, OverflowError):
        raise InputError(rule, file=file, key=key) from None


def request_trace(
    file: str,
    *,
    arrival_s: NDArray[np.float64] | None,
    prompt_tokens: NDArray[np.int64],
    output_tokens: NDArray[np.int64],
    prefix_blocks: Sequence[Sequence[int]] | None = None,
    block_tokens: int = 16,
    priority: NDArray[np.int32] | None = None,
    source: str,
    remarks: Sequence[str] = (),
) -> RequestTrace:
    """A request trace; requests without a prompt or an output are left out, and its notes say how
    many.

    Args:
        file: name for messages.
        arrival_s: None: not recorded, all at 0.
        prompt_tokens: of every request.
        output_tokens: of every request, in the same order.
        prefix_blocks: ids of each prompt's blocks.
        block_tokens: tokens of one of them.
        priority: of every request, lower first.
        source: what the file is, for the notes.
        remarks: what else the notes say, in sentences.

    Raises:
        InputError: no request is left.
    """
    usable = (prompt_tokens > 0) & (output_tokens > 0)
    if not usable.any():
        raise InputError("must list a request with a prompt and an output", file=file, key="rows")
    arrival = np.zeros(usable.size) if arrival_s is None else arrival_s
    notes = [f"Requests from {source}.", *remarks]
    if arrival_s is None:
        notes.append("No arrivals were recorded: all stand at 0, to be drawn anew.")
    if not usable.all():
        notes.append(
            f"{int((~usable).sum())} requests without a prompt or an output were left out."
        )
    blocks = None
    if prefix_blocks is not None:
        blocks = tuple(tuple(ids) for ids in itertools.compress(prefix_blocks, usable.tolist()))
        notes.append(f"Prompts share blocks of {block_tokens} tokens.")
    return RequestTrace(
        arrival_s=arrival[usable],
        prompt_tokens=prompt_tokens[usable].astype(np.int32),
        output_tokens=output_tokens[usable].astype(np.int32),
        prefix_blocks=blocks,
        priority=None if priority is None else priority[usable],
        provenance=Provenance(
            notes=" ".join(notes),
            extra={BLOCK_TOKENS_KEY: block_tokens} if blocks is not None else {},
        ),
        file=file,
    )


def block_column(path: str | Path) -> tuple[str, int] | None:
    """The column `prefix_blockN_ids` of a Parquet file and its N, where there is one."""
    with opened_parquet(path) as parquet:
        names = parquet.schema_arrow.names
    block_columns = [
        (name, int(match[1]))
        for name in names
        if (match := _BLOCK_COLUMN.fullmatch(name)) and int(match[1])
    ]
    return block_columns[0] if block_columns else None


def block_ids(values: Any, file: str, key: str) -> list[list[int]]:
    """Lists of block ids.

    Args:
        values: a list per request.
        file: name for messages.
        key: column for messages.

    Raises:
        InputError: something else.
    """
    for row, ids in enumerate(values):
        if not isinstance(ids, list) or not all(type(i) is int and abs(i) < 1 << 63 for i in ids):
            raise InputError(
                "must be a list of whole numbers", file=file, key=f"row {row + 1}, {key}"
            )
    return list(values)


def _present(
    quantity: str, names: Sequence[str], row: Mapping[str, Any], optional: Sequence[str], file: str
) -> str | None:
    """The first of the names that a row has; None where it has none and the quantity is
    optional.
    """
    name = next((name for name in names if name in row), None)
    if name is None and quantity not in optional:
        raise InputError(f"must have a column {' or '.join(names)}", file=file, key=quantity)
    return name


def _csv_rows(path: str | Path, file: str) -> list[dict[str, str]]:
    try:
        return list(csv.DictReader(read_text(path).splitlines()))
    except csv.Error as error:
        raise InputError(f"must be CSV ({error})", file=file) from None


def _parquet(
    path: str | Path, columns: Columns, optional: Sequence[str], file: str
) -> dict[str, Column]:
    with opened_parquet(path) as parquet:
        present = dict.fromkeys(parquet.schema_arrow.names)
        names = {
            quantity: name
            for quantity, spellings in columns.items()
            if (name := _present(quantity, spellings, present, optional, file)) is not None
        }
        table = parquet.read(columns=list(names.values()))
        table.validate(full=True)
    if not table.num_rows:
        raise InputError("must list at least one request", file=file, key="rows", value=0)
    columns_read: dict[str, Column] = {}
    for quantity, name in names.items():
        if hasattr(table.schema.field(name).type, "value_type"):
            values, lengths = lists(table, name, file)
            bounds = np.cumsum(np.append(0, lengths)).tolist()
            flat = values.tolist()
            rows = [flat[start:end] for start, end in itertools.pairwise(bounds)]
            columns_read[quantity] = Column(name, rows)
        else:
            columns_read[quantity] = Column(name, numbers(table, name, file))
    return columns_read
