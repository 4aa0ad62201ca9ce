"""`traces inspect` and `compare` of confidence traces."""

import json

import pytest

from tests.traces.toy_masked import ANCHORS, toy_trace
from traces.library import shipped_traces
from traces.storage.confidence_file import write_confidence


@pytest.fixture
def trace(tmp_path):
    write_confidence(toy_trace(ANCHORS, prompts=4), tmp_path / "toy.parquet")
    return tmp_path / "toy.parquet"


def test_inspect_shows_every_policy(rooftree, trace, tmp_path):
    done = rooftree("traces", "inspect", trace, "--json", "--csv", tmp_path / "rows.csv")
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert (answer["kind"], answer["requests"], answer["runs"], answer["canvas_tokens"]) == (
        "confidence",
        4,
        12,
        16,
    )
    one, sure, bold = answer["policies"]
    assert one["tokens_per_step"] == one["agreement"] == 1.0
    assert 1.0 < sure["tokens_per_step"] < bold["tokens_per_step"]
    assert sure["commit_doubt"] < bold["commit_doubt"]
    assert bold["agreement"] < sure["agreement"] + 1e-9
    assert bold["pass_s"] == {"full": pytest.approx(0.001)}
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 4
    shown = rooftree("traces", "inspect", trace)
    assert "confidence=0.5" in shown.out and "agreement" in shown.out


def test_compare_sets_policies_side_by_side(rooftree, trace):
    done = rooftree("traces", "compare", trace, trace, "--json")
    assert done.code == 0, done.err
    rows = json.loads(done.out)["policies"]
    assert [row["policy"] for row in rows[:3]] == [row["policy"] for row in rows[3:]]


def test_what_is_refused(rooftree, trace):
    done = rooftree("traces", "compare", trace, shipped_traces()[0])
    assert done.code == 2 and "must all be confidence traces" in done.err
    done = rooftree("traces", "compare", trace, "--kind", "all")
    assert done.code == 2 and "--kind" in done.err
    trace.write_bytes(trace.read_bytes()[:2000])
    done = rooftree("traces", "inspect", trace)
    assert done.code == 2 and "toy.parquet" in done.err
