"""A large plan beside some of its replicas, simulated behind its router."""

import pytest

from app.answers.capacity.confirmed import LEAST_REPLICAS, SAMPLED

pytestmark = pytest.mark.heavy
LENGTHS = ("--prompt-tokens", 500, "--output-tokens", 60)
ASKED = ("capacity", "--model", "llama-3.2-1b", "--device", "l4", *LENGTHS, "--json")
LIMITED = (*ASKED, "--slo-ttft", "p90:400")


def test_a_large_plan_is_confirmed_behind_its_router(rooftree):
    told = rooftree(*LIMITED, "--rate", 2000).answer
    (plan, *_), fleet = told["plans"], told["fleet"]
    assert plan["replicas"] >= LEAST_REPLICAS
    assert fleet["replicas"] == plan["replicas"] and fleet["simulated_replicas"] == SAMPLED
    for name in ("ttft_s", "tpot_s", "good_ratio"):
        low, high = fleet[f"{name}_interval"]
        assert 0.0 <= low <= fleet[name] <= high
    assert fleet["keeps_limits"]
    # arrivals that are dealt out in turn queue no longer than those that know nothing of each other
    assert fleet["ttft_s"] <= plan["simulated"]["ttft_s"]


def test_small_plans_and_plans_without_limits_are_not(rooftree):
    assert rooftree(*LIMITED, "--rate", 2).answer.get("fleet") is None
    told = rooftree(*ASKED, "--rate", 2000).answer
    assert told["plans"][0]["replicas"] >= LEAST_REPLICAS and told.get("fleet") is None
