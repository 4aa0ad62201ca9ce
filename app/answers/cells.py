"""Which cells do lists of models, devices and engines make, and how is a cell said that cannot be?

`--model a,b --device x,y` asks about every pair. A cell that does not fit, misses a limit or cannot
run is a row of the answer with its reason and the nearest changes; only an answer without any other
row ends in an error.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from app.answers.feasible import Holds, Settings
    from costmodel.configuration import DecodingConfiguration
    from costmodel.laws.acceptance import Acceptance

LISTED = ("model", "device", "engine")
MOST_CELLS = 4096
MOST_SAID = 12
Row = dict[str, Any]
_C = TypeVar("_C")
_T = TypeVar("_T")


def names_of(text: str, option: str) -> list[str]:
    """Comma-separated names, each once; a text that is a file's name is that one name.

    Raises:
        InputError: an empty name among several.
    """
    from hardware_profiles.errors import InputError
    from hardware_profiles.places import is_file

    if "," not in text or is_file(text):
        return [text]
    names = list(dict.fromkeys(part.strip() for part in text.split(",")))
    if "" in names:
        raise InputError("must be names separated by commas", key=option, value=text)
    return names


def cells_of(options: Mapping[str, Any]) -> list[dict[str, str]]:
    """Every combination of the models, devices and engines that options list; those that are not
    given are left out.

    Args:
        options: by parameter, as the command line gives them.

    Raises:
        InputError: more cells than a table holds.
    """
    from hardware_profiles.errors import InputError

    lists = {name: names_of(options[name], f"--{name}") for name in LISTED if options.get(name)}
    cells = [dict(zip(lists, each, strict=True)) for each in product(*lists.values())]
    if len(cells) > MOST_CELLS:
        raise InputError(
            f"make {len(cells)} cells, and {MOST_CELLS} may be asked at once",
            key="--model, --device",
        )
    return cells


def runnable(cells: Sequence[_C], build: Callable[[_C], _T]) -> list[tuple[_C, "_T | str"]]:
    """Every cell with what is built of it, or with the reason why it cannot be.

    Args:
        cells: to build.
        build: makes one of them; an InputError is its reason.

    Raises:
        UnknownNameError: a name of a cell that nothing carries.
        InputError: the first reason, where no cell can be built.
    """
    from hardware_profiles.errors import InputError, UnknownNameError

    found: list[tuple[_C, _T | str]] = []
    first: InputError | None = None
    for cell in cells:
        try:
            found.append((cell, build(cell)))
        except UnknownNameError:
            raise
        except InputError as error:
            first = first or error
            found.append((cell, str(error)))
    if first is not None and all(isinstance(made, str) for _, made in found):
        raise first
    return found


def marked(
    asked: "DecodingConfiguration",
    acceptance: "Acceptance",
    reason: str,
    *,
    batch: int,
    context: int,
    holds: "Holds | None" = None,
    misses: str = "memory",
    settings: "Settings | None" = None,
) -> Row:
    """What a row says of a cell that does not fit or misses a limit.

    Args:
        asked: its configuration.
        acceptance: what it drafts.
        reason: why it cannot be.
        batch: requests.
        context: cached tokens per request.
        holds: what is wanted of it; None: that it fits.
        misses: `memory`, or the `limits` of latency.
        settings: of `app.answers.feasible.settings_of`, where several cells of one configuration
            are marked.
    """
    from app.answers.feasible import nearest_changes

    nearest = nearest_changes(
        asked, acceptance, batch=batch, context=context, holds=holds, settings=settings
    )
    return {
        "feasible": False,
        "misses": misses,
        "reason": reason,
        "nearest": [dict(change) for change in nearest],
    }


def reason_words(row: Mapping[str, Any]) -> str:
    """A reason and the changes that would do: `... needs 24.1 GiB; batch 37 fits; fp8 weights
    fit`.
    """
    from app.answers.feasible import change_words

    one, several = ("meets them", "meet them") if row.get("misses") == "limits" else ("fits", "fit")
    said = [change_words(change) for change in row.get("nearest") or ()]
    return "; ".join(
        (
            row["reason"],
            *(f"{each} {several if each.endswith('weights') else one}" for each in said),
        )
    )


def several(names: str, what: str) -> str:
    """The one name of a list, or how many of what it has: `2 devices`."""
    count = len(names_of(names, f"--{what}"))
    return names if count == 1 else f"{count} {what}s"


def mark_words(row: Mapping[str, Any]) -> str:
    """What the table says in a cell that cannot be."""
    return {"memory": "does not fit", "limits": "misses limits"}.get(
        row.get("misses", ""), "cannot run"
    )


def say_marked(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    """Say below a table why cells cannot be, the shortest draft of each, and what would do.

    Args:
        rows: all of the table.
        names: keys that tell its models, devices and engines apart.
    """
    from app.render.text import say

    lines: dict[tuple[Any, ...], str] = {}
    for row in rows:
        if not row["feasible"]:
            where = [str(row[name]) for name in names]
            at = (*where, row.get("batch"), row.get("context"))
            lines.setdefault(
                at if row.get("nearest") is not None else tuple(where),
                ": ".join([*([", ".join(where)] if where else []), reason_words(row)]),
            )
    for line in list(lines.values())[:MOST_SAID]:
        say(line)
    if len(lines) > MOST_SAID:
        say(
            f"and {len(lines) - MOST_SAID} more cells that cannot be; --csv and --json have every"
            " reason"
        )


def require_one(rows: Sequence[Mapping[str, Any]]) -> None:
    """End where no cell is feasible, after they have been shown.

    Raises:
        InfeasibleError: the first reason, and what would do.
    """
    from hardware_profiles.errors import InfeasibleError

    if rows and not any(row["feasible"] for row in rows):
        reasons = list(dict.fromkeys(reason_words(row) for row in rows))
        more = f" (and {len(reasons) - 1} more cells)" if len(reasons) > 1 else ""
        raise InfeasibleError(f"{reasons[0]}{more}")
