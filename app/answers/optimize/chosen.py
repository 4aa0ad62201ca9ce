"""What has every answer of `optimize`? What to run, what comes next, what cannot run, and files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from app.answers.answer import Answer
from app.answers.cells import MarkedCell
from app.answers.deployables import Deployable, file_lines, write_all
from app.answers.optimize.rows import Candidate


@dataclass(frozen=True, kw_only=True)
class Chosen(Answer):
    """What to run, of what competes under one model and engine.

    Attributes:
        choices: what to run.
        alternatives: what comes next.
        unmet: what cannot be run or misses what was asked.
        exports: paths of files by engine.
        entries: what every engine loads.
        folder: that files go to; None where none are written.
    """

    name: ClassVar[str] = "recommendation"
    unwritten: ClassVar[tuple[str, ...]] = ("entries", "folder")
    choices: Sequence[Candidate]
    alternatives: Sequence[Candidate]
    unmet: Sequence[MarkedCell]
    exports: Mapping[str, Sequence[str]]
    entries: Sequence[Deployable]
    folder: Path | None

    @property
    def own_rows(self) -> Sequence[Candidate | MarkedCell]:
        """Choices, alternatives, and what cannot be run."""
        return [*self.choices, *self.alternatives, *self.unmet]

    def writers(self) -> Sequence[Callable[[Path, Path], object]]:
        """The files that engines load."""
        return [lambda stage, folder: write_all(self.entries, stage)]

    def files_shown(self) -> Iterator[str]:
        """What every engine loads, and where the answer lies; nothing where no file is written."""
        if self.folder is not None:
            yield from file_lines(self.entries, self.folder)
