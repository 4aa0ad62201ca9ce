"""What does a file look like that someone can describe a method in?

The fields of a relative with the meaning of every key, and the keys that it leaves at their
defaults as comments. It loads as it stands. Leaves out who published the relative and what was
reported of it.
"""

import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from costmodel.citation import Citation
from costmodel.method import Batch, Method, Shape, Stop, Verify
from costmodel.method_file import FORM
from costmodel.method_library import load_method, published_names, require_priced
from costmodel.method_rules import contradictions, require_slug
from costmodel.typed import KIND, default_of, record_document
from hardware_profiles.errors import InputError, joined

_COLUMNS = 100
_LABELS = ("exact_when", "systems", "recorded", "reproduced", "reported", "assumed")
_OPTIONAL = {"shape": Shape, "stop": Stop, "verify": Verify, "batch": Batch}


def method_template(slug: str, like: str = "eagle-3") -> str:
    """The text of a method's file to edit.

    Args:
        slug: of the new method: lower case, digits and dashes.
        like: method whose fields stand in, a name of `method_names()` or another file.

    Raises:
        InputError: a name that no method can have, or that of a published one; a relative that is
            not priced; UnknownNameError for one that is not known.

    Example:
        >>> print(method_template("mine", "eagle-3").splitlines()[5])
        slug = "mine"
    """
    require_slug(slug)
    if slug in published_names():
        rule = "is the name of a published method; choose another"
        raise InputError(rule, key="slug", value=slug)
    relative = load_method(like)
    require_priced(relative)
    usual = {name: type(getattr(relative, name))() for name in _LABELS}
    method = replace(
        relative,
        slug=slug,
        title=slug,
        citation=Citation(title=slug),
        engines={},
        **usual,
    )
    if wrong := contradictions(method):
        raise joined(wrong)
    lines = [
        f"# A method like {relative.title}. Try it as --method {slug}.toml or --drafter",
        f"# {slug}.toml:0.8,0.6; `rooftree methods check {slug}.toml` says whether all that it states",
        "# is priced. Keys behind a # have their defaults.",
        "",
        *_record(method, path=""),
    ]
    engines = ", ".join(f"{_key(name)} = {_value(way)}" for name, way in relative.engines.items())
    lines += [
        "",
        *_comment("engines", "what an engine that decodes in exactly this way calls it."),
        f"# [engines]  # those of {relative.slug}: {engines or 'none'}",
    ]
    return "\n".join(lines) + "\n"


def _record(record: Any, *, path: str) -> Iterator[str]:
    """The keys of a record, those with values first, then the tables within it."""
    document, meanings = record_document(record, FORM), _meanings(type(record))
    tables = {name: value for name, value in document.items() if _is_table(value)}
    if KIND in document and KIND not in meanings:
        yield f"{KIND} = {_value(document[KIND])}"
    for field in fields(record):
        name = field.name
        if name in tables or name in ("engines", *_LABELS):
            continue
        if name in document:
            yield from _comment("", meanings.get(name, ""))
            yield f"{_key(name)} = {_value(document[name])}"
        elif path and not is_dataclass(default_of(field)):
            yield from _comment("", meanings.get(name, ""))
            yield f"# {_key(name)} = {_value(_plain(default_of(field)))}"
    for name in tables:
        yield from _tables(name, getattr(record, name), path, meanings.get(name, ""))
    if not path:
        yield from _absent(record, meanings)


def _tables(name: str, value: Any, path: str, meaning: str) -> Iterator[str]:
    """A table, or a list of tables, under its heading."""
    heading = f"{path}{name}"
    listed = isinstance(value, tuple)
    for part in value if listed else (value,):
        yield ""
        yield from _comment("", meaning)
        yield f"[[{heading}]]" if listed else f"[{heading}]"
        if is_dataclass(part):
            yield from _record(part, path=f"{heading}.")
        else:
            yield from (f"{_key(key)} = {_value(entry)}" for key, entry in part.items())


def _absent(method: Method, meanings: Mapping[str, str]) -> Iterator[str]:
    """Tables that the method leaves at their defaults."""
    for name, kind in _OPTIONAL.items():
        if getattr(method, name) == default_of(
            next(field for field in fields(method) if field.name == name)
        ):
            keys = ", ".join(field.name for field in fields(kind))
            yield ""
            yield from _comment("", meanings.get(name, ""))
            yield from _comment(f"[{name}]", f"with {keys}.")


def _meanings(kind: type[Any]) -> dict[str, str]:
    """What the fields of a record mean, as the record's own documentation says it."""
    _, _, listed = (inspect.getdoc(kind) or "").partition("Args:\n")
    entries = re.findall(r"^    (\w+): (.*(?:\n     .*)*)", listed, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _comment(word: str, text: str) -> Sequence[str]:
    """Lines of a comment; none where there is nothing to say."""
    words = f"{word}: {text}" if word and text else word or text
    return textwrap.wrap(
        words, _COLUMNS, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)
    )


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _value(value: Any) -> str:
    """A value as TOML writes it; a default that is nothing has no such form."""
    if value is None:
        return "(none)"
    if isinstance(value, list):
        return f"[{', '.join(_value(part) for part in value)}]"
    return repr(value) if isinstance(value, float) else json.dumps(value)
