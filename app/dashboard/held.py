"""Which files does the server keep that questions name: configs of models, files of devices and of
methods, recordings of sessions?

Configs, devices and methods are kept by their content until the server stops, so that a link to
them works for whoever asks the same server. A recording is kept while its session lasts, under a
name that no link holds. Leaves out the widgets (`controls`).
"""

import hashlib
import json
import re
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
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
from costmodel.method_file import read_method_file
from costmodel.method_library import learn_method
from hardware_profiles.errors import InputError, RooftreeError
from hardware_profiles.loader import load_device
from hardware_profiles.units import MIB

MOST_BYTES = MIB
MOST_HELD = 100  # of a kind
OWN = "config-"
DEVICE = "device-"
METHOD = "method-"
SHOWN = "config.json"  # what a command line says in its place
PLACEHOLDER = "PATH_OF_THE_MODEL"
OWN_FILE = "YOUR-FILE"  # what a command line says in place of a recording

_PLACES = re.compile(r"[^\s'\"]*/config-[0-9a-f]{16}(?:/config\.json)?")
_FOLDERS = re.compile(r"[^\s'\"]*/(?:device|method)-[0-9a-f]{16}/(?=[a-z0-9-]+\.toml)")
_configs: OrderedDict[str, Path] = OrderedDict()
_devices: OrderedDict[str, Path] = OrderedDict()
_methods: dict[str, str] = {}  # to the slug
_recordings: dict[str, Path] = {}
_lock = Lock()


def model_place(name: str) -> str:
    """What the cost model is asked about: a config's file in place of its name.

    Raises:
        InputError: a config that this server does not have.
    """
    return _place(name, _configs, key="model") if name.startswith(OWN) else name


def device_place(name: str) -> str:
    """What the cost model is asked about: a device's file in place of its name.

    Raises:
        InputError: a file that this server does not have.
    """
    return _place(name, _devices, key="device") if name.startswith(DEVICE) else name


def _place(name: str, held: OrderedDict[str, Path], *, key: str) -> str:
    place = held.get(name)
    if place is None:
        rule = "was given to another server, or too long ago; upload it again"
        raise InputError(rule, key=key, value=name)
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


def is_held_device(name: str) -> bool:
    """Whether a question may name a device so, whose file was given to this server."""
    return name in _devices


def is_held_method(slug: str) -> bool:
    """Whether a method is that of a file which was given to this server."""
    return slug in _methods.values()


def shown_device(name: str) -> str:
    """What pages call a device: one of a file by the file, which has the device's own name."""
    return _devices[name].name if name in _devices else name


def as_shown(line: str) -> str:
    """A command line with what stands for a session's recordings and for configs in place of the
    server's files, and files of devices and methods without their folders.
    """
    for place in list(_recordings.values()):
        line = line.replace(str(place), OWN_FILE)
    return _FOLDERS.sub("", _PLACES.sub(SHOWN, line))


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
    _require_bounded(content)
    try:
        written = json.dumps(json.loads(content), sort_keys=True).encode()
    except (ValueError, RecursionError):
        raise InputError("is no JSON", file=SHOWN, key="upload") from None
    name = _named(OWN, written)
    with _lock:
        if name not in _configs:
            _configs[name] = _read_and_held(
                name, SHOWN, written, lambda place: load_model(str(place))
            )
            _forget_oldest(_configs)
        _configs.move_to_end(name)
    return name


def hold_device(content: bytes) -> str:
    """Keep a device's TOML file, and give the name that questions call it by.

    Raises:
        InputError: no device that can be read, naming key, rule and value; nothing is kept.
    """
    _require_bounded(content)
    name = _named(DEVICE, content)
    with _lock:
        if name not in _devices:
            place = _read_and_held(name, "device.toml", content, load_device)
            own = place.with_name(f"{load_device(place).name}.toml")
            _devices[name] = place.rename(own)
            _forget_oldest(_devices)
        _devices.move_to_end(name)
    return name


def hold_method(content: bytes) -> str:
    """Keep a method's TOML file, and give the slug that questions call it by: its own, and the
    beginning of a hash of the content, as others may give this server a method of the same slug.

    Raises:
        InputError: no method that drafts and can be priced, naming key, rule and value, or one more
            than the server keeps; nothing is kept.
    """
    _require_bounded(content)
    name = _named(METHOD, content)
    with _lock:
        if name not in _methods:
            if len(_methods) == MOST_HELD:
                raise InputError(f"a server keeps {MOST_HELD} methods at most", key="upload")
            place = _read_and_held(name, "method.toml", content, _require_drafting)
            method = read_method_file(place)
            place = place.rename(place.with_name(f"{method.slug}.toml"))
            slug = f"{method.slug}-{name.removeprefix(METHOD)[:8]}"
            learn_method(replace(method, slug=slug), file=str(place))
            _methods[name] = slug
        return _methods[name]


def _require_drafting(place: Path) -> None:
    method = read_method_file(place)
    if method.refusal:
        raise InputError(method.refusal, file=place, key="slug", value=method.slug)
    if not method.drafts:
        raise InputError("drafts nothing", file=place, key="draft", value=method.slug)


def _require_bounded(content: bytes) -> None:
    if not 0 < len(content) <= MOST_BYTES:
        raise InputError(
            f"must hold 1 byte to {MOST_BYTES >> 20} MiB",
            key="upload",
            value=f"{len(content)} bytes",
        )


def _named(kind: str, content: bytes) -> str:
    return kind + hashlib.sha256(content).hexdigest()[:16]


def _read_and_held(name: str, file: str, content: bytes, read: Callable[[Path], object]) -> Path:
    """A file in a folder of its own, once it has been read without an error."""
    place = _folder() / name / file
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(content)
    try:
        read(place)
    except RooftreeError:
        place.unlink()
        raise
    return place


def _forget_oldest(held: OrderedDict[str, Path]) -> None:
    while len(held) > MOST_HELD:
        held.popitem(last=False)[1].unlink(missing_ok=True)


@lru_cache(maxsize=1)
def _held() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="rooftree-models-")  # gone with the process


def _folder() -> Path:
    return Path(_held().name)
