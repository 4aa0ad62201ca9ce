"""Links: what a URL says is checked, and says the same again."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dashboard.state import (
    CONTEXTS,
    FIELDS,
    PAGES,
    State,
    checked,
    command,
    from_query,
    overrides,
    to_query,
)
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device

LENGTHS = "smollm2-135m--prompt-lookup--greedy"


def values(name):
    about = FIELDS[name]
    if name == "rates":
        return st.sampled_from(["", "0.7", "0.8,0.6,.25"])
    if name == "against":
        return st.sampled_from(
            ["", "eagle-3", "eagle-3:0.8,0.6;n-gram:length=2.4@3;mtp:0.85", f"n-gram:{LENGTHS}"]
        )
    if about.type is str:
        return st.sampled_from(about.metadata.get("among") or [about.default])
    low, high = about.metadata["range"]
    if about.type is int:
        return st.integers(low, high)
    return st.floats(low, high).map(lambda value: min(max(float(f"{value:.10g}"), low), high))


STATES = st.builds(State, **{name: values(name) for name in FIELDS})


@given(STATES)
def test_a_link_says_what_the_state_is(state):
    assert from_query(to_query(state)) == (state, [])


def test_defaults_need_no_link():
    assert to_query(State()) == {}
    assert from_query({}) == (State(), [])


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("batch", "0", "1..1024"),
        ("batch", "1e3", "whole number"),
        ("acceptance_ratio", "nan", "0..1"),
        ("acceptance_ratio", "2", "0..1"),
        ("context", "9" * 5000, "whole number"),
        ("engine", "magic", "one of vllm"),
        ("model", "../../etc/passwd", "shipped name"),
        ("model", "llama-3.1-8", "nearest"),
        ("page", "", "one of run"),
        ("device", "h10", "nearest"),
        ("trace", "none-such", "nearest"),
        ("x" * 999, "1", "no part of"),
        ("model", "", "unknown"),
        ("method", "<script>", "shipped name"),
        ("rates", "0.8;rm", "rates in 0..1"),
        ("rates", "1.5", "rates in 0..1"),
        ("known_by", "rumour", "one of published"),
        ("upload", "x", "no part of"),
        ("against", "eagle-3:/etc/passwd", "METHOD or METHOD:SOURCE"),
        ("against", "eagle-3:etc", "unknown trace"),
        ("against", "toaster:0.5", "unknown method"),
        ("against", ";".join(7 * ["eagle-3"]), "at most 6"),
        ("model", "dense-1tb", "unknown"),
        ("model", "config-0123456789abcdef", "unknown"),
    ],
)
def test_what_cannot_be_is_left_out_and_named(name, text, rule):
    state, wrong = from_query({name: text, "batch" if name != "batch" else "context": "8"})
    assert len(wrong) == 1
    assert rule in wrong[0]
    assert len(wrong[0]) < 1000
    assert 8 in (state.batch, state.context), "the rest of the link still holds"


@given(st.dictionaries(st.sampled_from([*FIELDS, "other"]), st.text(max_size=40), max_size=6))
def test_any_link_gives_a_state(query):
    state, wrong = from_query(query)
    assert state.page in PAGES
    assert len(wrong) <= len(query)


@given(st.sampled_from(sorted(FIELDS)), st.text(max_size=20))
def test_values_are_checked_or_refused(name, text):
    try:
        value = checked(name, text)
    except InputError as error:
        assert name in str(error)
    else:
        assert isinstance(value, FIELDS[name].type)


def test_factors_become_overrides_of_what_the_device_has():
    device = load_device("h100-sxm")
    assert overrides(State()) == ()
    found = dict(
        word.split("=") for word in overrides(replace(State(), bandwidth_ratio=2.0, peak_ratio=0.5))
    )
    assert float(found["device.bandwidth_bytes_per_s"]) == pytest.approx(
        2 * device.bandwidth_bytes_per_s
    )
    peaks = {key: float(value) for key, value in found.items() if "peak" in key}
    assert peaks == {
        f"device.peak_flops_per_s.{d}": pytest.approx(p / 2)
        for d, p in device.peak_flops_per_s.items()
    }


def test_a_command_is_quoted_and_leaves_out_what_is_not_given():
    words = {"a": None, "b": "", "c": 0.5, "d": ("x", "y z"), "e": True, "f": False}
    assert command(["predict"], words) == "rooftree predict --c 0.5 --d x --d 'y z' --e"


def test_contexts_are_allowed_values():
    assert all(checked("context", str(context)) == context for context in CONTEXTS)
