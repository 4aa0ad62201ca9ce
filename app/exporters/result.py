"""What does an export hand back, and how is a refusal worded?

An export is text only: files by relative name, the command that starts the engine, and notes for the person
who runs it. Nothing is written to disk here.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.exporters.tree_paths import draft_paths
from costmodel.engine_library import engine_names, load_engine
from costmodel.engines.record.options import Capability, Drafting, Options
from costmodel.engines.record.releases import releases_for
from hardware_profiles.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from costmodel.configuration import DecodingConfiguration


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportResult:
    """Files that one engine loads as they are.

    Args:
        engine: name of the engine.
        version: release that was asked for.
        checked_against: releases whose rules the files were checked against.
        files: relative file name to content.
        command: one shell line that starts the engine, to be run from the folder that holds the files.
        notes: what the engine does differently, cannot be known or was not checked.
    """

    engine: str
    version: str
    checked_against: tuple[str, ...]
    files: Mapping[str, str]
    command: str
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What an engine's module writes: files, command and notes of an `ExportResult`."""

    files: Mapping[str, str]
    command: str
    notes: Sequence[str]


def options_of(engine: str) -> Options:
    """What a configuration of an engine can express.

    Raises:
        UnknownNameError: no such engine, or none that configurations can be written for.
    """
    options = load_engine(engine).options
    if options is None:
        able = [name for name in engine_names() if load_engine(name).options is not None]
        raise UnknownNameError("engine", engine, able, key="engine")
    return options


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """One engine at one release: what refusals and headers name.

    Args:
        engine: name of the engine.
        version: release that was asked for.
        releases: releases whose rules apply.
    """

    engine: str
    version: str
    releases: tuple[str, ...]

    def refusal(self, key: str, rule: str, value: object) -> InputError:
        """An error that names the engine, its version, the key, the rule and the value."""
        return InputError(f"{self.engine} {self.version}: {rule}", key=key, value=value)

    @classmethod
    def of(cls, engine: str, version: str) -> Dialect:
        """The dialect of an engine at a release, whose rules are those of the releases around it.

        Args:
            engine: name of an engine whose configurations can be written.
            version: release that was asked for.

        Raises:
            InputError: the release lies outside those that were read.
        """
        options = options_of(engine)
        if options.numbered:
            return cls(engine=engine, version=version, releases=releases_for(engine, version, options.releases))
        if version not in options.releases:
            raise UnknownNameError(f"{engine} version", version, options.releases, key="version")
        return cls(engine=engine, version=version, releases=(version,))

    def has(self, capability: Capability) -> bool:
        """Whether every release of the dialect has something."""
        options = options_of(self.engine)
        return all(options.admits(capability, release) for release in self.releases)

    def require(self, key: str, capability: Capability, value: object) -> None:
        """Refuse what the engine's record says that a release does not have.

        Raises:
            InputError: one of the releases does not; with the reason of the record.
        """
        if not self.has(capability):
            raise self.refusal(key, capability if isinstance(capability, str) else capability.span, value)

    def drafting(self, chosen: DecodingConfiguration) -> Drafting:
        """The engine's way of drafting what was chosen.

        Raises:
            InputError: a release does not have it.
        """
        options = options_of(self.engine)
        found = options.drafting[self.name(chosen, options.drafting)]
        self.require("method", found.releases, chosen.method)
        return found

    def check(self, chosen: DecodingConfiguration, *, synthetic: bool, approximate: bool) -> None:
        """Refuse a configuration that the engine's record says it cannot express.

        Args:
            chosen: what to run.
            synthetic: acceptance is drawn at stated rates.
            approximate: a dynamic tree may stand in for a static one.

        Raises:
            InputError: names what cannot be expressed, and why.
        """
        options, devices = options_of(self.engine), chosen.deployment.tensor_parallel
        if devices > 1:
            self.require("tensor_parallel", options.tensor_parallel, devices)
        if not chosen.speculates:
            if synthetic:
                self.synthetic_rates(chosen)
            return
        own = self.drafting(chosen)
        if (chosen.largest_batch or 1) > 1:
            key = "max_batch" if chosen.max_batch is not None else "schedule"
            self.require(key, options.several_requests, chosen.largest_batch)
        if self.threshold(chosen):
            self.require("stop", own.stop, chosen.stop.at)
        if chosen.topology not in ("off", "chain", "tree"):
            self.require("shape", own.dynamic_tree, chosen.topology)
        if (paths := draft_paths(chosen)) is not None and not (approximate and self.has(own.dynamic_tree)):
            self.require("tree", own.static_tree, f"{chosen.method} with {len(paths)} draft nodes")
        if chosen.varies:
            self.require("schedule", own.schedule, f"{chosen.method} {chosen.schedule}")
        if synthetic:
            self.require("synthetic", own.synthetic, synthetic)

    def dynamic_numbers(self, chosen: DecodingConfiguration) -> tuple[int, int] | None:
        """Depth and candidates of each node of a tree that is built at run time; None for every other shape.

        Raises:
            InputError: a tree whose levels do not all keep as many nodes as each node has candidates, or that has no
                depth of its own: engines have one number for both.
        """
        from costmodel.method import Shape

        shape = chosen.shape
        if not isinstance(shape, Shape):
            return None
        if shape.kind != "dynamic_tree" or not shape.depth or not shape.width or shape.beam not in (0, shape.width):
            rule = "builds trees of a stated depth whose levels keep as many nodes as each node has candidates"
            raise self.refusal("shape", rule, shape)
        if shape.least_probability:
            raise self.refusal("shape.least_probability", "keeps the best-scored nodes", shape.least_probability)
        return shape.depth, shape.width

    def name(self, chosen: DecodingConfiguration, known: Iterable[str] | None = None) -> str:
        """The engine's own name of the method.

        Args:
            chosen: what to run.
            known: names that can be written; None: all that methods have.

        Raises:
            InputError: the engine does not run it.
        """
        from costmodel.method_library import load_method

        found = load_method(chosen.method).engines.get(self.engine)
        if found is None or (known is not None and found not in known):
            why = options_of(self.engine).without.get(chosen.method, "")
            does = f"runs {', '.join(known)} alone" if known is not None else "does not run it"
            does += f"; {why}" if why else ""
            raise self.refusal("method", does, chosen.method)
        return found

    def target(self, chosen: DecodingConfiguration) -> str:
        """The target as the engine loads it: a hub id where a shipped name has one, else what was named.

        Raises:
            InputError: no target is named, or it is spread beyond one tensor-parallel group.
        """
        from costmodel.architectures.library import hub_id

        where = chosen.deployment
        if not where.model:
            raise InputError("must name the target", key="deployment.model")
        for kind in ("pipeline", "expert", "data", "context"):
            devices = getattr(where, f"{kind}_parallel")
            if devices > 1:
                rule = "the flags written here start one tensor-parallel group"
                raise self.refusal(f"{kind}_parallel", rule, devices)
        return hub_id(where.model)

    def draft(self, chosen: DecodingConfiguration) -> str | None:
        """The draft model or head as the engine loads it; None for methods that draft without.

        Raises:
            InputError: the method needs one, and none is named.
        """
        from costmodel.architectures.library import hub_id
        from costmodel.method_library import load_method

        if chosen.draft_model is None and load_method(chosen.method).needs_trained_weights:
            raise InputError(f"{chosen.method} needs a draft model", key="draft_model")
        return None if chosen.draft_model is None else hub_id(chosen.draft_model)

    def threshold(self, chosen: DecodingConfiguration) -> float:
        """The draft probability below which a draft ends; 0 where it always has K tokens.

        Raises:
            InputError: drafts end by another rule.
        """
        stop = chosen.stop
        if stop.rule not in ("length", "probability"):
            raise self.refusal("stop", "ends a draft at K tokens or on low confidence", stop.rule)
        return stop.at if stop.rule == "probability" else 0.0

    def synthetic_rates(self, chosen: DecodingConfiguration) -> tuple[float, ...]:
        """The acceptance rates of a synthetic export, one per draft token.

        Raises:
            InputError: nothing is drafted, a tree is, or the rates were not measured at this draft length.
        """
        if not chosen.speculates or draft_paths(chosen) is not None:
            raise self.refusal("topology", "synthetic acceptance needs a chain of draft tokens", chosen.topology)
        rates = chosen.acceptance_by_depth
        if rates is None or len(rates) != chosen.draft_tokens:
            raise self.refusal(
                "acceptance_by_depth",
                f"needs one rate per draft token ({chosen.draft_tokens}), measured at that draft length",
                "nothing" if rates is None else rates,
            )
        return rates

    def header(self, chosen: DecodingConfiguration, notes: Sequence[str]) -> tuple[str, ...]:
        """Lines that say what was exported, for whom, and where it comes from."""
        if not chosen.speculates:
            what = "plain decoding, nothing is drafted"
        else:
            what = f"{chosen.method}, {chosen.topology} of {chosen.draft_tokens} draft tokens (root not counted)"
        made_for = "" if chosen.context is None else f"; made for a context of {chosen.context} tokens"
        lines = [
            f"rooftree export for {self.engine} {self.version}",
            f"checked against the rules of {self.engine} {' and '.join(self.releases)}",
            f"configuration: {what}{made_for}",
        ]
        if chosen.schedule:
            ranges = ", ".join(f"{low}-{high}: {tokens}" for low, high, tokens in chosen.schedule)
            lines.append(f"schedule, batch: draft tokens: {ranges}")
        lines += [f"{key}: {value}" for key, value in chosen.provenance.items()]
        return (*lines, *(f"note: {note}" for note in notes))


def comments(lines: Sequence[str]) -> str:
    """Lines as `#` comments, each kept to one printable line whatever it holds."""
    printable = ("".join(sign if sign.isprintable() else " " for sign in line) for line in lines)
    return "".join(f"# {' '.join(line.split())}\n" for line in printable)


def json_lines(content: Mapping[str, object]) -> str:
    """A JSON object with one line per key, so that a schedule stays readable."""
    lines = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def command_line(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Arguments quoted for a POSIX shell, on one line."""
    settings = [f"{name}={shlex.quote(value)}" for name, value in (environment or {}).items()]
    return " ".join([*settings, shlex.join(arguments)])


def script(
    header: Sequence[str],
    arguments: Sequence[str],
    *,
    files: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> str:
    """A shell script that starts the engine.

    Args:
        header: comment lines.
        arguments: program and arguments, unquoted.
        files: exported files among the arguments; they are found beside the script, wherever it is called
        from.
        environment: variables to set.
    """
    lines: list[list[str]] = [[]]
    for argument in arguments:
        if argument.startswith("-") and not argument[1:2].isdigit():
            lines.append([])
        lines[-1].append(f'"$here"/{shlex.quote(argument)}' if argument in files else shlex.quote(argument))
    body = " \\\n  ".join(" ".join(line) for line in lines)
    settings = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in (environment or {}).items())
    here = 'here=$(cd -- "$(dirname -- "$0")" && pwd)\n' if files else ""
    return f"#!/bin/sh\n{comments(header)}set -eu\n{here}{settings}exec {body}\n"
