"""An empty K is the recommended one on every page; a person's own holds on all of them."""

from dataclasses import replace

import pytest

from app.dashboard.answers.chains import with_length
from app.dashboard.answers.serving import asked_serving
from app.dashboard.pages import answered
from app.dashboard.state import State, from_query, to_query

OFF = {"method": "n-gram", "known_by": "rate", "acceptance": "0.05", "batch": 256}


@pytest.mark.parametrize("batch", [1, 64])
def test_pages_take_the_length_that_the_map_recommends(batch):
    state = State(batch=batch)
    length = dict(answered(replace(state, page="map")).numbers)["Best K"]
    assert f"K {length}, as recommended" in answered(replace(state, page="hardware")).headline
    for asked in (
        answered(replace(state, page="hardware")).command,
        answered(replace(state, page="trace")).command,
        asked_serving(with_length(state)).line,
    ):
        assert f"--draft-tokens {length}" in asked


def test_a_length_of_ones_own_holds_on_all_pages_and_in_the_link():
    state = State(draft_tokens=2)
    assert to_query(state) == {"draft_tokens": "2"} and to_query(State()) == {}
    assert with_length(state) == state
    for page in ("hardware", "trace"):
        assert "--draft-tokens 2" in answered(replace(state, page=page)).command


def test_where_no_drafting_is_recommended_a_device_drafts_nothing_and_a_recording_shows_some():
    answer = answered(State(page="hardware", **OFF))
    assert "K off, as recommended" in answer.headline and "--draft-tokens 0" in answer.command
    assert dict(answer.numbers)["Speedup of drafting"] == "1.00×"
    assert "--draft-tokens 5" in answered(State(page="trace", **OFF)).command


def test_a_limit_moves_the_recommended_length_only_where_something_keeps_it():
    tight, far = State(batch=64, slo_tpot=0.01), State(batch=64)
    assert with_length(tight).draft_tokens == with_length(far).draft_tokens


def test_an_earlier_link_keeps_its_length():
    state, wrong = from_query({"page": "hardware", "draft_tokens": "7"})
    assert not wrong and with_length(state).draft_tokens == 7
