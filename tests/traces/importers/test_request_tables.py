"""Request traces from outside: every source's columns, and everything that can be wrong with
them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError, UnknownNameError
from traces.importers.formats import REQUEST_READERS, import_requests, read_requests_any
from traces.importers.requests.tables import TABLES
from traces.kinds.provenance import BLOCK_TOKENS_KEY
from traces.storage.acceptance_file import read_requests, write_requests

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
"""
MOONCAKE = [
    {"timestamp": 27000, "input_length": 1100, "output_length": 52, "hash_ids": [46, 47, 48]},
    {"timestamp": 30500, "input_length": 700, "output_length": 26, "hash_ids": [46, 49]},
]


@pytest.fixture
def write(tmp_path):
    def place(name, content):
        file = tmp_path / name
        if isinstance(content, dict):
            pq.write_table(pa.table(content), file)
        else:
            file.write_text(content)
        return file

    return place


def test_azure_csv(write):
    trace = import_requests("azure", write("conv.csv", AZURE))
    np.testing.assert_allclose(trace.arrival_s, [0.0, 4.314579, 4.541877], atol=1e-9)
    assert trace.prompt_tokens.tolist() == [374, 396, 879]
    assert trace.output_tokens.tolist() == [44, 109, 55]
    assert trace.prefix_blocks is None


@pytest.mark.parametrize("zone", ["+00:00", "-05:00", "Z"])
def test_azure_2024_has_a_time_zone(write, zone):
    text = AZURE.replace("46.6805900", f"46.680590{zone}").replace("50.9951690", f"50.995169{zone}")
    trace = import_requests(
        "azure", write("conv.csv", text.replace("51.2224670", f"51.222467{zone}"))
    )
    np.testing.assert_allclose(trace.arrival_s, [0.0, 4.314579, 4.541877], atol=1e-9)


def test_mooncake_lines(write):
    trace = import_requests("mooncake", write("m.jsonl", "\n".join(map(json.dumps, MOONCAKE))))
    np.testing.assert_allclose(trace.arrival_s, [0.0, 3.5])
    assert trace.prefix_blocks == ((46, 47, 48), (46, 49))
    assert trace.provenance.extra == {BLOCK_TOKENS_KEY: 512}


def test_tables_keep_their_arrivals(write):
    columns = {"arrival_s": [0.5, 0.75], "input_tokens": [40, 33], "output_tokens": [3, 9]}
    plain = import_requests("vllm-requests", write("w.parquet", columns))
    assert plain.arrival_s.tolist() == [0.5, 0.75] and plain.prefix_blocks is None
    shared = import_requests(
        "vllm-requests", write("p.parquet", columns | {"prefix_block16_ids": [[1, 2], [1, 3]]})
    )
    assert shared.prefix_blocks == ((1, 2), (1, 3))
    assert shared.provenance.extra == {BLOCK_TOKENS_KEY: 16}


def test_lengths_arrive_at_zero(write):
    trace = import_requests(
        "lengths", write("l.parquet", {"input_tokens": [5, 6], "output_tokens": [7, 8]})
    )
    assert trace.arrival_s.tolist() == [0.0, 0.0]
    assert "to be drawn anew" in trace.provenance.notes


def test_benchmark_results_are_put_in_order(write):
    result = {
        "input_lens": [10, 20, 30],
        "output_lens": [1, 2, 3],
        "start_times": [101.0, 100.0, 102.5],
    }
    trace = import_requests("vllm-requests", write("r.json", json.dumps(result)))
    assert trace.arrival_s.tolist() == [0.0, 1.0, 2.5]
    assert trace.prompt_tokens.tolist() == [20, 10, 30] and trace.output_tokens.tolist() == [
        2,
        1,
        3,
    ]
    del result["start_times"]
    assert (
        import_requests("vllm-requests", write("s.json", json.dumps(result))).arrival_s.tolist()
        == [0.0] * 3
    )


def test_requests_without_an_output_are_left_out_and_counted(write):
    trace = import_requests(
        "lengths", write("l.csv", "input_tokens,output_tokens\n5,6\n7,0\n0,3\n")
    )
    assert trace.prompt_tokens.tolist() == [5]
    assert "2 requests without a prompt or an output were left out" in trace.provenance.notes


def test_any_form_is_recognised(write, tmp_path):
    azure = read_requests_any(write("a.csv", AZURE))
    own = tmp_path / "own.parquet"
    write_requests(azure, own)
    again = read_requests_any(own)
    assert (
        again.arrival_s.tolist()
        == azure.arrival_s.tolist()
        == read_requests(own).arrival_s.tolist()
    )
    assert read_requests_any(write("m.jsonl", json.dumps(MOONCAKE[0]))).prefix_blocks == (
        (46, 47, 48),
    )
    table = {"input_tokens": [5], "output_tokens": [7]}
    assert read_requests_any(write("l.parquet", table)).arrival_s.tolist() == [0.0]
    assert read_requests_any(
        write("t.parquet", table | {"arrival_s": [2.0]})
    ).arrival_s.tolist() == [2.0]
    with pytest.raises(InputError, match="reads it with --format"):
        read_requests_any(write("x.txt", "5 7"))


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.integers(1, 10**6), st.integers(1, 10**6)),
        min_size=1,
        max_size=20,
    )
)
def test_what_is_written_as_a_table_is_read_back(tmp_path_factory, rows):
    rows = sorted(rows)
    file = tmp_path_factory.mktemp("t") / "t.jsonl"
    keys = ("arrival_s", "input_tokens", "output_tokens")
    file.write_text("\n".join(json.dumps(dict(zip(keys, row, strict=True))) for row in rows))
    trace = import_requests("vllm-requests", file)
    assert [*zip(trace.arrival_s, trace.prompt_tokens, trace.output_tokens, strict=True)] == rows


@given(
    st.sampled_from(
        [(form, column) for form, table in TABLES.items() for column in table.arrival]
        + [(form, None) for form, table in TABLES.items() if not table.arrival]
    ),
    st.data(),
)
def test_columns_of_every_table_mean_what_its_entry_says(tmp_path_factory, entry, data):
    form, arrival = entry
    table = TABLES[form]
    prompt, output = (
        data.draw(st.sampled_from(names)) for names in (table.prompt_tokens, table.output_tokens)
    )
    times = sorted(data.draw(st.lists(st.integers(0, 10**6), min_size=1, max_size=9)))
    rows = [{prompt: at + 1, output: at + 2} for at in range(len(times))]
    for row, time in zip(rows, times, strict=True):
        if arrival is not None:
            row[arrival.name] = time
        if table.prefix_blocks:
            row[table.prefix_blocks[0]] = [1, 2]
    file = tmp_path_factory.mktemp("t") / "t.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    trace = import_requests(form, file)
    begin = times[0] if arrival is not None and arrival.since_first else 0
    unit_s = 0.0 if arrival is None else arrival.unit_s
    assert trace.arrival_s.tolist() == [(time - begin) * unit_s for time in times]
    assert trace.prompt_tokens.tolist() == [row[prompt] for row in rows]
    assert trace.output_tokens.tolist() == [row[output] for row in rows]


@pytest.mark.parametrize(
    ("form", "name", "content", "message"),
    [
        ("azure", "a.csv", "TIMESTAMP,ContextTokens\n2023-11-16 18:15:46,3\n", "GeneratedTokens"),
        ("azure", "a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n", "at least one request"),
        (
            "azure",
            "a.csv",
            AZURE.replace("2023-11-16 18:15:50", "2023-11-16 18:15:40"),
            "must be sorted",
        ),
        ("azure", "a.csv", AZURE.replace("18:15:50.9951690", "25:99:99"), "must be times"),
        (
            "azure",
            "a.csv",
            AZURE.replace("396", "-396"),
            "row 2, ContextTokens: must be whole numbers",
        ),
        ("azure", "a.csv", AZURE.replace("396", "39.5"), "whole numbers"),
        (
            "azure",
            "a.csv",
            "arrival_s,input_tokens,output_tokens\n0,3,4\n1,-3,4\n",
            "row 2, input_tokens: must be whole numbers",
        ),
        ("azure", "a.csv", AZURE.replace("396", "many"), "whole numbers"),
        ("azure", "a.csv", AZURE.replace(",109", ""), "must stand in every row"),
        ("mooncake", "m.jsonl", json.dumps(MOONCAKE[0] | {"hash_ids": [1, "x"]}), "hash_ids"),
        (
            "mooncake",
            "m.jsonl",
            "\n".join(json.dumps(row) for row in (MOONCAKE[0], {**MOONCAKE[1], "hash_ids": None})),
            "hash_ids",
        ),
        ("mooncake", "m.jsonl", json.dumps(MOONCAKE[0] | {"timestamp": "soon"}), "must be numbers"),
        ("mooncake", "m.jsonl", "{", "JSON"),
        ("lengths", "l.parquet", {"input_tokens": [5]}, "output_tokens"),
        (
            "lengths",
            "l.parquet",
            {"input_tokens": ["5"], "output_tokens": [1]},
            "column of numbers",
        ),
        ("lengths", "l.csv", "input_tokens,output_tokens\n5,0\n", "a prompt and an output"),
        ("lengths", "l.parquet", "not Parquet", "no whole Parquet file"),
        (
            "vllm-requests",
            "v.csv",
            "arrival_s,input_tokens,output_tokens\n-1,3,4\n",
            "must be >= 0",
        ),
        ("vllm-requests", "v.csv", "arrival_s,input_tokens,output_tokens\nnan,3,4\n", "finite"),
        (
            "vllm-requests",
            "v.json",
            json.dumps({"input_lens": [3], "output_lens": [3, 4]}),
            "as long as",
        ),
        (
            "vllm-requests",
            "v.json",
            json.dumps({"input_lens": [], "output_lens": [], "start_times": []}),
            "finite",
        ),
        ("vllm-requests", "v.json", json.dumps({"input_lens": [3]}), "output_lens"),
    ],
)
def test_what_is_wrong_is_named(write, form, name, content, message):
    file = write(name, content)
    with pytest.raises(InputError, match=message) as error:
        import_requests(form, file)
    assert name in str(error.value)


def test_formats_are_named_and_files_must_exist(tmp_path):
    with pytest.raises(UnknownNameError, match="mooncake"):
        import_requests("moon", tmp_path / "x")
    for form in REQUEST_READERS:
        with pytest.raises(InputError, match="no such file"):
            import_requests(form, tmp_path / "x.parquet")


@pytest.mark.parametrize(
    ("form", "name", "requests"),
    [
        ("azure", "azure2023_code", 4409),
        ("azure", "azure2023_conv", 9683),
        ("mooncake", "mooncake_conversation", 6015),
        ("lengths", "sharegpt10k_lengths", 5000),
    ],
)
def test_published_traces(reference_data, form, name, requests):
    trace = import_requests(form, reference_data / "workloads" / f"{name}.parquet")
    assert trace.requests == requests
    assert (
        np.all(np.diff(trace.arrival_s) >= 0)
        and trace.prompt_tokens.min() >= 1
        and trace.output_tokens.min() >= 1
    )
    if form == "mooncake":
        started = np.ceil(trace.prompt_tokens / 512).astype(int)
        assert [len(ids) for ids in trace.prefix_blocks] == started.tolist()
