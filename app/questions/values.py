"""How are the texts and numbers of fields read: lists, shares, milliseconds, bytes, methods?"""

import math
import re

MOST_DRAFT_TOKENS = 4095


MOST = 100_000_000


MOST_BYTES = 1e15


_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def whole_numbers(text: str, option: str, *, least: int, most: int = MOST) -> list[int]:
    """Comma-separated whole numbers, sorted, without repeats.

    Raises:
        InputError: something else, or a number outside `least`..`most`.
    """
    from hardware_profiles.errors import InputError

    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch("-?[0-9]{1,18}", part) for part in parts):
        raise InputError("must be whole numbers separated by commas", key=option, value=text)
    numbers = sorted({int(part) for part in parts})
    if numbers[0] < least or numbers[-1] > most:
        raise InputError(f"must lie in {least}..{most}", key=option, value=text)
    return numbers


def method_slug(name: str, option: str) -> str:
    """The slug of a method named by slug or by drafter kind; empty for an empty name.

    Raises:
        UnknownNameError: there is no such method.
        InputError: one that cannot be priced, with the reason of its entry.
    """
    from costmodel.answers.settings import method_of
    from costmodel.method_library import load_method, method_names, require_priced
    from hardware_profiles.errors import InputError, UnknownNameError

    if not name:
        return ""
    try:
        slug = method_of(name)
    except InputError:
        raise UnknownNameError("method", name, method_names(), key=option) from None
    require_priced(load_method(slug))
    return slug


def ratio(value: float | None, option: str) -> float | None:
    """A share in [0, 1], or None.

    Raises:
        InputError: outside, or not a number.
    """
    from hardware_profiles.errors import InputError

    if value is not None and not (math.isfinite(value) and 0.0 <= value <= 1.0):
        raise InputError("must lie in [0, 1]", key=option, value=value)
    return value


def seconds(text: str, option: str) -> float:
    """A time such as "540", "540s", "9m" or "1h" in seconds.

    Raises:
        InputError: something else, or not positive.
    """
    from hardware_profiles.errors import InputError

    parts = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smh]?)", text.strip())
    value = float(parts[1]) * _UNITS[parts[2]] if parts else 0.0
    if value <= 0:
        raise InputError("must be a positive time such as 540s, 9m or 1h", key=option, value=text)
    return value


def milliseconds(value: float | None, option: str) -> float | None:
    """A positive number of milliseconds as seconds, or None.

    Raises:
        InputError: not positive and finite.
    """
    from hardware_profiles.errors import InputError
    from hardware_profiles.units import MILLI

    if value is None:
        return None
    if not (math.isfinite(value) and value > 0.0):
        raise InputError("must be a positive number of milliseconds", key=option, value=value)
    return value * MILLI


def byte_count(value: float | None, option: str) -> float | None:
    """A positive number of bytes, or None.

    Raises:
        InputError: not positive, or more than any memory holds.
    """
    from hardware_profiles.errors import InputError

    if value is not None and not 0.0 < value <= MOST_BYTES:
        raise InputError(
            f"must be a number of bytes above 0 and at most {MOST_BYTES:.0e}",
            key=option,
            value=value,
        )
    return value
