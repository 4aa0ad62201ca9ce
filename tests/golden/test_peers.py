"""Ours beside the public configurators', on rows and runs that both answer; nothing is fitted to
either."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.golden.peers import beside, speedups

PEERS = Path(__file__).parent / "peers"
FILES = sorted(PEERS.glob("*.parquet"))


def test_every_stored_prediction_is_of_a_published_row(reference_data):
    known = set()
    for name in ("silicon_sample", "silicon_sample_2"):
        known |= set(
            pq.read_table(reference_data / "serving" / f"{name}.parquet", columns=["id"])[
                "id"
            ].to_pylist()
        )
    for file in FILES:
        table = pq.read_table(file)
        assert table.column_names == ["id", "ttft_ms", "tpot_ms"]
        ids = table["id"].to_pylist()
        assert len(ids) == len(set(ids)) and set(ids) <= known
        assert min(table["tpot_ms"].to_pylist()) > 0


def test_the_table_beside_the_other_tools(sampled_score):
    """Who is nearer is an outcome, and is printed; what must hold is that the same measurements
    are compared, and that every answer is a time."""
    tools, rows = beside.tools_of(sampled_score, FILES)
    common = set.intersection(*map(set, tools.values()))
    print("\n".join(["", *beside.lines(sampled_score, FILES)]))
    assert list(tools) == ["rooftree", *(file.stem for file in FILES)] and common
    for tool, answers in tools.items():
        times = np.array([[answers[index][q] for q in beside.QUANTITIES] for index in answers])
        assert np.isfinite(times[:, 0]).all() and (times[:, 0] > 0).all(), tool
    unanswered = [row for index, row in enumerate(rows) if index not in tools["rooftree"]]
    assert all(row["reason"] for row in unanswered)


def test_a_table_of_two_tools_by_hand(tmp_path):
    """Two measurements that both answer and one that the other tool does not."""
    measurements = [
        {"ids": ["a", "a2"], "class": "dense", "measured_tpot_ms": 10.0, "measured_ttft_ms": 100.0}
        | {"tpot_ms": 11.0, "ttft_ms": 90.0, "reason": None},
        {"ids": ["b"], "class": "MoE", "measured_tpot_ms": 20.0, "measured_ttft_ms": 100.0}
        | {"tpot_ms": 20.0, "ttft_ms": 100.0, "reason": None},
        {"ids": ["c"], "class": "MoE", "measured_tpot_ms": 1.0, "measured_ttft_ms": 1.0}
        | {"tpot_ms": 5.0, "ttft_ms": 5.0, "reason": None},
    ]
    file = tmp_path / "theirs.parquet"
    columns = {"id": ["a", "a2", "b"], "ttft_ms": [100.0, 100.0, 150.0], "tpot_ms": [7, 9, 30.0]}
    pq.write_table(pa.table(columns), file)
    score = {"measurements": measurements}
    tools, _ = beside.tools_of(score, [file])
    assert tools["theirs"] == {
        0: {"tpot": 8.0, "ttft": 100.0},  # the median of the two that are one measurement
        1: {"tpot": 30.0, "ttft": 150.0},
    }
    _, _, ours, theirs, *_ = beside.lines(score, [file])
    assert ours.startswith("| all | rooftree | 3 of 3 | 2 | +5.0 | 5.0 / 5.0 / ")
    assert theirs.startswith("| all | theirs | 2 of 3 | 2 | +15.0 | 35.0 / 35.0 / ")


def test_speedups_beside_the_tool_that_prices_a_head(reference_data):
    questions = [
        question
        for question in speedups.questions(reference_data)
        if question["source"].startswith(("vLLM", "SpecBundle, SGLang, L"))
    ]
    answers = {
        row["id"]: row
        for row in map(
            json.loads,
            (PEERS / "aisimulate-0.13.0.dev-speedups.jsonl").read_text().splitlines(),
        )
    }
    print("\n".join(["", *speedups.lines(questions, answers)]))
    asked = {question["id"]: question for question in questions}
    assert answers.keys() <= asked.keys(), "an answer to what was not asked"
    for question in asked.values():
        assert 0.3 < question["rooftree"] < 10.0 and question["measured"] > 0.0
        in_range = question["method"] == "eagle-3"
        assert bool((answers.get(question["id"]) or {}).get("speedup")) == in_range, question["id"]


def test_a_table_of_speedups_by_hand():
    questions = [
        {"source": "s", "id": "a", "rooftree": 2.2, "measured": 2.0},
        {"source": "s", "id": "b", "rooftree": 1.0, "measured": 2.0},
    ]
    header, _, line = speedups.lines(questions, {"a": {"speedup": 1.0}, "b": {"speedup": None}})
    assert header.startswith("| measured | runs |")
    assert line == "| s | 2 | 30.0 / 30.0 / 46.0 | 1 | 50.0 / 50.0 / 50.0 | 10.0 / 10.0 / 10.0 |"
