"""Which cells do lists of models, devices and engines make, and which of them cannot be run?

`--model a,b --device x,y` asks about every pair. A cell that does not fit, misses a limit or cannot
run is a row of the answer with its reason and the nearest changes; only an answer without any other
row ends in an error.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, TypeVar

from app.answers.answer import Column, Row
from app.answers.feasible import Holds, Settings, change_words, nearest_changes
from app.answers.sentences import folded
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.places import is_file

LISTED = ("model", "device", "engine")
MOST_CELLS = 4096
MOST_REASON_LINES = 12
_C = TypeVar("_C")
_T = TypeVar("_T")


def names_of(text: str, option: str) -> list[str]:
    """Comma-separated names, each once; a text that is a file's name is that one name.

    Raises:
        InputError: an empty name among several.
    """
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
    lists = {name: names_of(options[name], f"--{name}") for name in LISTED if options.get(name)}
    cells = [dict(zip(lists, combination, strict=True)) for combination in product(*lists.values())]
    if len(cells) > MOST_CELLS:
        raise InputError(
            f"make {len(cells)} cells, and {MOST_CELLS} may be asked at once",
            key="--model, --device",
        )
    return cells


def runnable(cells: Sequence[_C], build: Callable[[_C], _T]) -> list[tuple[_C, _T | str]]:
    """Every cell with what is built of it, or with the reason why it cannot be.

    Args:
        cells: to build.
        build: makes one of them; an InputError is its reason.

    Raises:
        UnknownNameError: a name of a cell that nothing carries.
        InputError: the first reason, where no cell can be built.
    """
    built: list[tuple[_C, _T | str]] = []
    first: InputError | None = None
    for cell in cells:
        try:
            built.append((cell, build(cell)))
        except UnknownNameError:
            raise
        except InputError as error:
            first = first or error
            built.append((cell, str(error)))
    if first is not None and all(isinstance(result, str) for _, result in built):
        raise first
    return built


def marked(
    configuration: DecodingConfiguration,
    acceptance: Acceptance,
    reason: str,
    *,
    batch: int,
    context: int,
    holds: Holds | None = None,
    misses: str = "memory",
    settings: Settings | None = None,
) -> dict[str, Any]:
    """What a row says of a cell that does not fit or misses a limit.

    Args:
        configuration: its configuration.
        acceptance: what it drafts.
        reason: why it cannot be.
        batch: requests.
        context: cached tokens per request.
        holds: what is wanted of it; None: that it fits.
        misses: `memory`, or the `limits` of latency.
        settings: of `app.answers.feasible.settings_of`, where several cells of one configuration
            are marked.
    """
    nearest = nearest_changes(
        configuration, acceptance, batch=batch, context=context, holds=holds, settings=settings
    )
    return {
        "feasible": False,
        "misses": misses,
        "reason": reason,
        "nearest": [dict(change) for change in nearest],
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkedCell(Row):
    """A row of a table whose cell cannot be run, with its reason and what would do."""

    model: Annotated[str, Column("Target model.")]
    device: Annotated[str, Column("Device.")]
    engine: Annotated[str, Column("Serving engine.")]
    tp: Annotated[int | None, Column("Devices that share every layer.")] = None
    method: Annotated[str | None, Column("Decoding method.")] = None
    batch: Annotated[int | None, Column("Requests that decode together.")] = None
    context: Annotated[int | None, Column("Cached tokens per request.")] = None
    draft: Annotated[str | None, Column("Shape of the drafts.")] = None
    draft_tokens: Annotated[int | None, Column("Draft tokens per request and step.")] = None
    feasible: Annotated[bool, Column("Whether it can be run.")] = False
    reason: Annotated[str, Column("Why it cannot be run.")]
    misses: Annotated[str | None, Column("`memory`, `limits` of latency, or `quality`.")] = None
    nearest: Annotated[
        Sequence[Mapping[str, str | int]] | None, Column("Changes after which it can be run.")
    ] = None

    @property
    def mark(self) -> str:
        """What the table says in place of numbers."""
        return {
            "memory": "does not fit",
            "limits": "misses limits",
            "quality": "below the floor",
        }.get(self.misses or "", "cannot run")

    @property
    def reason_words(self) -> str:
        """The reason and the changes that would do: `... needs 24.1 GiB; batch 37 fits; fp8 weights
        fit`.
        """
        one, many = ("meets them", "meet them") if self.misses == "limits" else ("fits", "fit")
        changes = [change_words(change) for change in self.nearest or ()]
        return "; ".join(
            (
                self.reason,
                *(f"{words} {many if words.endswith('weights') else one}" for words in changes),
            )
        )


def several(names: str, what: str) -> str:
    """The one name of a list, or how many of what it has: `2 devices`."""
    count = len(names_of(names, f"--{what}"))
    return names if count == 1 else f"{count} {what}s"


def reason_lines(rows: Sequence[MarkedCell], names: Sequence[str]) -> list[str]:
    """Why cells cannot be run, the shortest draft of each, and what would do: the first dozen.

    Args:
        rows: the marked cells of a table.
        names: attributes that tell its models, devices and engines apart.
    """
    lines: dict[tuple[Any, ...], str] = {}
    for row in rows:
        where = tuple(str(value) for name in names if (value := getattr(row, name)) is not None)
        cell = where if row.nearest is None else (*where, row.batch, row.context)
        lines.setdefault(cell, ": ".join([*filter(None, [", ".join(where)]), row.reason_words]))
    more = len(lines) - MOST_REASON_LINES
    rest = f"and {more} more cells that cannot be; --csv and --json have every reason"
    first = [folded(line) for line in list(lines.values())[:MOST_REASON_LINES]]
    return [*first, *([rest] if more > 0 else [])]
