"""Names beside points: those that are drawn never cover each other or another point."""

from hypothesis import given
from hypothesis import strategies as st

from app.render.charts.labels import (
    LINE_PIXELS,
    MARK_PIXELS,
    PLACES,
    _box,
    _meet,
    _pixels,
    label_places,
)

SIZE = (600.0, 320.0)
POINT = st.tuples(
    st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.text("abcdefgh-", min_size=1, max_size=14)
)


@given(st.lists(POINT, max_size=25))
def test_drawn_names_cover_nothing(points):
    x, y, names = ([p[n] for p in points] for n in range(3))
    places = label_places(x, y, names, size=SIZE)
    assert set(places) <= {"", *PLACES}
    assert places[:1] in ([], ["top center"]) or len(points) > 1
    drawn = [
        (a, b, name, where)
        for a, b, name, where in zip(
            _pixels(x, SIZE[0]), _pixels(y, SIZE[1]), names, places, strict=True
        )
        if where
    ]
    boxes = [_box(a, b, 7.5 * len(name), where) for a, b, name, where in drawn]
    assert not any(_meet(one, other) for at, one in enumerate(boxes) for other in boxes[:at])


def test_a_name_is_as_large_as_its_letters():
    left, bottom, right, top = _box(100.0, 100.0, 75.0, "middle right")
    assert (right - left, top - bottom) == (75.0, LINE_PIXELS)
    assert left == 100.0 + MARK_PIXELS


def test_points_in_one_place_keep_as_many_names_as_fit():
    places = label_places([1.0] * 5, [1.0] * 5, ["name"] * 5, size=SIZE)
    assert places == ["top center", "bottom center", "middle right", "middle left", ""]
