"""`breakeven`: its answer, words for never and always, what does not fit, and bad input."""

import json
import re

import pytest

from traces.kinds.tree import Tree

WORDS = (
    "breakeven",
    "--model",
    "llama-3.1-8b",
    "--method",
    "eagle-3",
    "--batch",
    "1,64",
    "--context",
    "512",
)
POINT = {
    "batch",
    "context",
    "draft_tokens",
    "verdict",
    "least_tokens_per_step",
    "least_acceptance",
    "draft_s",
}
KNOWN = {"tokens_per_step", "speedup", "pays", "greatest_draft_s", "greatest_draft_ratio"}


def held(record):
    """Every interval holds the number it belongs to."""
    for key, bounds in record.items():
        if key.endswith("_interval") and bounds is not None:
            assert bounds[0] <= record[key.removesuffix("_interval")] <= bounds[1], key


def test_a_stated_rate_is_compared_with_the_least(rooftree):
    answer = rooftree(*WORDS, "--acceptance", "0.6", "--draft-tokens", "1,3", "--json").answer
    assert answer["schema"] == 4 and answer["inputs"]["acceptance"] == 0.6
    assert [(p["draft_tokens"], p["batch"]) for p in answer["points"]] == [
        (1, 1),
        (1, 64),
        (3, 1),
        (3, 64),
    ]
    for point in answer["points"]:
        assert set(point) >= POINT | KNOWN
        held(point)
        assert point["pays"] == (point["least_acceptance"] < 0.6) == (point["speedup"] > 1)
        assert point["pays"] == (point["greatest_draft_s"] > point["draft_s"])
    for found in answer["batches"]:
        assert found["verdict"] in {"never", "some", "always"} and found["largest_batch"] >= 64
        held(found)


def test_the_least_rate_is_predicted_to_break_even(rooftree):
    least = rooftree(*WORDS, "--json").answer["points"][0]["least_acceptance"]
    predicted = rooftree(
        "predict",
        "--model",
        "llama-3.1-8b",
        "--method",
        "eagle-3",
        "--batch",
        "1",
        "--context",
        "512",
        "--draft-tokens",
        "3",
        "--acceptance",
        repr(least),
        "--json",
    ).answer["predictions"][0]
    assert predicted["speedup"] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("pearl", ("--draft", "llama-3.2-1b")),
        ("specbranch", ("--draft", "llama-3.2-1b")),
        ("lookahead", ()),
        ("ppd", ()),
        ("n-gram", ("--match-rate", "0.3")),
    ],
)
def test_every_way_of_drafting_is_predicted_to_break_even(rooftree, method, words):
    asked = (
        "--model",
        "llama-3.1-8b",
        "--method",
        method,
        "--batch",
        "8",
        "--draft-tokens",
        "4",
        *words,
    )
    point = rooftree("breakeven", *asked, "--json").answer["points"][0]
    least = point["least_acceptance"]
    predicted = rooftree("predict", *asked, "--acceptance", repr(least), "--json").answer[
        "predictions"
    ][-1]
    assert predicted["speedup"] == pytest.approx(1.0, abs=1e-3)
    assert predicted["tokens_per_step"] == pytest.approx(point["least_tokens_per_step"], rel=1e-3)


def test_without_an_acceptance_only_the_least_is_answered(rooftree):
    answer = rooftree(*WORDS, "--json").answer
    assert "batches" not in answer and not set(answer["points"][0]) & KNOWN
    assert answer["points"][0]["verdict"] == "on"


def test_recordings_and_trees(rooftree, files, tmp_path):
    words = ("breakeven", "--model", "llama-3.2-1b", "--batch", "1", "--context", "256", "--json")
    chain = rooftree(*words, "--trace", files.lookup).answer
    assert chain["inputs"]["method"] == "n-gram" and chain["points"][0]["draft_s"] == 0.0
    tree = tmp_path / "tree.json"
    tree.write_text(json.dumps(Tree.from_paths([(0,), (1,), (0, 0)]).to_json()))
    replayed = rooftree(*words, "--trace", files.ranks, "--tree", tree).answer["points"][0]
    stated = rooftree(*words, "--method", "medusa", "--acceptance", "0.5", "--tree", tree).answer[
        "points"
    ][0]
    assert replayed["draft_tokens"] == stated["draft_tokens"] == 3
    assert stated["tokens_per_step"] == pytest.approx(1.875)
    assert stated["most_tokens_per_step"] == 3.0


def test_never_and_always_are_plain_words(rooftree):
    drafter = ("--draft-passes", "2", "--draft-bytes", "4e10", "--method", "speculative-decoding")
    slow = rooftree(*WORDS[:3], *drafter, "--batch", "1", "--acceptance", "0.9")
    assert slow.code == 0 and "never (4.00 at most)" in slow.out and "never pays" in slow.out
    fast = rooftree(*WORDS, "--acceptance", "0.9", "--context", "8192", "--batch", "1")
    assert "always pays, at every batch to" in fast.out
    some = rooftree(*WORDS, "--acceptance", "0.6")
    assert re.search(r"pays at batch 1-\d+(, \d+-\d+)*; stops after \d+ \[\d+, \d+\]", some.out)


def test_what_does_not_fit_is_a_marked_row_and_alone_an_end(rooftree):
    points = rooftree(*WORDS[:-4], "--batch", "1,4000", "--json").answer["points"]
    assert [(p["batch"], p["feasible"]) for p in points] == [(1, True), (4000, False)]
    assert "on each h100-sxm" in points[1]["reason"] and points[1]["nearest"]
    refused = rooftree(*WORDS[:-4], "--batch", "4000")
    assert refused.code == 3 and "on each h100-sxm" in refused.err and "does not fit" in refused.out


def test_cells_of_a_list_are_single_questions(rooftree, tmp_path):
    words = (*WORDS[3:], "--acceptance", "0.6", "--csv", tmp_path / "b.csv", "--json")
    models, devices = ("llama-3.1-8b", "gpt2"), ("h100-sxm", "l4")
    listed = rooftree(
        "breakeven", "--model", ",".join(models), "--device", ",".join(devices), *words
    ).answer
    assert len((tmp_path / "b.csv").read_text().splitlines()) == 1 + len(listed["points"])
    for model in models:
        for device in devices:
            mine = [p for p in listed["points"] if (p["model"], p["device"]) == (model, device)]
            single = json.loads(
                rooftree("breakeven", "--model", model, "--device", device, *words).out
            )
            assert single["points"] == mine
            assert single["batches"][0] in listed["batches"]


def test_files(rooftree, tmp_path):
    assert rooftree(*WORDS, "--acceptance", "0.6", "--out", tmp_path, "--quiet").out == ""
    assert json.loads((tmp_path / "breakeven.json").read_text(encoding="utf-8"))["schema"] == 4
    pytest.importorskip("plotly")
    assert "heatmap" in (tmp_path / "breakeven.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--acceptance", "1.5"), "--acceptance: must lie in [0, 1], got 1.5"),
        (("--draft-tokens", "0"), "--draft-tokens: drafts nothing"),
        (("--shape", "off"), "--shape: drafts nothing"),
        (("--batch", "0"), "--batch: must lie in 1.."),
        (("--fidelity", "wild"), "--fidelity: must be measured, calibrated or datasheet"),
        (
            ("--acceptance", "0.5", "--trace", "x.parquet"),
            "--trace and --acceptance exclude each other",
        ),
        (("--device", "h100-sx"), "unknown device 'h100-sx'; nearest: h100-sxm"),
        (("--trace", "missing.parquet"), "missing.parquet"),
        (("--tree", "missing.json"), "missing.json"),
    ],
)
def test_bad_input_ends_in_one_line(rooftree, words, said):
    done = rooftree(*WORDS, *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err
