"""Which model and device does a table of measured runs mean, however it writes them?"""

from dataclasses import replace
from functools import lru_cache

from costmodel.architectures.architecture import Architecture
from costmodel.architectures.library import named_model
from hardware_profiles.errors import InputError, RooftreeError
from hardware_profiles.loader import load_device


@lru_cache(maxsize=256)
def shape(name: str) -> Architecture | None:
    """A model's architecture without its name, equal for models trained on from one another; None:
    unknown.
    """
    try:
        return replace(named_model(name.rstrip("/")), name="")
    except RooftreeError:
        return None


def device_name(system: str) -> str:
    """A device as it is shipped, however a table writes it."""
    try:
        return load_device(system.replace("_", "-")).name
    except InputError:
        return system
