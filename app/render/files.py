"""Which files is an answer? Its JSON object, and its page."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from app.answers.answer import Answer
from app.render.json import jsonable, write_json
from hardware_profiles.whole_file import whole_folder

PAGES: Mapping[str, str] = {"Predictions": "app.render.html.explain_report"}
"""Module with `write_pages(answer, folder)`, by type of answer; loaded when it is written."""


def write_files(answer: Answer, folder: Path) -> None:
    """Write an answer into a folder, all of its files or none.

    Raises:
        InputError: the folder cannot be written.
    """
    with whole_folder(folder) as stage:
        write_json(jsonable(answer), stage / f"{answer.name}.json")
        if (module := PAGES.get(type(answer).__name__)) is not None:
            pages: Callable[[Answer, Path], None] = import_module(module).write_pages
            pages(answer, stage)
