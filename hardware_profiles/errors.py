"""Which errors can a caller of rooftree meet, and what does each one say?

    RooftreeError
    ├── InputError             the request or its input is wrong         exit code 2
    │   ├── UnknownNameError   a name that nothing carries; the nearest names are offered
    │   └── CollectedError     more than one of these, found in one reading
    └── InfeasibleError        the question is sound and has no answer   exit code 3

Every message names the file, the key, the rule that was broken and the value that broke it, as far
as they are known.
Programming mistakes inside rooftree are ordinary Python exceptions and are left out of this tree.
"""

import difflib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

_SHOWN_VALUE_CHARACTERS = 120
_OFFERED_NAMES = 5


class RooftreeError(Exception):
    """An error that is shown to the user as one line, without a traceback.

    Args:
        message: the rule, and what is allowed; no full stop at its end.
        file: the file it was found in.
        key: the dotted key, option or argument it concerns.
        value: the value found. `None` means "not given" and is not shown.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        message: str,
        *,
        file: str | Path | None = None,
        key: str | None = None,
        value: object = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = None if file is None else str(file)
        self.key = key
        self.value = value

    def __str__(self) -> str:
        parts = [part for part in (self.file, self.key, self.message) if part]
        text = ": ".join(parts)
        return text if self.value is None else f"{text}, got {_shortened(self.value)}"


class InputError(RooftreeError):
    """The request or its input is wrong: a value out of range, a foreign file, an unknown
    key.
    """

    exit_code: ClassVar[int] = 2


class UnknownNameError(InputError):
    """A name that nothing carries.

    Args:
        kind: what was looked for, in the singular: "device", "model", "method", "key".
        name: the name asked for.
        known: every name there is.
        file: the file that asked for it.
        key: the key or option that asked for it.

    Example:
        >>> str(UnknownNameError("device", "h10", ["l4", "h100-sxm", "h100-pcie"]))
        "unknown device 'h10'; nearest: h100-sxm, h100-pcie"
    """

    def __init__(
        self,
        kind: str,
        name: str,
        names: Iterable[str],
        *,
        file: str | Path | None = None,
        key: str | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.known = tuple(names)
        offered = nearest_names(name, self.known)
        hint = (
            f"; nearest: {', '.join(offered)}"
            if offered
            else f"; there is no {kind} to choose from"
        )
        super().__init__(f"unknown {kind} {_shortened(name)}{hint}", file=file, key=key)

    def __reduce__(self) -> tuple[object, ...]:
        return (
            UnknownNameError,
            (self.kind, self.name, self.known),
            {"file": self.file, "key": self.key},
        )


class CollectedError(InputError):
    """Several things are wrong with one file or question, each on a line of its own.

    Args:
        errors: at least two, in the order in which they were found.

    Example:
        >>> both = [InputError("is missing", file="a.toml", key=key) for key in ("name", "year")]
        >>> print(CollectedError(both))
        a.toml: 2 things are wrong
          name: is missing
          year: is missing
    """

    def __init__(self, errors: Sequence[InputError]) -> None:
        self.errors = tuple(errors)
        files = {error.file for error in errors}
        shared = next(iter(files)) if len(files) == 1 else None
        lines = [str(error).removeprefix(f"{shared}: ") for error in errors]
        super().__init__("\n  ".join([f"{len(lines)} things are wrong", *lines]), file=shared)

    def __reduce__(self) -> tuple[object, ...]:
        return CollectedError, (self.errors,)


def joined(errors: Sequence[InputError]) -> InputError:
    """The only error of a list, or all of them as one."""
    return errors[0] if len(errors) == 1 else CollectedError(errors)


def separate(error: InputError) -> tuple[InputError, ...]:
    """The errors that one stands for: those that it collects, or itself."""
    return error.errors if isinstance(error, CollectedError) else (error,)


class InfeasibleError(RooftreeError):
    """The question is sound and has no answer: the weights do not fit, no configuration meets the
    limits.
    """

    exit_code: ClassVar[int] = 3


def nearest_names(name: str, names: Iterable[str]) -> list[str]:
    """The known names most like `name`, best first: at most five, at least one where any name is
    known.

    Names that begin with what was typed come first, then names by similarity; case does not count.
    """
    return list(_nearest(name.casefold(), tuple(dict.fromkeys(names))))


@lru_cache(maxsize=64)
def _nearest(typed: str, names: tuple[str, ...]) -> tuple[str, ...]:
    likeness = {
        candidate: (
            bool(typed) and candidate.casefold().startswith(typed),
            difflib.SequenceMatcher(None, typed, candidate.casefold()).ratio(),
        )
        for candidate in names
    }
    ranked = sorted(names, key=lambda candidate: likeness[candidate], reverse=True)
    close = [candidate for candidate in ranked if likeness[candidate] >= (False, 0.5)]
    return tuple((close or ranked)[:_OFFERED_NAMES])


def _shortened(value: object) -> str:
    text = repr(value)
    return (
        text if len(text) <= _SHOWN_VALUE_CHARACTERS else text[: _SHOWN_VALUE_CHARACTERS - 1] + "…"
    )
