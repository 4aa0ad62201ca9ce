"""Links: what a URL says is checked, and says the same again."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dashboard.device_numbers import DEVICE_NUMBERS, number_as_sold
from app.dashboard.former_links import FORMER_KEYS, FORMER_RATIOS
from app.dashboard.state import (
    CHOICES,
    FIELDS,
    PAGES,
    State,
    as_sold,
    checked,
    command,
    control_of,
    device_words,
    from_query,
    is_modified,
    overrides,
    to_query,
)
from app.questions import fields as table
from app.questions.breakeven import BreakevenQuestion
from app.questions.field import fields_of
from app.questions.predict import PredictQuestion
from app.questions.simulate import SimulateQuestion
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device

LENGTHS = "smollm2-135m--prompt-lookup--greedy"


TEXTS = {
    "acceptance": ["", "0.7", "0.8,0.6,.25"],
    "draft_bytes": ["", "350MB", "3.5e8", "16 GiB"],
    "draft_name": ["", "ours", "Our-1.2"],
    "rivals": [
        "",
        "eagle-3",
        "eagle-3:0.8,0.6;n-gram:length=2.4@3;mtp:0.85",
        f"n-gram:{LENGTHS}",
    ],
}


def values(name):
    field = FIELDS[name]
    if name in TEXTS:
        return st.sampled_from(TEXTS[name])
    if field.type is str:
        return st.sampled_from(CHOICES.get(name) or [field.default])
    low, high = control_of(name).least, control_of(name).most
    if field.type is int:
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
        ("slo_tpot_ms", "-1", "0..100000"),
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
        ("acceptance", "0.8;rm", "rates in 0..1"),
        ("acceptance", "1.5", "rates in 0..1"),
        ("known_by", "rumour", "one of published"),
        ("upload", "x", "no part of"),
        ("rivals", "eagle-3:/etc/passwd", "METHOD or METHOD:SOURCE"),
        ("rivals", "eagle-3:etc", "unknown trace"),
        ("rivals", "/etc/method.toml:0.7", "must name a method, not a file"),
        ("draft_bytes", "-1", "must be a number of bytes above 0"),
        ("draft_bytes", "350 m", "must be a number of bytes above 0"),
        ("draft_passes", "0", "1..4095"),
        ("draft_name", "a b", "letters and digits"),
        ("memory_gb", "-1", "0..1e+06"),
        ("device", "device-0123456789abcdef", "unknown"),
        ("rivals", "toaster:0.5", "unknown method"),
        ("rivals", ";".join(7 * ["eagle-3"]), "at most 6"),
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


def test_modified_numbers_become_overrides_that_the_device_then_has():
    assert overrides(State()) == ()
    state = State(**{name: float(place + 1) for place, name in enumerate(DEVICE_NUMBERS)})
    device = load_device(state.device, overrides(state))
    for name, number in DEVICE_NUMBERS.items():
        table, _, dtype = number.key.partition(".")
        value = getattr(device, table)
        value = value[dtype] if dtype else value
        assert value == pytest.approx(getattr(state, name) * number.factor), name
    assert as_sold(state) == State() and is_modified(state) and not is_modified(State())
    assert device_words(state) == "h100-sxm, modified"


@given(
    st.sampled_from(["h100-sxm", "l4", "mi300x", "cpu-amd-epyc--1-thread"]),
    st.dictionaries(st.sampled_from(sorted(FORMER_RATIOS)), st.floats(0.25, 4.0), max_size=5),
)
def test_links_with_factors_open_as_the_numbers_that_they_made(device, ratios):
    query = {name: f"{ratio:.10g}" for name, ratio in ratios.items()}
    state, wrong = from_query(query | {"device": device})
    assert not wrong
    for ratio_name, fields in FORMER_RATIOS.items():
        ratio = float(query.get(ratio_name, 1.0))
        for name in fields:
            sold = number_as_sold(device, name)
            stated = sold is not None and ratio != 1.0
            assert getattr(state, name) == pytest.approx(sold * ratio if stated else 0.0), name
    assert from_query(to_query(state)) == (state, [])


@pytest.mark.parametrize("text", ["0.2", "5", "nan", "much"])
def test_factors_that_never_could_be_are_left_out_and_named(text):
    state, wrong = from_query({"bandwidth_ratio": text})
    assert state == State() and "bandwidth_ratio" in wrong[0]


def test_a_command_is_quoted_and_leaves_out_what_is_not_given():
    words = {"a": None, "b": "", "c": 0.5, "d": ("x", "y z"), "e": True, "f": False}
    assert command(["predict"], words) == "rooftree predict --c 0.5 --d x --d 'y z' --e"


def test_contexts_are_allowed_values():
    assert all(
        checked(name, str(tick)) == tick
        for name, field in FIELDS.items()
        if field.row.control
        for tick in field.row.control.ticks
    )


SHARED = {
    field.keyword: field
    for question in (PredictQuestion, BreakevenQuestion, SimulateQuestion)
    for field in fields_of(question)
}
TABLE = {row for hint in vars(table).values() for row in getattr(hint, "__metadata__", ())}


def test_what_a_verb_asks_too_has_its_name_in_a_link_and_its_row_of_the_table():
    own = {name for name, field in FIELDS.items() if field.row not in TABLE}
    assert own == {
        "page",
        "pinned",
        "other_device",
        "known_by",
        "rivals",
        "other_trace",
        "confidence",
        "threshold",
        "agreement_ratio",
        "recorded_prompt",
        "measured",
        "tree_nodes",
        "depth",
        *DEVICE_NUMBERS,
    }
    assert not own & set(SHARED), "one name, two things"
    assert {*FIELDS} - own <= set(SHARED), "the names of the command line and of Python"


def test_what_a_page_asks_for_begins_within_what_it_allows():
    for name, field in FIELDS.items():
        assert name == "page" or (control_of(name).label and control_of(name).help)
        assert checked(name, str(field.default)) == field.default


@given(STATES, st.sampled_from(["rate", "rates"]))
def test_links_of_earlier_versions_open(state, known_by):
    state = replace(state, known_by=known_by)
    query = {"known_by": known_by}
    for former, name in FORMER_KEYS.items():
        if name != "acceptance" and name in to_query(state):
            query[former] = to_query(state)[name]
    if known_by == "rates" and state.acceptance:
        query |= {"rates": state.acceptance, "acceptance_ratio": "0.123"}
    elif state.acceptance:
        state = replace(state, acceptance="0.25")
        query |= {"rates": "0.9,0.8", "acceptance_ratio": "2.5e-01"}
    opened, wrong = from_query(query)
    assert not wrong
    assert [getattr(opened, name) for name in {*FORMER_KEYS.values()}] == [
        getattr(state, name) for name in {*FORMER_KEYS.values()}
    ]


def test_the_key_of_today_counts_more_than_that_of_an_earlier_link():
    opened, wrong = from_query({"slo_tpot_ms": "10", "slo_tpot": "20", "slo_ttft_ms": "1e3"})
    assert (opened.slo_tpot, opened.slo_ttft, wrong) == (20.0, 1000.0, [])
