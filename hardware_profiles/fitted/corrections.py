"""How far do measured times of an operation differ from its fitted form, as a small table to
interpolate in?

Values at the nodes of a grid, as logarithms of measured / predicted. Leaves out the coordinates,
which belong to the operation, and the interpolation.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from hardware_profiles.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

CORRECTED = {  # operations that may have one, and what the axes of theirs are
    "gemm": ("log2 of rows", "log2 of outputs", "log2 of inputs"),
    "moe": ("share of launches", "share of arithmetic"),
}
MOST_NODES = 1024
LARGEST = 0.2  # correction either way, in logarithms


@dataclass(frozen=True, kw_only=True)
class Correction:
    """A grid of corrections; beyond its ends the last value holds.

    Attributes:
        axes: nodes along each axis, rising.
        values: log(measured / predicted) at the nodes, the last axis fastest.

    Raises:
        InputError: nodes that do not rise, or values that do not fit them.
    """

    axes: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        for axis in self.axes:
            if (
                len(axis) < 2
                or not all(map(math.isfinite, axis))
                or any(a >= b for a, b in pairwise(axis))
            ):
                raise InputError(
                    "needs at least two nodes, rising", key="correction.axes", value=axis
                )
        count = math.prod(len(axis) for axis in self.axes)
        if not self.axes or count > MOST_NODES or len(self.values) != count:
            rule = f"needs one value per node, {count}, and at most {MOST_NODES}"
            raise InputError(rule, key="correction.values", value=len(self.values))
        wrong = [value for value in self.values if not abs(value) <= LARGEST]
        if wrong:
            raise InputError(
                f"must lie within {LARGEST:g} of 0", key="correction.values", value=wrong[0]
            )

    @cached_property
    def grid(self) -> "npt.NDArray[np.float64]":
        """The values as an array, [nodes of an axis, ...]."""
        import numpy as np

        return np.array(self.values, dtype=np.float64).reshape([len(axis) for axis in self.axes])

    @cached_property
    def columns(self) -> dict[tuple[float, float], list[float]]:
        """Values along the first axis at other coordinates, by those, as interpolation has
        found them.
        """
        return {}
