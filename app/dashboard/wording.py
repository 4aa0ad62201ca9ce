"""What are pages called, and how is an error said to somebody who sees neither options
nor files?

Leaves out the widgets (`controls`) and what fields are called and mean (`app.questions.fields`).
"""

import re
from pathlib import Path

from app.dashboard.state import LABELS
from hardware_profiles.errors import RooftreeError

TITLES = {
    "run": "What should I run?",
    "map": "Break-even map",
    "tree": "Tree explorer",
    "trace": "Trace lab",
    "diffusion": "Diffusion",
    "hardware": "Hardware what-if",
    "pareto": "Pareto",
    "serving": "Serving",
    "validation": "Validation",
}
KNOWN_BY = {
    "published": "a published figure",
    "rate": "one rate",
    "rates": "rates by position",
    "recording": "a recording",
    "upload": "what I dropped under Your server",
}
YOUR_SERVER = "Your server"
SERVER_FOLD = (
    "Options to change, what was counted, what to measure next, and the command line that says the"
    " same"
)
LEFT_OUT, NOT_TOLD = "(without them)", "(not told: lengths were mixed)"
FOLD = "Why, what it rests on, and every number"
OWN_RECORDING = "A recording of your own"
OWN_TAB = " · a recording of my own"
ABOUT = (
    "rooftree predicts which speculative-decoding configuration is fastest on your hardware, by how"
    " much, and how sure that is, and writes the engine's command. Start with the buttons"
    " above: your model, your devices, your drafter and your limits; every page answers that one"
    " question, and its address is a link to it."
)
MASKED = "This model decodes masked blocks, for which nothing is drafted."
ASK_DIFFUSION = "Diffusion says which policy to run, and how fast it is"
MOST_LETTERS = 120  # of a file's name
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|<>~$:&])")
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")
_PATH = re.compile(r"(?:/[\w.@+-]+)+/(?=[\w.@+-])")
_NO_NAME = re.compile(r"[^a-z0-9.]+")
_OPTIONS = {
    "block_tokens": LABELS["block"],
    "drafter": LABELS["method"],
}


def error_words(error: RooftreeError) -> str:
    """An error in the words of the page: labels in place of keys and options, no folder of the
    server.

    Example:
        >>> from hardware_profiles.errors import InputError
        >>> error_words(InputError("does not divide 28 heads", file="/srv/models/a.json", key="--tp", value=3))
        'a.json: Devices that share the model: does not divide 28 heads, got 3'
    """
    text = str(error)
    if error.file:
        text = text.replace(error.file, Path(error.file).name)
    if error.key:
        text = text.replace(f"{error.key}: ", f"{_label(error.key)}: ", 1)
    return as_words(text)


def as_words(text: str) -> str:
    """A text with labels in place of options, and files without their folders."""
    return _PATH.sub("", _OPTION.sub(lambda match: _label(match[1]).lower(), text))


def plain(text: str) -> str:
    """A text that Markdown shows as it is: names in recordings are untrusted."""
    return _MARKDOWN.sub(r"\\\1", text)


def file_stem(title: str, question: str) -> str:
    """The name of a file that is taken away, without its ending: what it shows, and the question.

    Example:
        >>> file_stem("Step time", "llama-3.1-8b · batch 1,024 · 1 × h100-sxm")
        'rooftree-step-time-llama-3.1-8b-batch-1024-1-h100-sxm'
    """
    words = _NO_NAME.sub("-", f"rooftree {title} {question}".lower().replace(",", ""))
    return words[:MOST_LETTERS].strip("-.")


def _label(key: str) -> str:
    name = "threshold" if key.startswith("at.") else key.lstrip("-").replace("-", "_")
    return LABELS.get(name, _OPTIONS.get(name, name.replace("_", " ")))
