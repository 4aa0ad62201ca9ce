"""What a token of one point costs: memory, energy and price beside the numbers they follow from."""

import pytest

import rooftree
from hardware_profiles.loader import load_device

WHERE = {"model": "llama-3.1-8b", "device": "h100-sxm", "drafter": ["eagle-3:0.7"], "batch": 8}


def predicted(**more):
    """The row of K = 3 at one point."""
    (row,) = rooftree.predict(**{**WHERE, "draft_tokens": 3, **more})["predictions"]
    return row


def test_price_and_energy_are_those_of_all_devices_over_their_tokens():
    for tp in (1, 4):
        row, device = predicted(tp=tp), load_device("h100-sxm")
        tokens_per_hour = 3600.0 * row["tokens_per_s"]
        usd = 1e6 * tp * device.price_usd_per_hour / tokens_per_hour
        assert row["usd_per_million_tokens"] == pytest.approx(usd)
        watts = row["joules_per_token"] * row["tokens_per_s"] / tp
        assert 0.17 * device.power_w <= watts <= device.power_w


def test_a_device_without_a_price_has_none_for_its_tokens():
    assert load_device("dgx-spark").price_usd_per_hour is None
    assert predicted(device="dgx-spark")["usd_per_million_tokens"] is None


def test_memory_grows_by_the_cache_of_every_request():
    one, two, four = (predicted(batch=batch)["memory_bytes"] for batch in (1, 2, 4))
    assert one < two and four - two == pytest.approx(2 * (two - one), rel=0.05)
    assert predicted(kv_dtype="fp8", batch=4)["memory_bytes"] < four


def test_a_choice_of_optimize_costs_what_predict_says():
    choice = rooftree.optimize(**{**WHERE, "draft_tokens": 3, "tree_nodes": 0})["choices"][0]
    row = predicted()
    for name in ("memory_bytes", "joules_per_token", "usd_per_million_tokens"):
        assert choice[name] == pytest.approx(row[name])
