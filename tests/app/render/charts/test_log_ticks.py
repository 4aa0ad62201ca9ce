"""Labels of logarithmic axes: whole numbers within the axis, neither crowded nor missing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.render.charts.charts import framed
from app.render.charts.log_ticks import MOST_LABELS, labelled, log_ticks


@given(st.floats(1e-6, 1e9), st.floats(1.001, 1e12))
def test_ticks_lie_on_the_axis_in_order(low, factor):
    ticks = log_ticks(low, low * factor)
    assert ticks == sorted(set(ticks))
    assert all(low * 0.999 <= tick <= low * factor * 1.001 for tick in ticks)
    if factor > 10:
        assert len(ticks) >= 2
    if factor < 1e8:
        assert len(ticks) <= MOST_LABELS


def test_labels_are_whole_numbers():
    line = {"type": "scatter", "x": [1, 2], "y": [3, None, 4000.0]}
    figure = framed([line], {"type": "category"}, {"type": "log", "dtick": "D2"})
    assert figure["layout"]["yaxis"]["ticktext"] == [
        "5",
        "10",
        "20",
        "50",
        "100",
        "200",
        "500",
        "1,000",
        "2,000",
    ]
    assert "dtick" not in figure["layout"]["yaxis"]
    assert "tickvals" not in figure["layout"]["xaxis"]


@pytest.mark.parametrize(
    "axis", [{"type": "log", "tickvals": [1]}, {"type": "log", "dtick": 1}, {"type": "linear"}]
)
def test_other_axes_stay_as_they_are(axis):
    assert labelled(axis, [1.0, 100.0]) == axis


def test_an_axis_of_nothing_is_left_to_the_browser():
    assert labelled({"type": "log"}, [None, 0, -1.0]) == {"type": "log"}
