"""SpecDecode-Bench: three layouts, two drafters, lengths of their own."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.importers.benchmarks.specdecode_bench import read
from traces.replay.walk import replay_chain

EAGLE, NGRAM = [[3, 2, 1], [2, 2, 1, 2]], [[1, 1], [4, 3, 2, 1, 1]]


def layouts():
    """The same two requests as the three layouts write them."""
    names = ["a", "b"]
    short = [
        {
            "id": name,
            "dataset": "made",
            "prompt_len": 4,
            "gen_len": 9,
            "acc_len_eagle": e,
            "acc_len_ngram": n,
        }
        for name, e, n in zip(names, EAGLE, NGRAM, strict=True)
    ]
    published = [
        {
            "id": name,
            "prompt_token_ids": [1, 2, 3, 4],
            "generated_token_ids": [5],
            "acc_eagle": {"acc_len": e},
            "acc_ngram": {"acc_len": n, "other": []},
        }
        for name, e, n in zip(names, EAGLE, NGRAM, strict=True)
    ]
    rows = [
        {"id": x, "prompt_len": 4, "eagle": e, "ngram": n}
        for x, e, n in zip(names, EAGLE, NGRAM, strict=True)
    ]
    yield "\n".join(json.dumps(line) for line in short)
    yield "\n\n".join(json.dumps(line) for line in published) + "\n"
    yield json.dumps({"source": {}, "rows": rows})
    yield json.dumps({"source": {}, "rows": rows}, indent=1)


@pytest.mark.parametrize("text", list(layouts()))
@pytest.mark.parametrize(("drafter", "lengths"), [("eagle", EAGLE), ("ngram", NGRAM)])
def test_layouts_agree(tmp_path, text, drafter, lengths):
    file = tmp_path / "bench.jsonl"
    file.write_text(text)
    trace = read(file, drafter=drafter)
    assert trace.emitted.tolist() == [length for each in lengths for length in each]
    assert trace.output_tokens.tolist() == [len(each) for each in lengths]
    assert trace.request_ids == ("a", "b") and trace.prompt_tokens.tolist() == [4, 4]
    assert trace.level == 1 and "no trees" in trace.provenance.notes


def test_match_rate_is_for_ngram(tmp_path):
    file = tmp_path / "bench.jsonl"
    file.write_text(next(layouts()))
    trace = read(file, drafter="ngram", match_rate=0.9)
    assert (
        replay_chain(trace, 3).proposal_ratio == 0.9 and "0.9 is assumed" in trace.provenance.notes
    )
    assert "dearest" in read(file, drafter="ngram").provenance.notes
    with pytest.raises(InputError, match="match_rate"):
        read(file, match_rate=0.9)
    with pytest.raises(InputError, match="drafter"):
        read(file, drafter="medusa")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "{",
        "[]",
        "3",
        '{"rows": []}',
        '{"rows": 3}',
        '{"rows": [1]}',
        '{"id": "a"}',
        '{"id": "a", "eagle": null}',
        '{"id": "a", "eagle": [0]}',
        '{"id": "a", "acc_eagle": {}}',
        '{"id": "a", "eagle": [1], "prompt_len": "4"}',
        '{"id": "a", "eagle": [1], "prompt_token_ids": 4}',
        '{"id": ["a"], "eagle": [1]}',
        '{"id": "a", "eagle": [1], "dataset": {}}',
        '{"id": "a", "eagle": [1]}\nrubbish',
        '{"id": "a", "eagle": [1]}\n[1]',
    ],
)
def test_refusals_name_the_file(tmp_path, text):
    file = tmp_path / "bench.jsonl"
    file.write_text(text)
    with pytest.raises(InputError, match=r"bench\.jsonl"):
        read(file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bench")


VALUES = st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(0, 9), max_size=5)
KEYS = (
    "id",
    "dataset",
    "prompt_len",
    "prompt_token_ids",
    "eagle",
    "acc_len_eagle",
    "acc_eagle",
    "rows",
)
LINES = st.lists(
    st.dictionaries(st.sampled_from(KEYS), VALUES | st.dictionaries(st.just("acc_len"), VALUES)),
    max_size=4,
)


@given(LINES | st.binary(max_size=40))
def test_hostile_lines_raise_input_errors_only(folder, content):
    file = folder / "hostile.jsonl"
    file.write_bytes(
        content if isinstance(content, bytes) else "\n".join(map(json.dumps, content)).encode()
    )
    try:
        assert read(file).level == 1
    except InputError as error:
        assert "hostile.jsonl" in str(error)


def test_published_lines_agree_with_the_position_trace(reference_data):
    """The same recording in two layouts: the lines are its first requests."""
    lines = reference_data / "engine_logs" / "specdecodebench_gsm8k.jsonl"
    rows = reference_data / "acceptance" / "position_trace_llama31_8b_gsm8k.json"
    for drafter in ("eagle", "ngram"):
        first, whole = read(lines, drafter=drafter), read(rows, drafter=drafter)
        common = [whole.request_ids.index(each) for each in first.request_ids]
        assert whole.select(common).emitted.tolist() == first.emitted.tolist()


def test_lengths_in_the_published_traces(reference_data):
    """Each drafter decoded a text of its own; EAGLE-3 lengths run past the end of it."""
    file = reference_data / "acceptance" / "position_trace_llama31_8b_gsm8k.json"
    document = json.loads(file.read_text())["rows"]
    eagle, ngram = read(file), read(file, drafter="ngram")
    assert eagle.output_tokens.tolist() == [len(row["eagle"]) for row in document]
    assert ngram.output_tokens.tolist() == [row["gen_len"] for row in document]
    assert eagle.output_tokens.tolist() != ngram.output_tokens.tolist()
    assert max(eagle.emitted.max(), ngram.emitted.max()) == 21
    left = [n - i for n in eagle.output_tokens.tolist() for i in range(n)]
    assert (
        sum(length > rest for length, rest in zip(eagle.emitted.tolist(), left, strict=True)) > 1000
    )
