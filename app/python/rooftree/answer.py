"""What does a question give back? Tables on the screen, the object of `--json`, a frame, a figure,
files.

Leaves out how a question is asked (`rooftree.questions`) and what figures look like
(`app.render.charts`).
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.answers.answer import Answer as VerbAnswer
from app.answers.answer import Table
from app.render.files import write_files
from app.render.frame import frame, wanted_columns, wanted_rows
from app.render.json import SCHEMA, jsonable
from app.render.text import drawn, show
from hardware_profiles.errors import InputError

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects


class Answer:
    """The answer to one question; in a notebook it shows as the tables that the command prints.

    `answer["choices"]` and `answer.to_json()["choices"]` are what `rooftree optimize --json` prints
    under that key.
    """

    def __init__(self, verb: str, answered: VerbAnswer) -> None:
        self.verb = verb
        self._answered = answered

    def __getitem__(self, key: str) -> Any:
        return self.to_json()[key]

    def keys(self) -> list[str]:
        """Names of the object's parts."""
        return list(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The object that the verb's `--json` prints, as plain dictionaries, lists and numbers."""
        return {"schema": SCHEMA, **jsonable(self._answered)}

    def to_frame(self, part: str | None = None, *, all_columns: bool = False) -> pandas.DataFrame:
        """The rows of the answer, one column a number; intervals become two columns, `_low` and
        `_high`.

        Args:
            part: key of a list of rows in the object; None: the verb's own, such as choices and
                alternatives.
            all_columns: every attribute of a row, not those alone that its table shows.

        Raises:
            InputError: no such rows, or pandas is missing.
        """
        if part is None and self.verb == "sweep" and "out" in self.keys():
            import pandas

            return pandas.read_parquet(self["out"])
        if part is None and not all_columns:
            return frame(wanted_rows(self._answered), wanted_columns(self._answered))
        return frame(self.rows(part), None)

    def rows(self, part: str | None = None) -> list[dict[str, Any]]:
        """The rows of the answer as they stand in the object.

        Args:
            part: as for `to_frame`.

        Raises:
            InputError: no such rows.
        """
        body = self.to_json()
        if part is None:
            return [dict(row) for row in jsonable(self._answered.own_rows)]
        rows = body.get(part) or []
        if part not in body or not all(isinstance(row, Mapping) for row in rows):
            lists = [key for key, value in body.items() if isinstance(value, list)]
            raise InputError(f"must be one of {', '.join(lists)}", key="part", value=part)
        return rows

    def plot(self, kind: str | None = None, **choice: Any) -> plotly.graph_objects.Figure:
        """A figure of the answer.

        Args:
            kind: which figure, where there are several; None: the first of them.
            choice: `context` where the answer holds several.

        Raises:
            InputError: there is no such figure, or plotly is missing.
        """
        try:
            import plotly.graph_objects
        except ImportError:
            raise InputError("needs plotly: pip install 'rooftree[app]'", key="plot") from None
        from app.render.charts.answer_figures import figure_of

        return plotly.graph_objects.Figure(figure_of(self.verb, self._answered, kind, **choice))

    def export(self, folder: str | Path) -> Path:
        """Write what the verb writes with `--out`: the object, the files that engines load, the
        report.

        Args:
            folder: made where it is missing; files of the same names are replaced.

        Returns:
            The folder.

        Raises:
            InputError: the folder cannot be written.
        """
        write_files(self._answered, Path(folder))
        return Path(folder)

    def __repr__(self) -> str:
        screen = io.StringIO()
        with redirect_stdout(screen):
            show(self._parts())
        return screen.getvalue().rstrip("\n")

    def _repr_html_(self) -> str:
        return "".join(_html(part) for part in self._parts())

    def _parts(self) -> Sequence[Table | str]:
        """The tables and sentences that the command prints."""
        return list(self._answered.shown())


def _html(part: Table | str) -> str:
    """A line or a table for a notebook, which brings its own style."""
    if isinstance(part, str):
        return f"<p>{escape(part)}</p>"
    words = drawn(part)
    head = "".join(f"<th>{escape(name)}</th>" for name in words.heads)
    rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in words.cells)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    below = f"<p>{escape(part.caption)}</p>" if part.caption else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<p><b>{escape(part.title)}</b></p>{table}{below}"
