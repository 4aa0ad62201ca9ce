"""Which files is an answer? Its JSON object, what goes with it, and its page."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from app.answers.answer import Answer
from app.render.json import jsonable, write_json
from hardware_profiles.whole_file import whole_folder

PAGES: Mapping[str, str] = {
    "Predictions": "app.render.html.explain_report",
    "BreakEvens": "app.render.html.explain_report",
    "ValidationReport": "app.render.html.validation_page",
    "Recommended": "app.render.html.report",
}
"""Module with `write_pages(answer, folder)`, by type of answer; loaded when it is written."""
PLOTS: Mapping[str, str] = {
    "Simulation": "app.render.html.simulation_page",
    "HighestRates": "app.render.html.simulation_page",
    "Reproduction": "app.render.html.reproduction_page",
    "ScoredRuns": "app.render.html.score_page",
    "KernelTimes": "app.render.html.kernel_plots",
    "ComparedRecordings": "app.render.html.acceptance_page",
}
"""Module with `write_plot(answer, path)`, the page of `--plot`, by type of answer."""


def write_files(answer: Answer, folder: Path) -> None:
    """Write an answer into a folder, all of its files or none.

    Raises:
        InputError: the folder cannot be written.
    """
    with whole_folder(folder) as stage:
        _write(answer, stage, folder)


def _write(answer: Answer, stage: Path, folder: Path) -> None:
    """Write an answer and those within it.

    Args:
        answer: to write.
        stage: in which files are made.
        folder: that they go to once all are whole.
    """
    if answer.name:
        write_json(jsonable(answer), stage / f"{answer.name}.json")
    for name, document in answer.documents().items():
        write_json(jsonable(document), stage / name)
    for write in answer.writers():
        write(stage, folder)
    if (module := PAGES.get(type(answer).__name__)) is not None:
        pages: Callable[[Answer, Path], None] = import_module(module).write_pages
        pages(answer, stage)
    for name, part in answer.nested.items():
        _write(part, stage / name, folder / name)


def write_plot(answer: Answer, path: Path) -> None:
    """Write the page that `--plot` names.

    Raises:
        InputError: plotly is missing, or the place cannot be written.
    """
    import_module(PLOTS[type(answer).__name__]).write_plot(answer, path)
