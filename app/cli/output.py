"""How does a verb whose answer is a mapping hand it over?

Verbs whose answers are typed rows return an `app.answers.answer.Answer`, which the door hands over.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.render.json import jsonable, print_json, write_json
from hardware_profiles.whole_file import whole_folder


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

    answered = Answered(body=answer, show=show, write=write)
    if csv is not None:
        from app.render.csv import write_csv

        lists = [answer.get(name) or [] if isinstance(name, str) else [name] for name in rows]
        write_csv([row for listed in lists for row in jsonable(listed)], csv)
    if out is not None:
        answered.write(out)
    if json:
        print_json(answer)
    elif not quiet:
        show()
    return answered
