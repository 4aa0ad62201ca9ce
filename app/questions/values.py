"""How is the value of a field read: lists of numbers, shares, limits, times, bytes, methods?

A reader turns what a person writes into the value that an answer takes, in SI units, and writes it
again as answers repeat it. Every door reads by it (`app.questions.field.NamedField.read`) and names
the field in a refusal as it is spelled there.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from hardware_profiles.errors import InputError
from hardware_profiles.units import MILLI, amount_of_bytes

MOST_DRAFT_TOKENS = 4095
MOST = 100_000_000
MOST_BYTES = 1e15
LEAST_PERCENTILE, MOST_PERCENTILE = 1.0, 99.9
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class Reader(Protocol):
    """How the text of a field becomes its value, and the value a text or number again.

    Attributes:
        placeholder: what stands for the value in help.
    """

    placeholder: ClassVar[str]

    def read(self, text: str) -> Any:
        """The value of a text.

        Raises:
            InputError: the text is none of its kind; without a key.
        """

    def written(self, value: Any) -> Any:
        """A value as answers repeat it; its text is read as the same value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WholeNumbers:
    """Whole numbers separated by commas, as a tuple that is sorted and has no repeats.

    Args:
        least: smallest number.
        most: largest one.

    Example:
        >>> WholeNumbers(least=1).read("64, 1,8")
        (1, 8, 64)
    """

    least: int
    most: int = MOST

    placeholder: ClassVar[str] = "<int,...>"

    def read(self, text: str) -> tuple[int, ...]:
        """The numbers of a text such as 1,8,64."""
        parts = [part.strip() for part in text.split(",")]
        if not all(re.fullmatch("-?[0-9]{1,18}", part) for part in parts):
            raise InputError("must be whole numbers separated by commas", value=text)
        numbers = tuple(sorted({int(part) for part in parts}))
        if numbers[0] < self.least or numbers[-1] > self.most:
            raise InputError(f"must lie in {self.least}..{self.most}", value=text)
        return numbers

    def written(self, value: tuple[int, ...]) -> str:
        """Separated by commas again."""
        return ",".join(map(str, value))


@dataclass(frozen=True, slots=True)
class PositiveNumbers:
    """Positive numbers separated by commas, as a tuple that is sorted and has no repeats."""

    placeholder: ClassVar[str] = "<float,...>"

    def read(self, text: str) -> tuple[float, ...]:
        """The numbers of a text such as 0.5,1,2."""
        numbers = [_number(part) for part in text.split(",")]
        if not all(0.0 < number < math.inf for number in numbers):
            raise InputError("must be positive numbers separated by commas", value=text)
        return tuple(sorted(set(numbers)))

    def written(self, value: tuple[float, ...]) -> str:
        """Separated by commas again."""
        return ",".join(map(str, value))


@dataclass(frozen=True, slots=True)
class Rates:
    """One rate, or rates by position separated by commas, in [0, 1].

    Example:
        >>> Rates().read("0.78,0.61,0.48")
        (0.78, 0.61, 0.48)
    """

    placeholder: ClassVar[str] = "<0..1,...>"

    def read(self, text: str) -> tuple[float, ...]:
        """The rates."""
        try:
            rates = tuple(float(part) for part in text.split(","))
        except ValueError:
            rule = (
                "must be one rate (0.72), or rates by position separated by commas (0.78,0.61,0.48)"
            )
            raise InputError(rule, value=text) from None
        if not all(0.0 <= rate <= 1.0 for rate in rates):
            value = rates[0] if len(rates) == 1 else text
            raise InputError("must lie in [0, 1]", value=value)
        return rates

    def written(self, value: tuple[float, ...]) -> float | list[float]:
        """The only rate, or a list."""
        return value[0] if len(value) == 1 else list(value)


@dataclass(frozen=True, slots=True)
class RatesOrFile:
    """Rates, or the file that tells them."""

    placeholder: ClassVar[str] = "<0..1,...|path>"

    def read(self, text: str) -> tuple[float, ...] | Path:
        """The rates, of a text that is numbers; else the path."""
        are_numbers = all(math.isfinite(_number(part)) for part in text.split(","))
        return Rates().read(text) if are_numbers else Path(text)

    def written(self, value: tuple[float, ...] | Path) -> float | list[float] | str:
        """As `Rates`, or the path."""
        return str(value) if isinstance(value, Path) else Rates().written(value)


@dataclass(frozen=True, slots=True)
class Share:
    """A share in [0, 1]."""

    placeholder: ClassVar[str] = "<0..1>"

    def read(self, text: str) -> float:
        """The number."""
        value = _number(text)
        if not 0.0 <= value <= 1.0:
            raise InputError("must lie in [0, 1]", value=text)
        return value

    def written(self, value: float) -> float:
        """Itself."""
        return value


@dataclass(frozen=True, slots=True)
class MeanTokens:
    """A mean number of tokens, 1 or more.

    Example:
        >>> MeanTokens().read("512")
        512.0
    """

    placeholder: ClassVar[str] = "<tokens>"

    def read(self, text: str) -> float:
        """The number of a text such as 512."""
        value = _number(text)
        if not 1.0 <= value < math.inf:
            rule = (
                "must be the mean number of tokens, 1 or more, such as 512; lengths that vary come"
                " from recorded requests, or are simulated"
            )
            raise InputError(rule, value=text)
        return value

    def written(self, value: float) -> float:
        """Itself."""
        return value


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """A limit on a time of requests.

    Args:
        seconds: the most that it may be, > 0.
        percentile: of the requests' times that must be within it, in 1..99.9; None: their mean
            must be.
    """

    seconds: float
    percentile: float | None = None


@dataclass(frozen=True, slots=True)
class LatencyLimit:
    """A limit in milliseconds, of a mean or of a percentile.

    Example:
        >>> LatencyLimit().read("20")
        Limit(seconds=0.02, percentile=None)
        >>> LatencyLimit().read("p99:800")
        Limit(seconds=0.8, percentile=99.0)
    """

    placeholder: ClassVar[str] = "<ms|pN:ms>"

    def read(self, text: str) -> Limit:
        """The limit of a text such as 800 or p99:800."""
        percentile, number = None, text
        if text.strip().lower().startswith("p"):
            first, _, number = text.strip()[1:].partition(":")
            percentile = _number(first)
            if not LEAST_PERCENTILE <= percentile <= MOST_PERCENTILE:
                rule = (
                    f"must be milliseconds behind a percentile of {LEAST_PERCENTILE:g} to"
                    f" {MOST_PERCENTILE:g}, such as p99:800"
                )
                raise InputError(rule, value=text)
        value = _number(number)
        if not 0.0 < value * MILLI < math.inf:
            rule = "must be a positive number of milliseconds, such as 800, or p99:800"
            raise InputError(rule, value=text)
        return Limit(seconds=value * MILLI, percentile=percentile)

    def written(self, value: Limit) -> float | str:
        """The milliseconds, to 15 digits, behind the percentile if there is one."""
        number = float(f"{value.seconds / MILLI:.15g}")
        if value.percentile is None:
            return number
        percentile, shown = (str(part).removesuffix(".0") for part in (value.percentile, number))
        return f"p{percentile}:{shown}"


@dataclass(frozen=True, slots=True)
class Time:
    """A positive time such as "540", "540s", "9m" or "1h", as seconds to the microsecond.

    Example:
        >>> Time().read("9m")
        540.0
    """

    placeholder: ClassVar[str] = "<time>"

    def read(self, text: str) -> float:
        """The seconds."""
        parts = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smh]?)", text.strip())
        value = round(float(parts[1]) * _UNITS[parts[2]], 6) if parts else 0.0
        if value <= 0:
            raise InputError("must be a positive time such as 540s, 9m or 1h", value=text)
        return value

    def written(self, value: float) -> str:
        """With the largest unit of which it is a whole number, two at least."""
        for unit in "hm":
            count, rest = divmod(value, _UNITS[unit])
            if count >= 2 and not rest:
                return f"{count:.0f}{unit}"
        return f"{f'{value:.6f}'.rstrip('0').rstrip('.')}s"


@dataclass(frozen=True, slots=True)
class Bytes:
    """A positive number of bytes, plain or with a unit, no more than any memory holds.

    Example:
        >>> Bytes().read("350MB")
        350000000.0
    """

    placeholder: ClassVar[str] = "<bytes>"

    def read(self, text: str) -> float:
        """The plain number."""
        value = amount_of_bytes(text)
        if not 0.0 < value <= MOST_BYTES:
            rule = (
                f"must be a number of bytes above 0 and at most {MOST_BYTES:.0e}, such as 3.5e8,"
                " 350MB or 16GiB"
            )
            raise InputError(rule, value=text)
        return value

    def written(self, value: float) -> float:
        """Itself."""
        return value


@dataclass(frozen=True, slots=True)
class Span:
    """The first whole number of a span and the one behind its last, such as 12,20."""

    placeholder: ClassVar[str] = "<int,int>"

    def read(self, text: str) -> tuple[int, int]:
        """The two numbers."""
        parts = re.fullmatch(r"\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*", text)
        if parts is None or int(parts[1]) >= int(parts[2]):
            raise InputError("must be two whole numbers that rise, e.g. 12,20", value=text)
        return int(parts[1]), int(parts[2])

    def written(self, value: tuple[int, int]) -> str:
        """Separated by a comma again."""
        return f"{value[0]},{value[1]}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few words.

    Args:
        words: at least two.
    """

    words: tuple[str, ...]
    placeholder: ClassVar[str] = "<str>"

    def read(self, text: str) -> str:
        """The word."""
        if text not in self.words:
            rule = f"must be {', '.join(self.words[:-1])} or {self.words[-1]}"
            raise InputError(rule, value=text)
        return text

    def written(self, value: str) -> str:
        """Itself."""
        return value


@dataclass(frozen=True, slots=True)
class MethodName:
    """A method by its slug, by its kind of drafter or by its file, as the slug; an empty text names
    none.
    """

    placeholder: ClassVar[str] = "<method>"

    def read(self, text: str) -> str:
        """The slug.

        Raises:
            UnknownNameError: there is no such method.
            InputError: one that cannot be priced, with the reason of its entry, or a file that
                holds none.
        """
        # the library of methods, which is more than help has time to load
        from costmodel.answers.settings import stated_method
        from costmodel.method_library import load_method, require_priced

        slug = stated_method(text) if text else ""
        if slug:
            require_priced(load_method(slug))
        return slug

    def written(self, value: str) -> str:
        """Itself."""
        return value


def _number(text: str) -> float:
    """A number; not-a-number where a text is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
