"""Where does a fitted profile go? Leaves out what is in it."""

from pathlib import Path

from app.questions.places import require_file
from hardware_profiles.errors import InputError
from hardware_profiles.profile import Device
from hardware_profiles.whole_file import make_folder
from hardware_profiles.writer import write_device


def check_profile_file(out: Path | None) -> None:
    """Check before anything is measured that a profile can be written.

    Args:
        out: as asked for; None: nowhere.

    Raises:
        InputError: no .toml file, or a place that cannot be written.
    """
    if out is None:
        return
    if out.suffix.casefold() != ".toml":
        raise InputError("must be a .toml file", key="--out", value=str(out))
    require_file(out)


def write_profile_file(device: Device, out: Path | None) -> None:
    """Write a profile with the folders above it, where that was asked for.

    Args:
        device: the profile.
        out: its file; None: nothing is written.
    """
    if out is not None:
        make_folder(out.parent)
        write_device(device, out)
