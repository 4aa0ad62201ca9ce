"""Names beside points: those that are drawn never cover each other or another point."""

import math

from hypothesis import given
from hypothesis import strategies as st

from app.render.charts.labels import (
    LETTER_PIXELS,
    LINE_PIXELS,
    MARK_PIXELS,
    PLACES,
    label_places,
)

SIZE = (600.0, 320.0)
POINT = st.tuples(
    st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.text("abcdefgh-", min_size=1, max_size=14)
)


SIDES = {  # of the name's middle from its point, in halves of both their sizes
    "top center": (0, 1),
    "bottom center": (0, -1),
    "middle right": (1, 0),
    "middle left": (-1, 0),
}


def pixels(values, span):
    """Where a logarithmic axis that spans all values puts them."""
    logs = [math.log10(value) for value in values]
    wide = max(max(logs) - min(logs), 1e-9)
    return [span * (value - min(logs)) / wide for value in logs]


def overlap(one, other):
    """Whether two boxes of (middle x, middle y, width, height) share an area."""
    return all(
        abs(one[axis] - other[axis]) < (one[axis + 2] + other[axis + 2]) / 2 - 1e-9
        for axis in (0, 1)
    )


@given(st.lists(POINT, max_size=25))
def test_drawn_names_cover_nothing(points):
    x, y, names = ([p[n] for p in points] for n in range(3))
    places = label_places(x, y, names, size=SIZE)
    assert set(places) <= {"", *PLACES}
    assert places[:1] in ([], ["top center"]) or len(points) > 1
    marks = list(zip(pixels(x, SIZE[0]), pixels(y, SIZE[1]), strict=True)) if points else []
    boxes = {}
    for at, ((across, up), name, where) in enumerate(zip(marks, names, places, strict=True)):
        if where:
            wide, (aside, above) = LETTER_PIXELS * len(name), SIDES[where]
            middle = across + aside * (wide / 2 + MARK_PIXELS)
            boxes[at] = (middle, up + above * (LINE_PIXELS / 2 + MARK_PIXELS), wide, LINE_PIXELS)
    for at, box in boxes.items():
        assert not any(overlap(box, other) for place, other in boxes.items() if place < at)
        side = 2 * MARK_PIXELS
        assert not any(
            overlap(box, (*mark, side, side)) for place, mark in enumerate(marks) if place != at
        )


def test_names_side_by_side_are_drawn_from_their_width_on():
    """Two points of one height: the second name goes above, too, once the first one ends before
    it."""
    for letters in (2, 8, 20):
        name = "n" * letters
        apart = letters * LETTER_PIXELS
        for gap, place in ((-2.0, "bottom center"), (2.0, "top center")):
            far = 10.0 ** ((apart + gap) / SIZE[0])
            assert (
                label_places([1.0, far, 10.0], [1.0, 1.0, 1.0], [name, name, ""], size=SIZE)[1]
                == place
            )


def test_points_in_one_place_keep_as_many_names_as_fit():
    places = label_places([1.0] * 5, [1.0] * 5, ["name"] * 5, size=SIZE)
    assert places == ["top center", "bottom center", "middle right", "middle left", ""]
