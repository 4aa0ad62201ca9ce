"""position-json: what is read, what is noted, what is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.importers.benchmarks.position_json import read
from traces.replay.walk import replay_chain

LENGTHS = st.lists(st.integers(1, 30), max_size=20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("position")


@given(st.lists(LENGTHS, min_size=1, max_size=4), st.booleans(), st.integers(0, 1))
def test_reads_what_was_written(folder, texts, with_drafted, first):
    requests = [{"prompt_tokens": 10 + i, "emitted": text} for i, text in enumerate(texts)]
    for request in requests if with_drafted else []:
        request["drafted"] = [length + 1 for length in request["emitted"]]
    file = folder / "trace.json"
    file.write_text(json.dumps({"first_step_position": first, "requests": requests}))
    trace = read(file)
    assert (trace.level, trace.first_step_position, trace.file) == (1, first, str(file))
    assert trace.output_tokens.tolist() == [len(text) for text in texts]
    flat = [length for text in texts for length in text]
    assert trace.emitted.tolist() == flat
    assert trace.prompt_tokens.tolist() == list(range(10, 10 + len(texts)))
    assert (trace.drafted is None) != with_drafted
    if with_drafted:
        assert trace.drafted.tolist() == [length + 1 for length in flat]


def write(tmp_path, document):
    file = tmp_path / "trace.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return file


def test_names_kinds_defaults_and_notes(tmp_path):
    file = write(
        tmp_path,
        {
            "model": "x",
            "requests": [{"id": 7, "kind": "math", "emitted": [1, 2]}, {"emitted": [1]}],
        },
    )
    trace = read(file, match_rate=0.25)
    assert (trace.request_ids, trace.prompt_kinds, trace.prompt_tokens.tolist()) == (
        ("7", "1"),
        ("math", ""),
        [0, 0],
    )
    assert trace.match_rate == 0.25 and replay_chain(trace, 2).proposal_ratio == 1 / 3
    assert "Level 1" in trace.provenance.notes and "model" in trace.provenance.notes
    assert "every step is taken to propose" in read(file).provenance.notes


def test_drafted_lengths_win_over_a_match_rate(tmp_path):
    file = write(tmp_path, {"requests": [{"emitted": [1, 2], "drafted": [0, 5]}]})
    trace = read(file, match_rate=0.25)
    assert trace.match_rate is None and "not needed" in trace.provenance.notes


@pytest.mark.parametrize(
    ("document", "key"),
    [
        ("", None),
        ("nonsense", None),
        ("[" * 100_000, None),
        ("9" * 5000, None),
        ([], "document"),
        ({}, "requests"),
        ({"requests": {}}, "requests"),
        ({"requests": []}, "requests"),
        ({"requests": [3]}, "requests[0]"),
        ({"requests": [{}]}, "requests[0].emitted"),
        ({"requests": [{"emitted": "123"}]}, "requests[0].emitted"),
        ({"requests": [{"emitted": [1, 0]}]}, "requests[0].emitted[1]"),
        ({"requests": [{"emitted": [1, True]}]}, "requests[0].emitted[1]"),
        ({"requests": [{"emitted": [1, 1.0]}]}, "requests[0].emitted[1]"),
        ({"requests": [{"emitted": [40_000]}]}, "requests[0].emitted[0]"),
        ({"requests": [{"emitted": [1], "drafted": [1, 2]}]}, "requests[0].drafted"),
        ({"requests": [{"emitted": [1], "drafted": [-1]}]}, "requests[0].drafted[0]"),
        ({"requests": [{"emitted": [1], "drafted": [1]}, {"emitted": [1]}]}, "requests"),
        ({"requests": [{"emitted": [1], "prompt_tokens": -1}]}, "requests[0].prompt_tokens"),
        ({"requests": [{"emitted": [1], "prompt_tokens": 2**40}]}, "requests[0].prompt_tokens"),
        ({"requests": [{"emitted": [1], "id": [1]}]}, "requests[0].id"),
        ({"requests": [{"emitted": [1]}], "first_step_position": -1}, "first_step_position"),
        ({"requests": [{"emitted": [1]}], "first_step_position": "0"}, "first_step_position"),
    ],
)
def test_refusals_name_file_and_key(tmp_path, document, key):
    with pytest.raises(InputError) as caught:
        read(write(tmp_path, document))
    assert caught.value.key == key and "trace.json" in str(caught.value)


def test_match_rate_out_of_range(tmp_path):
    with pytest.raises(InputError, match="match_rate"):
        read(write(tmp_path, {"requests": [{"emitted": [1]}]}), match_rate=1.5)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
REQUEST = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("emitted", "drafted", "prompt_tokens", "id", "kind"), JSON | LENGTHS),
)


@given(
    st.fixed_dictionaries(
        {"requests": JSON | st.lists(REQUEST, max_size=3)}, optional={"first_step_position": JSON}
    )
)
def test_hostile_values_raise_input_errors_only(folder, document):
    file = folder / "hostile.json"
    file.write_text(json.dumps(document))
    try:
        assert read(file).level == 1
    except InputError as error:
        assert "hostile.json" in str(error)


@given(st.binary(max_size=60))
def test_hostile_bytes_raise_input_errors_only(folder, content):
    file = folder / "hostile.json"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"hostile\.json"):
        read(file)
