"""`traces compare`: recordings side by side on the command line."""

import json

import pytest

from traces.library import shipped_traces

RECORDED = ("smollm2-135m--prompt-lookup--greedy", "smollm2-135m--prompt-lookup--t0.8")


@pytest.fixture
def recorded():
    return [path for path in shipped_traces() if path.stem in RECORDED]


def test_the_answer_has_a_row_per_recording_and_kind(rooftree, recorded, tmp_path):
    done = rooftree(
        "traces", "compare", *recorded, "--draft-tokens", "3", "--json", "--out", tmp_path
    )
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert len(answer["rows"]) == 14
    for row in answer["rows"]:
        low, high = row["tokens_per_step_interval"]
        assert low <= row["tokens_per_step"] <= high
        shares = row["acceptance_by_depth"]
        assert len(shares) == 3 and shares == sorted(shares, reverse=True)
    assert {row["temperature"] for row in answer["rows"]} == {0.0, 0.8}
    assert json.loads((tmp_path / "comparison.json").read_text())["rows"] == answer["rows"]


def test_one_kind_and_a_page(rooftree, recorded, tmp_path):
    pytest.importorskip("plotly")
    done = rooftree(
        "traces", "compare", *recorded, "--kind", "all", "--plot", tmp_path / "page.html"
    )
    assert done.code == 0, done.err
    assert done.out.count("prompt lookup") == 2
    assert (tmp_path / "page.html").stat().st_size > 10_000


def test_what_is_refused(rooftree, recorded, tmp_path):
    done = rooftree("traces", "compare", *recorded, "--kind", "chats")
    assert done.code == 2 and "nearest: chat" in done.err
    done = rooftree("traces", "compare", tmp_path / "none.parquet")
    assert done.code == 2 and "none.parquet" in done.err
    done = rooftree("traces", "compare", *recorded, "--draft-tokens", "0")
    assert done.code == 2 and "draft-tokens" in done.err
