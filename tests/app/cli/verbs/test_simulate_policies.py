"""`simulate --policies`: the answer's shape, its tables, and what does not go with it."""

import pytest

WORDS = (
    "simulate",
    "--model",
    "llama-3.1-8b",
    "--users",
    "3",
    "--count",
    "6",
    "--prompt-tokens",
    "60",
    "--output-tokens",
    "40",
    "--trace",
    "level-3/smollm2-135m--draft-model--greedy",
    "--draft-tokens",
    "4",
    "--set",
    "speculation.draft=llama-3.2-1b",
)


def test_policies_stand_beside_each_other_on_the_same_requests(rooftree):
    done = rooftree(*WORDS, "--policies", "all", "--seeds", "2", "--json")
    assert done.code == 0, done.err
    rows = {row["name"]: row for row in done.answer["policies"]}
    assert {"ours", "cost", "vllm", "sglang", "tensorrt-llm", "nightjar", "plain", "oracle"} <= set(
        rows
    )
    assert done.answer["by"] == "tokens per second" and done.answer["seeds"] == [0, 1]
    assert done.answer["schedule"][0][0] == 1
    never = all(k == 0 for _, _, k in done.answer["schedule"])
    assert never == ("no drafter is loaded" in " ".join(done.answer["notes"]))
    assert rows["plain"]["drafted_per_step"] == 0.0 and rows["fixed"]["drafted_per_step"] > 3.0
    assert 0.0 < rows["cost"]["drafted_per_step"] < rows["fixed"]["drafted_per_step"]
    assert rows["ours"]["to_ours"]["ratio"] == 1.0
    assert (
        min(row["regret_ratio"] for row in rows.values() if row["regret_ratio"] is not None) == 0.0
    )
    for row in rows.values():
        low, high = row["to_oracle"]["interval"]
        assert 0.0 < low <= row["to_oracle"]["ratio"] <= high
        assert row["tpot_s"] > 0.0


def test_the_table_says_what_ranks_and_what_we_would_run(rooftree):
    done = rooftree(*WORDS, "--policies", "vllm")
    assert done.code == 0, done.err
    for words in (
        "ours",
        "vllm",
        "plain",
        "ranked by tokens per second",
        "draft tokens by batch: 1-",
    ):
        assert words in done.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--policies", "vlm"), "vllm"),
        (("--policies", "vllm", "--compare", "chunked"), "--compare"),
        (("--policies", "vllm", "--rates", "1,2"), "--rates"),
    ],
)
def test_what_does_not_go_with_it_is_refused(rooftree, options, said):
    done = rooftree(*WORDS, *options)
    assert (done.code, done.out) == (2, "") and said in done.err


def test_policies_need_a_chain(rooftree):
    done = rooftree(*WORDS[:11], "--policies", "all")
    assert done.code == 2 and "--policies" in done.err and "--draft-tokens" in done.err
