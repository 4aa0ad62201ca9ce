"""Which keys may a scenario have, and how is a single one changed?

Keys with their types, defaults, ranges and meanings are read off the sections themselves, so that a
key added to a section can be written in a file, set on a command line and looked up without a
further line. Leaves out the sections (`simulator.scenario.file` and `simulator.scenario.sections`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.units import amount_of_bytes, is_of_bytes
from simulator.scenario.file import ScenarioFile
from simulator.scenario.sections import Section

_BOUNDS = (
    ("minimum", ">="),
    ("exclusiveMinimum", ">"),
    ("maximum", "<="),
    ("exclusiveMaximum", "<"),
)
_OVERRIDES = "deployment.overrides"


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """One key of a scenario.

    Attributes:
        key: its place, such as `scheduler.token_budget`.
        type: what it holds, in words.
        range: bounds or choices; empty: any value of its type.
        default: JSON value that it has where nobody states it.
        required: whether its section needs it; there is then no default.
        meaning: one sentence.
    """

    key: str
    type: str
    range: str
    default: Any
    required: bool
    meaning: str


def known_keys(scenario: type[ScenarioFile] = ScenarioFile) -> Iterator[str]:
    """Places of all keys, in the order of the sections.

    Args:
        scenario: model whose fields count.

    Example:
        >>> "scheduler.token_budget" in known_keys()
        True
    """
    for name, field in scenario.model_fields.items():
        kinds = [
            kind
            for kind in (field.annotation, *get_args(field.annotation))
            if isinstance(kind, type)
        ]
        section = next((kind for kind in kinds if issubclass(kind, Section)), None)
        if section is None:
            yield field.alias or name
        else:
            yield from (f"{name}.{key}" for key in section.model_fields)


def schema_keys(scenario: type[ScenarioFile] = ScenarioFile) -> list[Key]:
    """Every key with its type, range, default and meaning, in the order of `known_keys`.

    Args:
        scenario: model whose fields count.
    """
    whole = scenario.model_json_schema()
    keys = []
    for place in known_keys(scenario):
        parts, holder = place.split("."), whole
        if len(parts) == 2:
            inside = str(whole["properties"][parts[0]])
            holder = next(
                part for name, part in whole["$defs"].items() if f"#/$defs/{name}'" in inside
            )
        form = holder["properties"][parts[-1]]
        kinds, ranges = _words(form)
        keys.append(
            Key(
                key=place,
                type=kinds,
                range=ranges,
                default=form.get("default"),
                required=parts[-1] in holder.get("required", ()),
                meaning=_meanings(holder).get(_field(parts[-1]), ""),
            )
        )
    return keys


def assignments(
    texts: Iterable[str], scenario: type[ScenarioFile] = ScenarioFile
) -> dict[str, Any]:
    """Values by key from texts such as `scheduler.token_budget=512`; values are read as in a
    scenario file, and bytes with a unit, too.

    Args:
        texts: of the form KEY=VALUE; `device.KEY=VALUE` overrides a number of the device.
        scenario: model whose keys count.

    Raises:
        InputError: another form, or a value that is no YAML.
        UnknownNameError: no such key.

    Example:
        >>> assignments(["scheduler.token_budget=512", "speculation.schedule=1-16:5"])
        {'scheduler.token_budget': 512, 'speculation.schedule': '1-16:5'}
        >>> assignments(["speculation.draft_bytes=350MB"])
        {'speculation.draft_bytes': 350000000.0}
    """
    values: dict[str, Any] = {}
    keys = tuple(known_keys(scenario))
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError("must be section.key=value", key="set", value=text)
        if key.startswith("device."):
            values[_OVERRIDES] = [*values.get(_OVERRIDES, ()), text]
        elif key not in keys:
            raise UnknownNameError("key of a scenario", key, keys, key="set")
        else:
            values[key] = _amount(key, _value(value, text))
    return values


def _amount(key: str, value: Any) -> Any:
    """A value of bytes or their rate that has a unit, such as 2.5GB/s, as the number; others stay."""
    if not (is_of_bytes(key) and isinstance(value, str)):
        return value
    number = amount_of_bytes(value, per_s=key.endswith("_per_s"))
    return value if math.isnan(number) else number


def _value(value: str, text: str) -> Any:
    """A value as YAML has it, but for what no key means: dates, and numbers to the base 60 such as
    1:30.
    """
    import yaml

    try:
        read = yaml.safe_load(value)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise InputError("must have a value as in a scenario file", key="set", value=text) from None
    plain = isinstance(read, str | list | dict | None) or (
        isinstance(read, bool | int | float) and ":" not in value
    )
    return read if plain else value


def with_values(sections: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Sections with other values of single keys.

    Args:
        sections: unchecked, by name.
        values: by key, such as `scheduler.token_budget`.

    Raises:
        InputError: a section that holds no keys.
    """
    merged = dict(sections)
    for place, value in values.items():
        section, _, key = place.rpartition(".")
        if not section:
            merged[key] = value
            continue
        inside = merged.get(section)
        if inside is not None and not isinstance(inside, Mapping):
            raise InputError("must be a section of keys", key=section)
        merged[section] = {**(inside or {}), key: value}
    return merged


def _field(name: str) -> str:
    # the one key that Python cannot call by its name
    return "schema_version" if name == "schema" else name


def _meanings(holder: Mapping[str, Any]) -> dict[str, str]:
    """What the docstring of a section says about each of its fields."""
    said = holder.get("description", "").partition("Attributes:\n")[2]
    lines = re.sub(r"\n {5,}", " ", said)
    return dict(re.findall(r"^ {4}(\w+): (.+)$", lines, flags=re.MULTILINE))


def _words(form: Mapping[str, Any]) -> tuple[str, str]:
    """Type and range of a JSON schema, in words."""
    if "anyOf" in form:
        parts = [_words(part) for part in form["anyOf"] if part.get("type") != "null"]
        return " or ".join(kind for kind, _ in parts), ", ".join(
            dict.fromkeys(bound for _, bound in parts if bound)
        )
    choices = form.get("enum") or ([form["const"]] if "const" in form else None)
    if choices:
        return "choice", ", ".join(map(str, choices))
    if form.get("type") == "array":
        items = form.get("items") or {}
        kind, bounds = _words(items) if items else ("values", "")
        return f"list of {kind}", bounds
    if "$ref" in form:
        return "mapping", ""
    if form.get("type") == "object":
        kind, bounds = _words(form.get("additionalProperties") or {})
        return f"mapping to {kind}", bounds
    bounds = " and ".join(f"{sign} {form[name]}" for name, sign in _BOUNDS if name in form)
    return form.get("type", "value"), bounds
