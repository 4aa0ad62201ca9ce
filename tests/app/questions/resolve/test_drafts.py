"""Dynamic trees and stop rules on the command line: numbers, refusals, and who wins where."""

import json

import pytest

from costmodel.laws.drafting import dynamic_tree
from costmodel.method import Shape
from traces.library import read_trace

TRACE = "traces/recorded/level-3/smollm2-135m--medusa-heads--greedy.parquet"
LIMITS = Shape(kind="dynamic_tree", nodes=8, least_probability=0.02)
POLICY = "dynamic:8:least=0.02"


def test_replay_and_predict_tell_the_law(rooftree):
    law = dynamic_tree(read_trace(TRACE), LIMITS, None)
    [replayed] = rooftree("replay", TRACE, "--shape", POLICY, "--json").answer["varying"]
    rows = rooftree(
        "predict",
        "--model",
        "smollm2-135m",
        "--trace",
        TRACE,
        "--shape",
        POLICY,
        "--batch",
        "1,16",
        "--engine",
        "none",
        "--json",
    ).answer["predictions"]
    for row in (replayed, *rows):
        assert row["tokens_per_step"] == law.tokens_per_step
        assert row["shape"]["nodes"] == row["draft_tokens"] == 8
        assert row["drafts"]["mean_tokens"] == pytest.approx(law.lengths.mean_tokens)
    assert rows[0]["step_s"] < rows[1]["step_s"]


def test_stopped_chains_stand_beside_each_other(rooftree):
    rows = rooftree(
        "predict",
        "--model",
        "smollm2-135m",
        "--trace",
        TRACE,
        "--stop",
        "probability:0.5",
        "--batch",
        "4",
        "--draft-tokens",
        "0,2,5",
        "--engine",
        "none",
        "--json",
    ).answer["predictions"]
    assert [row["draft_tokens"] for row in rows] == [0, 2, 5]
    assert rows[1]["stop"]["rule"] == "probability" and rows[1]["drafts"]["mean_tokens"] < 2
    assert rows[0]["tokens_per_step"] < rows[1]["tokens_per_step"] <= rows[2]["tokens_per_step"]


def test_controllers_stand_in_predict_and_goodput_weighs_each_point(rooftree):
    words = (
        "predict",
        "--model",
        "smollm2-135m",
        "--trace",
        TRACE,
        "--draft-tokens",
        "4",
        "--batch",
        "1,256",
        "--json",
    )
    moving = rooftree(*words, "--stop", "ema:0.3").answer["predictions"]
    assert [row["tokens_per_step"] for row in moving] == [moving[0]["tokens_per_step"]] * 2
    for stop in ("goodput", "cost"):
        weighed = rooftree(*words, "--stop", stop).answer["predictions"]
        assert [row["batch"] for row in weighed] == [1, 256]
        assert weighed[1]["drafts"]["mean_tokens"] < weighed[0]["drafts"]["mean_tokens"]
        assert rooftree("replay", TRACE, "--stop", stop).code == 2
    [replayed] = rooftree(
        "replay", TRACE, "--draft-tokens", "4", "--stop", "ema:0.3", "--json"
    ).answer["varying"]
    assert replayed["tokens_per_step"] == moving[0]["tokens_per_step"]


@pytest.mark.parametrize("stop", ["goodput", "cost:0.05", "product:0.6", "ema"])
def test_optimize_compares_drafts_that_end_early(rooftree, tmp_path, stop):
    words = (
        "optimize",
        "--trace",
        TRACE.replace("greedy", "t1"),
        "--batch",
        "1,64",
        "--engine",
        "none",
        "--json",
    )
    more = ("--tree-nodes", "0", "--draft-tokens", "3", "--stop", stop, "--out", tmp_path)
    answer = rooftree(*words, *more).answer
    assert [point["topology"] for point in answer["curves"]][:2] == ["off", "chain"]
    assert len(answer["curves"]) == (4 if stop in ("goodput", "cost:0.05") else 3)
    rates = [point["tokens_per_step"] for point in answer["curves"]]
    assert all(1.0 <= rate <= rates[1] + 1e-9 for rate in rates)


@pytest.mark.parametrize(
    "words",
    [
        ("--acceptance", "0.7", "--shape", POLICY),
        ("--trace", TRACE, "--shape", "dynamic:17"),
        ("--trace", TRACE, "--shape", POLICY, "--stop", "probability:0.5"),
        ("--trace", TRACE, "--shape", POLICY, "--draft-tokens", "3"),
        ("--trace", TRACE, "--shape", f"{POLICY}+probability:0.5"),
        ("--trace", TRACE.replace("greedy", "t1"), "--shape", POLICY),
    ],
)
def test_what_cannot_be_answered_is_refused(rooftree, words):
    ended = rooftree("predict", "--model", "smollm2-135m", *words)
    assert ended.code == 2 and len(ended.err.splitlines()) == 1


def test_optimize_names_who_wins_where(rooftree, tmp_path):
    ended = rooftree(
        "optimize",
        "--trace",
        TRACE,
        "--batch",
        "1,64",
        "--engine",
        "none",
        "--tree-nodes",
        "4,16",
        "--out",
        tmp_path,
        "--json",
    )
    answer = ended.answer
    for batch in (1, 64):
        rows = [row for row in answer["by_topology"] if row["batch"] == batch]
        assert {row["topology"] for row in rows} == {"off", "chain", "tree", "dynamic_tree"}
        assert [row["wins"] for row in rows] == [True, False, False, False]
        assert [row["speedup"] for row in rows] == sorted(
            (row["speedup"] for row in rows), reverse=True
        )
        [choice] = [choice for choice in answer["choices"] if choice["batch"] == batch]
        assert choice["topology"] == rows[0]["topology"]
        assert choice["tokens_per_step"] == rows[0]["tokens_per_step"]
    dynamic = next(row for row in answer["by_topology"] if row["topology"] == "dynamic_tree")
    assert dynamic["shape"]["kind"] == "dynamic_tree" and dynamic["drafts"]["mean_passes"] > 0
    assert (
        json.loads((tmp_path / "recommendation.json").read_text())["by_topology"]
        == answer["by_topology"]
    )
    words = ("--trace", TRACE, "--batch", "1", "--engine", "none", "--explain")
    explained = rooftree("optimize", *words, "--out", tmp_path)
    assert "medusa at context 1024: " in explained.out and "dynamic:16" in explained.out


def test_a_tree_that_engines_build_is_exported_where_it_beats_every_chain(rooftree, tmp_path):
    trace = TRACE.replace("medusa-heads", "feature-head")
    answer = rooftree(
        "optimize",
        "--trace",
        trace,
        "--batch",
        "1,16",
        "--engine",
        "none",
        "--tree-nodes",
        "8",
        "--out",
        tmp_path,
        "--json",
    ).answer
    script = (tmp_path / "sglang" / "sglang-serve.sh").read_text()
    assert "--speculative-eagle-topk 4" in script and "--speculative-num-draft-tokens 9" in script
    assert "--speculative-num-steps 2" in script and "--max-running-requests 16" not in script
    chains = {(row["batch"], row["topology"]): row["speedup"] for row in answer["by_topology"]}
    assert (
        chains[1, "dynamic_tree"] > chains[1, "chain"]
        and chains[16, "dynamic_tree"] > chains[16, "chain"]
    )
    # an engine that builds no trees gets the schedule of chains
    assert (
        "vllm" in answer["exports"]
        and "topk" not in (tmp_path / "vllm" / "vllm-serve.sh").read_text()
    )


def test_the_best_static_tree_stands_beside_a_dynamic_one(rooftree):
    rows = rooftree("tree", "--acceptance", TRACE, "--nodes", "9,40", "--json").answer["trees"]
    law = dynamic_tree(read_trace(TRACE), Shape(kind="dynamic_tree", nodes=8), None)
    assert rows[0]["dynamic_tree"]["tokens_per_step"] == law.tokens_per_step
    assert rows[0]["dynamic_tree"]["mean_passes"] == pytest.approx(law.lengths.mean_passes)
    assert "dynamic_tree" not in rows[1]  # more nodes than were recorded
    shown = rooftree("tree", "--acceptance", TRACE, "--nodes", "9").out
    assert "dynamic," in shown and f"{rows[0]['dynamic_tree']['tokens_per_step']:.4f}" in shown
