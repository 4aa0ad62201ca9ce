"""What does a terminal or file show whose encoding lacks a sign that an answer has?

The nearest signs of ASCII for those that answers are written with, and the sign's number for all
others, which people and their files bring.
"""

import codecs

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
