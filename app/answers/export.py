"""`export`: an answer of `optimize`, a stated configuration or a tree, in the form that an engine
or program loads.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from app.answers.answer import Answer
from app.answers.methods.words import engine_needs
from app.exporters.dialect import options_of
from app.exporters.registry import ENGINES, MASKED_PROGRAMS, write_export
from app.exporters.registry import export as export_configuration
from app.exporters.result import ExportResult
from app.exporters.tree_forms import TREE_FORMS, write_tree
from app.questions.export import ExportQuestion
from app.questions.field import inputs_of
from app.questions.resolve.exported import exported_configuration
from costmodel.configuration.file import read_configuration
from hardware_profiles.errors import InputError, UnknownNameError
from traces.kinds.tree import read_tree


@dataclass(frozen=True, kw_only=True)
class ExportedFiles(Answer):
    """The answer of `export`.

    Attributes:
        engine: or form of trees.
        version: that the files are written for.
        files: where they go.
        command: that starts the engine; empty for a tree alone.
        notes: what the engine does differently, cannot be known or was not checked.
        result: the files' contents.
    """

    name: ClassVar[str] = ""
    unwritten: ClassVar[tuple[str, ...]] = ("result",)
    engine: str
    version: str
    files: Sequence[str]
    command: str
    notes: Sequence[str]
    result: ExportResult

    @property
    def own_rows(self) -> Sequence[Any]:
        """Nothing that would be a table."""
        return ()

    def shown(self) -> Iterator[str]:
        """The files, the command and the notes."""
        yield f"{self.engine} {self.version}".rstrip() + f": {', '.join(self.files)}"
        if self.command:
            yield self.command
        for note in self.notes:
            yield f"note: {note}"

    def writers(self) -> Sequence[Callable[[Path, Path], object]]:
        """What writes the files."""
        return [lambda stage, folder: write_export(self.result, stage)]


def answer(question: ExportQuestion) -> ExportedFiles:
    """The files that an engine or program loads.

    Raises:
        InputError: the engine cannot express the configuration, or options name none.
        UnknownNameError: neither an engine nor a form of trees.
    """
    if question.engine in TREE_FORMS:
        result = _tree_alone(question)
    else:
        _require_engine(question.engine)
        result = _exported(question)
    folder = question.out
    return ExportedFiles(
        inputs=inputs_of(question),
        engine=result.engine,
        version=result.version,
        files=[name if folder is None else str(folder / name) for name in result.files],
        command=result.command,
        notes=result.notes,
        result=result,
    )


def _exported(question: ExportQuestion) -> ExportResult:
    """A configuration in the form that the engine loads.

    Raises:
        InputError: the engine cannot express it; of a method of the reader's own with what an
            engine would have to have.
    """
    chosen = exported_configuration(question)
    try:
        return export_configuration(
            chosen,
            question.engine,
            question.engine_version,
            synthetic=question.synthetic,
            approximate=question.approximate,
            variant=question.variant,
            node_devices=question.node_devices,
        )
    except InputError as error:
        if chosen.entry is not None and error.key == "method":
            error.message += f"; {engine_needs(chosen.entry, question.engine)}"
        raise


def _require_engine(name: str) -> None:
    if name in MASKED_PROGRAMS:
        return
    try:
        options_of(name)
    except UnknownNameError:
        names = dict.fromkeys([*ENGINES, *MASKED_PROGRAMS, *TREE_FORMS])
        raise UnknownNameError("engine or tree form", name, names, key="engine") from None


def _tree_alone(question: ExportQuestion) -> ExportResult:
    """A static tree without a configuration, in the form that is asked for."""
    form = question.engine
    if question.tree is not None:
        return write_tree(read_tree(question.tree), form)
    if question.config is None:
        raise InputError(
            f"{form} needs a tree: --tree FILE, or --config of a configuration with one",
            key="--tree",
        )
    chosen = read_configuration(
        question.config, batch=question.batch, context=question.context, scheduled=False
    )
    if chosen.tree is None:
        raise InputError(
            f"{form} holds a static tree",
            file=str(question.config),
            key="shape",
            value=chosen.topology,
        )
    return write_tree(chosen.tree, form)
