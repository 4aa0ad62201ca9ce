"""How does an answer look on a screen? Tables of at most 100 characters a line, and sentences."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from app.answers.answer import Column, Table, shown_columns
from app.answers.numbers import TimeUnit, fixed, plain, ranged, time_unit
from app.answers.sentences import WIDEST
from hardware_profiles.units import GIGA

_LONGEST_WORD = 30  # that is never broken
_SHORT_CELL = 20  # one of words that is never broken
_GAP = 2  # characters between columns


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    caption: str = "",
    once: Sequence[str] = (),
    yields: Sequence[str] = (),
) -> None:
    """Print a table of at most 100 characters a line; more only where its numbers need them.

    Columns of words stand to the left and may break over lines, columns of numbers do neither; a
    column without any content is left out.

    Args:
        title: above it.
        columns: names.
        rows: cells by column.
        caption: below it.
        once: columns that, where all rows hold the same, are said once below the title instead.
        yields: columns that are left out, the first of them first, while a line has no room for
            all; they are named below, and names in the first column stay whole.
    """
    # loaded here, since `--help` shows no table
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    cells = [[row[at] for row in rows] for at in range(len(columns))]
    same = [
        at
        for at, name in enumerate(columns)
        if name in once and len(set(cells[at])) == 1 and cells[at][0]
    ]
    shown = [at for at in range(len(columns)) if at not in same and (not rows or any(cells[at]))]
    shared = ", ".join(f"{columns[at]} {cells[at][0]}" for at in same)
    # in a notebook rich would print past sys.stdout
    console = Console(highlight=False, markup=False, force_jupyter=False)
    most = min(console.width, WIDEST) if console.is_terminal else WIDEST

    def fitted() -> list[int]:
        heads, held = [columns[at] for at in shown], [cells[at] for at in shown]
        return _widths(heads, held, most, whole_names=bool(yields))

    widths, left_out = fitted(), []
    for name in yields:
        if sum(widths) + _GAP * len(widths) <= most:
            break
        left_out += [name for at in shown if columns[at] == name]
        shown = [at for at in shown if columns[at] != name]
        widths = fitted()
    more = f"no room for {', '.join(left_out)}: --json and --csv have them" if left_out else ""
    table = RichTable(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for at, width in zip(shown, widths, strict=True):
        words = _holds_words(cells[at])
        table.add_column(
            columns[at], justify="left" if words else "right", width=width, overflow="fold"
        )
    for row in rows:
        table.add_row(*(row[at] for at in shown))
    console.width = max(sum(widths) + _GAP * len(widths), most)
    console.print(title, style="bold")
    for below in (shared, table, caption, more):
        if below:
            console.print(below)


def _holds_words(cells: Sequence[str]) -> bool:
    return any(cell[:1].isalpha() for cell in cells)


def _widths(
    heads: Sequence[str], cells: Sequence[Sequence[str]], most: int, *, whole_names: bool
) -> list[int]:
    """Characters of every column: the widest of heads and of words break until all fit; numbers
    never do, nor with `whole_names` the words of the first column.
    """
    widths, floors, words = [], [], []
    for place, (head, column) in enumerate(zip(heads, cells, strict=True)):
        widths.append(max(map(len, (head, *column)), default=1))
        longest, cell = max(map(len, head.split()), default=1), max(map(len, column), default=0)
        breaks = _holds_words(column)
        longest_word = max((len(word) for text in column for word in text.split()), default=0)
        if place or not whole_names:
            longest_word = min(longest_word, _LONGEST_WORD)
        floors.append(max(longest, longest_word if breaks and cell > _SHORT_CELL else cell))
        words.append(max(longest, longest_word if breaks else cell))
    fits = sum(words) + _GAP * len(words) <= most
    # short cells break last, and only where that suffices
    for least in (floors, words) if fits else (floors,):
        while sum(widths) + _GAP * len(widths) > most:
            room = [
                (size, at)
                for at, (size, floor) in enumerate(zip(widths, least, strict=True))
                if size > floor
            ]
            if not room:
                break
            widths[max(room)[1]] -= 1
    return widths


def say(text: str) -> None:
    """Print a line of text on standard output, unwrapped."""
    sys.stdout.write(text + "\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnTable:
    """The words of a table, cell by cell."""

    heads: list[str]
    cells: list[list[str]]
    once: list[str]
    yields: list[str]


def drawn(table: Table) -> DrawnTable:
    """The heads and cells of a table: numbers to their columns' digits, with their intervals, all
    times in one unit.
    """
    columns = shown_columns(table)
    times = [
        seconds
        for row in table.rows
        for name in table.columns
        if columns[name].unit == "s"
        for seconds in _numbers(getattr(row, name, None))
    ]
    unit = time_unit(times)
    spread = table.spread or {}
    heads = {name: _head(name, columns[name], unit) for name in table.columns}
    mark = table.mark or table.columns[-1]
    lines: list[list[str]] = []
    for row in table.rows:
        lines.append([])
        for name in table.columns:
            if name in spread:
                entries = getattr(row, name, None) or ()
                words = [_value(entry, columns[name], unit) for entry in entries]
                lines[-1] += [*words, *[""] * (len(spread[name]) - len(words))]
            else:
                lines[-1].append(_cell(row, name, columns[name], unit) or _mark(row, name, mark))
    return DrawnTable(
        heads=[head for name in table.columns for head in spread.get(name, [heads[name]])],
        cells=lines,
        once=[heads[name] for name in table.once if name in heads],
        yields=[heads[name] for name in table.yields if name in heads],
    )


def show(parts: Iterable[Table | str]) -> None:
    """Print tables and sentences."""
    for part in parts:
        if isinstance(part, str):
            say(part)
            continue
        words = drawn(part)
        print_table(
            part.title,
            words.heads,
            words.cells,
            caption=part.caption,
            once=words.once,
            yields=words.yields,
        )


def _numbers(value: Any) -> list[float]:
    if value is None or isinstance(value, str):
        return []
    return list(value) if isinstance(value, tuple | list) else [value]


def _head(name: str, column: Column, unit: TimeUnit) -> str:
    head = column.head or name.replace("_", " ")
    units = {"s": f" {unit.name}", "bytes": " GB", "ratio": " %", "": ""}
    return head + units[column.unit]


def _mark(row: Any, name: str, mark: str) -> str:
    """What a row that cannot be says in the column of marks."""
    return getattr(row, "mark", "") if name == mark else ""


def _cell(row: Any, name: str, column: Column, unit: TimeUnit) -> str:
    value = getattr(row, name, None)
    interval = None if column.alone else getattr(row, f"{name}_interval", None)
    if value is None or interval is None or isinstance(value, tuple | list):
        return _value(value, column, unit)
    scale = _scale(column, unit)
    low, high = interval
    return ranged(value / scale, (low / scale, high / scale), column.decimals)


def _value(value: Any, column: Column, unit: TimeUnit) -> str:
    """A value without an interval; several are joined by `+`."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    scale = _scale(column, unit)
    if isinstance(value, tuple | list):
        return "+".join(_number(part / scale, column.decimals) for part in value)
    return _number(value / scale if column.unit else value, column.decimals)


def _scale(column: Column, unit: TimeUnit) -> float:
    """How much one of what a column shows is."""
    return {"s": unit.seconds, "bytes": GIGA, "ratio": 0.01, "": 1.0}[column.unit]


def _number(value: float, decimals: int | None) -> str:
    return plain(value) if decimals is None else fixed(value, decimals)
