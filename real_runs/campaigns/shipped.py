"""Which campaigns come with rooftree, and which file does a name stand for?"""

from __future__ import annotations

from pathlib import Path

from hardware_profiles.errors import UnknownNameError
from hardware_profiles.places import is_place

_FOLDER = Path(__file__).parent


def campaign_names() -> tuple[str, ...]:
    """Names of the shipped campaigns, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def campaign_file(named: Path) -> Path:
    """The file of a shipped campaign's name; any other path stands for itself.

    Raises:
        UnknownNameError: a name that no shipped campaign bears, and no file.
    """
    if len(named.parts) != 1 or is_place(named):
        return named
    name = named.name.removesuffix(".yaml")
    if name in campaign_names():
        return _FOLDER / f"{name}.yaml"
    if named.suffix:
        return named
    raise UnknownNameError("campaign", name, campaign_names(), key="file")
