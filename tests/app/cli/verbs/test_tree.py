"""`rooftree tree`: what engines can run, what it loses, and bounds above every tree."""

import json

import pytest

from traces.kinds.tree import Tree

TRACE = "smollm2-135m--early-exit--greedy"


def test_trees_that_engines_run_stand_beside_the_free_one(rooftree, tmp_path):
    vector = tmp_path / "vector.json"
    vector.write_text("[0.6, 0.2, 0.1]")
    (row,) = rooftree("tree", "--acceptance", vector, "--nodes", "16", "--json").answer["trees"]
    assert [tree["form"] for tree in row["runtime_trees"]] == ["chain", "level_uniform", "beam"]
    for tree in row["runtime_trees"]:
        shape = Tree.from_json(tree)
        assert shape.nodes == tree["nodes"] <= 16
        assert tree["loss_ratio"] == pytest.approx(
            1.0 - tree["tokens_per_step"] / row["tokens_per_step"]
        )
        assert tree["loss_ratio"] >= -1e-12
    printed = " ".join(rooftree("tree", "--acceptance", vector, "--nodes", "16").out.split())
    assert "what engines can run, and what it loses" in printed and "topk 3, 6 steps" in printed


def test_oracles_bound_the_trees_of_a_recording(rooftree):
    for row in rooftree("tree", "--acceptance", TRACE, "--nodes", "4,32", "--json").answer["trees"]:
        bounds = row["oracle"]
        assert row["tokens_per_step"] <= bounds["one_tree_at_most"]
        assert (
            bounds["one_tree_at_most"]
            <= bounds["tree_per_request_at_most"]
            <= bounds["tree_per_step"]
        )
        assert all(
            tree["tokens_per_step"] <= bounds["one_tree_at_most"] for tree in row["runtime_trees"]
        )


def test_a_noisy_vector_of_any_size_has_an_answer(rooftree, tmp_path):
    """A search beyond memory is greedy, and says how far from the best it can be."""
    vector = tmp_path / "noisy.json"
    vector.write_text(
        json.dumps([[0.3, 0.2, 0.25, *[0.0002 * (1 + rank % 3) for rank in range(400)]]] * 40)
    )
    words = ("tree", "--acceptance", vector, "--nodes", "3000", "--depth", "40", "--json")
    (row,) = rooftree(*words).answer["trees"]
    assert row["certificate"]["kind"] == "bound" and row["certificate"]["gap"] > 0


def test_the_fastest_tree_depends_on_the_batch(rooftree):
    words = (
        "tree",
        "--drafter",
        "eagle-3:0.75,0.55,0.42",
        "--nodes",
        "4,48",
        "--model",
        "llama-3.1-8b",
    )
    answer = rooftree(*words, "--batch", "1,64", "--json").answer
    alone, many = answer["fastest"]
    assert (alone["batch"], many["batch"]) == (1, 64) and alone["nodes"] > many["nodes"]
    for row in (alone, many):
        assert Tree.from_json(row).nodes == row["nodes"]
        assert row["tokens_per_s"] == pytest.approx(
            row["batch"] * row["tokens_per_step"] / row["step_s"]
        )
        gap = row["certificate"].get("gap", 0.0)
        assert all(
            each["tokens_per_s"] <= row["tokens_per_s"] + gap + 1e-6 for each in row["budget_trees"]
        )
    assert "the fastest tree of eagle-3" in " ".join(rooftree(*words, "--batch", "1").out.split())


def test_a_batch_whose_trees_do_not_fit_is_marked_with_what_would(rooftree):
    words = ("tree", "--drafter", "eagle-3:0.7", "--nodes", "16", "--model", "llama-3.1-8b")
    ended = rooftree(*words, "--device", "l4", "--batch", "1,512", "--json")
    fits, marked = ended.answer["fastest"]
    assert ended.code == 0 and fits["tokens_per_s"] > 0
    assert (marked["batch"], marked["feasible"], marked["misses"]) == (512, False, "memory")
    assert marked["nearest"] and "tokens_per_s" not in marked
    assert "does not fit" in rooftree(*words, "--device", "l4", "--batch", "1,512").out


@pytest.mark.parametrize(
    "words", [("--batch", "4"), ("--device", "a100-sxm"), ("--captured-rows", "8")]
)
def test_seconds_need_a_target(rooftree, words):
    ended = rooftree("tree", "--acceptance", "0.8", "--nodes", "4", *words)
    assert ended.code == 2 and "--model" in ended.err


def test_few_tokens_are_said_to_be_few(rooftree, tmp_path):
    vector = tmp_path / "vector.json"
    vector.write_text("[0.5, 0.16, 0.09, 0.06, 0.04, 0.03]")
    words = (
        "tree",
        "--acceptance",
        vector,
        "--nodes",
        "12",
        "--depth",
        "5",
        "--robust",
        "--recorded-tokens",
    )
    few = rooftree(*words, "30", "--json").answer["trees"][0]["sampling"]
    many = rooftree(*words, "40000", "--json").answer["trees"][0]["sampling"]
    assert few["mean_regret_ratio"] > many["mean_regret_ratio"]
    assert few["safe_tree"]["low_tokens_per_step"] >= few["low_tokens_per_step"]
    assert many["enough_tokens"] <= 40000 and not many["changes"]
    assert "enough tokens" in " ".join(rooftree(*words, "30").out.split())
    assert "--recorded-tokens" in rooftree(*words[:-1]).err
    (recorded,) = rooftree(
        "tree", "--acceptance", TRACE, "--nodes", "8", "--robust", "--json"
    ).answer["trees"]
    assert recorded["sampling"]["recorded_tokens"] > 4000
