"""`optimize` of masked blocks: ranked policies at a floor of agreement, files that other verbs
take, and refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest

import rooftree as python_door
from tests.traces.toy_masked import toy_trace
from traces.kinds.refine_policy import RefinePolicy
from traces.storage.confidence_file import write_confidence

STATIC = RefinePolicy(commit="static", block_tokens=16)
SURE = RefinePolicy(commit="threshold", at={"confidence": 0.7}, block_tokens=16)


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("traces"), []
    for cache in ("none", "dual"):
        made.append(folder / f"{cache}.parquet")
        anchors = [replace(each, cache=cache) for each in (STATIC, SURE)]
        write_confidence(toy_trace(anchors, prompts=6, length=64), made[-1])
    return made


@pytest.fixture
def optimize(rooftree, traces, tmp_path):
    def run(*options, files=traces):
        named = [part for file in files for part in ("--trace", file)]
        where = (
            "--model",
            "llama-3.1-8b",
            "--device",
            "h100-sxm",
            "--method",
            "fast-dllm",
            "--out",
            tmp_path / "out",
        )
        return rooftree("optimize", *where, *named, "--batch", "1,16", "--context", "200", *options)

    return run


def answer(done):
    assert done.code == 0, done.err
    return json.loads(done.out)


STATED = (
    "--commit",
    "threshold:0.5,0.7,0.9",
    "--commit",
    "factor",
    "--block",
    "8,16,24",
    "--cache",
    "none,dual",
)


def test_the_fastest_policy_above_the_floor_is_chosen(optimize, rooftree, tmp_path):
    found = answer(optimize(*STATED, "--quality-floor", "0.9", "--json"))
    assert (
        found["quality"]["prompts"] == {"none": 6, "dual": 6} and found["quality"]["floor"] == 0.9
    )
    rows = [*found["choices"], *found["alternatives"]]
    assert len(rows) == 2 * (3 + 7) * (2 + 1) and all(row["feasible"] for row in rows)
    for choice in found["choices"]:
        able = [row for row in rows if row["batch"] == choice["batch"] and row["agreement"] >= 0.9]
        assert choice["tokens_per_s"] == max(row["tokens_per_s"] for row in able)
        assert choice["agreement"] >= 0.9 and choice["on_front"]
        needed = choice["needed_tokens_per_step"]
        assert needed is None or (choice["tokens_per_step"] > needed) == (choice["speedup"] > 1.0)
    unable = found["unmet"]
    assert len(unable) == (3 + 7) * 3 and all(row["reason"] for row in unable)
    without = [row["draft"] for row in unable if row["draft"].endswith("no cache")]
    assert len(without) == 3 + 7 and all("block 24" in draft for draft in without)
    again = rooftree("predict", "--config", tmp_path / "out" / "recommendation.json", "--json")
    priced = answer(again)["predictions"][-1]
    assert priced["tokens_per_s"] == pytest.approx(found["choices"][0]["tokens_per_s"])
    chosen = json.loads((tmp_path / "out" / "configuration.json").read_text())
    assert (
        chosen["refine"]["commit"] == found["choices"][0]["commit"]
        and chosen["canvas_tokens"] == 64
    )
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Pareto front" in page and "autoregressive twin" in page


def test_the_choice_within_a_limit_is_the_fastest_of_those_that_meet_it(optimize):
    floor = ("--quality-floor", "0.9", "--json")
    free = answer(optimize(*STATED, *floor))
    rows = [*free["choices"], *free["alternatives"]]
    at_16 = sorted(row["tpot_s"] for row in rows if row["batch"] == 16)
    limit_s = float(np.median(at_16))
    found = answer(optimize(*STATED, *floor, "--slo-tpot", repr(limit_s * 1e3)))
    allowed = [*found["choices"], *found["alternatives"]]

    def named(rows):
        return {(row["policy"], row["batch"]): row["tpot_s"] for row in rows}

    assert named(allowed) == named(row for row in rows if row["tpot_s"] <= limit_s)
    slow = [row for row in found["unmet"] if row.get("misses") == "limits"]
    assert len(allowed) + len(slow) == len(rows) and slow
    assert {choice["batch"] for choice in found["choices"]} == {1, 16}
    for choice in found["choices"]:
        able = [r for r in allowed if r["batch"] == choice["batch"] and r["agreement"] >= 0.9]
        assert choice["tpot_s"] == min(row["tpot_s"] for row in able) <= limit_s


def test_a_limit_that_no_policy_meets_says_what_the_nearest_does(optimize):
    floor = ("--quality-floor", "0.9")
    (best,) = answer(optimize(*STATED, *floor, "--batch", "1", "--json"))["choices"]
    limit = f"{best['tpot_s'] * 0.9e3:.6g}"
    done = optimize(*STATED, *floor, "--batch", "1", "--slo-tpot", limit, "--json")
    (row,) = [row for row in json.loads(done.out)["unmet"] if row.get("draft") is None]
    assert done.code == 3 and row["misses"] == "limits"
    assert f"{best['policy']}, has TPOT {best['tpot_s'] * 1e3:.3g} ms" in row["reason"]
    for change in row["nearest"]:  # each was tried with the floor, and is met when it is asked
        ((option, value),) = change.items()
        there = optimize(
            *STATED, *floor, "--batch", "1", "--slo-tpot", limit, "--json", option, str(value)
        )
        (choice,) = answer(there)["choices"]
        assert choice["agreement"] >= 0.9 and choice["tpot_s"] * 1e3 <= float(limit)
    said = " ".join(optimize(*STATED, *floor, "--batch", "1", "--slo-tpot", limit).out.split())
    assert "no user, whatever is run" in said and "misses limits" in said and "twin" in said


def test_the_users_within_a_limit_are_served_and_one_more_is_not(optimize):
    asked = (*STATED, "--quality-floor", "0.9", "--slo-tpot", "30", "--json")
    (row,) = answer(optimize(*asked))["within_limits"]
    assert row["users"] > 1 and row["tpot_s"] <= 0.03
    (there,) = answer(optimize(*asked, "--batch", str(row["users"])))["choices"]
    assert there["draft"] == row["draft"]
    assert there["tokens_per_s"] == pytest.approx(row["tokens_per_s"])
    beyond = optimize(*asked, "--batch", str(row["users"] + 1))
    assert beyond.code == 3


def test_the_screen_says_what_quality_is_and_who_wins(optimize):
    floor = (*STATED, "--quality-floor", "0.9")
    brief, said = (" ".join(optimize(*floor, *more).out.split()) for more in ((), ("--explain",)))
    assert "check a choice live" in brief and "front: policies" not in brief
    for words in (
        "agreement: share of canvas positions",
        "6 prompts (cache none)",
        "floor 90.0%",
        "it is estimated, between",
        "one token a pass with a KV cache",
        "must divide the canvas of 64",
        "front: policies",
    ):
        assert words in said, said


def test_without_policies_the_usual_ones_are_tried(optimize):
    found = answer(optimize("--json"))
    rows = [*found["choices"], *found["alternatives"]]
    assert {row["commit"] for row in rows} == {"threshold"} and {row["cache"] for row in rows} == {
        "none",
        "dual",
    }
    assert {row["block_tokens"] for row in rows} == {4, 8, 16, 32, 64} and found["quality"][
        "floor"
    ] == 0.95


def test_several_devices_have_an_answer_each_and_what_does_not_fit_is_told(
    optimize, rooftree, tmp_path
):
    places = ("--device", "h100-sxm,l4", "--batch", "1,4096", "--commit", "threshold:0.7,0.9")
    found = answer(optimize(*places, "--block", "16", "--quality-floor", "0.5", "--json"))
    assert {(row["device"], row["batch"]) for row in found["choices"]} == {
        ("h100-sxm", 1),
        ("l4", 1),
    }
    unmet = {(row["device"], row["batch"]): row for row in found["unmet"]}
    assert {batch for _, batch in unmet} == {4096}
    assert all(row["misses"] == "memory" for row in unmet.values())
    assert {part["quality"]["floor"] for part in found["answers"]} == {0.5}
    folder = tmp_path / "out" / "llama-3.1-8b--l4--vllm"
    chosen = json.loads((folder / "configuration.json").read_text())
    assert chosen["deployment"]["device"] == "l4" and (folder / "report.html").exists()


UNDER_LOAD = (
    *("--search", "full", "--devices", "2", "--layouts", "tp1,tp2,tp1dp2"),
    *("--batch-caps", "1,4", "--token-budgets", "8192", "--commit", "threshold:0.5,0.9"),
    *("--block", "16,24", "--cache", "none,dual"),
)


def test_policies_compete_over_layouts_and_caps_under_a_load(optimize, rooftree, tmp_path):
    found = answer(optimize(*UNDER_LOAD, "--slo-tpot", "20", "--quality-floor", "0.9", "--json"))
    (winner,), others = found["choices"], found["alternatives"]
    rows = [winner, *others, *found["front"]]
    assert {row["topology"] for row in rows} == {"block"}
    assert all(row["agreement"] >= 0.9 for row in rows) and found["quality"]["floor"] == 0.9
    assert {row["layout"] for row in rows} == {"tp1", "tp2"}
    assert winner["meets_limits"] and winner["simulated"]["tpot_s"] <= 0.02
    assert winner["simulated"]["objective_ratio"] == pytest.approx(1.0, abs=0.08)
    reasons = {row.get("layout") or row["draft"]: row["reason"] for row in found["unmet"]}
    assert "one tensor-parallel group" in reasons.pop("tp1dp2")
    assert len(reasons) == 4 and all("block 24" in draft for draft in reasons)
    out = tmp_path / "out"
    chosen = json.loads((out / "configuration.json").read_text())
    assert chosen == {**winner["configuration"], "schema": chosen["schema"]}
    assert "Agreement: share of canvas positions" in (out / "report.html").read_text()
    again = rooftree("predict", "--config", out / "recommendation.json", "--json")
    assert answer(again)["predictions"][-1]["speedup"] == pytest.approx(winner["speedup"], rel=0.01)


def test_the_screen_says_the_agreement_of_designs(optimize):
    said = " ".join(optimize(*UNDER_LOAD, "--no-simulate").out.split())
    for words in ("Run h100-sxm", "agreement", "floor 95.0%", "must divide the canvas of 64"):
        assert words in said, said


def test_no_files_come_of_designs_that_miss_a_limit(optimize, tmp_path):
    done = optimize(*UNDER_LOAD, "--slo-tpot", "0.01", "--no-simulate")
    assert done.code == 3 and "No design meets the limits" in done.err
    assert not (tmp_path / "out" / "configuration.json").exists()


def test_a_floor_out_of_reach_is_said_with_what_is_reached(optimize):
    done = optimize(
        "--commit",
        "threshold:0",
        "--block",
        "64",
        "--cache",
        "none",
        "--quality-floor",
        "1",
        "--json",
    )
    assert done.code == 3 and "at most" in done.err


def test_a_floor_out_of_reach_is_said_under_a_load_too(optimize):
    done = optimize(
        *("--search", "full", "--commit", "threshold:0", "--block", "64", "--cache", "none"),
        *("--quality-floor", "1"),
    )
    assert done.code == 3 and "no policy agrees on 100.0% of the tokens; at most" in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--block", "24", "--commit", "threshold:0.9", "--cache", "none"),
            "divide the canvas of 64",
        ),
        (
            ("--cache", "prefix", "--commit", "threshold:0.9", "--block", "16"),
            "no trace was recorded with this cache",
        ),
        (("--commit", "threshold:1.1"), "must lie in [0, 1]"),
        (("--commit", "tau:0.9"), "unknown commit rule"),
        (("--quality-floor", "2"), "must lie in [0, 1]"),
        (("--draft-tokens", "4"), "no draft tokens"),
        (("--acceptance", "0.7"), "confidence trace"),
        (("--slo-ttft", "9"), "answers for first tokens"),
        (("--slo-tpot", "p99:9"), "percentiles come from a load"),
        (("--shape", "chain:3"), "--shape: is no part of a search over masked blocks"),
        (("--tree-nodes", "8"), "--tree-nodes: is no part of a search over masked blocks"),
        (("--devices", "2"), "--devices: goes with --search full"),
        (("--search", "full", "--slo-ttft", "9"), "answers for first tokens"),
        (("--search", "full", "--stop", "product:0.3"), "masked blocks have none"),
        (("--search", "full", "--quality-floor", "2"), "--quality-floor: must lie in [0, 1]"),
        (("--search", "full", "--layouts", "tp1dp2", "--devices", "2"), "one tensor-parallel"),
    ],
)
def test_what_cannot_be_asked_is_refused(optimize, options, said, tmp_path):
    done = optimize(*options)
    assert done.code == 2 and said in done.err, done.err
    assert not (tmp_path / "out").exists()


def test_masked_blocks_need_a_confidence_trace_and_their_options_a_method(
    optimize, rooftree, tmp_path
):
    done = optimize(files=[])
    assert done.code == 2 and "confidence trace" in done.err
    where = ("--out", tmp_path / "other")
    for options in (("--quality-floor", "0.9"), ("--block", "8"), ("--commit", "threshold:0.9")):
        done = rooftree("optimize", *where, *options)
        assert done.code == 2 and "refines masked blocks" in done.err


def test_python_asks_the_same_search(traces):
    asked = {
        "model": "llama-3.1-8b",
        "device": "h100-sxm",
        "method": "fast-dllm",
        "trace": [str(each) for each in traces],
        "batch": [1],
        "context": 200,
        "commit": "threshold:0.5,0.9",
        "block": [8, 16],
        "quality_floor": 0.5,
    }
    found = python_door.optimize(**asked)
    frame = found.to_frame()
    assert len(frame) == 2 * 2 * 2 and {"agreement", "tokens_per_s", "speedup"} <= set(
        frame.columns
    )
    assert "twin" in repr(found) and found.plot().data
    rate = float(frame["tokens_per_s"].median())
    within = python_door.optimize(**asked, slo_tpot=1e3 / rate).to_frame()
    able = frame["tokens_per_s"][frame["tokens_per_s"] >= rate]
    assert sorted(within["tokens_per_s"].dropna()) == pytest.approx(sorted(able))
