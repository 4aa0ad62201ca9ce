"""Can a folder or file that a question names be written? Refused before long work where it cannot."""

import importlib.util
from pathlib import Path

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import require_room


def require_folder(path: Path, option: str = "--out") -> None:
    """Refuse, before long work, a folder that cannot be made or written.

    Raises:
        InputError: a file stands in its place, or nothing may be written there.
        OSError: the disk is full.
    """
    try:
        nearest = next(place for place in (path, *path.parents) if place.exists())
        fits = nearest.is_dir()
    except OSError as error:
        raise InputError(
            f"must be a folder that can be made ({error.strerror})", key=option, value=str(path)
        ) from None
    if not fits:
        raise InputError(f"must be a folder, and {nearest} is a file", key=option, value=str(path))
    require_room(nearest)


def require_file(path: Path, option: str = "--out") -> None:
    """Refuse to write where no ordinary file can stand: a folder, a device, a pipe.

    Files are renamed into place, so a device such as /dev/null would itself be replaced.

    Raises:
        InputError: naming the path.
    """
    require_folder(path.parent, option)
    try:
        fits = bool(path.name) and (path.is_file() or not path.exists())
    except OSError as error:
        raise InputError(
            f"must be a file that can be made ({error.strerror})", key=option, value=str(path)
        ) from None
    if not fits:
        raise InputError(
            "must be a file to write, not a folder or a device", key=option, value=str(path)
        )


def is_object(path: Path) -> bool:
    """Whether `--out` names a file for the JSON object alone."""
    return path.suffix == ".json" and not path.is_dir()


def plots_available() -> bool:
    """Whether plotly, of the extra `app`, is installed, so that pages with figures can be written."""
    return importlib.util.find_spec("plotly") is not None
