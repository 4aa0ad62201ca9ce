"""`predict --table`: files of rows in, one answer per row out."""

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.answers.predict.table import served_row
from app.render.json import jsonable
from simulator.closed_loop.table_rows import RowAnswer

ROWS = [
    {
        "id": "a",
        "backend": "vllm",
        "model_path": "llama-3.1-8b",
        "system": "h100_sxm",
        "isl": 256,
        "osl": 16,
        "concurrency": 4,
        "note": "x",
    },
    {
        "id": "b",
        "backend": "sglang",
        "model_path": "acme/none",
        "system": "h100_sxm",
        "isl": 256,
        "osl": 16,
        "concurrency": 4,
        "note": "y",
    },
]


@pytest.fixture
def write(tmp_path):
    def write_(rows, name="t.csv"):
        path = tmp_path / name
        if path.suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
            return str(path)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        return str(path)

    return write_


def test_csv_and_parquet_give_the_same_rows(rooftree, write):
    answers = []
    for name in ("t.csv", "t.parquet"):
        ended = rooftree("predict", "--table", write(ROWS, name), "--json")
        assert ended.code == 0
        answers.append(json.loads(ended.out))
    first = answers[0]
    assert first["schema"] == 4
    assert first["rows"] == answers[1]["rows"]
    assert [row["id"] for row in first["rows"]] == ["a", "b"]
    good, bad = first["rows"]
    assert set(good) == {
        "id",
        "ttft_ms",
        "tpot_ms",
        "ttft_ms_interval",
        "tpot_ms_interval",
        "reason",
    }
    assert good["reason"] is None
    assert good["tpot_ms_interval"][0] < good["tpot_ms"] < good["tpot_ms_interval"][1]
    assert bad["ttft_ms"] is None
    assert bad["tpot_ms_interval"] is None
    assert "acme/none" in bad["reason"]


def test_the_answer_goes_to_a_file_or_a_folder(rooftree, write, tmp_path):
    table = write(ROWS)
    assert (
        rooftree(
            "predict", "--table", table, "--out", str(tmp_path / "new" / "mine.json"), "--quiet"
        ).out
        == ""
    )
    assert rooftree("predict", "--table", table, "--out", str(tmp_path), "--quiet").code == 0
    mine = json.loads((tmp_path / "new" / "mine.json").read_text())
    assert mine["rows"] == json.loads((tmp_path / "rows.json").read_text())["rows"]


def test_without_json_a_table_is_printed(rooftree, write):
    ended = rooftree("predict", "--table", write(ROWS))
    assert ended.code == 0
    assert "TPOT ms" in ended.out
    assert "1 of 2 rows without an answer" in ended.out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "lacks the column"),
        (b"id,isl\n1,2\n", "backend: lacks the column"),
        (b"PAR1 and nothing else", "is no whole Parquet file"),
        (b"\xff\xfe\x00\x01", "neither Parquet nor CSV"),
        (b"backend,model_path,system,isl,osl\nvllm,a,b,1,2,3,4\n", "more values than columns"),
        (b"backend,model_path,system,isl,osl\nvllm,a,b,one,2\n", "row 0, column isl"),
        (b'backend,model_path,system,isl,osl\n"vllm,a,b', "neither Parquet nor CSV"),
    ],
)
def test_foreign_files_end_with_one_line(rooftree, tmp_path, content, said):
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    ended = rooftree("predict", "--table", str(path), "--json")
    assert ended.code == 2
    assert ended.out == ""
    assert len(ended.err.splitlines()) == 1
    assert "bad.csv" in ended.err
    assert said in ended.err


def test_a_missing_file_and_a_folder_are_refused(rooftree, tmp_path):
    for path in (tmp_path / "none.csv", tmp_path):
        ended = rooftree("predict", "--table", str(path))
        assert ended.code == 2
        assert str(path) in ended.err


def test_a_truncated_parquet_file_is_refused(rooftree, write, tmp_path):
    whole = tmp_path / "cut.parquet"
    whole.write_bytes(Path(write(ROWS, "t.parquet")).read_bytes()[:-20])
    ended = rooftree("predict", "--table", str(whole))
    assert ended.code == 2
    assert "Parquet" in ended.err


@pytest.mark.parametrize(
    "option", [("--model", "llama-3.1-8b"), ("--acceptance", "0.5"), ("--trace", "x.parquet")]
)
def test_options_that_rows_say_themselves_are_refused(rooftree, write, option):
    ended = rooftree("predict", "--table", write(ROWS), *option)
    assert ended.code == 2
    assert option[0] in ended.err


def test_without_a_table_a_model_is_needed(rooftree):
    ended = rooftree("predict", "--acceptance", "0.5")
    assert ended.code == 2
    assert "Missing option '--model'" in ended.err


def test_answers_become_json_rows():
    rows = [jsonable(served_row(RowAnswer(id="x", reason="no")))]
    assert rows == [
        {
            "id": "x",
            "ttft_ms": None,
            "tpot_ms": None,
            "ttft_ms_interval": None,
            "tpot_ms_interval": None,
            "reason": "no",
        }
    ]


def test_a_launch_is_of_rows_that_name_none(rooftree, write):
    row = ROWS[0] | {"isl": 1024, "osl": 1024, "batch_size": 4, "backend_version": "0.18.0"}
    plain, named = row, row | {"id": "named", "launch": "inferencex"}
    both = write([plain | {"launch": ""}, named])

    def times(*options, table=both):
        rows = json.loads(rooftree("predict", "--table", table, *options, "--json").out)["rows"]
        return [row["ttft_ms"] for row in rows]

    own, by_name = times()
    assert times("--launch", "inferencex") == [by_name, by_name]
    assert times("--launch", "none") == [own, by_name] != [by_name, own]
    assert times("--launch", "as-published")[0] == times("--launch", "aiconfigurator")[0]


def test_a_launch_that_no_benchmark_has_or_without_a_table_is_refused(rooftree, write):
    ended = rooftree("predict", "--table", write(ROWS), "--launch", "inferencex-last-week")
    assert ended.code == 2 and "--launch: unknown launch" in ended.err
    ended = rooftree("predict", "--model", "llama-3.1-8b", "--launch", "inferencex")
    assert ended.code == 2 and "--launch: goes with --table" in ended.err
