"""What a press on a point asks: only what a link could say, and the value at which the point
stands."""

from urllib.parse import parse_qsl, urlencode

from hypothesis import given
from hypothesis import strategies as st

from app.dashboard.answer import Card
from app.dashboard.changes import PRESS, asked_by_point, asking_along, asks
from app.dashboard.pages import answered, completed
from app.dashboard.state import FIELDS, State, from_query, with_values


def card(**trace):
    return Card(title="t", note="n.", figure={"data": [trace], "layout": {"height": 1}})


@given(st.sampled_from([1, 2, 48, 512]), st.integers(1, 8), st.sampled_from([0.25, 0.5, 4.0]))
def test_what_a_point_carries_is_what_it_asks(batch, tp, rate):
    values = {"batch": batch, "tp": tp, "rate": rate}
    assert asked_by_point(asks(values)).values == values


def test_what_no_control_can_say_is_not_asked():
    for values in ({"batch": 10**9}, {"device": "no-such"}, {"batch": 1.5}, {"nothing": 1}):
        assert asks(values) == ""


@given(st.text(max_size=80) | st.dictionaries(st.sampled_from([*FIELDS]), st.text()).map(urlencode))
def test_what_a_browser_says_of_a_point_is_read_as_a_link_is(text):
    values = asked_by_point(text).values
    state, _ = from_query(dict(parse_qsl(text.removeprefix("?"))))
    assert with_values(State(), values) == state


def test_points_ask_for_the_value_that_they_stand_at():
    shown = asking_along(card(type="bar", x=["1", "64", "9999999"], y=[1, 2, 3]), "batch")
    assert shown.figure["data"][0]["customdata"] == ["?batch=1", "?batch=64", ""]
    assert (shown.note, shown.press) == ("n.", PRESS)


def test_lines_that_guide_the_eye_ask_nothing():
    guide = card(type="scatter", x=[1, 2], y=[1, 1], hoverinfo="skip")
    assert asking_along(guide, "batch") is guide
    beyond = card(type="scatter", x=[0.5, 10**9], y=[1, 1])
    assert asking_along(beyond, "batch") is beyond


def pressed(card):
    """What the points of a chart carry, those of maps too."""
    for trace in card.figure["data"]:
        for text in trace.get("customdata", ()):
            yield from [text] if isinstance(text, str) else text


def test_every_page_with_points_to_ask_asks_what_it_shows():
    for page, fields in (
        ("run", {"batch"}),
        ("map", {"batch", "context"}),
        ("tree", {"tree_nodes"}),
        ("trace", {"draft_tokens"}),
        ("pareto", {"tp", "batch"}),
    ):
        state = State(page=page, batch=8)
        cards = [*answered(state).cards, *completed(state).cards]
        asked = [
            asked_by_point(text).values
            for shown in cards
            for text in pressed(shown)
            if text.startswith("?")
        ]
        assert len(asked) >= 4, page
        assert all(fields <= set(values) for values in asked), page


def test_a_point_of_the_front_asks_for_the_page_that_shows_it():
    state = State(page="pareto", batch=8)
    (chart,) = answered(state).cards
    (line,) = [
        each
        for each in chart.figure["data"]
        if each.get("name") == "tp 2" and each.get("showlegend")
    ]
    at = next(place for place, text in enumerate(line["customdata"]) if "batch=64" in text)
    values = asked_by_point(line["customdata"][at]).values
    answer = answered(with_values(state, dict(values)))
    (star,) = [each for each in answer.cards[0].figure["data"] if each.get("name") == "your point"]
    assert abs(star["x"][0] / line["x"][at] - 1.0) < 1e-3
    assert abs(star["y"][0] / line["y"][at] - 1.0) < 1e-3
