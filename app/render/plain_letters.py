"""What does a terminal or file show whose encoding lacks a sign that an answer has?

The nearest signs of ASCII for those that answers are written with, and the sign's number for all
others, which people and their files bring.
"""

import codecs
from collections.abc import Mapping

PLAIN_LETTERS = "rooftree-plain-letters"
"""The name of this error handler, as `errors` of a text stream takes it."""
_PLAIN = {
    "–": "-",
    "—": "-",
    "−": "-",
    "─": "-",
    "━": "-",
    "│": "|",
    "…": "...",
    "×": "x",
    "·": "*",
    "µ": "u",
    "μ": "u",
    "≤": "<=",
    "≥": ">=",
    "±": "+-",
    "→": "->",
    "’": "'",
    "“": '"',
    "”": '"',
}


def _plain_letters(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    replaced = ""
    for at in range(error.start, error.end):
        letter = error.object[at]
        one = UnicodeEncodeError(error.encoding, error.object, at, at + 1, error.reason)
        replaced += _PLAIN.get(letter) or str(codecs.backslashreplace_errors(one)[0])
    return replaced, error.end


codecs.register_error(PLAIN_LETTERS, _plain_letters)


def has_plain_letters_alone(environment: Mapping[str, str]) -> bool:
    """Whether a terminal says that it draws ASCII alone: it is dumb, or its locale is C.

    Where the locale is C, Python itself names another one in LC_CTYPE, and where none is named it
    is not known what the terminal draws. An encoding that was chosen for Python holds.

    Args:
        environment: of the process.

    Example:
        >>> [has_plain_letters_alone(each) for each in ({}, {"TERM": "dumb"}, {"LANG": "C"})]
        [False, True, True]
        >>> has_plain_letters_alone({"LANG": "C", "LC_ALL": "de_DE.UTF-8"})
        False
    """
    if environment.get("PYTHONIOENCODING"):
        return False
    letters = environment.get("LC_CTYPE", "")
    named = letters if letters not in ("", "C.UTF-8") else environment.get("LANG", "")
    locale = environment.get("LC_ALL") or named
    return environment.get("TERM") == "dumb" or locale in ("C", "POSIX")
