"""What do the names in a published table stand for: its systems, models, engines and prompts?

Titles and slugs of the catalogue and names of shipped models first; what those do not tell stands
in `sources.toml`. Devices are recognised by `hardware_profiles.recognition`. Leaves out numbers
(`shapes`, `stated`).
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import NamedTuple

from costmodel.architectures.library import named_model
from costmodel.method import Method
from costmodel.method_library import load_method, method_names
from hardware_profiles.errors import UnknownNameError
from real_runs.published_numbers.reading.amounts import token_count
from real_runs.published_numbers.reading.sources import source_table
from real_runs.published_numbers.reading.table import PublishedRow

ASSUMED_CONTEXT = 512
_ENGINE_WORDS: Mapping[str, str] = {
    "gpt-fast": "none",
    "sglang": "sglang",
    "tensorrt-llm": "tensorrt-llm",
    "trt-llm": "tensorrt-llm",
    "vllm": "vllm",
    "hf transformers": "transformers",
    "hf vanilla": "transformers",
    "transformers": "transformers",
}
_PARENTHESES = re.compile(r"\s*\([^()]*\)")
_CONTEXT_SUFFIX = re.compile(r"-\d+[km]$", re.IGNORECASE)
_FAMILY = re.compile(r"^(llama|codellama)(?=\d)", re.IGNORECASE)
_VERSION = re.compile(r"-v\d+(\.\d+)?$", re.IGNORECASE)


class ReadName(NamedTuple):
    """What a name was read as, and a remark on that reading; empty where it is exact."""

    name: str
    remark: str


def system_name(text: str) -> str:
    """A system's name without the text in parentheses, `(baseline in Sequoia)` for one."""
    return _PARENTHESES.sub("", text).strip()


def method_of_system(text: str) -> tuple[Method, str]:
    """The entry that a system's name stands for, and a remark on how it is priced.

    Raises:
        UnknownNameError: neither a title, a slug nor a name of `sources.toml`; the nearest titles
            are offered.
    """
    name = system_name(text)
    listed = source_table()["systems"].get(name)
    if listed is not None:
        own = load_method(listed.get("method") or listed["like"])
        return (
            own,
            f"priced as {own.title}, whose passes are of the same kind" if "like" in listed else "",
        )
    slugs = _titles()
    slug = slugs.get(_plain(name)) or slugs.get(_plain(text))
    if slug is None:
        raise UnknownNameError(
            "system", name[:200], [load_method(method).title for method in method_names()]
        )
    return load_method(slug), ""


@cache
def _titles() -> Mapping[str, str]:
    """Slugs by title, by slug and by the systems that an entry stands for, without case and
    punctuation.
    """
    entries = {slug: load_method(slug) for slug in method_names()}
    systems = {_plain(name): slug for slug, method in entries.items() for name in method.systems}
    return (
        systems
        | {_plain(method.title): slug for slug, method in entries.items()}
        | {_plain(s): s for s in entries}
    )


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold())


def model_of(text: str) -> ReadName:
    """The shipped model that a target's or drafter's name stands for.

    Raises:
        UnknownNameError: none does; the nearest names are offered.

    >>> model_of("Llama2-7B-128K (Yarn)").name, model_of("QwQ-32B").name
    ('llama-2-7b', 'qwen2.5-32b')
    """
    model = _model_of(text.strip())
    if isinstance(model, ReadName):
        return model
    raise UnknownNameError("model", text.strip()[:200], model)


@lru_cache(maxsize=4096)
def _model_of(text: str) -> ReadName | tuple[str, ...]:
    """The shipped model of a name; the names that are known where none is that one's."""
    for name, entry in source_table()["models"].items():
        if name.casefold() == text.casefold():
            remark = f"{text} is priced as {entry['model']}: {entry['because']}"
            return ReadName(entry["model"], "" if entry["because"] == "stated" else remark)
    nearest: tuple[str, ...] = ()
    for spelling in _spellings(text):
        if spelling != text and any(
            spelling.casefold() == name.casefold() for name in source_table()["models"]
        ):
            return _model_of(spelling)
        try:
            return ReadName(named_model(spelling).name, "")
        except UnknownNameError as error:
            nearest = error.known
    return nearest


def _spellings(text: str) -> Iterator[str]:
    """A name as it stands, and with more and more of the parts dropped that do not affect shapes."""
    for form in dict.fromkeys((text, _PARENTHESES.sub("", text).strip())):
        if not form:
            continue
        plain = _CONTEXT_SUFFIX.sub("", form)
        spaced = _FAMILY.sub(lambda match: f"{match[1]}-", plain)
        yield from dict.fromkeys((form, plain, spaced, _VERSION.sub("", spaced)))


def engine_of(row: PublishedRow) -> ReadName:
    """The engine that a row was measured on: stated by the row, known of it, or named in its cells,
    else what is known of its source, else none.
    """
    named = f"{row.system} {row.draft} {row.baseline_unit}".casefold()
    in_cells = [engine for word, engine in _ENGINE_WORDS.items() if word in named]
    for engine in (row.engine, row.own_facts.engine, *in_cells, row.facts.engine):
        if engine:
            return ReadName(engine, "")
    return ReadName(
        "none", "the source's engine is not known: passes alone, without any engine's overhead"
    )


def context_of(row: PublishedRow, output_tokens: int) -> tuple[int, str]:
    """Cached tokens in the middle of a request's answer, and what was assumed of them.

    Args:
        row: its prompt in words; the data set and the target stand in where it states no length.
        output_tokens: generated tokens; 0 where they are not stated.
    """
    lengths: Mapping[str, int] = source_table()["prompts"]
    if "image" in row.prompt:
        tokens = lengths.get(f"image+text {row.target}")
        if tokens is not None:
            return tokens, f"{tokens} tokens of image and text"
    stated = token_count(row.prompt)
    if stated is not None and "shot" not in row.prompt and "image" not in row.prompt:
        return stated + output_tokens // 2, ""
    usual = lengths.get(row.data)
    if usual is not None:
        return (
            usual,
            f"the prompts' length is not stated: {usual} tokens, as the data set has on average",
        )
    return ASSUMED_CONTEXT, f"the context is not stated: {ASSUMED_CONTEXT} tokens ASSUMED"
