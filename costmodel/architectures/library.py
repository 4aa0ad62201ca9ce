"""Which architecture does a name or a path stand for?

Shipped models are one TOML file each under `models/`: the keys of the model's own Hugging Face config, the
names it goes by, and the parameter count its makers state; `nulls` lists keys that are null there, which TOML
cannot say. A user's model is a `config.json`, a folder that holds one, or a TOML file of the same form.
Left out: GGUF files, and anything that needs a network.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from costmodel.architectures.architecture import Architecture
from costmodel.architectures.hf.config import architecture_from_config, read_hf_config
from costmodel.architectures.hf.files import bounded_bytes
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.units import GIGA

_FOLDER = Path(__file__).parent / "models"
_NAME_LIMIT = 200
_BILLIONS_LIMIT = 1_000_000
_KEYS: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "aliases": ("a list of names", (list,)),
    "official_parameters_billions": ("a number", (int, float)),
    "official_source": ("a text", (str,)),
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
        official_parameters: Parameters as its makers state them, to the digits they give; None: not stated.
        official_source: Where they state it.
        note: What a reader of the count should know.
        architecture: The architecture itself.
    """

    name: str
    aliases: tuple[str, ...]
    official_parameters: float | None
    official_source: str
    note: str
    architecture: Architecture


def model_names() -> list[str]:
    """Names of the shipped models, sorted; no file is opened."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def load_model(name_or_path: str | Path) -> Architecture:
    """The architecture of a shipped model, or of a file.

    Args:
        name_or_path: A name of `model_names()` or one of their aliases, in any case ("llama-3.1-8b",
            "meta-llama/Llama-3.1-8B-Instruct"); a `config.json`, a folder that holds one, or a model file in
            TOML. A name wins over a file of that name; write "./name" for the file.

    Returns:
        The architecture.

    Raises:
        UnknownNameError: Neither a known name nor an existing file; the nearest names are offered.
        InputError: The file is absent, malformed or of a family that is not supported.

    Example:
        >>> load_model("meta-llama/Llama-3.1-8B").parameters
        8030261248
    """
    if isinstance(name_or_path, str):
        card = _shipped_as(name_or_path)
        if card is not None:
            return card.architecture
        if not _is_path(name_or_path):
            raise UnknownNameError("model", name_or_path[:_NAME_LIMIT], _all_names())
    path = Path(name_or_path)
    if path.suffix.casefold() == ".toml":
        return _read(path, source=str(path)).architecture
    return read_hf_config(path / "config.json" if path.is_dir() else path).architecture


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


def _shipped_as(name: str) -> ModelCard | None:
    wanted = name.casefold()
    stem = next((each for each in model_names() if each.casefold() == wanted), None)
    if stem is not None:
        return _shipped(stem)
    # Searching the text before parsing keeps an alias as cheap as a name: one file is parsed, not all.
    for each in model_names():
        if f'"{wanted}"' in (_FOLDER / f"{each}.toml").read_text(encoding="utf-8").casefold():
            card = _shipped(each)
            if wanted in (alias.casefold() for alias in card.aliases):
                return card
    return None


@cache
def _shipped(stem: str) -> ModelCard:
    return _read(_FOLDER / f"{stem}.toml", source="shipped")


def _all_names() -> list[str]:
    cards = [_shipped(stem) for stem in model_names()]
    return [name for card in cards for name in (card.name, *card.aliases)]


def _is_path(text: str) -> bool:
    """Whether the text can only mean a file: it exists, or it ends as our files do."""
    try:
        return Path(text).suffix.casefold() in (".json", ".toml") or bool(text and Path(text).exists())
    except (OSError, ValueError):
        return False


def _read(path: Path, *, source: str) -> ModelCard:
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
        note=table.get("note", ""),
        architecture=architecture_from_config(config, name=path.stem, file=str(path), source=source, prefix="config."),
    )


def _table(path: Path) -> dict[str, Any]:
    """The file's table, its keys and their types checked."""
    try:
        table = tomllib.loads(bounded_bytes(path).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not valid TOML ({error})", file=path) from error
    for key, value in table.items():
        if key not in _KEYS:
            raise UnknownNameError("key", key[:_NAME_LIMIT], _KEYS, file=path)
        kind, allowed = _KEYS[key]
        strings = not isinstance(value, list) or all(isinstance(entry, str) for entry in value)
        if isinstance(value, bool) or not isinstance(value, allowed) or not strings:
            raise InputError(f"must be {kind}", file=path, key=key, value=value)
    if "config" not in table:
        raise InputError("is missing; it holds the keys of a Hugging Face config", file=path, key="config")
    return table


def hub_id(name_or_path: str) -> str:
    """The Hugging Face id that engines know a shipped model by, else what was given.

    Of several ids one that spells the name comes first, and among those the instruction-tuned form.

    >>> hub_id("llama-3.1-8b"), hub_id("llama-3.3-70b")
    ('meta-llama/Llama-3.1-8B-Instruct', 'meta-llama/Llama-3.3-70B-Instruct')
    """
    if "/" in name_or_path or name_or_path.endswith((".json", ".toml")):
        return name_or_path
    try:
        ids = [alias for alias in model_card(name_or_path).aliases if "/" in alias]
    except UnknownNameError:
        return name_or_path
    ids = [each for each in ids if name_or_path.casefold() in each.casefold()] or ids
    return next((each for each in ids if each.lower().endswith(("instruct", "-it"))), ids[0] if ids else name_or_path)
