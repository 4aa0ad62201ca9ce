"""Where do the names of points stand so that none covers another?

One of four places beside its point, the first that is free; a name that has no free place is left
to the hover text. Leaves out the figure around them.
"""

import math
from collections.abc import Sequence

LETTER_PIXELS, LINE_PIXELS, MARK_PIXELS = 7.5, 16.0, 8.0
PLACES = ("top center", "bottom center", "middle right", "middle left")

Box = tuple[float, float, float, float]  # left, bottom, right, top


def label_places(
    x: Sequence[float], y: Sequence[float], names: Sequence[str], *, size: tuple[float, float]
) -> list[str]:
    """The place of every name beside its point on two logarithmic axes, in Plotly's words; empty
    where none is free.

    Example:
        >>> label_places([1.0, 1.01, 10.0], [1.0, 1.0, 10.0], ["a device", "another", "third"], size=(400, 300))
        ['top center', 'bottom center', 'top center']

    Args:
        x: positive.
        y: positive.
        names: of the points, the most important first: they choose first.
        size: pixels of the area in which the axes span all points.
    """
    across, up = _pixels(x, size[0]), _pixels(y, size[1])
    marks = [_around(a, b, MARK_PIXELS, MARK_PIXELS) for a, b in zip(across, up, strict=True)]
    taken: list[Box] = []
    sides = []
    for place, (a, b, name) in enumerate(zip(across, up, names, strict=True)):
        others = [mark for at, mark in enumerate(marks) if at != place]
        boxes = {where: _box(a, b, len(name) * LETTER_PIXELS, where) for where in PLACES}
        free = [
            where
            for where, box in boxes.items()
            if not any(_meet(box, other) for other in (*taken, *others))
        ]
        sides.append(free[0] if free else "")
        taken += [boxes[free[0]]] if free else []
    return sides


def _pixels(values: Sequence[float], span: float) -> list[float]:
    logs = [math.log10(value) for value in values]
    low, high = min(logs, default=0.0), max(logs, default=1.0)
    return [span * (value - low) / max(high - low, 1e-9) for value in logs]


def _box(x: float, y: float, width: float, where: str) -> Box:
    aside, above = width / 2 + MARK_PIXELS, LINE_PIXELS / 2 + MARK_PIXELS
    shift = {
        "top center": (0.0, above),
        "bottom center": (0.0, -above),
        "middle right": (aside, 0.0),
        "middle left": (-aside, 0.0),
    }[where]
    return _around(x + shift[0], y + shift[1], width / 2, LINE_PIXELS / 2)


def _around(x: float, y: float, aside: float, above: float) -> Box:
    return x - aside, y - above, x + aside, y + above


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
