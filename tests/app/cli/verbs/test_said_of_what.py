"""Sentences say of what they are true: which plans are as cheap, which draft a row is of, and what a
speedup is against."""

import pytest

MASKED = ("predict", "--model", "llada-8b", "--method", "fast-dllm", "--batch", "1")


def test_plans_are_as_cheap_where_a_token_costs_the_same(rooftree):
    words = (
        "capacity",
        "--model",
        "llama-3.1-8b",
        "--drafter",
        "eagle-3:0.75",
        "--draft-tokens",
        "3",
    )
    lengths = ("--prompt-tokens", "512", "--output-tokens", "64")
    by_rate = rooftree(*words, *lengths, "--rate", "2")
    by_users = rooftree(*words, *lengths, "--users", "8")
    costs = {
        each: {
            (plan["usd_per_hour"], round(plan["usd_per_million_tokens"], 3))
            for plan in rooftree(*words, *lengths, *each, "--json").answer["plans"]
        }
        for each in (("--rate", "2"), ("--users", "8"))
    }
    assert len(costs["--rate", "2"]) == 1 and "as cheap: " in by_rate.out
    assert len(costs["--users", "8"]) == 2 and "as cheap: " not in by_users.out


@pytest.mark.parametrize(("more", "is_said"), [((), True), (("--draft-tokens", "4"), False)])
def test_rows_of_several_batches_say_at_which_their_draft_is_fastest(rooftree, more, is_said):
    words = ("breakeven", "--model", "llama-3.1-8b", "--drafter", "eagle-3")
    several = rooftree(*words, "--batch", "1,64", *more).out
    assert ("fastest at batch 1 and context 1,024" in several) == is_said
    assert "fastest at batch" not in rooftree(*words, "--batch", "64", *more).out


def test_a_speedup_of_masked_blocks_is_against_the_twin_and_says_so(rooftree):
    answer = rooftree(*MASKED, "--json").answer
    assert answer["baseline"].startswith("the autoregressive twin, ")
    shown = " ".join(rooftree(*MASKED).out.split())
    assert f"speedup against {answer['baseline']}" in shown
    off = next(row for row in answer["predictions"] if row["draft"] == "off")
    twin = rooftree("breakeven", *MASKED[1:], "--json").answer["points"][0]["twin_tokens_per_s"]
    assert off["tokens_per_s"] == pytest.approx(twin)


def test_how_acceptance_goes_on_is_of_rates_given_the_tokens_before(rooftree):
    words = ("--drafter", "eagle-3:0.8,0.6", "--draft-tokens", "5", "--batch", "1")
    shown = " ".join(rooftree("predict", "--model", "llama-3.1-8b", *words).out.split())
    assert "accepted, given those before it, " in shown
