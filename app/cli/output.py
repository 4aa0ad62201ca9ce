"""How answers reach the screen: one JSON object, or tables; progress on standard error."""

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import make_folder, require_room, whole_file, whole_folder

SCHEMA = 2
WIDEST = 100  # characters of a line of a table
_LONGEST_WORD = 30  # that is never broken
_SHORT_CELL = 20  # one of words that is never broken
_GAP = 2  # characters between columns


def emit_json(answer: Mapping[str, Any]) -> None:
    """Print `answer` as one JSON object on standard output; numbers that are not finite become
    null.
    """
    sys.stdout.write(json.dumps(jsonable({"schema": SCHEMA, **answer}), allow_nan=False) + "\n")


def write_json(answer: Mapping[str, Any], path: Path) -> None:
    """Write `answer` to a file whole: to a neighbour first, then renamed.

    Raises:
        InputError: the place cannot be written.
    """
    text = json.dumps(jsonable({"schema": SCHEMA, **answer}), allow_nan=False, indent=1) + "\n"
    make_folder(path.parent)
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")


def require_folder(path: Path, option: str = "--out") -> None:
    """Refuse, before long work, a folder that cannot be made or written.

    Raises:
        InputError: a file stands in its place, or nothing may be written there.
        OSError: the disk is full.
    """
    try:
        nearest = next(place for place in (path, *path.parents) if place.exists())
        fits = nearest.is_dir()
    except OSError as error:
        raise InputError(
            f"must be a folder that can be made ({error.strerror})", key=option, value=str(path)
        ) from None
    if not fits:
        raise InputError(f"must be a folder, and {nearest} is a file", key=option, value=str(path))
    require_room(nearest)


def require_file(path: Path, option: str = "--out") -> None:
    """Refuse to write where no ordinary file can stand: a folder, a device, a pipe.

    Files are renamed into place, so a device such as /dev/null would itself be replaced.

    Raises:
        InputError: naming the path.
    """
    require_folder(path.parent, option)
    try:
        fits = bool(path.name) and (path.is_file() or not path.exists())
    except OSError as error:
        raise InputError(
            f"must be a file that can be made ({error.strerror})", key=option, value=str(path)
        ) from None
    if not fits:
        raise InputError(
            "must be a file to write, not a folder or a device", key=option, value=str(path)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """What a verb found.

    Args:
        body: the object that `--json` prints.
        show: prints it as tables and sentences.
        write: puts its files into a folder, all of them or none.
    """

    body: Mapping[str, Any]
    show: Callable[[], None]
    write: Callable[[Path], None]


def deliver(
    answer: Mapping[str, Any],
    *,
    name: str,
    json: bool,
    out: Path | None,
    quiet: bool = True,
    show: Callable[[], None] = lambda: None,
    also: Callable[[Path], object] = lambda folder: None,
    csv: Path | None = None,
    rows: Sequence[str | Mapping[str, Any]] = (),
) -> Answered:
    """Hand an answer over: its files into the folder `out`, all or none, then an object or tables
    on the screen.

    Args:
        answer: the object.
        name: of its file, NAME.json; empty where it has none.
        json: print the object.
        out: folder for files, or None.
        quiet: print no tables.
        show: prints the tables.
        also: writes what else belongs into the folder.
        csv: file for the rows of its table as comma-separated values.
        rows: keys of the object whose lists are these rows, or rows themselves.

    Returns:
        The same answer, for callers from Python.
    """

    def write(folder: Path) -> None:
        with whole_folder(folder) as stage:
            if name:
                write_json(answer, stage / f"{name}.json")
            also(stage)

    found = Answered(body=answer, show=show, write=write)
    if csv is not None:
        from app.cli.csv_rows import write_csv

        lists = [answer.get(each) or [] if isinstance(each, str) else [each] for each in rows]
        write_csv([row for each in lists for row in jsonable(each)], csv)
    if out is not None:
        found.write(out)
    if json:
        emit_json(answer)
    elif not quiet:
        show()
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownTable:
    """A table before it is drawn, with the arguments of `print_table`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str


_collected: ContextVar[list[ShownTable | str] | None] = ContextVar("_collected", default=None)


def shown_by(show: Callable[[], None]) -> list[ShownTable | str]:
    """What `show` would print, tables and lines in their order; nothing is printed."""
    parts: list[ShownTable | str] = []
    token = _collected.set(parts)
    try:
        show()
    finally:
        _collected.reset(token)
    return parts


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    caption: str = "",
    once: Sequence[str] = (),
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
    """
    if (collected := _collected.get()) is not None:
        collected.append(ShownTable(title=title, columns=columns, rows=rows, caption=caption))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    cells = [[row[at] for row in rows] for at in range(len(columns))]
    same = [
        at
        for at, name in enumerate(columns)
        if name in once and len(set(cells[at])) == 1 and cells[at][0]
    ]
    shown = [at for at in range(len(columns)) if at not in same and (not rows or any(cells[at]))]
    said = ", ".join(f"{columns[at]} {cells[at][0]}" for at in same)
    console = Console(
        highlight=False, markup=False, force_jupyter=False
    )  # which would print past sys.stdout
    most = min(console.width, WIDEST) if console.is_terminal else WIDEST
    widths = _widths([columns[at] for at in shown], [cells[at] for at in shown], most)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for at, width in zip(shown, widths, strict=True):
        words = _holds_words(cells[at])
        table.add_column(
            columns[at], justify="left" if words else "right", width=width, overflow="fold"
        )
    for row in rows:
        table.add_row(*(row[at] for at in shown))
    console.width = max(sum(widths) + _GAP * len(widths), most)
    console.print(title, style="bold")
    for below in (said, table, caption):
        if below:
            console.print(below)


def _holds_words(cells: Sequence[str]) -> bool:
    return any(cell[:1].isalpha() for cell in cells)


def _widths(heads: Sequence[str], cells: Sequence[Sequence[str]], most: int) -> list[int]:
    """Characters of every column: the widest of heads and of words break until all fit; numbers
    never do.
    """
    widths, floors, words = [], [], []
    for head, column in zip(heads, cells, strict=True):
        widths.append(max(map(len, (head, *column)), default=1))
        longest, cell = max(map(len, head.split()), default=1), max(map(len, column), default=0)
        breaks = _holds_words(column)
        word = min(
            max((len(each) for text in column for each in text.split()), default=0), _LONGEST_WORD
        )
        floors.append(max(longest, word if breaks and cell > _SHORT_CELL else cell))
        words.append(max(longest, word if breaks else cell))
    fits = sum(words) + _GAP * len(words) <= most
    for least in (
        (floors, words) if fits else (floors,)
    ):  # short cells break last, and only where that suffices
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


def remark(text: str) -> None:
    """Print a line about the question on standard error, which leaves a JSON answer whole."""
    sys.stderr.write(f"{text}\n")


def say(text: str) -> None:
    """Print a line of text on standard output, unwrapped."""
    if (collected := _collected.get()) is not None:
        collected.append(text)
        return
    sys.stdout.write(text + "\n")


def say_remarks(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print the remarks that belong to the numbers, each one once."""
    for remark in dict.fromkeys(row["remark"] for row in rows if row["remark"]):
        say(remark)


@contextmanager
def progress_line(quiet: bool) -> Iterator[Callable[[str], None]]:
    """A spinner on standard error that shows the latest line of text; silent where it is no
    terminal.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield status.update


def progress_lines(quiet: bool) -> Callable[[str], None]:
    """What writes every text to standard error as a line that stays: for runs of minutes."""

    def tell(text: str) -> None:
        if not quiet:
            sys.stderr.write(text.rstrip() + "\n")
            sys.stderr.flush()

    return tell


def jsonable(value: Any) -> Any:
    """Records as objects, numpy scalars and arrays as Python values, numbers that JSON cannot hold
    as None.
    """
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value
