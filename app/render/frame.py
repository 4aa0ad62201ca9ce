"""How does an answer become a data frame? Its rows, with the columns that a person wants.

Those are the columns of the answer's first table, as numbers: an interval gives two, a column made
of several attributes one for each. Leaves out the other attributes of rows unless they are asked
for.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.answers.answer import Answer, Table, shown_columns
from app.render.csv import flat_row
from app.render.json import jsonable
from hardware_profiles.errors import InputError

if TYPE_CHECKING:
    import pandas


def frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None) -> "pandas.DataFrame":
    """Rows as a data frame.

    Args:
        rows: as they stand in JSON.
        columns: attributes that are wanted, in their order; None: all.

    Raises:
        InputError: pandas is missing.
    """
    try:
        import pandas
    except ImportError:
        raise InputError("needs pandas: pip install pandas", key="to_frame") from None
    flat = [flat_row(row) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    if columns is not None:
        places = {n: place for n in names if (place := _place(n, columns)) is not None}
        names = sorted(places, key=lambda name: places[name])
    return pandas.DataFrame(flat, columns=names)


def wanted_columns(answer: Answer) -> list[str] | None:
    """The attributes that the answer names, or that its first table shows, and why a row cannot be
    run; None where it shows no table.
    """
    if answer.frame_columns:
        return list(answer.frame_columns)
    table = next((part for part in answer.shown() if isinstance(part, Table)), None)
    if table is None:
        return None
    columns = shown_columns(table)
    names = [name for shown in table.columns for name in (columns[shown].of or (shown,))]
    return [*names, "feasible", "reason"]


def wanted_rows(answer: Answer) -> list[dict[str, Any]]:
    """The rows of an answer as they stand in JSON, with what its first table works out of them."""
    columns = wanted_columns(answer) or []
    return [
        {name: value for name in columns if (value := getattr(row, name, None)) is not None}
        | jsonable(row)
        for row in answer.own_rows
    ]


def _place(flat_name: str, columns: Sequence[str]) -> int | None:
    """Where a column of a flat row stands among those that are wanted; None where it is not."""
    for place, name in enumerate(columns):
        if flat_name in (name, f"{name}_low", f"{name}_high") or flat_name.startswith(f"{name}."):
            return place
    return None
