"""Which of many points does nothing else beat in two quantities at once?

Designs and layouts trade tokens per second of one user against those of one device, policies of
masked blocks speed against agreement. Leaves out what the points are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from costmodel.passes.ops import Array

_Name = TypeVar("_Name")


@dataclass(slots=True, eq=False)
class Front(Generic[_Name]):
    """Points that no other point beats in both coordinates; larger is better.

    Args:
        x: one quantity, rising.
        y: the other one, falling.
        names: what each point is.
    """

    x: Array = field(default_factory=lambda: np.zeros(0))
    y: Array = field(default_factory=lambda: np.zeros(0))
    names: list[_Name] = field(default_factory=list)

    def add(self, x: Array, y: Array, names: Sequence[_Name]) -> None:
        """Enter points, and drop those that are beaten.

        Args:
            x: of the points.
            y: of the points.
            names: of the points.
        """
        xs, ys, every = (
            np.concatenate([self.x, x]),
            np.concatenate([self.y, y]),
            [*self.names, *names],
        )
        order = np.lexsort(
            (np.arange(len(every)), -ys, -xs)
        )  # from the largest in x; of equals the first
        best = np.maximum.accumulate(np.concatenate([[-np.inf], ys[order][:-1]]))
        chosen = order[ys[order] > best][::-1]
        self.x, self.y, self.names = xs[chosen], ys[chosen], [every[at] for at in chosen]

    def covers(self, x: Array, y: Array) -> bool:
        """Whether every one of these points is beaten, or met, in both coordinates by a point of
        the front.
        """
        if not self.x.size:
            return False
        at = np.searchsorted(
            self.x, x, side="left"
        )  # the point of the front that is as large in x by the least
        front_y = np.append(self.y, -np.inf)
        return bool(np.all(front_y[np.minimum(at, self.x.size)] >= y))
