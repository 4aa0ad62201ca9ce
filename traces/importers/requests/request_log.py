"""How is anybody's own table or log of requests read, whatever its columns are called?

Format `request-log`: CSV (commas, semicolons, tabs), Parquet, a JSON list or JSON lines, such as
logs of an OpenAI-style server or of a gateway before it. Names are compared without their case and
signs, and of nested objects by their last part: `Prompt Tokens`, `promptTokens` and
`usage.prompt_tokens` are one. Times are seconds, milliseconds where the name or the size of a Unix
time says so, or ISO dates. Rows need not be sorted. Turns of a session send their history again, so
that a prompt that has grown begins with the one before it; a stated shared prefix is shared, too.
Leaves out texts: their tokens are not counted.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from hardware_profiles.outside_file import open_regular
from hardware_profiles.units import MICRO, MILLI, NANO
from traces.importers.files import delimiter_of, expect_object, json_lines, parse_json, read_text
from traces.importers.recognition import Format, Sample
from traces.importers.request_tables import date_seconds, request_trace, whole_column
from traces.kinds.acceptance import RequestTrace
from traces.storage.parquet_files import MAX_ROWS, opened_parquet

NAMES: Mapping[str, Sequence[str]] = {
    "arrival": (
        *("arrival", "arrivaltime", "arrivedat", "requesttime", "requeststarttime"),
        *("requeststart", "requesttimestamp", "requestedat", "submittime", "submittedat"),
        *("sendtime", "sentat", "receivedat", "starttime", "startedat", "start", "timestamp"),
        *("datetime", "createdat", "createdtime", "created", "eventtime", "time", "ts", "date"),
    ),
    "prompt tokens": (
        *("prompttokens", "numprompttokens", "prompttokencount", "promptlength", "promptlen"),
        *("inputtokens", "numinputtokens", "inputtokencount", "inputlength", "inputlen"),
        *("inputsequencelength", "isl", "contexttokens", "requesttokens", "prefilltokens"),
        *("numprefilltokens", "tokensin", "promptsize", "querytokens"),
    ),
    "output tokens": (
        *("completiontokens", "numcompletiontokens", "completiontokencount", "outputtokens"),
        *("numoutputtokens", "outputtokencount", "outputlength", "outputlen", "osl"),
        *("outputsequencelength", "completionlength", "completionlen", "generatedtokens"),
        *("numgeneratedtokens", "generationtokens", "responsetokens", "decodetokens"),
        *("numdecodetokens", "tokensout", "responselength", "candidatestokencount"),
    ),
    "priority": ("priority",),
    "session": (
        *("sessionid", "conversationid", "chatid", "threadid", "dialogid", "session"),
        *("conversation",),
    ),
    "prefix": ("prefixid", "prefixhash", "sharedprefixid", "systempromptid", "templateid"),
    "prefix tokens": ("prefixtokens", "prefixlength", "prefixlen", "sharedprefixtokens"),
}
"""What columns may be called, in the order in which they are taken; without case and signs."""
_NEEDED = ("prompt tokens", "output tokens")
_SHARED = ("session", "prefix", "prefix tokens")
_UNITS = {"ms": MILLI, "millis": MILLI, "us": MICRO, "ns": NANO, "s": 1.0, "sec": 1.0}
_UNITS |= {"seconds": 1.0, "milliseconds": MILLI, "unix": 1.0, "utc": 1.0}
_UNIX = ((1e17, NANO), (1e14, MICRO), (1e11, MILLI), (1e8, 1.0))
"""From which size a number can only be a Unix time, in which unit."""
_EARLIEST_S, _LATEST_S = 1e8, 1e11
"""Between which seconds a time is a Unix time: the years 1973 to 5138."""
_SIGNS = re.compile(r"[^a-z0-9]+")
_REMARK = re.compile(r"\([^()]*\)")
_DEEPEST = 6
_BLOCK_TOKENS = 64
"""A multiple of the cache blocks of every engine."""
_MOST_BLOCKS = 1 << 22


@dataclass(frozen=True, slots=True)
class _Named:
    """A column: its name in the file, and seconds of its unit where the name tells it."""

    name: str
    unit_s: float | None = None


def named_columns(names: Sequence[str]) -> dict[str, _Named]:
    """Which of the names of a file are those of which quantity.

    Args:
        names: of columns; of nested objects with dots.

    Example:
        >>> columns = named_columns(["Start Time (ms)", "usage.prompt_tokens", "Completion-Tokens"])
        >>> {quantity: column.name for quantity, column in columns.items()}
        {'arrival': 'Start Time (ms)', 'prompt tokens': 'usage.prompt_tokens', 'output tokens': 'Completion-Tokens'}
    """
    spelled: dict[str, str] = {}
    for name in names:
        last = name.rpartition(".")[2].casefold()
        for text in (last, _REMARK.sub("", last)):
            spelled.setdefault(_SIGNS.sub("", text), name)
    columns = {}
    for quantity, spellings in NAMES.items():
        units = _UNITS if quantity == "arrival" else {}
        known = ((s + unit, unit) for s in spellings for unit in (*units, ""))
        match = next(((s, unit) for s, unit in known if s in spelled), None)
        if match is not None:
            columns[quantity] = _Named(spelled[match[0]], units.get(match[1]))
    return columns


def read(path: str | Path) -> RequestTrace:
    """Read a table or a log of requests.

    Args:
        path: CSV, Parquet, a JSON list or JSON lines.

    Returns:
        Requests in order of arrival; dates and Unix times since the first of them.

    Raises:
        InputError: no such table, no column of lengths, or a value that is none of its kind.
    """
    file = str(path)
    rows = list(_rows(path, file))
    if not rows:
        raise InputError("must list at least one request", file=file, key="rows", value=0)
    if len(rows) > MAX_ROWS:
        rule = f"must list at most {MAX_ROWS} requests"
        raise InputError(rule, file=file, key="rows", value=len(rows))
    columns = named_columns(list(dict.fromkeys(name for _, row in rows for name in row)))
    for quantity in _NEEDED:
        if quantity not in columns:
            rule = f"must have a column of {quantity}, such as {', '.join(NAMES[quantity][:4])}"
            raise InputError(rule, file=file, key=quantity)
    listed = len(rows)
    rows = [
        row for row in rows if all(row[1].get(columns[q].name) not in (None, "") for q in _NEEDED)
    ]
    if not rows:
        raise InputError("must list a request with a prompt and an output", file=file, key="rows")
    values = {name: _values(rows, name, column, file) for name, column in columns.items()}
    arrival, order, note = _arrivals(columns, values, file)
    prompt, output = (
        whole_column(values[quantity], file, columns[quantity].name)[order] for quantity in _NEEDED
    )
    tokens, prefixes = _prefixes(values, prompt, order, columns, file)
    priority = None
    if "priority" in columns:
        priority = whole_column(values["priority"], file, columns["priority"].name)[order]
    remarks = [note] if note else []
    if len(rows) < listed:
        remarks.append(f"{listed - len(rows)} rows without lengths were left out.")
    if "session" in columns:
        remarks.append("Turns of a session are taken to send their history again.")
    return request_trace(
        file,
        arrival_s=arrival,
        prompt_tokens=prompt,
        output_tokens=output,
        prefix_blocks=prefixes,
        block_tokens=tokens,
        priority=None if priority is None else priority.astype(np.int32),
        source=f"a log of requests ({', '.join(f'{q}: {c.name}' for q, c in columns.items())})",
        remarks=remarks,
    )


def _rows(path: str | Path, file: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every row with its name for messages; nested objects by dotted names."""
    with open_regular(path) as stream:
        is_parquet = stream.read(4) == b"PAR1"
    if is_parquet:
        with opened_parquet(path) as parquet:
            table = parquet.read()
        table.validate(full=True)
        for number, row in enumerate(table.to_pylist(), start=1):
            yield f"row {number}", dict(_leaves(row))
        return
    text = read_text(path)
    if text.lstrip()[:1] == "[":
        for number, item in enumerate(parse_json(text, file), start=1):
            name = f"entry {number}"
            yield name, dict(_leaves(expect_object(item, file, name)))
    elif text.lstrip()[:1] == "{":
        for name, item in json_lines(text, file):
            yield name, dict(_leaves(item))
    else:
        lines = text.lstrip("\n").splitlines(keepends=True)
        try:
            for number, row in enumerate(
                csv.DictReader(lines, delimiter=delimiter_of("".join(lines[:1]))), start=1
            ):
                yield f"row {number}", {str(name).strip(): value for name, value in row.items()}
        except csv.Error as error:
            raise InputError(f"must be CSV ({error})", file=file) from None


def _leaves(value: Mapping[str, Any], within: str = "", deep: int = 0) -> Iterator[tuple[str, Any]]:
    """Texts and numbers of an object by dotted names, the outermost first."""
    inner = []
    for key, item in value.items():
        if isinstance(item, Mapping):
            inner.append((key, item))
        elif not isinstance(item, list):
            yield f"{within}{key}", item
    if deep < _DEEPEST:
        for key, item in inner:
            yield from _leaves(item, f"{within}{key}.", deep + 1)


def _values(
    rows: Sequence[tuple[str, Mapping[str, Any]]], quantity: str, column: _Named, file: str
) -> list[Any]:
    """A column of all rows; what is shared may be empty, which shares nothing."""
    if quantity in _SHARED:
        nothing: Any = 0 if quantity == "prefix tokens" else ""
        return [nothing if (v := row.get(column.name)) in (None, "") else v for _, row in rows]
    gap = next((name for name, row in rows if row.get(column.name) in (None, "")), None)
    if gap is not None:
        raise InputError("must stand in every row", file=file, key=f"{gap}, {column.name}")
    return [row[column.name] for _, row in rows]


def _arrivals(
    columns: Mapping[str, _Named], values: Mapping[str, list[Any]], file: str
) -> tuple[NDArray[np.float64] | None, NDArray[np.int64], str]:
    """Arrivals in seconds, sorted; the order of the rows by them; and what has to be said."""
    if "arrival" not in columns:
        return None, np.arange(len(values["prompt tokens"])), ""
    column, listed, note = columns["arrival"], values["arrival"], ""
    try:
        times = np.asarray([float(value) for value in listed], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        times = date_seconds(listed, file, column.name)
    else:
        if not np.all(np.isfinite(times)) or np.any(times < 0.0):
            row = int(np.argmax(~(np.isfinite(times) & (times >= 0.0))))
            key = f"row {row + 1}, {column.name}"
            raise InputError("must be a time", file=file, key=key, value=listed[row])
        first = float(times.min())
        unit = column.unit_s
        if unit is None or first * unit >= _LATEST_S:
            unit = next((known for least, known in _UNIX if first >= least), None)
        if unit is None:
            unit, note = 1.0, f"Numbers in {column.name} are taken as seconds."
        times = times * unit
        if first * unit >= _EARLIEST_S:
            times = (times - times.min()).round(9)
    times = times - min(float(times.min()), 0.0)
    order = np.argsort(times, kind="stable")
    if np.any(np.diff(times) < 0.0):
        note = " ".join(filter(None, (note, "Rows were put in the order of their arrival.")))
    return times[order], order, note


def _prefixes(
    values: Mapping[str, list[Any]],
    prompt: NDArray[np.int64],
    order: NDArray[np.int64],
    columns: Mapping[str, _Named],
    file: str,
) -> tuple[int, list[list[int]] | None]:
    """Tokens of a block and every prompt's blocks, in the order of arrival; None where the file
    tells nothing that is shared.

    A prompt begins with its stated prefix; the rest belongs to its session, anew where it has
    become shorter than the turn before.
    """
    shares = "prefix" in columns and "prefix tokens" in columns
    if not shares and "session" not in columns:
        return _BLOCK_TOKENS, None
    own = [""] * len(prompt)
    common = [str(value) for value in values["prefix"]] if shares else own
    sessions = [str(value) for value in values["session"]] if "session" in columns else None
    stated = np.zeros(len(prompt), dtype=np.int64)
    if shares:
        stated = whole_column(values["prefix tokens"], file, columns["prefix tokens"].name)
    tokens = _BLOCK_TOKENS
    while int(prompt.sum()) // tokens > _MOST_BLOCKS:
        tokens *= 2
    numbers: dict[tuple[str, str, int, int], int] = {}
    before: dict[str, tuple[int, int]] = {}  # the last prompt of a session, and how often it began
    blocks = []
    for row, length in zip(order.tolist(), prompt.tolist(), strict=True):
        whole = length // tokens
        shared = min(int(stated[row]) // tokens, whole)
        shared *= bool(common[row])
        ids = [
            numbers.setdefault(("prefix", common[row], 0, at), len(numbers)) for at in range(shared)
        ]
        if sessions is not None and sessions[row]:
            last, begun = before.get(sessions[row], (0, 0))
            begun += length < last
            before[sessions[row]] = length, begun
            ids += [
                numbers.setdefault(("session", sessions[row], begun, at), len(numbers))
                for at in range(shared, whole)
            ]
        blocks.append(ids)
    return tokens, blocks


def _claims(sample: Sample) -> bool:
    names = sample.columns or tuple(name for name, _ in _leaves(sample.first))
    return set(_NEEDED) <= set(named_columns(names))


FORMATS = (Format(name="request-log", kind="requests", claims=_claims, read=read, is_general=True),)
