"""What does an export hand back, and how are its scripts and files put together?

An export is text only: files by relative name, the command that starts the engine, and notes for
the person who runs it. Nothing is written to disk here.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NODE_RANK, HEAD_ADDRESS = "$NODE_RANK", "$HEAD_ADDRESS"
HEAD_PORT = f"{HEAD_ADDRESS}:5000"
_SET_BY_USER = {
    NODE_RANK: "0 on the first node, 1 on the second, and so on",
    HEAD_ADDRESS: "the address of the first node",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportResult:
    """Files that one engine loads as they are.

    Args:
        engine: name of the engine.
        version: release that was asked for.
        checked_against: releases whose rules the files were checked against.
        files: relative file name to content; texts, but for trees in the form of torch.
        command: one shell line that starts the engine, to be run from the folder that holds the
            files; empty for a tree alone.
        notes: what the engine does differently, cannot be known or was not checked.
    """

    engine: str
    version: str
    checked_against: tuple[str, ...]
    files: Mapping[str, str | bytes]
    command: str
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What an engine's module writes: files, command and notes of an `ExportResult`."""

    files: Mapping[str, str]
    command: str
    notes: Sequence[str]


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
    return " ".join([*settings, *map(_quoted, arguments)])


def script(
    header: Sequence[str],
    arguments: Sequence[str],
    *,
    files: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    worker_flag: str = "",
    inside: bool = False,
) -> str:
    """A shell script that starts the engine.

    Args:
        header: comment lines.
        arguments: program and arguments, unquoted; `NODE_RANK`, `HEAD_ADDRESS` and `HEAD_PORT`
            among them are taken from variables that whoever starts the script sets on every node.
        files: exported files among the arguments; they are found beside the script, wherever it is
            called from.
        environment: variables to set.
        worker_flag: argument that every node but the first adds.
        inside: start it in the script's own folder, where arguments hold names of exported files
            among other text.
    """
    lines: list[list[str]] = [[]]
    for argument in arguments:
        if argument.startswith("-") and not argument[1:2].isdigit():
            lines.append([])
        lines[-1].append(
            f'"$here"/{shlex.quote(argument)}' if argument in files else _quoted(argument)
        )
    body = " \\\n  ".join(" ".join(line) for line in lines)
    settings = "".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in (environment or {}).items()
    )
    change_folder = 'here=$(cd -- "$(dirname -- "$0")" && pwd)\n' if files or inside else ""
    change_folder += 'cd -- "$here"\n' if inside else ""
    placeholders = [
        name
        for name in _SET_BY_USER
        if any(argument in (name, f"{name}:5000") for argument in arguments)
    ]
    needed = "".join(f': "${{{name[1:]}:?{_SET_BY_USER[name]}}}"\n' for name in placeholders)
    if worker_flag:
        needed += f'[ "{NODE_RANK}" = 0 ] || set -- {worker_flag} "$@"\n'
        body += ' \\\n  "$@"'
    return f"#!/bin/sh\n{comments(header)}set -eu\n{change_folder}{settings}{needed}exec {body}\n"


def _quoted(argument: str) -> str:
    """An argument for a POSIX shell: quoted whole, or left for the shell to fill in."""
    return f'"{argument}"' if argument in (*_SET_BY_USER, HEAD_PORT) else shlex.quote(argument)
