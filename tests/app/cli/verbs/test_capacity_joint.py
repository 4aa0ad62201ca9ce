"""`capacity --search full`: never dearer than what is named, the same object, and what is refused."""

import pytest

LOAD = ("--model", "llama-3.1-8b", "--rate", "40", "--prompt", "600", "--output", "150", "--slo-tpot", "25", "--json")


def test_a_full_search_is_never_dearer_than_a_named_plan(rooftree):
    named = rooftree("capacity", *LOAD, "--device", "h100-sxm,l4", "--tp", "1,2").answer
    full = rooftree("capacity", *LOAD, "--device", "h100-sxm,l4", "--search", "full").answer
    assert full["best"]["by"] == named["best"]["by"] == "usd_per_hour"
    cheapest = [min(row["usd_per_hour"] for row in each["plans"] if row["feasible"]) for each in (full, named)]
    assert cheapest[0] <= cheapest[1]
    for row in full["plans"]:
        assert set(row) >= {"model", "device", "engine", "tp", "method", "feasible", "reason"}
        if row["feasible"]:
            assert row["tpot_s"] <= 0.025 and row["batch"] <= row["batch_cap"] and row["token_budget"] >= 1024
    assert full["best"]["layout"].startswith("tp") and full["best"]["token_budget"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--search", "all"), "--search: must be named or full"),
        (("--search", "full", "--tp", "2"), "--tp: is searched"),
    ],
)
def test_refusals_name_the_option(rooftree, words, says):
    done = rooftree("capacity", *LOAD, *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and says in done.err
