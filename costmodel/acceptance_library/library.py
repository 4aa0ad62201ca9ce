"""Which acceptance figures have been published, and where does each one stand?

One TOML file under `data/` for every kind of source: what all of its entries share at the top, then
the entries, one by one or as tables with a data set per row. Leaves out what a figure means
(`entry`).
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from costmodel.acceptance_library.entry import PublishedAcceptance
from costmodel.architectures.library import model_card
from costmodel.architectures.name_parts import name_parts
from hardware_profiles.errors import InputError, UnknownNameError

_FOLDER = Path(__file__).parent / "data"


def published(
    method: str | None = None,
    target: str | None = None,
    data_set: str | None = None,
    temperature: float | None = None,
) -> tuple[PublishedAcceptance, ...]:
    """Published acceptance figures; every argument that is given narrows them down.

    Example:
        >>> {entry.method for entry in published(method="eagle-3", target="llama-3.1-8b")}
        {'eagle-3'}

    Args:
        method: slug of a method.
        target: shipped model, one of its aliases, or a published name.
        data_set: part of a data set's name, in any case; hyphens do not count.
        temperature: sampling temperature.

    Returns:
        Entries in the order of their files, then of the file.

    Raises:
        InputError: the installation's data is damaged.
    """
    named = None if target is None else target_slug(target)
    return tuple(
        entry
        for entry in _all()
        if (method is None or entry.method == method.lower().replace("_", "-"))
        and (named is None or entry.target == named)
        and (data_set is None or plain_name(data_set) in plain_name(entry.data_set))
        and (temperature is None or entry.temperature == temperature)
    )


@cache
def target_slug(name: str) -> str:
    """The name that entries give a target: the shipped model's where it is one, that of the release
    whose weights another checkpoint holds in another format, else the last part of the name given.

    >>> target_slug("meta-llama/Llama-3.1-8B-Instruct")
    'llama-3.1-8b'
    >>> target_slug("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic")
    'llama-3.3-70b'
    """
    slugs = {
        word.casefold(): entry.target
        for entry in _all()
        for word in (entry.target, entry.published_target)
    }
    short = name.rsplit("/", 1)[-1].casefold()
    if short in slugs:
        return slugs[short]
    try:
        return model_card(name).name
    except UnknownNameError:
        stem = name_parts(short).stem
        releases = {slug for word, slug in slugs.items() if name_parts(word).stem == stem}
        return releases.pop() if len(releases) == 1 else short


@cache
def _all() -> tuple[PublishedAcceptance, ...]:
    return tuple(entry for path in sorted(_FOLDER.glob("*.toml")) for entry in read_entries(path))


def read_entries(path: Path) -> list[PublishedAcceptance]:
    """The entries of one file; keys at its top hold for all of them.

    Args:
        path: TOML with the fields of `PublishedAcceptance`, shared ones first, then `[[entries]]`.
            An entry with `rows` is a table: a row is a data set and, for each of the `columns`, the
            means at the draft tokens of the column, whose other keys are fields.

    Raises:
        InputError: no TOML, unknown or missing fields, or numbers that no decoding can produce.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        rows = table.pop("entries")
        return [entry for row in rows for entry in _entries(table | row)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"is no list of published acceptance ({error})", file=path) from error


def _entries(fields: dict[str, Any]) -> list[PublishedAcceptance]:
    if "rows" not in fields:
        return [_entry(fields)]
    shared = {key: value for key, value in fields.items() if key not in ("rows", "columns")}
    return [
        _entry(shared | _cell(column, means) | {"data_set": data_set})
        for data_set, *cells in fields["rows"]
        for column, means in zip(fields["columns"], cells, strict=True)
    ]


def _cell(column: dict[str, Any], means: list[float]) -> dict[str, Any]:
    own = {key: value for key, value in column.items() if key != "draft_tokens"}
    return own | {"tokens_per_step": dict(zip(column["draft_tokens"], means, strict=True))}


def _entry(fields: dict[str, Any]) -> PublishedAcceptance:
    means = {
        int(draft_tokens): float(mean)
        for draft_tokens, mean in fields.pop("tokens_per_step", {}).items()
    }
    rates = tuple(float(rate) for rate in fields.pop("rates", ()))
    fields.setdefault("published_target", fields.get("target", ""))
    return PublishedAcceptance(tokens_per_step=means, rates=rates, **fields)


def plain_name(name: str) -> str:
    """A data set's name without case, spaces and hyphens, which sources set differently."""
    return name.casefold().replace("-", "").replace(" ", "")
