"""`rooftree replay`: oracles above every chain, and policies on held-out requests."""

import csv

import pytest

import rooftree as front

LOOKUP = "smollm2-135m--prompt-lookup--t0.8"
RANKS = "smollm2-135m--early-exit--greedy"


def test_oracles_lie_above_the_chains(rooftree):
    answer = rooftree("replay", RANKS, "--draft-tokens", "1,4", "--json").answer
    chain, tree = answer["oracles"]
    best = max(row["tokens_per_step"] for row in answer["chains"])
    assert best <= chain["tokens_per_step"] <= tree["tokens_per_step"] <= 5
    assert chain["levels"] == 4 and chain["tokens"] / chain["steps"] == pytest.approx(
        chain["tokens_per_step"]
    )
    assert "oracle: any tree" in " ".join(rooftree("replay", RANKS).out.split())


def test_held_out_requests_compare_policies(rooftree, tmp_path):
    words = (
        "replay",
        LOOKUP,
        "--held-out",
        "--model",
        "llama-3.1-8b",
        "--batch",
        "1,64",
        "--splits",
        "2",
    )
    rows = rooftree(*words, "--json").answer["held_out"]
    assert [row["batch"] for row in rows] == [1, 64]
    for row in rows:
        ours, schedule, *others = row["policies"]
        assert schedule["policy"] == "rooftree, one shape a batch"
        assert schedule["schedule_gain_ratio"] is None
        assert ours["schedule_gain_ratio"] == pytest.approx(
            schedule["tokens_per_s"] / ours["tokens_per_s"] - 1.0
        )
        best = max(others, key=lambda policy: policy["tokens_per_s"])
        assert ours["policy"] == "rooftree" and best["policy"] == row["best_published"]
        assert row["gain_ratio"] == pytest.approx(ours["tokens_per_s"] / best["tokens_per_s"] - 1)
        assert row["halves"] == 4 and all(
            sum(run["halves"] for run in p["drafts"]) == 4 for p in row["policies"]
        )
        assert row["gain_interval"][0] <= row["gain_ratio"] <= row["gain_interval"][1]
    printed = " ".join(rooftree(*words, "--csv", tmp_path / "rows.csv").out.split())
    assert "rooftree against" in printed and "oracle: the best length for every step" in printed
    with (tmp_path / "rows.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    policies = [policy for row in rows for policy in row["policies"]]
    assert [(line["batch"], line["policy"]) for line in lines] == [
        (str(policy["batch"]), policy["policy"]) for policy in policies
    ]
    assert all(policy["policy"] in printed for policy in policies)


def test_a_frame_of_held_out_policies_is_their_table():
    frame = front.replay(
        LOOKUP, held_out=True, model="llama-3.1-8b", batch=[1], splits=1
    ).to_frame()
    assert {"batch", "policy", "runs", "tokens_per_s", "tokens_per_s_low"} <= set(frame.columns)
    assert frame["policy"][0] == "rooftree" and len(frame) > 3


def test_what_a_draft_is_called_can_be_asked_again(rooftree, tmp_path):
    tree = tmp_path / "tree.json"
    tree.write_text("[[0], [1], [0, 0]]")
    answer = rooftree("replay", RANKS, "--draft-tokens", "2", "--tree", tree, "--json").answer
    rows = [*answer["chains"], *answer["trees"]]
    shapes = ",".join(row["draft"] for row in rows)
    again = rooftree("replay", RANKS, "--shape", shapes, "--json").answer["varying"]
    assert [row["tokens_per_step"] for row in again] == [row["tokens_per_step"] for row in rows]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "gpt2"), "--held-out"),
        (("--batch", "4"), "--held-out"),
        (("--kv-dtype", "fp8"), "--kv-dtype"),
        (("--set", "device.power_w=61"), "--set"),
        (("--held-out", "--stop", "ema"), "--stop"),
    ],
)
def test_speeds_and_shapes_are_not_mixed(rooftree, words, said):
    ended = rooftree("replay", LOOKUP, *words)
    assert ended.code == 2 and said in ended.err
