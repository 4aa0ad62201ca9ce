"""`reproduce`: what would the cost model have said of every published number, from the inputs
beside it?
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from app.cli.output import Answered
from app.questions.field import Field, Group
from app.questions.fields import Csv, Json, Out, Quiet, Seed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.published.reading.table import PublishedRow


def reproduce(
    names: Annotated[
        list[str] | None,
        Field(
            "Only these methods; all where none is named.",
            Group.WORKLOAD,
            placeholder="[NAME]...",
            names="methods",
            argument=True,
        ),
    ] = None,
    group: Annotated[
        str,
        Field("Only rows of which this much is stated: full, partial or headline.", Group.SEARCH),
    ] = "",
    rows: Annotated[
        list[Path] | None,
        Field(
            (
                "CSV of published numbers, of drafting and serving (target, tree_or_gamma, value,"
                " ...) or of masked "
                "models (model, steps, tps, ...); repeatable. None: the numbers that the catalogue"
                " reports."
            ),
            Group.SEARCH,
        ),
    ] = None,
    html: Annotated[
        Path | None,
        Field("HTML page: predicted against published numbers, and every row.", Group.OUTPUT),
    ] = None,
    out: Out = None,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Predict every published number from its own inputs, and say how far off, or why nothing can
    be said.
    """
    from app.answers.reproduction import reproduction
    from app.cli.output import deliver
    from app.cli.progress import progress_line
    from app.cli.shown.reproduce import print_reproduction
    from app.questions.places import require_file
    from costmodel.method_library import load_method
    from costmodel.published.predict import predictions
    from costmodel.published.reading.table import GROUPS, read_rows
    from costmodel.published.reported import reported_rows
    from hardware_profiles.errors import InputError

    if html is not None:
        require_file(html, "--html")
    if group and group not in GROUPS:
        raise InputError(f"must be one of {', '.join(GROUPS)}", key="--group", value=group)
    slugs = {load_method(name).slug for name in names or []}
    tables = [(str(path), read_rows(path)) for path in rows or []] or [
        ("", reported_rows(sorted(slugs)))
    ]
    with progress_line(quiet or json) as told:
        found = [
            (file, prediction)
            for file, table in tables
            for prediction in predictions(_asked(table, group, slugs), table=table, progress=told)
        ]
    inputs = {
        "names": list(names or []),
        "group": group or None,
        "rows": [str(path) for path in rows or []],
        "seed": seed,
    }
    body = reproduction(found, inputs)
    if html is not None:
        from app.render.html.reproduction_page import write_reproduction_page

        write_reproduction_page(body, html)
    return deliver(
        body,
        name="reproduction",
        json=json,
        out=out,
        quiet=quiet,
        csv=csv,
        rows=["rows"],
        show=lambda: print_reproduction(body),
    )


def _asked(table: "Sequence[PublishedRow]", group: str, slugs: "set[str]") -> "list[PublishedRow]":
    """The rows of a group, all for an empty one, and of the entries that are named, all where none
    is.
    """
    from costmodel.published.reading.names import method_of_system
    from hardware_profiles.errors import InputError

    def slug(row: "PublishedRow") -> str:
        try:
            return method_of_system(row.system)[0].slug
        except InputError:
            return ""

    return [row for row in table if group in ("", row.group) and (not slugs or slug(row) in slugs)]
