"""Trees whose candidates carry prompt tokens, from the command line: predict, optimize, tree and
simulate agree."""

import json

import pytest

WORDS = ("--model", "vicuna-7b", "--device", "a100-sxm-40", "--engine", "transformers")
STATED = ("--method", "ppd", "--acceptance", "0.48,0.25,0.12")


def test_every_verb_finds_the_same_trees(rooftree, tmp_path):
    rows = rooftree("predict", *WORDS, *STATED, "--batch", "1", "--json").answer["predictions"]
    assert [row["draft_tokens"] for row in rows] == [0, 105]
    [tree] = rooftree(
        "tree", *STATED, "--nodes", "109", "--json", "--out", tmp_path / "trees"
    ).answer["trees"]
    assert tree["tokens_per_step"] == pytest.approx(rows[1]["tokens_per_step"])
    assert sum(state["share"] for state in tree["states"]) == pytest.approx(1.0)
    assert all(
        len(s["parents"]) + sum(s["prompt_tokens"]) + 3 == s["nodes"] <= 109 for s in tree["states"]
    )
    written = json.loads((tmp_path / "trees" / "state-trees-109.json").read_text(encoding="utf-8"))
    assert written["states"] == tree["states"]
    answer = rooftree(
        "optimize",
        *WORDS,
        *STATED,
        "--batch",
        "1,16",
        "--draft-tokens",
        "24,105",
        "--json",
        "--out",
        tmp_path,
    ).answer
    sizes = {row["draft_tokens"]: row["tokens_per_step"] for row in answer["curves"]}
    assert sizes[105] == pytest.approx(rows[1]["tokens_per_step"])
    chosen = {row["batch"]: row for row in answer["choices"]}
    assert (
        chosen[1]["draft_tokens"] > chosen[16]["draft_tokens"]
    )  # what a larger batch leaves of the roof
    assert {row["topology"] for row in answer["by_topology"]} == {"off", "state_trees"}


def test_a_choice_is_predicted_and_simulated_from_its_file(rooftree, tmp_path):
    found = rooftree(
        "optimize",
        *WORDS,
        *STATED,
        "--batch",
        "1",
        "--draft-tokens",
        "40",
        "--out",
        tmp_path,
        "--json",
    )
    config = tmp_path / "recommendation.json"
    [row] = rooftree("predict", "--config", config, "--json").answer["predictions"]
    [choice] = found.answer["choices"]
    assert row["tokens_per_step"] == pytest.approx(choice["tokens_per_step"])
    assert row["tokens_per_s"] == pytest.approx(choice["tokens_per_s"])
    requests = (
        "--set",
        "requests.count=4",
        "--set",
        "requests.arrivals=closed",
        "--set",
        "requests.users=4",
    )
    simulated = rooftree("simulate", "--config", config, *requests, "--json")
    assert simulated.code == 0 and "prompt tokens of the step before" in json.dumps(
        simulated.answer
    )


def test_ranks_of_a_recording_are_replayed(rooftree):
    trace = "traces/recorded/catalogue/smollm2-135m--ppd--greedy.parquet"
    words = ("--drafter", f"ppd:{trace}", "--batch", "1", "--draft-tokens", "0,30", "--json")
    rows = rooftree("predict", *WORDS, *words).answer["predictions"]
    [tree] = rooftree(
        "tree", "--method", "ppd", "--acceptance", trace, "--nodes", "34", "--json"
    ).answer["trees"]
    assert rows[1]["tokens_per_step"] == pytest.approx(tree["tokens_per_step"])
    assert (
        tree["law_tokens_per_step"] != tree["tokens_per_step"]
    )  # texts remember, the law does not


@pytest.mark.parametrize(
    "words",
    [
        ("tree", *STATED, "--nodes", "5"),
        ("tree", *STATED, "--nodes", "40", "--held-out"),
        ("predict", *WORDS, *STATED, "--draft-tokens", "1"),
        ("tree", "--method", "nobody", "--acceptance", "0.5"),
    ],
)
def test_what_cannot_be_answered_is_refused(rooftree, words):
    ended = rooftree(*words)
    assert ended.code == 2 and len(ended.err.splitlines()) == 1
