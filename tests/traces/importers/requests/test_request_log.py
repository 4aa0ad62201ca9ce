"""Anybody's own table or log of requests, whatever its columns are called."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.importers.formats import import_requests, read_requests_any
from traces.importers.requests.request_log import NAMES, named_columns
from traces.kinds.provenance import BLOCK_TOKENS_KEY


@pytest.fixture
def write(tmp_path):
    def place(text, name="own.csv"):
        file = tmp_path / name
        file.write_text(text)
        return file

    return place


@pytest.mark.parametrize(
    ("column", "times", "seconds"),
    [
        ("arrival_time", ["2.5", "4"], [2.5, 4.0]),
        ("Arrival (ms)", ["2500", "4000"], [2.5, 4.0]),
        ("start_ns", ["2500000000", "4000000000"], [2.5, 4.0]),
        ("ts", ["1700000000000", "1700000001500"], [0.0, 1.5]),
        ("created", ["1700000000", "1700000002"], [0.0, 2.0]),
        ("Request Time", ["2026-05-04T08:00:00Z", "2026-05-04T10:00:01.5+02:00"], [0.0, 1.5]),
        ("date", ["2026/05/04 08:00:00,250", "2026/05/04 08:00:01,000"], [0.0, 0.75]),
    ],
)
def test_times_of_every_spelling(write, column, times, seconds):
    rows = "".join(f"{time.replace(',', '.')},10,5\n" for time in times)
    trace = read_requests_any(write(f"{column},Prompt Tokens,outputTokens\n{rows}"))
    np.testing.assert_allclose(trace.arrival_s, seconds, atol=1e-9)
    assert trace.prompt_tokens.tolist() == [10, 10] and trace.output_tokens.tolist() == [5, 5]


@given(
    prompt=st.sampled_from(NAMES["prompt tokens"]),
    output=st.sampled_from(NAMES["output tokens"]),
    arrival=st.sampled_from(NAMES["arrival"]),
    sign=st.sampled_from(["", "_", " ", "-"]),
)
def test_names_are_compared_without_case_and_signs(prompt, output, arrival, sign):
    written = [f"{name[:3].upper()}{sign}{name[3:]}" for name in (arrival, prompt, output)]
    columns = named_columns(["model", f"usage.{written[1]}", written[2], written[0]])
    assert {column.name for column in columns.values()} == {
        written[0],
        f"usage.{written[1]}",
        written[2],
    }


def test_rows_are_sorted_and_failed_ones_are_left_out(write):
    text = "time_s;prompt_tokens;completion_tokens\n9;30;3\n4;10;\n2;20;2\n"
    trace = read_requests_any(write(text))
    assert trace.arrival_s.tolist() == [2.0, 9.0] and trace.prompt_tokens.tolist() == [20, 30]
    assert "1 rows without lengths were left out" in trace.provenance.notes
    assert "order of their arrival" in trace.provenance.notes


def test_logs_of_an_openai_style_server(write):
    rows = [
        {"response": {"body": {"created": 1700000000 + at, "usage": {"prompt_tokens": 7 + at, "completion_tokens": 2}}}}
        for at in range(3)
    ]  # fmt: skip
    lines = write("\n".join(map(json.dumps, rows)), "log.jsonl")
    listed = write(json.dumps(rows), "log.json")
    for file in (lines, listed):
        trace = read_requests_any(file)
        assert trace.arrival_s.tolist() == [0.0, 1.0, 2.0]
        assert trace.prompt_tokens.tolist() == [7, 8, 9]


def test_turns_of_a_session_share_their_history_and_prefixes_are_shared_by_all(write):
    text = (
        "t,prompt_tokens,output_tokens,session_id,prefix_id,prefix_tokens\n"
        "0,200,5,a,p,64\n1,140,5,b,p,64\n2,330,5,a,p,64\n3,100,5,a,p,64\n4,200,5,,,\n"
    ).replace("t,", "timestamp,", 1)
    trace = read_requests_any(write(text))
    first, other, second, again, alone = trace.prefix_blocks
    assert trace.provenance.extra == {BLOCK_TOKENS_KEY: 64}
    assert [len(ids) for ids in trace.prefix_blocks] == [3, 2, 5, 1, 0]
    assert second[:3] == first, "a prompt that has grown begins with the one before it"
    assert first[0] == other[0] == again[0], "the stated prefix"
    assert not set(first[1:]) & set(other[1:])
    assert alone == ()


def test_lengths_with_a_time_are_not_taken_without_it(write):
    text = "input_tokens,output_tokens,created_at\n5,6,2026-05-04 08:00\n7,8,2026-05-04 08:01\n"
    assert read_requests_any(write(text)).arrival_s.tolist() == pytest.approx([0.0, 60.0])


def test_mooncake_without_blocks_keeps_its_milliseconds(write):
    rows = [{"timestamp": at, "input_length": 5, "output_length": 6} for at in (1000, 3500)]
    trace = read_requests_any(write("\n".join(map(json.dumps, rows)), "m.jsonl"))
    assert trace.arrival_s.tolist() == [0.0, 2.5] and trace.prefix_blocks is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("when,prompt_tokens\n1,2\n", "must have a column of output tokens"),
        ("", "at least one request"),
        ("time,prompt_tokens,output_tokens\n", "at least one request"),
        ("time,prompt_tokens,output_tokens\n1,2,3\nsoon,2,3\n", "row 1, time.*must be times"),
        ("time,prompt_tokens,output_tokens\n1,2,3\n,2,3\n", "row 2, time.*every row"),
        ("time,prompt_tokens,output_tokens\n1,2.5,3\n", "row 1, prompt_tokens.*whole"),
        ("time,prompt_tokens,output_tokens\n-1,2,3\n", "row 1, time.*must be a time"),
        ("time,prompt_tokens,output_tokens\n1,,3\n", "a prompt and an output"),
    ],
)
def test_refusals_name_row_column_and_rule(write, text, message):
    with pytest.raises(InputError, match=message) as error:
        import_requests("request-log", write(text))
    assert "own.csv" in str(error.value)
