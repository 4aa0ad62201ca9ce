"""How answers reach the screen: one JSON object, or tables; progress on standard error."""

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SCHEMA = 1


def emit_json(answer: Mapping[str, Any]) -> None:
    """Print `answer` as one JSON object on standard output; not-a-number becomes null."""
    sys.stdout.write(json.dumps(_plain({"schema": SCHEMA, **answer}), ensure_ascii=False) + "\n")


def write_json(answer: Mapping[str, Any], path: Path) -> None:
    """Write `answer` to a file whole: to a neighbour first, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(_plain({"schema": SCHEMA, **answer}), ensure_ascii=False, indent=1) + "\n")
    partial.replace(path)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "") -> None:
    """Print a table; the first column is text, the others are right-aligned."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 180, highlight=False)
    table = Table(title=title, caption=caption or None, title_justify="left", caption_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def say(text: str) -> None:
    """Print a line of text on standard output, unwrapped."""
    sys.stdout.write(text + "\n")


@contextmanager
def progress_line(quiet: bool) -> Iterator[Callable[[str], None]]:
    """A spinner on standard error that shows the latest line of text; silent where it is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield status.update


def _plain(value: Any) -> Any:
    """Numpy scalars and arrays as Python values; numbers that JSON cannot hold as None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value
