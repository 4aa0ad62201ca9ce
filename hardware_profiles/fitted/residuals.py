"""How far do measurements of an operation stand from what its form predicts, and where in its
range?

One half width per operation, and, where there were enough rows, an interval of its own for each
regime: by the share of launches in the time, by the share of arithmetic in arithmetic plus traffic,
and by sizes. Leaves out how they are found.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.frozen_table import FrozenTable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MOST_REGIMES = 64
SHARES = ("launch", "compute")
# what tables of kernels and passes of models both know about a call
SIZES = (
    "rows",
    "outputs",
    "inputs",
    "requests",
    "query_tokens",
    "context",
    "heads",
    "kv_heads",
    "head_dim",
    "beside_requests",
    "beside_context",
    "tokens",
    "hidden",
    "width",
    "experts",
    "experts_per_token",
    "visited",
)
WHOLE = (0.0, 1.0)
Span = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Regime:
    """A part of an operation's range and the 80 % interval of measured / predicted - 1 there.

    Attributes:
        launch: from and to which share of launches in the predicted time, within [0, 1]; the end is
            left out unless it is 1.
        compute: from and to which share of arithmetic in arithmetic plus traffic, in the same form.
        sizes: from and to which size of the call, by name of `SIZES`; the end is left out, and may
            be infinite.
        low_ratio: lower end of measured / predicted - 1, in (-1, 0].
        high_ratio: its upper end, >= 0.

    Raises:
        InputError: a number out of its range, or an unknown size.
    """

    launch: Span = WHOLE
    compute: Span = WHOLE
    sizes: Mapping[str, Span] = FrozenTable({})
    low_ratio: float
    high_ratio: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", FrozenTable(self.sizes))
        for key in SHARES:
            low, high = getattr(self, key)
            if not 0.0 <= low < high <= 1.0:
                raise InputError("must rise within [0, 1]", key=f"regimes.{key}", value=(low, high))
        for name, (low, high) in self.sizes.items():
            if name not in SIZES:
                raise UnknownNameError("size", name, list(SIZES), key="regimes.sizes")
            if not 0.0 <= low < high:
                raise InputError(
                    "must rise from 0 or more", key=f"regimes.sizes.{name}", value=(low, high)
                )
        if not -1.0 < self.low_ratio <= 0.0:
            raise InputError("must lie in (-1, 0]", key="regimes.low_ratio", value=self.low_ratio)
        if not 0.0 <= self.high_ratio <= 10.0:
            raise InputError("must lie in [0, 10]", key="regimes.high_ratio", value=self.high_ratio)

    def wider(self, factor: float) -> "Regime":
        """The regime with both ends `factor` times as far away, in logarithms; `factor` >= 1."""
        low, high = (
            math.expm1(factor * math.log1p(end)) for end in (self.low_ratio, self.high_ratio)
        )
        return replace(
            self, low_ratio=max(low, min(self.low_ratio, -0.95)), high_ratio=min(high, 10.0)
        )

    def span(self, axis: str) -> Span:
        """Lower and upper end (excluded) on an axis, a share or a size; the whole axis where
        nothing limits it.
        """
        if axis in SHARES:
            low, high = getattr(self, axis)
            return low, math.inf if high == 1.0 else high
        return self.sizes.get(axis, (0.0, math.inf))


class Regimes(tuple[Regime, ...]):
    """Regimes of one operation, and the same as arrays."""

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """Shares and sizes by which at least one regime is bounded."""
        names = (*SHARES, *SIZES)
        return tuple(
            name for name in names if any(regime.span(name) != (0.0, math.inf) for regime in self)
        )

    @cached_property
    def spans(self) -> "npt.NDArray[np.float64]":
        """Where every regime begins and ends on every axis, [axes, regimes, 2]."""
        import numpy as np

        return np.array(
            [[regime.span(axis) for regime in self] for axis in self.axes], dtype=np.float64
        )

    @cached_property
    def log_ends(self) -> "npt.NDArray[np.float64]":
        """Ends of the intervals of log(measured / predicted), [regimes, 2]."""
        import numpy as np

        return np.log1p(
            np.array([(regime.low_ratio, regime.high_ratio) for regime in self], dtype=np.float64)
        )

    @cached_property
    def by_regime(self) -> tuple[tuple[tuple[Span, ...], Span], ...]:
        """Spans on every axis and ends of the interval, regime by regime, as numbers."""
        return tuple(
            (tuple(regime.span(axis) for axis in self.axes), (low, high))
            for regime, (low, high) in zip(self, self.log_ends.tolist(), strict=True)
        )


class Residuals(FrozenTable[float]):
    """Half width of the 80 % interval of measured / predicted - 1 by operation; regimes of some
    beside it.

    Args:
        entries: half width by operation.
        regimes: by operation; an operation without has one interval everywhere.
    """

    __slots__ = ("regimes",)

    def __init__(
        self, entries: Mapping[str, float], regimes: Mapping[str, Iterable[Regime]] | None = None
    ) -> None:
        super().__init__(entries)
        tables = {name: Regimes(regime) for name, regime in (regimes or {}).items()}
        self.regimes = FrozenTable({name: table for name, table in tables.items() if table})

    def __reduce__(self) -> tuple[object, ...]:
        return Residuals, (self._entries, dict(self.regimes))

    def changed(self, operation: str, ratio: float, regimes: Sequence[Regime] = ()) -> "Residuals":
        """A copy in which the half width and the regimes of one operation are replaced."""
        others: dict[str, Iterable[Regime]] = {
            name: kept for name, kept in self.regimes.items() if name != operation
        }
        return Residuals({**self._entries, operation: ratio}, others | {operation: regimes})

    def only(self, operation: str) -> "Residuals":
        """A copy in which every other operation has no error."""
        silent = dict.fromkeys(self, 0.0) | {operation: self[operation]}
        return Residuals(silent, {operation: self.regimes.get(operation, ())})
