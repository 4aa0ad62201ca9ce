"""Which files does the server keep that questions name: configs of models, recordings of sessions?

A config is kept by its content until the server stops, so that a link to it works for whoever asks
the same server. A recording is kept while its session lasts, under a name that no link holds.
Leaves out the widgets (`controls`).
"""

import hashlib
import json
import re
import tempfile
from collections import OrderedDict
from functools import lru_cache
from pathlib import Path
from threading import Lock

from costmodel.architectures.architecture import Architecture
from costmodel.architectures.library import (
    load_model,
    model_card,
    model_names,
    named_model,
)
from hardware_profiles.errors import InputError
from hardware_profiles.units import MIB

MOST_BYTES = MIB
MOST_CONFIGS = 100
OWN = "config-"
SHOWN = "config.json"  # what a command line says in its place
PLACEHOLDER = "PATH_OF_THE_MODEL"
OWN_FILE = "YOUR-FILE"  # what a command line says in place of a recording

_PLACES = re.compile(r"[^\s'\"]*/config-[0-9a-f]{16}(?:/config\.json)?")
_configs: OrderedDict[str, Path] = OrderedDict()
_recordings: dict[str, Path] = {}
_lock = Lock()


def model_place(name: str) -> str:
    """What the cost model is asked about: a config's file in place of its name.

    Raises:
        InputError: a config that this server does not have.
    """
    if not name.startswith(OWN):
        return name
    place = _configs.get(name)
    if place is None:
        raise InputError(
            "was given to another server, or too long ago; upload it again", key="model", value=name
        )
    return str(place)


def hold_recording(name: str, place: Path) -> None:
    """Remember where a session keeps a recording in rooftree's own format."""
    with _lock:
        _recordings[name] = place


def recording_place(name: str) -> Path:
    """The file of a session's recording.

    Raises:
        InputError: there is none any more.
    """
    place = _recordings.get(name)
    if place is None or not place.exists():
        raise InputError(
            "is not here: a link holds no file; drop it under Your server again",
            key="known_by",
            value="upload",
        )
    return place


def is_known_model(name: str) -> bool:
    """Whether a question may name a model so."""
    if name.startswith(OWN):
        return name in _configs
    try:
        return model_name(name) == name
    except InputError:
        return False


def as_shown(line: str) -> str:
    """A command line with what stands for a session's recordings and for configs in place of the
    server's files.
    """
    for place in list(_recordings.values()):
        line = line.replace(str(place), OWN_FILE)
    return _PLACES.sub(SHOWN, line)


def without_places(text: str) -> str:
    """A text for an engine, with a placeholder where the model stands of which the server keeps the
    config alone.
    """
    return _PLACES.sub(PLACEHOLDER, text)


def understood(text: str) -> Architecture:
    """The model that somebody typed: any of its names, a Hugging Face id, `13b` or `dense-13b`;
    never a file.

    Example:
        >>> understood("meta-llama/Llama-3.1-8B-Instruct").name, understood("13b").name
        ('llama-3.1-8b', 'dense-13b')

    Raises:
        UnknownNameError: there is none; the nearest are offered.
    """
    name = text.strip()
    if name.startswith(OWN):
        return load_model(model_place(name))
    try:
        return named_model(name)
    except InputError:
        if name[:1].isdigit() and name[-1:] in "bBmM":
            return named_model(f"dense-{name}")
        raise


def model_name(text: str) -> str:
    """What questions call the model that somebody typed: the name of its record, except where the
    text is the name of another release of the same shape, whose drafters were published by that.

    Example:
        >>> model_name("meta-llama/Llama-3.1-8B-Instruct"), model_name("llama-3.3-70b")
        ('llama-3.1-8b', 'llama-3.3-70b')

    Raises:
        UnknownNameError: as `understood`.
    """
    name = text.strip()
    if name.startswith(OWN):
        return name
    record = understood(name).name
    if record.casefold() in name.casefold() or record not in model_names():
        return record
    others = (alias.casefold() for alias in model_card(record).aliases)
    return name if name.casefold() in others else record


def hold_config(content: bytes) -> str:
    """Keep a config.json, and give the name that questions call it by.

    Raises:
        InputError: no config of a model that can be read; nothing is kept.
    """
    if not 0 < len(content) <= MOST_BYTES:
        raise InputError(
            f"must hold 1 byte to {MOST_BYTES >> 20} MiB",
            key="upload",
            value=f"{len(content)} bytes",
        )
    try:
        written = json.dumps(json.loads(content), sort_keys=True).encode()
    except (ValueError, RecursionError):
        raise InputError("is no JSON", file=SHOWN, key="upload") from None
    name = OWN + hashlib.sha256(written).hexdigest()[:16]
    with _lock:
        if name not in _configs:
            place = _folder() / name / SHOWN
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(written)
            load_model(str(place))
            _configs[name] = place
            while len(_configs) > MOST_CONFIGS:
                _configs.popitem(last=False)[1].unlink(missing_ok=True)
        _configs.move_to_end(name)
    return name


@lru_cache(maxsize=1)
def _held() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="rooftree-models-")  # gone with the process


def _folder() -> Path:
    return Path(_held().name)
