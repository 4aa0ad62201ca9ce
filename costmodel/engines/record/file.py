"""What does a file say about an engine that was measured on one machine?

`like` names the shipped engine that all else is taken from; the file holds what it adds to a step
and a prompt there. `rooftree calibrate --server` writes it. Such numbers go with the device profile
of the same calibration: what that profile's passes hold already is 0 here. Leaves out what a
configuration can express, which is the engine's own.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from costmodel.engines.record.engine import ANY, Engine
from costmodel.engines.record.host import Host
from costmodel.engines.record.overhead import Overhead
from hardware_profiles.errors import InputError, joined
from hardware_profiles.outside_file import read_bounded
from hardware_profiles.units import MIB, MICRO
from hardware_profiles.whole_file import whole_file

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_MOST_OVERHEADS = 32
Text = Annotated[str, Field(min_length=1, max_length=1000)]
Microseconds = Annotated[float, Field(ge=0.0, le=1e7, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class OverheadEntry(_Part):
    """One `[overheads.<who drafts>]`, with "*" for drafters without an entry; see `Overhead`."""

    versions: str = ""
    step_us: Microseconds = 0.0
    draft_us: Microseconds = 0.0
    request_us: Microseconds = 0.0
    accepted_us: Microseconds = 0.0
    verify_ratio: Annotated[float, Field(ge=0.0, le=10.0)] = 0.0
    spread_ratio: Annotated[float, Field(ge=0.0, le=5.0)] = 0.3
    source: Text


class HostEntry(_Part):
    """`[host]`; see `Host`."""

    prompt_us: Microseconds = 0.0
    source: Text


class EngineFile(_Part):
    """An engine file."""

    like: Annotated[str, Field(min_length=1, max_length=80)]
    overheads: Annotated[dict[str, OverheadEntry], Field(min_length=1, max_length=_MOST_OVERHEADS)]
    host: HostEntry | None = None


def parse_engine_file(path: Path) -> EngineFile:
    """The content of an engine file, checked.

    Raises:
        InputError: not TOML, too large, or a key that is missing, unknown or out of range; all of
            them are named.
    """
    try:
        content = tomllib.loads(read_bounded(path, MIB).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not TOML: {error}", file=path) from None
    try:
        file = EngineFile.model_validate(content)
    except ValidationError as error:
        raise joined([_mistake(mistake, path) for mistake in error.errors()]) from None
    if ANY not in file.overheads:
        raise InputError(
            "needs an entry for every drafter without one", file=path, key=f'overheads."{ANY}"'
        )
    return file


def with_file(engine: Engine, file: EngineFile) -> Engine:
    """The engine with what a file says of it; its overheads take the place of all of the engine's
    own.
    """
    overheads = {
        name: Overhead(
            engine=engine.name,
            versions=entry.versions,
            step_s=entry.step_us * MICRO,
            draft_s=entry.draft_us * MICRO,
            request_s=entry.request_us * MICRO,
            accepted_s=entry.accepted_us * MICRO,
            verify_ratio=entry.verify_ratio,
            spread_ratio=entry.spread_ratio,
            source=entry.source,
        )
        for name, entry in file.overheads.items()
    }
    host = engine.host
    if file.host is not None:
        host = replace(host, prompt_s=file.host.prompt_us * MICRO, source=file.host.source)
    return replace(engine, overheads=overheads, host=host)


def write_engine_file(
    path: Path, *, like: str, overheads: Mapping[str, Overhead], host: Host | None = None
) -> None:
    """Write what was measured of an engine, in the form that `parse_engine_file` reads.

    Raises:
        InputError: the folder is missing or cannot be written.
    """
    lines = [f"like = {_quoted(like)}"]
    for name, overhead in overheads.items():
        lines += ["", f"[overheads.{_quoted(name)}]", f"versions = {_quoted(overhead.versions)}"]
        for key in ("step", "draft", "request", "accepted"):
            lines.append(f"{key}_us = {_microseconds(getattr(overhead, f'{key}_s'))}")
        lines += [
            f"verify_ratio = {overhead.verify_ratio!r}",
            f"spread_ratio = {overhead.spread_ratio!r}",
        ]
        lines.append(f"source = {_quoted(overhead.source)}")
    if host is not None:
        lines += [
            "",
            "[host]",
            f"prompt_us = {_microseconds(host.prompt_s)}",
            f"source = {_quoted(host.source)}",
        ]
    with whole_file(path) as part:
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _microseconds(seconds: float) -> str:
    scaled = seconds / MICRO
    if not math.isfinite(scaled):
        raise InputError("must be finite", key="overheads", value=seconds)
    return repr(float(f"{scaled:.6g}"))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else " " for c in escaped) + '"'


def _mistake(detail: "ErrorDetails", path: Path) -> InputError:
    key = ".".join(str(part) for part in detail["loc"]) or None
    if detail["type"] == "missing":
        return InputError("is missing", file=path, key=key)
    if detail["type"] == "extra_forbidden":
        return InputError("is no key of an engine file", file=path, key=key)
    rule = detail["msg"].removeprefix("Input ").removeprefix("Value error, ")
    return InputError(rule[0].lower() + rule[1:], file=path, key=key, value=detail["input"])
