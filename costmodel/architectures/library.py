"""Which architecture does a name or a path stand for?

Shipped models are one TOML file each under `models/`: the keys of the model's own Hugging Face
config, the names it goes by, the parameter count its makers state, and where both were read;
`nulls` lists keys that are null there, which TOML cannot say. A user's model is a `config.json`, a
folder that holds one, or a TOML file of the same form, or a GGUF file, of which the header is read.
Left out: anything that needs a network.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from costmodel.architectures.architecture import Architecture
from costmodel.architectures.gguf.model import read_gguf_model
from costmodel.architectures.hf.config import Reading, read_config, read_hf_config
from costmodel.architectures.hf.draft_head import DraftHead, draft_head
from costmodel.architectures.hf.files import json_object
from costmodel.architectures.name_parts import name_parts
from costmodel.architectures.sized import sized_reading
from hardware_profiles.errors import InputError, UnknownNameError, joined
from hardware_profiles.outside_file import read_bounded
from hardware_profiles.places import is_folder, is_place
from hardware_profiles.units import GIGA, MIB

_FOLDER = Path(__file__).parent / "models"
_NAME_LIMIT = 200
_BILLIONS_LIMIT = 1_000_000
# whose own 8-bit checkpoints have a scale per block of 128 by 128 weights (weight_block_size in config.json of
# Qwen/Qwen3-8B-FP8 and the like)
_BLOCK_OWNERS = ("qwen/", "deepseek-ai/")
_KEYS: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "aliases": ("a list of names", (list,)),
    "official_parameters_billions": ("a number", (int, float)),
    "official_source": ("a text", (str,)),
    "config_source": ("a text", (str,)),
    "note": ("a text", (str,)),
    "nulls": ("a list of config keys", (list,)),
    "config": ("a table", (dict,)),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCard:
    """What a model file says about a model beside its architecture.

    Attributes:
        name: Name of the model; the stem of its file.
        aliases: Other names, Hugging Face ids among them.
        official_parameters: Parameters as its makers state them, to the digits they give; None: not
            stated.
        official_source: Where they state it; "not opened" where that place was not seen.
        config_source: Where the shapes were read, and which of them were not; "": not recorded.
        note: What a reader of the count should know.
        reading: The architecture, and what of it was filled in.
    """

    name: str
    aliases: tuple[str, ...]
    official_parameters: float | None
    official_source: str
    config_source: str
    note: str
    reading: Reading

    @property
    def architecture(self) -> Architecture:
        """The architecture itself."""
        return self.reading.architecture


def model_names() -> list[str]:
    """Names of the shipped models, sorted; no file is opened."""
    return list(_sorted_names())


@cache
def _sorted_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load_model(name_or_path: str | Path) -> Architecture:
    """The architecture of a shipped model, or of a file.

    Args:
        name_or_path: A name of `model_names()` or one of their aliases, in any case
            ("llama-3.1-8b", "meta-llama/Llama-3.1-8B-Instruct"); an id that says beside it how a
            model was tuned, dated or quantised ("RedHatAI/Llama-3.1-8B-Instruct-FP8", whose weights
            are then fp8); a `config.json`, a folder that holds one, a model file in TOML or a GGUF
            file; such a path followed by " as llama", to read a config as of that family;
            "dense-13b" for a dense model of which only the parameters are known. A name wins over a
            file of that name; write "./name" for the file.

    Returns:
        The architecture; `read_as` says how an id was understood.

    Raises:
        UnknownNameError: Neither a known name nor an existing file; the nearest names are offered.
        InputError: The file is absent, malformed or of a family that is not supported.

    Example:
        >>> load_model("meta-llama/Llama-3.1-8B").parameters
        8030261248
        >>> load_model("nvidia/Llama-3.1-8B-Instruct-FP8").read_as
        'nvidia/Llama-3.1-8B-Instruct-FP8 is read as llama-3.1-8b with weights in fp8'
    """
    return load_reading(name_or_path).architecture


def named_model(name: str) -> Architecture:
    """The architecture of a shipped model by any of its names, or by an id that says more; never
    that of a file.

    Raises:
        UnknownNameError: There is no such model; the nearest names are offered.
    """
    return (_relative(name) if _shipped_as(name) is None else _asked_as(name)).architecture


def stands_for_a_shipped_model(name: str) -> bool:
    """Whether a name is one of a shipped model, or an id that says more; never whether a file is.

    >>> stands_for_a_shipped_model("Qwen/Qwen3-0.6B"), stands_for_a_shipped_model("eagle-3")
    (True, False)
    """
    try:
        named_model(name)
    except InputError:
        return False
    return True


def stands_for_a_model(name: str) -> bool:
    """Whether a name or path is that of a whole model; a draft head, or what is not known here, is
    none.

    >>> stands_for_a_model("llama-3.2-1b"), stands_for_a_model("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B")
    (True, False)
    """
    if _shipped_as(name) is not None or not _is_path(name):
        return _is_known(name)
    try:
        return head_of(name) is None and load_model(name).layers > 0
    except InputError:
        return False


@lru_cache(maxsize=256)
def _is_known(name: str) -> bool:
    try:
        load_model(name)
    except InputError:
        return False
    return True


def head_of(place: str | Path) -> DraftHead | None:
    """The draft head that a `config.json`, or a folder that holds one, describes; None for a model
    and other files.

    Raises:
        InputError: No such file, or no JSON.
    """
    path = Path(split_family(place)[0])
    path = path / "config.json" if is_folder(path) else path
    return draft_head(json_object(path)) if path.suffix.casefold() == ".json" else None


def stated_head(name: str) -> DraftHead | None:
    """The draft head that a local config describes; None for names, which say nothing of a head's
    shape.

    Raises:
        InputError: As `head_of`.
    """
    return head_of(name) if _shipped_as(name) is None and _is_path(name) else None


def load_reading(name_or_path: str | Path) -> Reading:
    """What `load_model` reads, with the defaults that were filled in and the quantiser that a
    config names.

    Raises:
        InputError: As `load_model`.
    """
    text, family = split_family(name_or_path)
    if isinstance(text, str) and family is None:
        if _shipped_as(text) is not None:
            return _asked_as(text)
        if not _is_path(text):
            return _relative(text)
    path = Path(text)
    if path.suffix.casefold() == ".toml":
        return _read(path, source=str(path), family=family).reading
    if path.suffix.casefold() == ".gguf" and family is None:
        return _renamed(path)
    return read_hf_config(path / "config.json" if is_folder(path) else path, family)


def _renamed(path: Path) -> Reading:
    """The model of a GGUF file, by the name of the shipped one of its shapes, of which it may hold
    fewer layers.

    Passes are measured under that name, whatever the file is called.
    """
    reading, names = read_gguf_model(path)
    own = reading.architecture
    for name in names:
        try:
            shipped = named_model(name)
        except UnknownNameError:
            continue
        shapes = [
            (a.hidden, a.vocab, a.tied, tuple(block for block, _ in a.blocks))
            for a in (own, shipped)
        ]
        if shapes[0] == shapes[1]:
            return replace(reading, architecture=replace(own, name=shipped.name))
    return reading


def how_read(name: str) -> str:
    """How a name that is none of ours is understood, in words; "" for names, paths and what nothing
    carries.
    """
    text, family = split_family(name)
    if family is not None or _is_path(str(text)) or _shipped_as(str(text)) is not None:
        return ""
    try:
        return _relative(str(text)).architecture.read_as
    except UnknownNameError:
        return ""


def split_family(name_or_path: str | Path) -> tuple[str | Path, str | None]:
    """A path and the family that its config is to be read as: "mine/config.json as llama".

    >>> split_family("mine/config.json as llama")
    ('mine/config.json', 'llama')
    """
    if not isinstance(name_or_path, str):
        return name_or_path, None
    path, word, family = name_or_path.rpartition(" as ")
    return (path, family.strip()) if word and path else (name_or_path, None)


@lru_cache(maxsize=256)
def _relative(name: str) -> Reading:
    """A shipped model under a name that says more than which model it is, or a model of so many
    parameters.
    """
    if (sized := sized_reading(name)) is not None:
        return sized
    parts = name_parts(name)
    stems = _stems().get(parts.stem, ())
    if len(stems) != 1:
        raise UnknownNameError("model", name[:_NAME_LIMIT], _all_names())
    reading = _shipped(stems[0]).reading
    weights = parts.weights or reading.architecture.dtype
    if weights == "fp8" and name.casefold().startswith(_BLOCK_OWNERS):
        weights = "fp8-block"
    words = f"{name} is read as {stems[0]} with weights in {weights}"
    if parts.unpriced:
        words += (
            f"; the format in its name ({', '.join(parts.unpriced)}) is not taken into account,"
            " --dtype states one"
        )
    return replace(
        reading,
        architecture=replace(reading.architecture, dtype=weights, read_as=words, alias=name),
    )


@cache
def _stems() -> Mapping[tuple[str, ...], tuple[str, ...]]:
    """Shipped models by the words of their names that say which model it is."""
    owners: dict[tuple[str, ...], set[str]] = {}
    for stem in model_names():
        for name in (stem, *_shipped(stem).aliases):
            owners.setdefault(name_parts(name).stem, set()).add(stem)
    for stem in model_names():  # a model's own name wins over another's alias
        owners[name_parts(stem).stem] = {stem}
    return {words: tuple(sorted(names)) for words, names in owners.items() if words}


def model_card(name: str) -> ModelCard:
    """The card of a shipped model.

    Args:
        name: A name of `model_names()` or one of their aliases, in any case.

    Returns:
        Its names, its stated parameter count and its architecture.

    Raises:
        UnknownNameError: There is no such model; the nearest names are offered.
    """
    card = _shipped_as(name)
    if card is None:
        raise UnknownNameError("model", name[:_NAME_LIMIT], _all_names())
    return card


@lru_cache(maxsize=256)
def _shipped_as(name: str) -> ModelCard | None:
    folded = name.casefold()
    stem = next(
        (shipped_name for shipped_name in _sorted_names() if shipped_name.casefold() == folded),
        None,
    )
    if stem is not None:
        return _shipped(stem)
    # Searching the text before parsing keeps an alias as cheap as a name: one file is parsed, not
    # all.
    for shipped_name in model_names():
        if (
            f'"{folded}"'
            in (_FOLDER / f"{shipped_name}.toml").read_text(encoding="utf-8").casefold()
        ):
            card = _shipped(shipped_name)
            if folded in (alias.casefold() for alias in card.aliases):
                return card
    return None


@lru_cache(maxsize=256)
def _asked_as(name: str) -> Reading:
    """A shipped model under the one of its names that was asked for."""
    card = model_card(name)
    if name.casefold() == card.name.casefold():
        return card.reading
    return replace(card.reading, architecture=replace(card.architecture, alias=name))


@cache
def _shipped(stem: str) -> ModelCard:
    return _read(_FOLDER / f"{stem}.toml", source="shipped")


def _all_names() -> list[str]:
    cards = [_shipped(stem) for stem in model_names()]
    return [name for card in cards for name in (card.name, *card.aliases)]


def _is_path(text: str) -> bool:
    """Whether the text can only mean a file: it exists, or it ends as our files do."""
    try:
        return Path(text).suffix.casefold() in (".gguf", ".json", ".toml") or bool(
            text and is_place(text)
        )
    except (OSError, ValueError):
        return False


def _read(path: Path, *, source: str, family: str | None = None) -> ModelCard:
    table = _table(path)
    stated = table.get("official_parameters_billions")
    if stated is not None and not 0 < stated < _BILLIONS_LIMIT:
        rule = f"must be in (0, {_BILLIONS_LIMIT})"
        raise InputError(rule, file=path, key="official_parameters_billions", value=stated)
    config = {**dict.fromkeys(table.get("nulls", ())), **table["config"]}
    return ModelCard(
        name=path.stem,
        aliases=tuple(table.get("aliases", ())),
        official_parameters=None if stated is None else stated * GIGA,
        official_source=table.get("official_source", ""),
        config_source=table.get("config_source", ""),
        note=table.get("note", ""),
        reading=read_config(
            config, name=path.stem, file=str(path), source=source, prefix="config.", family=family
        ),
    )


def _table(path: Path) -> dict[str, Any]:
    """The file's table, its keys and their types checked."""
    try:
        table = tomllib.loads(read_bounded(path, MIB).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not valid TOML ({error})", file=path) from error
    mistakes: list[InputError] = []
    for key, value in table.items():
        if key not in _KEYS:
            mistakes.append(UnknownNameError("key", key[:_NAME_LIMIT], _KEYS, file=path))
            continue
        kind, allowed = _KEYS[key]
        strings = not isinstance(value, list) or all(isinstance(entry, str) for entry in value)
        if isinstance(value, bool) or not isinstance(value, allowed) or not strings:
            mistakes.append(InputError(f"must be {kind}", file=path, key=key, value=value))
    if "config" not in table:
        mistakes.append(
            InputError(
                "is missing; it holds the keys of a Hugging Face config", file=path, key="config"
            )
        )
    if mistakes:
        raise joined(mistakes)
    return table


def hub_id(name_or_path: str) -> str:
    """The Hugging Face id that engines know a shipped model by, else the name unchanged.

    Of several ids one that spells the name comes first, and among those the instruction-tuned form.

    >>> hub_id("llama-3.1-8b"), hub_id("llama-3.3-70b")
    ('meta-llama/Llama-3.1-8B-Instruct', 'meta-llama/Llama-3.3-70B-Instruct')
    """
    name_or_path = str(split_family(name_or_path)[0])
    if "/" in name_or_path or name_or_path.endswith((".gguf", ".json", ".toml")):
        return name_or_path
    try:
        ids = [alias for alias in model_card(name_or_path).aliases if "/" in alias]
    except UnknownNameError:
        return name_or_path
    ids = [hub_name for hub_name in ids if name_or_path.casefold() in hub_name.casefold()] or ids
    return next(
        (hub_name for hub_name in ids if hub_name.lower().endswith(("instruct", "-it"))),
        ids[0] if ids else name_or_path,
    )
