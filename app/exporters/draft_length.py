"""Which options of a running engine change with its draft length?

Of options that its log states those that say the length, and of two exports what differs. Leaves
out which length is best (`app.answers.optimize`).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from itertools import zip_longest

from app.exporters.result import ExportResult, command_line

_ROOT = 1  # SGLang counts it among its draft tokens
_CONFIG = "--speculative-config"
_LENGTH = "num_speculative_tokens"
_SCHEDULE = "num_speculative_tokens_per_batch_size"
_STEPS, _WIDTH, _TOKENS = (
    "--speculative-num-steps",
    "--speculative-eagle-topk",
    "--speculative-num-draft-tokens",
)


def stated_length(words: Sequence[str]) -> int | None:
    """The draft length of a chain that an engine's options state; None where they state none, a
    tree or a schedule.

    Example:
        >>> stated_length(["--speculative-num-steps", "3", "--speculative-num-draft-tokens", "4"])
        3

    Args:
        words: of a command line.
    """
    values = dict(zip(words[::2], words[1::2], strict=False))
    if _CONFIG in values:
        config = _object(values[_CONFIG])
        length = None if _SCHEDULE in config else config.get(_LENGTH)
        return length if type(length) is int else None
    steps, tokens = (_whole(values.get(name, "")) for name in (_STEPS, _TOKENS))
    if steps is None or values.get(_WIDTH, "1") != "1" or tokens not in (None, steps + _ROOT):
        return None
    return steps


def with_length(words: Sequence[str], draft_tokens: int) -> tuple[str, ...]:
    """The same options with another draft length; none of them where nothing is drafted.

    Example:
        >>> with_length(["--speculative-num-steps", "3", "--speculative-num-draft-tokens", "4"], 2)
        ('--speculative-num-steps', '2', '--speculative-num-draft-tokens', '3')

    Args:
        words: of a command line, of which `stated_length` is known.
        draft_tokens: 0 for none.
    """
    if not draft_tokens:
        return ()
    said = {_STEPS: str(draft_tokens), _TOKENS: str(draft_tokens + _ROOT)}
    changed = list(words)
    for at, name in enumerate(words[:-1]):
        if name == _CONFIG:
            config = _object(words[at + 1])
            changed[at + 1] = json.dumps({**config, _LENGTH: draft_tokens})
        elif name in said:
            changed[at + 1] = said[name]
    return tuple(changed)


def changed_options(now: Sequence[str], then: Sequence[str]) -> tuple[str, str]:
    """The options in which two command lines differ, each on one line for a shell.

    Args:
        now: words of one.
        then: words of the other.
    """
    before, after = _options(now), _options(then)
    lines = [
        command_line([word for option in own if option not in other for word in option])
        for own, other in ((before, after), (after, before))
    ]
    return lines[0], lines[1]


def changed_export(now: ExportResult, then: ExportResult) -> tuple[str, str]:
    """What differs between two exports of an engine: options, or lines of the file that its command
    names.

    Args:
        now: what runs.
        then: what is to run.
    """
    options = changed_options(shlex.split(now.command), shlex.split(then.command))
    if any(options):
        return options
    pairs = [
        (old.strip(), new.strip())
        for name, text in now.files.items()
        if isinstance(text, str) and isinstance(other := then.files.get(name), str)
        for old, new in zip_longest(text.splitlines(), other.splitlines(), fillvalue="")
        if old != new and not old.startswith("#")
    ]
    return ", ".join(old for old, _ in pairs), ", ".join(new for _, new in pairs)


def _options(words: Sequence[str]) -> list[tuple[str, ...]]:
    """Every option with its values, after the program."""
    options: list[tuple[str, ...]] = [()]
    for word in words:
        if word.startswith("--"):
            options.append(())
        options[-1] = (*options[-1], word)
    return options


def _object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None
