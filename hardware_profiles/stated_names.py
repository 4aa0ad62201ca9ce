"""Which profile do people mean by the name of a device: a driver's name, or one that says less?

What is left open (`H100`, `A100-40GB`, `8x H800`) is chosen, and said. Reads names, forms and
memory of the shipped files alone. Leaves out checking what a driver reports
(`hardware_profiles.recognition`).
"""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.units import GIB, GIGA

DATA = Path(__file__).parent / "data"
# error correction takes up to 6.7 % of the memory of some cards, and runtimes report 1 to 3 % less
# than drivers
MEMORY_RATIO = 0.08


@cache
def _files() -> Mapping[str, dict[str, Any]]:
    """What the shipped files say, by name of the profile, in order; nothing is checked."""
    return {
        path.stem: tomllib.loads(path.read_text(encoding="utf-8"))
        for path in sorted(DATA.glob("*.toml"))
    }


def driver_names() -> Mapping[str, tuple[str, ...]]:
    """Names that drivers give, by profile, in order."""
    return {profile: tuple(file.get("names", ())) for profile, file in _files().items()}


def profile_of_driver(name: str) -> str | None:
    """The profile that lists a driver's name, in any case; None where none does."""
    return _profiles().get(_plain(name))


@cache
def _profiles() -> Mapping[str, str]:
    return {_plain(name): profile for profile, names in driver_names().items() for name in names}


def _plain(name: str) -> str:
    """A name without case, marks and the maker's own, which some tools leave out."""
    words = re.sub(r"\((r|tm)\)", "", name.casefold()).split()
    return " ".join(words[1:] if words[:1] in (["nvidia"], ["tesla"]) else words)


class StatedDevice(NamedTuple):
    """What a publication says it ran on.

    Args:
        profile: a name for `load_device`.
        devices: number of them; None where the text has none.
        remark: what was chosen because the text leaves it open; empty for nothing.
    """

    profile: str
    devices: int | None
    remark: str


_COUNT = re.compile(r"(\d+)\s*x\s+", re.IGNORECASE)
_MEMORY = re.compile(r"(\d+)\s?gb", re.IGNORECASE)
_ONE_NAME = re.compile(r"[\w\s.-]+")
_PREFERENCE: Mapping[str, int] = {"": 0, "sxm": 1, "die": 2, "pcie": 3, "nvl": 4}
_FORMS = tuple(_PREFERENCE)[1:]
_SAYS_NOTHING = frozenset(
    ("nvidia", "geforce", "tesla", "amd", "instinct", "google", "hopper", "gpu", "gpus", "tp", "ep")
)


def stated_device(text: str) -> StatedDevice:
    """The profile that a publication's words for its hardware stand for.

    Words in parentheses and behind a comma are passed over. Where memory or form are not said, the
    SXM module with the most memory is taken.

    Args:
        text: such as `A100-PCIe-40GB`, `8x H800 (TP/EP)` or `RTX 3090 24GB`.

    Raises:
        UnknownNameError: no profile is of that family; the nearest names are offered.
        InputError: no hardware, or more than one device.

    Example:
        >>> stated_device("A100-PCIe-40GB").profile, stated_device("8x H800 (TP/EP)")[:2]
        ('a100-pcie-40', ('h800-sxm', 8))
        >>> stated_device("A100").remark
        'A100 is read as a100-sxm-80'
    """
    plain = re.sub(r"\(.*?\)", " ", text).partition(",")[0].strip()
    if plain.casefold() in _families():
        return StatedDevice(plain.casefold(), None, "")
    if " / " in plain or " per " in plain:
        raise InputError("names more than one device", key="hardware", value=text)
    counted = _COUNT.match(plain)
    memory = _MEMORY.search(plain)
    words = re.split(
        r"[-_\s]+", _MEMORY.sub(" ", plain[counted.end() if counted else 0 :]).casefold()
    )
    telling = [word for word in words if word and word not in _SAYS_NOTHING]
    forms = [word for word in telling if word in _FORMS]
    family = tuple(word for word in telling if word not in _FORMS)
    family_members = {name: own for name, own in _families().items() if own.family == family}
    if not family_members:
        raise UnknownNameError("device", text[:200], _families(), key="hardware")
    # an NVL is another product, which must be named
    forms_in_order = forms or ("", "sxm", "die", "pcie")
    family_members = {
        name: own for name, own in family_members.items() if own.form in forms_in_order
    } or family_members
    gigabytes = float(memory[1]) if memory else 0.0
    fits = [
        name
        for name, own in family_members.items()
        if abs(own.gib - gigabytes) <= MEMORY_RATIO * gigabytes
    ]
    chosen = min(
        fits or family_members,
        key=lambda name: (_PREFERENCE[family_members[name].form], -family_members[name].gib),
    )
    left_open = len(fits or family_members) > 1 or bool(memory and not fits)
    remark = f"{plain} is read as {chosen}" if left_open else ""
    return StatedDevice(chosen, int(counted[1]) if counted else None, remark)


def read_device_name(name: str) -> str | None:
    """The profile that a person's name for one device stands for: a driver's name, or one that
    leaves out the form or the memory, chosen as in `stated_device`.

    Args:
        name: such as `H100`, `A100-40GB` or `NVIDIA A100-SXM4-40GB`.

    Returns:
        Name of the profile; None where no profile is of that family.

    Example:
        >>> read_device_name("H100"), read_device_name("NVIDIA H100 PCIe")
        ('h100-sxm', 'h100-pcie')
    """
    if (profile := profile_of_driver(name)) is not None:
        return profile
    try:
        stated = stated_device(name)
    except InputError:
        stated = None
    if stated is None or stated.devices is not None or not _ONE_NAME.fullmatch(name):
        return None
    return stated.profile


class _Family(NamedTuple):
    family: tuple[str, ...]
    form: str
    gib: float


@cache
def _families() -> Mapping[str, _Family]:
    """What the names of shipped profiles say; those of measured machines are left out."""
    families: dict[str, _Family] = {}
    for name, file in _files().items():
        memory = file["memory"]["GB"] * GIGA / GIB
        words = name.split("-")
        if (
            len(words) > 1
            and words[-1].isdigit()
            and abs(memory - float(words[-1])) <= MEMORY_RATIO * memory
        ):
            words = words[:-1]
        form = next((word for word in words if word in _FORMS), "")
        families[name] = _Family(tuple(word for word in words if word not in _FORMS), form, memory)
    return families
