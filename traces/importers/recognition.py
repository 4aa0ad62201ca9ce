"""Which format is a file in, as far as its own words tell?

A `Sample` is what a file shows of itself: its text, its first JSON object, its columns. Every
format says by a small function whether it claims a sample, so a file is read without naming its
format, and one that no format or several claim is refused. Leaves out the reading
(`traces.importers.formats` lists who reads what).
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hardware_profiles.errors import InputError
from hardware_profiles.outside_file import open_regular
from traces.importers.files import MAX_LINE_CHARACTERS, delimiter_of, read_text

_PARQUET = b"PAR1"
_HEADER_CHARACTERS = 1 << 14


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """What a file shows of itself.

    Attributes:
        file: its name.
        ending: the name's ending in lower case, with its dot.
        text: all of it; empty for Parquet.
        document: the JSON value that the whole file is; None where it is none, or JSON lines.
        first: the first JSON object: the document, the first of its list, or the first line; else
            empty.
        columns: names in the header of a CSV or Parquet table, else empty.
    """

    file: str
    ending: str
    text: str = ""
    document: Any = None
    first: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()

    def says(self, pattern: str) -> bool:
        """Whether a line matches a regular expression (`^` and `$` are those of a line)."""
        return re.search(pattern, self.text, re.MULTILINE | re.ASCII) is not None

    def holds(self, *keys: str) -> bool:
        """Whether the first JSON object has all of these keys."""
        return all(key in self.first for key in keys)

    def first_of(self, key: str) -> Mapping[str, Any]:
        """The first object of a list in the first JSON object; empty where there is none."""
        listed = self.first.get(key)
        inner = listed[0] if isinstance(listed, list) and listed else None
        return inner if isinstance(inner, dict) else {}

    def tabulates(self, *names: str) -> bool:
        """Whether it is a table with all of these columns."""
        return bool(self.columns) and set(names) <= set(self.columns)


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """One format that can be read.

    Attributes:
        name: what `--format` calls it.
        claims: whether a file is in it, by what it shows.
        read: reader of its files; keyword arguments are its options.
        kind: whether it holds acceptance, requests or confidence.
        is_general: it is taken for a file that no other format claims.
    """

    name: str
    claims: Callable[[Sample], bool]
    read: Callable[..., Any]
    kind: Literal["acceptance", "requests", "confidence"] = "acceptance"
    is_general: bool = False


def sample_of(path: str | Path) -> Sample:
    """What a file shows of itself.

    Raises:
        InputError: absent, no regular file, unreadable, too large, or Parquet that is damaged.
    """
    file, ending = str(path), Path(path).suffix.casefold()
    with open_regular(path) as stream:
        beginning = stream.read(len(_PARQUET))
    if beginning == _PARQUET:
        # pyarrow is loaded for Parquet alone
        from traces.storage.parquet_files import opened_parquet

        with opened_parquet(path) as parquet:
            return Sample(file=file, ending=ending, columns=tuple(parquet.schema_arrow.names))
    text = read_text(path)
    head = text.lstrip()[:1]
    if head and head in "[{":
        document, first = _json_of(text)
        if document is not None or first:
            return Sample(file=file, ending=ending, text=text, document=document, first=first)
    return Sample(file=file, ending=ending, text=text, columns=_header(text))


def _json_of(text: str) -> tuple[Any, Mapping[str, Any]]:
    """The document, and its first object; for JSON lines no document and the first line's."""
    # JSON lines are told by a first line that is an object of its own with more behind it
    line, _, rest = text.strip().partition("\n")
    value = _parsed(line) if len(line) <= MAX_LINE_CHARACTERS else None
    if isinstance(value, dict) and rest.strip():
        return None, value
    document = value if value is not None and not rest.strip() else _parsed(text)
    if isinstance(document, dict):
        return document, document
    objects = (
        [item for item in document if isinstance(item, dict)] if isinstance(document, list) else []
    )
    return document, objects[0] if objects else {}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _header(text: str) -> tuple[str, ...]:
    line = text.lstrip("\r\n").partition("\n")[0]
    delimiter = delimiter_of(line)
    if delimiter not in line or len(line) > _HEADER_CHARACTERS:
        return ()
    try:
        names = next(csv.reader([line.rstrip("\r")], delimiter=delimiter))
        return tuple(name.strip() for name in names)
    except (csv.Error, StopIteration):
        return ()


def claims(sample: Sample, formats: Mapping[str, Format]) -> list[str]:
    """The names of all formats that claim a sample; general ones where no other does."""
    claiming = {name: item for name, item in formats.items() if item.claims(sample)}
    special = [name for name, item in claiming.items() if not item.is_general]
    return special or list(claiming)


def claimed_by(sample: Sample, formats: Mapping[str, Format]) -> Format:
    """The one format that claims a sample.

    Args:
        sample: of the file.
        formats: that come into question, by name.

    Raises:
        InputError: none does, or several do.
    """
    names = claims(sample, formats)
    if len(names) == 1:
        return formats[names[0]]
    if names:
        rule = (
            "is claimed by several formats: `rooftree traces import` reads it with --format, one of"
            f" {', '.join(names)}"
        )
        raise InputError(rule, file=sample.file, key="format")
    raise InputError(unclaimed(sample, formats), file=sample.file)


def unclaimed(sample: Sample, formats: Mapping[str, Format]) -> str:
    """Why a file that no format claims cannot be imported: what it is, where that is known.

    Args:
        sample: of the file.
        formats: that came into question, by name.
    """
    if sample.ending == ".json" and sample.document is None and not sample.first:
        return "must be JSON"
    if description := known_otherwise(sample):
        return description
    return (
        "shows nothing of any format; if it is in one, `rooftree traces import` reads it with"
        f" --format, one of {', '.join(formats)}; drafts that steps of a loop"
        ' of your own accepted are a line a request, {"speculative_decoding": {"per_step_accepted":'
        " [2, 0, 3]}} (vllm-responses)"
    )


def known_otherwise(sample: Sample) -> str:
    """What a sample is that holds neither acceptance nor requests; empty where that is not
    known.
    """
    return next((description for description, shows in _NOT_IMPORTED if shows(sample)), "")


def _adjacency(sample: Sample) -> bool:
    table = sample.first.get("tree_adj", sample.first)
    return (
        isinstance(table, dict)
        and bool(table)
        and all(key.isdigit() and isinstance(below, list) for key, below in table.items())
    )


def _numbers(values: object) -> bool:
    return (
        isinstance(values, list)
        and bool(values)
        and all(type(value) in (int, float) for value in values)
    )


def _path_list(document: object) -> bool:
    paths = document.get("tree_choices") if isinstance(document, dict) else document
    return isinstance(paths, list) and bool(paths) and all(isinstance(path, list) for path in paths)


_TREE = "a tree's shape and no acceptance: `predict --tree` and `replay --tree` take it as it is"
_NOT_IMPORTED: tuple[tuple[str, Callable[[Sample], bool]], ...] = (
    (f"is a table of child nodes (SAM-Decoding), {_TREE}", _adjacency),
    (f"is a Sequoia growmap, {_TREE}", lambda s: s.holds("Successors", "roots")),
    (f"is a tree of rooftree's own, {_TREE}", lambda s: s.holds("parents", "ranks")),
    (f"lists paths of ranks (Medusa or EAGLE choices), {_TREE}", lambda s: _path_list(s.document)),
    (
        (
            "holds several lists of paths of ranks: each is a tree's shape and no acceptance, which"
            " `predict --tree` and `replay --tree` take in a file of its own"
        ),
        lambda s: (
            isinstance(s.document, dict)
            and bool(s.document)
            and all(map(_path_list, s.document.values()))
        ),
    ),
    (
        (
            "is a configuration of a tree search and holds no acceptance; its vector goes to `tree"
            " --acceptance FILE`"
        ),
        lambda s: s.holds("acceptance_rate_vector", "max_depth"),
    ),
    (
        "is a vector of sibling acceptance: it goes as a JSON list to `tree --acceptance FILE`",
        lambda s: (
            _numbers(s.document)
            or (len(s.first) < 3 and any(_numbers(values) for values in s.first.values()))
        ),
    ),
    (
        (
            "is a report of genai-perf, which holds no acceptance and no single requests: import"
            " its profile_export.json for the requests, and the engine's own counters or log for"
            " acceptance"
        ),
        lambda s: (
            s.holds("request_throughput", "request_latency")
            and isinstance(s.first["request_latency"], dict)
        ),
    ),
    ("holds times and no acceptance", lambda s: s.says(r"^avg_time_per_token")),
    (
        "holds decode lines without acceptance: the server ran without speculative decoding",
        lambda s: s.says(r"Decode batch.{0,400}gen throughput"),
    ),
)
