"""`predict --explain`: the object, the tables, the page, and that it changes no prediction."""

import json

import pytest

WORDS = ("predict", "--model", "llama-3.2-1b", "--batch", "1,16", "--context", "512")
STATED = (*WORDS, "--method", "eagle-3", "--acceptance", "0.7", "--draft-tokens", "0,3")
ROOFS = {"bandwidth", "compute", "link", "launch", "overhead"}


def test_every_point_is_explained_and_its_parts_sum(rooftree):
    answer = rooftree(*STATED, "--explain", "--json").answer
    assert answer["schema"] == 4 and len(answer["predictions"]) == 4
    for row in answer["predictions"]:
        told = row["explain"]
        assert sum(o["seconds"] for o in told["operations"]) == pytest.approx(row["step_s"])
        assert set(told["by_roof_s"]) == ROOFS and sum(told["by_roof_s"].values()) == pytest.approx(
            row["step_s"]
        )
        for phase in ("draft", "verify"):
            mine = sum(o["seconds"] for o in told["operations"] if o["phase"] == phase)
            assert mine == pytest.approx(row["breakdown_s"][phase])
        levers = {e["lever"] for e in told["elasticities"]}
        assert {"bandwidth", "peak", "launch", "overhead", "batch", "context"} <= levers
        assert ({"acceptance", "draft_cost"} <= levers) == (row["draft_tokens"] > 0)
        assert len(told["dominant_variance"]) == 2 and told["sentence"].endswith(".")


def test_explaining_changes_no_prediction(rooftree):
    plain = rooftree(*STATED, "--json").answer["predictions"]
    told = rooftree(*STATED, "--json", "--explain").answer["predictions"]
    assert [{k: v for k, v in row.items() if k != "explain"} for row in told] == plain


def test_a_recording_s_acceptance_is_among_the_sources_of_doubt(rooftree, files):
    answer = rooftree(
        *WORDS, "--trace", files.lookup, "--draft-tokens", "3", "--explain", "--json"
    ).answer
    terms = {v["term"] for v in answer["predictions"][0]["explain"]["variance"]}
    assert "acceptance" in terms


def test_tables_and_page(rooftree, tmp_path):
    shown = rooftree(*STATED, "--explain", "--out", tmp_path)
    assert shown.code == 0, shown.err
    for words in (
        "where the time goes",
        "verify gemm gate_up",
        "most of the interval comes from",
        "more tokens/s",
    ):
        assert words in shown.out
    written = json.loads((tmp_path / "predictions.json").read_text(encoding="utf-8"))
    assert "explain" in written["predictions"][0]
    pytest.importorskip("plotly")
    assert (tmp_path / "explain.html").stat().st_size > 1_000_000


def test_silence_and_no_page_unless_asked(rooftree, tmp_path):
    assert rooftree(*STATED, "--explain", "--quiet").out == ""
    assert rooftree(*STATED, "--out", tmp_path, "--quiet").code == 0
    assert [p.name for p in tmp_path.iterdir()] == ["predictions.json"]


def test_the_same_twice(rooftree):
    first, second = (rooftree(*STATED, "--explain", "--json", "--seed", "5").out for _ in range(2))
    assert first == second
