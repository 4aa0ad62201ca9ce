"""What do the words in a checkpoint's name say beside which model it is?

Hugging Face ids end in how a model was tuned, when, and in which format its weights are:
`-Instruct-2507-FP8`. Those words change no shape, so that what is left stands for the architecture.
Words that are not known stay, and make a name another model: Llama-3.1-8B is no Llama-3.2-8B, and a
coder is no base model.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from costmodel.architectures.gguf.recipes import RECIPES

_NEUTRAL = frozenset(
    {
        "instruct",
        "it",
        "chat",
        "base",
        "hf",
        "pt",
        "preview",
        "latest",
        "thinking",
        "reasoning",
        "text",
        "meta",
        "qat",
        "unsloth",
        "turbo",
        "bnb",
        "dynamic",
        "static",
        "block",
        "pertensor",
        "perchannel",
        "kv",
        "awq",
        "gptq",
        "gguf",
        "marlin",
        "autoround",
        "quantized",
        "quant",
        "mlx",
        "ct",
    }
)
# what a release was tuned for, of the words above
_TUNING: Mapping[str, str] = {
    "instruct": "chat",
    "it": "chat",
    "chat": "chat",
    "thinking": "thinking",
    "reasoning": "thinking",
    "base": "base",
    "pt": "base",
}
_DATE = re.compile(r"\d{4}|\d{6}|\d{8}")
_FORMATS: Mapping[str, str] = {
    "fp8": "fp8",
    "w8a8fp8": "fp8",
    "nvfp4": "fp4",
    "fp4": "fp4",
    "mxfp4": "mxfp4",
    "awq": "awq",
    "gptq": "gptq",
    "int4": "int4",
    "w4a16": "w4a16",
    "4bit": "int4",
    "int8": "int8",
    "8bit": "int8",
    "w8a8": "w8a8",
    "w8a16": "w8a16",
    "bf16": "bf16",
    "fp16": "fp16",
}
# recipes of GGUF without the underscores, which break names up
_BLOCKS = {name.replace("_", ""): name for name in RECIPES}
_UNPRICED = re.compile(r"gguf|mlx|i?q\d[0-9k][a-z]*|\d(\.\d+)?bpw|exl[23]|hqq|marlin|autoround")


@dataclass(frozen=True, kw_only=True, slots=True)
class NameParts:
    """The words of a checkpoint's name, sorted out.

    Attributes:
        stem: Words that say which model it is, in order.
        weights: Number format or recipe of the weights, as `costmodel.passes.formats` names it;
            None: no word says.
        unpriced: Words for formats that no number format stands for (I-quants, EXL2).
    """

    stem: tuple[str, ...]
    weights: str | None = None
    unpriced: tuple[str, ...] = ()


def name_parts(name: str) -> NameParts:
    """Sort out the words of a name; the owner before a slash is ignored.

    Example:
        >>> name_parts("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic")
        NameParts(stem=('llama', '3.1', '8b'), weights='fp8', unpriced=())
    """
    words = re.split(r"[-_ ]|\.(?=gguf$|w\d)", _joined_formats(name.rpartition("/")[2].casefold()))
    stem: list[str] = []
    formats: list[str] = []
    unpriced: list[str] = []
    for word in filter(None, words):
        if (form := _FORMATS.get(word) or _BLOCKS.get(word)) is not None:
            formats.append(form)
        elif _UNPRICED.fullmatch(word):
            unpriced.append(word)
        elif word not in _NEUTRAL and not _DATE.fullmatch(word):
            stem.append(word)
    if formats:
        # gguf says less than the recipe beside it
        unpriced = [word for word in unpriced if word != "gguf"]
    # GPTQ-Int8 says how and how wide: the later word is the narrower statement
    return NameParts(
        stem=tuple(stem), weights=formats[-1] if formats else None, unpriced=tuple(unpriced)
    )


def same_release(published: str, served: str) -> bool:
    """Whether two names of one model are those of one release: tuned alike, and of the same date.

    Formats of weights make no other release. A published name that says nothing of tuning is that
    of the release that people talk to.

    Args:
        published: as a source names the target of what it published.
        served: hub id or name of the checkpoint that is served.

    >>> same_release("Llama-3.1-8B-Instruct", "RedHatAI/Llama-3.1-8B-Instruct-FP8")
    True
    >>> same_release("Qwen3-30B-A3B-Instruct-2507", "Qwen/Qwen3-30B-A3B")
    False
    """
    (tuned, published_dates), (served_as, served_dates) = map(_release, (published, served))
    likely = (tuned,) if tuned else ("", "chat")
    return published_dates == served_dates and served_as in likely


def _release(name: str) -> tuple[str, tuple[str, ...]]:
    """What a name says of tuning, and its dates."""
    words = re.split(r"[-_ .]", name.partition("(")[0].rpartition("/")[2].casefold())
    tuned = [_TUNING[word] for word in words if word in _TUNING]
    return tuned[-1] if tuned else "", tuple(word for word in words if _DATE.fullmatch(word))


def _joined_formats(name: str) -> str:
    """GGUF formats (q4_k_m) as one word each, which underscores would break up."""
    return re.sub(r"(?<![a-z0-9])(i?q\d)_([0-9k])(?:_([a-z]+))?(?![a-z0-9])", r"\1\2\3", name)
