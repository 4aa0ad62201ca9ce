"""How far do measurements of an operation stand from what its form predicts, and where in its range?

One half width per operation, and, where enough rows told, an interval of its own for each regime: by the share of
launches in the time, and by the share of arithmetic in arithmetic plus traffic. Leaves out how they are found.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hardware_profiles.errors import InputError
from hardware_profiles.frozen_table import FrozenTable

MOST_REGIMES = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Regime:
    """A part of an operation's range and the 80 % interval of measured / predicted - 1 there.

    Attributes:
        launch: from and to which share of launches in the predicted time, within [0, 1]; the end is left out
            unless it is 1.
        compute: from and to which share of arithmetic in arithmetic plus traffic, likewise.
        low_ratio: tenth percentile of measured / predicted - 1, in (-1, 0].
        high_ratio: its ninetieth percentile, >= 0.

    Raises:
        InputError: a number out of its range.
    """

    launch: tuple[float, float]
    compute: tuple[float, float]
    low_ratio: float
    high_ratio: float

    def __post_init__(self) -> None:
        for key in ("launch", "compute"):
            low, high = getattr(self, key)
            if not 0.0 <= low < high <= 1.0:
                raise InputError("must rise within [0, 1]", key=f"regimes.{key}", value=(low, high))
        if not -1.0 < self.low_ratio <= 0.0:
            raise InputError("must lie in (-1, 0]", key="regimes.low_ratio", value=self.low_ratio)
        if not 0.0 <= self.high_ratio <= 10.0:
            raise InputError("must lie in [0, 10]", key="regimes.high_ratio", value=self.high_ratio)

    def wider(self, factor: float) -> "Regime":
        """The regime with both ends `factor` times as far away, in logarithms; `factor` >= 1."""
        low, high = (math.expm1(factor * math.log1p(end)) for end in (self.low_ratio, self.high_ratio))
        return Regime(
            launch=self.launch,
            compute=self.compute,
            low_ratio=max(low, min(self.low_ratio, -0.95)),
            high_ratio=min(high, 10.0),
        )


class Residuals(FrozenTable[float]):
    """Half width of the 80 % interval of measured / predicted - 1 by operation; regimes of some beside it.

    Args:
        entries: half width by operation.
        regimes: by operation; an operation without has one interval everywhere.
    """

    __slots__ = ("regimes",)

    def __init__(self, entries: Mapping[str, float], regimes: Mapping[str, Sequence[Regime]] | None = None) -> None:
        super().__init__(entries)
        self.regimes = FrozenTable({name: tuple(each) for name, each in (regimes or {}).items() if each})

    def __reduce__(self) -> tuple[object, ...]:
        return Residuals, (self._entries, dict(self.regimes))

    def changed(self, operation: str, ratio: float, regimes: Sequence[Regime] = ()) -> "Residuals":
        """The same with one operation's half width, and its regimes, replaced."""
        others = {name: each for name, each in self.regimes.items() if name != operation}
        return Residuals({**self._entries, operation: ratio}, others | {operation: regimes})

    def only(self, operation: str) -> "Residuals":
        """The same with every other operation surely right."""
        silent = dict.fromkeys(self, 0.0) | {operation: self[operation]}
        return Residuals(silent, {operation: self.regimes.get(operation, ())})
