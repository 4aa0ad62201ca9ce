"""`traces losses`: what is lost where a mean, or rates by depth, are all that is known."""

import pytest

MEDUSA = "gpu/vicuna-7b--medusa--greedy"
LOOKUP = "smollm2-135m--prompt-lookup--greedy"


@pytest.fixture(scope="module")
def answer(rooftree):
    return rooftree("traces", "losses", MEDUSA, LOOKUP, "--json").answer


def test_every_device_and_batch_that_fits_is_a_row(answer):
    rows = answer["losses"]
    assert {row["device"] for row in rows} == {"h100-sxm", "a100-sxm-80", "l40s"}
    lookup = [row["batch"] for row in rows if (row["trace"], row["device"]) == (LOOKUP, "l40s")]
    assert lookup == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert max(row["batch"] for row in rows if row["trace"] == MEDUSA) == 64
    assert not answer["left_out"]


def test_means_and_worst_are_over_the_batches(answer):
    for device in answer["devices"]:
        rows = [
            row
            for row in answer["losses"]
            if (row["trace"], row["device"]) == (device["trace"], device["device"])
        ]
        lost = [row["mean_lost_ratio"] for row in rows]
        assert device["batches"] == len(rows)
        assert device["mean_lost_ratio"] == pytest.approx(sum(lost) / len(lost))
        assert device["mean_worst_ratio"] == max(lost)
        assert lost[[row["batch"] for row in rows].index(device["mean_worst_batch"])] == max(lost)


def test_the_mean_of_a_tree_drafts_where_the_tree_does_not_pay(answer):
    """The figure that the README names: batch 64 on an A100."""
    worst = max(answer["losses"], key=lambda row: row["mean_lost_ratio"])
    assert (worst["trace"], worst["device"], worst["batch"]) == (MEDUSA, "a100-sxm-80", 64)
    assert worst["by_trace"] == "off" and worst["by_mean"].startswith("chain:")
    assert worst["mean_lost_ratio"] == pytest.approx(0.59, abs=0.01)
    assert worst.get("by_rates") is None


def test_rates_lose_less_than_a_mean_where_they_are_all_there_is(answer):
    """Of prompt lookup, whose chains the recording compares, too."""
    rows = [row for row in answer["devices"] if row["trace"] == LOOKUP]
    assert all(row["rates_lost_ratio"] < row["mean_lost_ratio"] < 0.06 for row in rows)


def test_what_cannot_be_asked_is_refused_by_name(rooftree):
    ended = rooftree("traces", "losses", "catalogue/smollm2-135m--ppd--greedy")
    assert ended.code == 2 and "no chains" in ended.err
    ended = rooftree("traces", "losses", "gpu/vicuna-7b-v1.5--plain--greedy")
    assert ended.code == 2
    ended = rooftree("traces", "losses", MEDUSA, "--device", "h100-sxm,nothing")
    assert ended.code == 2 and "nothing" in ended.err
