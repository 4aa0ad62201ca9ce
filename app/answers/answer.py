"""What is an answer? Rows whose attributes are columns, what was asked, and what a person is shown.

A row is a frozen dataclass whose attributes are annotated with a `Column`:

    speedup: Annotated[float, Column("Tokens/s against no speculation.", decimals=2)]

Each medium makes its own of it (`app.render`): JSON, CSV and data frames of the attributes, text and
notebooks of the tables that the answer names. Leaves out how anything looks.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from hardware_profiles.errors import InfeasibleError


@dataclass(frozen=True, slots=True)
class Column:
    """What an attribute of a row means, and how its number is written.

    An attribute `speedup_interval` beside `speedup` is the interval of that column and is shown
    with it.

    Args:
        meaning: one sentence.
        head: above the column; empty: the attribute's name with spaces.
        unit: `s`: all times of a table share one unit, which stands in the heads; `bytes`: shown in
            GB; `ratio`: shown in percent.
        decimals: digits after the point; None: three significant digits, whole digits kept.
        of: attributes that a column made of several shows, for media of numbers.
        alone: tables show it without its interval.
    """

    meaning: str
    head: str = ""
    unit: Literal["", "s", "bytes", "ratio"] = ""
    decimals: int | None = None
    of: tuple[str, ...] = ()
    alone: bool = False


class Row:
    """A line of an answer: subclasses are frozen dataclasses whose attributes have columns.

    In JSON an attribute without a default always stands, one whose default is None only where it is
    known.
    """

    __slots__ = ()


@lru_cache
def columns_of(row: type) -> Mapping[str, Column]:
    """The columns of a type of rows, its properties among them, by name.

    Raises:
        TypeError: an attribute without a column.
    """
    hints = get_type_hints(row, include_extras=True)
    columns = {part.name: _column(hints[part.name]) for part in fields(row)}
    if missing := [name for name, column in columns.items() if column is None]:
        raise TypeError(f"{row.__name__}.{missing[0]} has no Column")
    for kind in row.__mro__:
        for name, value in vars(kind).items():
            if isinstance(value, property):
                returned = get_type_hints(value.fget, include_extras=True).get("return")
                if (column := _column(returned)) is not None:
                    columns.setdefault(name, column)
    return {name: column for name, column in columns.items() if column is not None}


def _column(hint: Any) -> Column | None:
    return next((part for part in get_args(hint)[1:] if isinstance(part, Column)), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows as a person is shown them.

    Args:
        title: above it.
        rows: of one type, or of several that share the first columns, such as cells that cannot be.
        columns: names of attributes or properties of the rows, in their order.
        caption: below it.
        once: columns that are said once below the title where all rows hold the same.
        mark: column in which a row that cannot be run shows its `mark`; empty: the last.
        kind: type of the rows, for heads where there may be none of it; None: theirs.
        heads: above columns whose head the answer alone knows, such as a unit that was asked for.
        spread: columns that hold a list, by name, with a head for every entry: it gets a column.
        yields: columns that are left out, the first of them first, where a line has no room for
            all.
    """

    title: str
    rows: Sequence[Any]
    columns: Sequence[str]
    caption: str = ""
    once: Sequence[str] = ()
    mark: str = ""
    kind: type | None = None
    heads: Mapping[str, str] = field(default_factory=dict)
    spread: Mapping[str, Sequence[str]] | None = None
    yields: Sequence[str] = ()


def shown_columns(table: Table) -> dict[str, Column]:
    """The columns of a table, from whichever type of its rows has them."""
    kinds = dict.fromkeys([*filter(None, [table.kind]), *(row.__class__ for row in table.rows)])
    meanings: dict[str, Column] = {}
    for kind in kinds:
        meanings = {**columns_of(kind), **meanings}
    shown = {name: meanings.get(name, Column("")) for name in table.columns}
    return shown | {name: replace(shown[name], head=head) for name, head in table.heads.items()}


@dataclass(frozen=True, kw_only=True)
class Answer(ABC):
    """The answer to a question.

    Subclasses add attributes, which are the keys of the JSON object in their order, under the rule
    of `Row`.

    Attributes:
        name: of its file, NAME.json.
        unwritten: attributes that are no part of the JSON object.
        spread: attributes whose own attributes are keys of the JSON object in their place.
        frame_columns: attributes of its rows that a data frame has; empty: those of its first table.
        is_written: its files were written while it was made, where `--out` and `--csv` say.
        inputs: what was asked, by keyword, names resolved.
    """

    name: ClassVar[str]
    unwritten: ClassVar[tuple[str, ...]] = ()
    spread: ClassVar[tuple[str, ...]] = ()
    frame_columns: ClassVar[tuple[str, ...]] = ()
    is_written: ClassVar[bool] = False
    inputs: Mapping[str, Any]

    @property
    @abstractmethod
    def own_rows(self) -> Sequence[Any]:
        """The rows of CSV and of data frames."""

    @abstractmethod
    def shown(self) -> Iterable[Table | str]:
        """The tables and sentences that a person is shown, in their order."""

    def writers(self) -> Sequence[Callable[[Path, Path], object]]:
        """What writes files beside the JSON object: called with the folder in which they are made,
        and with the folder that they go to once all are whole.
        """
        return ()

    def documents(self) -> Mapping[str, Mapping[str, Any]]:
        """Further JSON objects that are written beside the answer's, by the name of their file."""
        return {}

    @property
    def nested(self) -> "Mapping[str, Answer]":
        """Answers within this one whose files stand in folders of their own, by name."""
        return {}

    @property
    def has_files(self) -> bool:
        """Whether there is anything to write into a folder."""
        return True

    def require(self) -> None:
        """End where the answer has been shown and no row of it can be run.

        Raises:
            InfeasibleError: the first reason, and what would do.
        """
        require_run(self.own_rows)

    def afterwards(self) -> None:  # noqa: B027  # most answers leave nothing to do
        """Do what remains once the answer has been shown, such as serving the pages that it names."""


def require_run(rows: Sequence[Any]) -> None:
    """End where no row can be run.

    Args:
        rows: those that cannot have a `mark` and `reason_words`.

    Raises:
        InfeasibleError: the first reason, and what would do.
    """
    if rows and all(hasattr(row, "mark") for row in rows):
        reasons = list(dict.fromkeys(row.reason_words for row in rows))
        more = f" (and {len(reasons) - 1} more cells)" if len(reasons) > 1 else ""
        raise InfeasibleError(f"{reasons[0]}{more}")


def read_row(kind: Any, value: Any) -> Any:
    """A row as it was before it became JSON, rows within it too; what was not written is None.

    Args:
        kind: of the row, or of an attribute of one.
        value: as it stands in JSON.
    """
    if get_origin(kind) is Annotated:
        return read_row(get_args(kind)[0], value)
    rows = [part for part in (kind, *get_args(kind)) if isinstance(part, type)]
    row: Any = next((part for part in rows if issubclass(part, Row)), None)
    if row is None or value is None:
        return value
    if isinstance(value, list):
        return [read_row(row, item) for item in value]
    hints = get_type_hints(row, include_extras=True)
    return row(
        **{part.name: read_row(hints[part.name], value.get(part.name)) for part in fields(row)}
    )
