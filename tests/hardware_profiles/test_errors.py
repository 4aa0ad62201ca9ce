"""The exception tree: one line per error, exit codes, nearest names, and survival across
processes."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import (
    InfeasibleError,
    InputError,
    RooftreeError,
    UnknownNameError,
    joined,
    nearest_names,
    separate,
)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({}, "must be above 0"),
        ({"value": -1}, "must be above 0, got -1"),
        ({"key": "power.W"}, "power.W: must be above 0"),
        (
            {"file": "a.toml", "key": "power.W", "value": -1},
            "a.toml: power.W: must be above 0, got -1",
        ),
        ({"file": "a.toml", "value": 0}, "a.toml: must be above 0, got 0"),
    ],
)
def test_message_names_what_is_known(parts, text):
    assert str(InputError("must be above 0", **parts)) == text


def test_long_values_are_shortened():
    assert len(str(InputError("too long", value="x" * 10_000))) < 200


def test_exit_codes():
    assert (InputError.exit_code, UnknownNameError.exit_code, InfeasibleError.exit_code) == (
        2,
        2,
        3,
    )
    assert issubclass(UnknownNameError, InputError)
    assert issubclass(InputError, RooftreeError) and issubclass(InfeasibleError, RooftreeError)
    assert not issubclass(InfeasibleError, InputError)


def test_unknown_name_offers_the_nearest():
    error = UnknownNameError("device", "h10", ["l4", "h100-sxm", "h100-pcie"])
    assert str(error) == "unknown device 'h10'; nearest: h100-sxm, h100-pcie"
    assert "there is no device" in str(UnknownNameError("device", "h10", []))


@pytest.mark.parametrize(
    "error",
    [
        InputError("wrong", file="f", key="k", value=[1, 2]),
        InfeasibleError("does not fit", value=3.5),
        UnknownNameError("device", "x", ["l4"], file="f", key="--device"),
    ],
)
def test_errors_cross_processes(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)


@given(st.lists(st.text(max_size=12), min_size=1, unique=True), st.text(max_size=12))
def test_nearest_names_are_known_names(known, name):
    offered = nearest_names(name, known)
    assert 1 <= len(offered) <= 5
    assert set(offered) <= set(known)
    assert len(set(offered)) == len(offered)


@given(st.lists(st.text("abcdefgh-", min_size=1, max_size=12), min_size=1, unique=True), st.data())
def test_a_known_name_is_its_own_nearest(known, data):
    name = data.draw(st.sampled_from(known))
    longer = [each for each in known if each.startswith(name)]
    assert name in nearest_names(name, known) or len(longer) > 5


@given(st.lists(st.text(max_size=9), min_size=1, max_size=5))
def test_errors_that_were_joined_are_taken_apart_again(messages):
    errors = tuple(InputError(message, file="a.toml") for message in messages)
    assert separate(joined(errors)) == errors
