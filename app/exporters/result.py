"""What does an export hand back, and how is a refusal worded?

An export is text only: files by relative name, the command that starts the engine, and notes for the person
who runs it. Nothing is written to disk here.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.exporters.choice import DecodingChoice
from hardware_profiles.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportResult:
    """Files that one engine loads as they are.

    Args:
        engine: name of the engine.
        version: release that was asked for.
        checked_against: releases whose rules the files were checked against.
        files: relative file name to content.
        command: one shell line that starts the engine, to be run from the folder that holds the files.
        notes: what the engine does differently, cannot be told or was not checked.
    """

    engine: str
    version: str
    checked_against: tuple[str, ...]
    files: Mapping[str, str]
    command: str
    notes: tuple[str, ...]


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

    def refuse_threshold(self, choice: DecodingChoice) -> None:
        """Refuse a confidence threshold, for engines that have no such setting.

        Raises:
            InputError: the choice stops drafting on low confidence.
        """
        if choice.confidence_threshold:
            raise self.refusal(
                "confidence_threshold", "cannot stop a draft on low confidence", choice.confidence_threshold
            )

    def synthetic_rates(self, choice: DecodingChoice) -> tuple[float, ...]:
        """The acceptance rates of a synthetic export, one per draft token.

        Raises:
            InputError: nothing is drafted, a tree is, or the rates were not measured at this draft length.
        """
        if not choice.speculates or choice.tree_paths is not None:
            raise self.refusal("topology", "synthetic acceptance needs a chain of draft tokens", choice.topology)
        rates = choice.acceptance_by_depth
        if rates is None or len(rates) != choice.draft_tokens:
            raise self.refusal(
                "acceptance_by_depth",
                f"needs one rate per draft token ({choice.draft_tokens}), measured at that draft length",
                "nothing" if rates is None else rates,
            )
        return rates

    def header(self, choice: DecodingChoice, notes: Sequence[str]) -> tuple[str, ...]:
        """Lines that say what was exported, for whom, and where it comes from."""
        if not choice.speculates:
            what = "plain decoding, nothing is drafted"
        else:
            what = f"{choice.method}, {choice.topology} of {choice.draft_tokens} draft tokens (root not counted)"
        lines = [
            f"rooftree export for {self.engine} {self.version}",
            f"checked against the rules of {self.engine} {' and '.join(self.releases)}",
            f"choice: {what}; made for a context of {choice.context} tokens",
        ]
        if choice.schedule:
            ranges = ", ".join(f"{low}-{high}: {tokens}" for low, high, tokens in choice.schedule)
            lines.append(f"schedule, batch: draft tokens: {ranges}")
        lines += [f"{key}: {value}" for key, value in choice.provenance.items()]
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
