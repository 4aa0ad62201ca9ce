"""Which designs trade speed for one user against throughput of a device without waste?

The front of points that nothing else beats in both; its axes are the field's: tokens per second of
one user, and of one device. Leaves out what the points are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from costmodel.passes.ops import Array


@dataclass(slots=True, eq=False)
class Front:
    """Points that no other point beats in both coordinates; larger is better.

    Args:
        x: tokens per second of one user, rising.
        y: tokens per second of one device, falling.
        names: what each point is: node, shape, budget, cap.
    """

    x: Array = field(default_factory=lambda: np.zeros(0))
    y: Array = field(default_factory=lambda: np.zeros(0))
    names: list[tuple[int, int, int, int]] = field(default_factory=list)

    def add(self, x: Array, y: Array, names: Sequence[tuple[int, int, int, int]]) -> None:
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
        )  # from the fastest for a user; of equals the first
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
        )  # the slowest point of the front that is as fast for a user
        front_y = np.append(self.y, -np.inf)
        return bool(np.all(front_y[np.minimum(at, self.x.size)] >= y))
