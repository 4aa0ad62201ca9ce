"""`score`: a table of measured runs in, errors by slice out."""

import csv
import json
import math
import statistics
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simulator.closed_loop.table_rows import RowAnswer

ROWS = [
    {
        "id": f"{backend}-{users}",
        "backend": backend,
        "model_path": "llama-3.1-8b",
        "system": "h100_sxm",
        "isl": 256,
        "osl": 16,
        "concurrency": users,
        "measured_ttft_ms": 25.0 + users,
        "measured_tpot_ms": 7.0 + 0.1 * users,
    }
    for backend in ("vllm", "sglang")
    for users in (1, 4, 32)
]
ROWS += [
    ROWS[1] | {"id": "again"},
    ROWS[0] | {"id": "refused", "model_path": "acme/none", "measured_ttft_ms": 1.0},
]


@pytest.fixture(autouse=True)
def _quick(request, monkeypatch):
    """Answers by a rule instead of a simulation, but where published runs are read."""
    if "reference_data" in request.fixturenames:
        return

    def answered(record, index):
        row_id, users = record.get("id") or str(index), float(record["concurrency"])
        if record["model_path"] == "acme/none":
            return RowAnswer(id=row_id, reason="unknown model 'acme/none'")
        ttft, tpot = 24.0 + 1.1 * users, 6.9 + 0.11 * users
        return RowAnswer(
            id=row_id,
            ttft_ms=ttft,
            tpot_ms=tpot,
            ttft_ms_interval=(0.7 * ttft, 1.5 * ttft),
            tpot_ms_interval=(0.99 * tpot, 1.2 * tpot),
            seconds={"gemm": 3.0, "attention": users},
            ttft_seconds={"intake": 1.0, "queue": users, "prefill": 9.0},
        )

    for module in ("score", "held_out"):
        monkeypatch.setattr(
            f"app.answers.scoring.{module}.answer_rows",
            lambda records, *, file, seed=0, constants=None, progress=None: [
                answered(record, index) for index, record in enumerate(records)
            ],
        )


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in ROWS))
    return path


def test_the_three_forms_of_a_table_give_the_same_score(rooftree, table, tmp_path):
    with (tmp_path / "runs.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(ROWS[0]))
        writer.writeheader()
        writer.writerows(ROWS)
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "runs.parquet")
    first, *others = (
        rooftree("score", tmp_path / f"runs.{ending}", "--json")
        for ending in ("jsonl", "csv", "parquet")
    )
    assert first.code == 0
    body = first.answer
    assert (body["table_rows"], body["overall"]["measurements"], body["overall"]["answered"]) == (
        8,
        7,
        6,
    )
    for other in others:
        assert {**other.answer, "inputs": 0} == {**body, "inputs": 0}


def test_tables_are_scored_together(rooftree, table, tmp_path):
    (tmp_path / "first.jsonl").write_text("\n".join(json.dumps(row) for row in ROWS[:4]))
    (tmp_path / "second.jsonl").write_text("\n".join(json.dumps(row) for row in ROWS[4:]))
    parts = rooftree("score", tmp_path / "first.jsonl", tmp_path / "second.jsonl", "--json").answer
    assert {**parts, "inputs": 0} == {**rooftree("score", table, "--json").answer, "inputs": 0}


def test_every_number_follows_from_the_measurements_that_are_listed(rooftree, table):
    body = rooftree("score", table, "--json").answer
    answered = [m for m in body["measurements"] if m["reason"] is None]
    for quantity in ("tpot", "ttft"):
        off = [m[f"{quantity}_ms"] / m[f"measured_{quantity}_ms"] - 1 for m in answered]
        inside = [
            m[f"{quantity}_ms_interval"][0]
            <= m[f"measured_{quantity}_ms"]
            <= m[f"{quantity}_ms_interval"][1]
            for m in answered
        ]
        found = body["overall"][quantity]
        assert found["measurements"] == len(off) == 6
        assert found["bias_ratio"] == pytest.approx(statistics.median(off))
        assert found["median_error_ratio"] == pytest.approx(statistics.median(map(abs, off)))
        assert found["mean_error_ratio"] == pytest.approx(statistics.mean(map(abs, off)))
        assert found["coverage_ratio"] == pytest.approx(sum(inside) / 6)
        assert all(math.isclose(sum(m[f"{quantity}_share_ratio"].values()), 1.0) for m in answered)
    assert {row["value"] for row in body["slices"] if row["slice"] == "engine"} == {
        "vllm",
        "sglang",
    }
    assert {p["part"] for p in body["parts"] if p["quantity"] == "ttft"} == {
        "intake",
        "queue",
        "prefill",
    }
    assert [(r["measurements"], "acme/none" in r["reason"]) for r in body["refused"]] == [(1, True)]


def test_a_score_stands_beside_an_earlier_one_and_beside_another_tool(rooftree, table, tmp_path):
    rooftree("score", table, "--out", tmp_path, "--quiet")
    same = rooftree("score", table, "--baseline", tmp_path / "score.json", "--json").answer[
        "common"
    ][0]
    assert same["tpot"]["mean_error_ratio"] == same["baseline"]["tpot"]["mean_error_ratio"]
    other = tmp_path / "other.csv"
    other.write_text("id,tpot_ms\nvllm-1,7.1\nvllm-4,14.8\nno-such,3\nsglang-1,\n")
    done = rooftree("score", table, "--baseline", other, "--json").answer["common"][0]
    assert done["tpot"]["measurements"] == done["baseline"]["tpot"]["measurements"] == 2
    assert done["baseline"]["tpot"]["median_error_ratio"] == pytest.approx(0.5)
    assert done["baseline"]["ttft"] is None
    assert "beside the baseline" in rooftree("score", table, "--baseline", other).out


def test_every_group_is_answered_with_constants_that_never_saw_it(
    rooftree, table, tmp_path, monkeypatch
):
    """The fit is replaced by one that notes what it was given; only rows of other models may be
    among it."""
    rows = [
        *ROWS,
        *(row | {"id": f"70b-{row['id']}", "model_path": "llama-3.1-70b"} for row in ROWS[:3]),
    ]
    path = tmp_path / "two.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    seen = []
    monkeypatch.setattr(
        "app.answers.scoring.held_out.fit",
        lambda given: seen.append({r["model_path"] for r in given}) or {"some_s": 0.5},
    )
    body = rooftree("score", path, "--leave-out", "model", "--json").answer
    assert [row["left_out"] for row in body["left_out"]] == [
        "llama-3.1-8b",
        "acme/none",
        "llama-3.1-70b",
    ]
    assert all(
        row["left_out"] not in models for row, models in zip(body["left_out"], seen, strict=True)
    )
    assert body["common"][0]["measurements"] == 9
    refused = rooftree("score", table, "--leave-out", "device")
    assert refused.code == 2 and "one device" in refused.err
    assert "must be one of model, device" in rooftree("score", table, "--leave-out", "engine").err


def test_the_page_draws_both_times_and_holds_every_slice(rooftree, table, tmp_path):
    page = tmp_path / "page.html"
    assert rooftree("score", table, "--plot", page, "--quiet").out == ""
    text = page.read_text()
    assert 'id="tpot"' in text and 'id="ttft"' in text and "Content-Security-Policy" in text
    assert "engine: sglang" in text and "<script>alert" not in text


def test_a_table_without_times_and_a_foreign_baseline_end_with_one_line(rooftree, table, tmp_path):
    bare = tmp_path / "bare.csv"
    bare.write_text(
        "backend,model_path,system,isl,osl,concurrency\nvllm,llama-3.1-8b,h100_sxm,256,16,4\n"
    )
    ended = rooftree("score", bare)
    assert ended.code == 2 and "bare.csv" in ended.err and "no measurement" in ended.err
    for name, text in (
        ("a.json", "{"),
        ("b.json", "{}"),
        ("c.csv", "id,x\na,1\n"),
        ("d.csv", "id,tpot_ms\na,x\n"),
    ):
        (tmp_path / name).write_text(text)
        ended = rooftree("score", table, "--baseline", tmp_path / name)
        assert (
            ended.code == 2 and name in ended.err and ended.err.count("\n") == 1 and ended.out == ""
        )
    assert rooftree("score", tmp_path / "none.csv").code == 2


def test_published_runs_are_counted_once(rooftree, reference_data, tmp_path):
    """Every thirtieth row of aggregated serving, so that the suite stays short."""
    rows = pq.read_table(Path(reference_data) / "serving" / "silicon_sample_2.parquet").to_pylist()
    rows = [row for row in rows if row["mode"] == "agg"][::30]
    path = tmp_path / "sample.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    overall = rooftree("score", path, "--json").answer["overall"]
    assert overall["measurements"] == len({row["measurement"] for row in rows})
    assert 0 < overall["answered"] <= overall["measurements"]
    assert overall["tpot"]["median_error_ratio"] < 0.5


def test_the_launch_of_every_measurement_is_named(rooftree, table, tmp_path):
    rows = [ROWS[0] | {"isl": 1024, "osl": 1024, "measured": "2025-12-15"}, ROWS[1]]
    path = tmp_path / "dated.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))

    def launches(*options):
        answer = rooftree("score", path, *options, "--json").answer
        return [row["launch"] for row in answer["measurements"]]

    assert launches() == ["inferencex-2025-12-15", "not stated"]
    assert launches("--launch", "none") == ["not stated", "not stated"]
    assert launches("--launch", "inferencex-2026-03") == ["inferencex-2026-03"] * 2
