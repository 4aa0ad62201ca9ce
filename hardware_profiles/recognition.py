"""Which profile stands for the GPU that a driver or a publication names?

Of a driver exact names only, as profiles list them (`names`), with the memory and the processors
that it reports as a check: an RTX 4090 D is no RTX 4090, an A100 on PCIe none on SXM, and a slice
of a card is no card. People say less (`H100`, `A100-40GB`, `8x H800`): there what is left open is
chosen, and said. Leaves out how a driver is asked.
"""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import DATA, device_names, load_device
from hardware_profiles.units import GIB

# error correction takes up to 6.7 % of the memory of some cards, and runtimes report 1 to 3 % less
# than drivers
_MEMORY_RATIO = 0.08
_SLICE = re.compile(r"\bmig\b|^grid\b|^nvidia grid\b|\bvgpu\b|-\d+[qcab]$", re.IGNORECASE)


def recognise(name: str, memory_bytes: float | None = None, sm_count: int | None = None) -> str:
    """The profile of a device by the name that its driver gives.

    Args:
        name: as `nvidia-smi --query-gpu=name`, `torch.cuda.get_device_name` or `rocminfo` say it,
            in any case.
        memory_bytes: what the driver reports; a card with another size is another card. None: not
            checked.
        sm_count: streaming multiprocessors or compute units that it reports. None: not checked.

    Returns:
        A name for `load_device`.

    Raises:
        UnknownNameError: no profile lists the name; the nearest ones are offered.
        InputError: a slice of a card, or memory or processors that the profile does not have.

    Example:
        >>> recognise("NVIDIA H100 80GB HBM3"), recognise("NVIDIA GeForce RTX 4090 D")
        ('h100-sxm', 'rtx-4090-d')
    """
    if _SLICE.search(name.strip()):
        raise InputError(
            "is a slice of a card, for which no profile stands; write one of your own",
            key="GPU",
            value=name,
        )
    profiles = _profiles()
    profile = profiles.get(_plain(name))
    if profile is None:
        listed = [listed_name for names in _listed().values() for listed_name in names]
        raise UnknownNameError("GPU", name[:200], listed)
    device = load_device(profile)
    if memory_bytes is not None and abs(memory_bytes / device.memory_bytes - 1.0) > _MEMORY_RATIO:
        rule = (
            f"a {device.title} has {device.memory_bytes / GIB:.1f} GiB; with another size it is"
            " another card"
        )
        raise InputError(rule, key=f"memory of {name}", value=f"{memory_bytes / GIB:.1f} GiB")
    if sm_count is not None and sm_count != device.processors:
        rule = (
            f"a {device.title} has {device.processors} processors; with another number it is"
            " another card"
        )
        raise InputError(rule, key=f"processors of {name}", value=sm_count)
    return profile


@cache
def _listed() -> Mapping[str, tuple[str, ...]]:
    """Names by profile, in order; no profile is checked for it."""
    names = {}
    for path in sorted(DATA.glob("*.toml")):
        names[path.stem] = tuple(tomllib.loads(path.read_text(encoding="utf-8")).get("names", ()))
    return names


@cache
def _profiles() -> Mapping[str, str]:
    return {_plain(name): profile for profile, names in _listed().items() for name in names}


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
        if abs(own.gib - gigabytes) <= _MEMORY_RATIO * gigabytes
    ]
    chosen = min(
        fits or family_members,
        key=lambda name: (_PREFERENCE[family_members[name].form], -family_members[name].gib),
    )
    left_open = len(fits or family_members) > 1 or bool(memory and not fits)
    remark = f"{plain} is read as {chosen}" if left_open else ""
    return StatedDevice(chosen, int(counted[1]) if counted else None, remark)


def read_device_name(name: str) -> str:
    """The profile that a person's name for one device stands for: a driver's name, or one that
    leaves out the form or the memory, chosen as in `stated_device`.

    Args:
        name: such as `H100`, `A100-40GB` or `NVIDIA A100-SXM4-40GB`.

    Raises:
        UnknownNameError: no profile is of that family; the nearest names are offered.

    Example:
        >>> read_device_name("H100"), read_device_name("NVIDIA H100 PCIe")
        ('h100-sxm', 'h100-pcie')
    """
    if (profile := _profiles().get(_plain(name))) is not None:
        return profile
    try:
        stated = stated_device(name)
    except InputError:
        stated = None
    if stated is None or stated.devices is not None or not _ONE_NAME.fullmatch(name):
        raise UnknownNameError("device", name, device_names())
    return stated.profile


class _Family(NamedTuple):
    family: tuple[str, ...]
    form: str
    gib: float


@cache
def _families() -> Mapping[str, _Family]:
    """What the names of shipped profiles say; those of measured machines are left out."""
    families: dict[str, _Family] = {}
    for name in device_names():
        if "--" in name:
            continue
        memory = load_device(name).memory_bytes / GIB
        words = name.split("-")
        if (
            len(words) > 1
            and words[-1].isdigit()
            and abs(memory - float(words[-1])) <= _MEMORY_RATIO * memory
        ):
            words = words[:-1]
        form = next((word for word in words if word in _FORMS), "")
        families[name] = _Family(tuple(word for word in words if word not in _FORMS), form, memory)
    return families
