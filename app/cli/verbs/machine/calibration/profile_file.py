"""Where does a fitted profile go? Leaves out what is in it."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hardware_profiles.profile import Device


def check_profile_file(out: Path | None) -> None:
    """Check before anything is measured that a profile can be written.

    Args:
        out: as asked for; None: nowhere.

    Raises:
        InputError: no .toml file, or a place that cannot be written.
    """
    from app.questions.places import require_file
    from hardware_profiles.errors import InputError

    if out is None:
        return
    if out.suffix.casefold() != ".toml":
        raise InputError("must be a .toml file", key="--out", value=str(out))
    require_file(out)


def write_profile_file(device: "Device", out: Path | None) -> None:
    """Write a profile with the folders above it, where that was asked for.

    Args:
        device: the profile.
        out: its file; None: nothing is written.
    """
    from hardware_profiles.whole_file import make_folder
    from hardware_profiles.writer import write_device

    if out is not None:
        make_folder(out.parent)
        write_device(device, out)
