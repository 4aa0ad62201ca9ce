"""Policies beside each other: names, the schedule by batch, scores and ratios."""

from itertools import pairwise

import pytest

from app.answers.simulations.length_policies import (
    PolicyOutcome,
    batch_grid,
    policy_names,
    rows_of,
    score_of,
)
from hardware_profiles.errors import UnknownNameError


def test_ours_and_plain_decoding_are_always_there():
    assert policy_names("vllm, oracle") == ["ours", "vllm", "plain", "oracle"]
    every = policy_names("all")
    assert every[0] == "ours" and every == policy_names(",".join(reversed(every)))
    with pytest.raises(UnknownNameError, match="vlm"):
        policy_names("vlm")


@pytest.mark.parametrize("most", [1, 5, 8, 9, 64, 300])
def test_a_grid_of_batches_rises_to_its_end(most):
    grid = batch_grid(most)
    assert grid[0] == 1 and grid[-1] == most and grid == sorted(set(grid))
    assert all(b <= max(a + 1, 1.25 * a) for a, b in pairwise(grid))


def compared(name, *scores):
    metrics = {
        "tokens_per_s": 1.0,
        "goodput_per_s": 1.0,
        "tokens_per_step": 1.0,
        "drafted": 2,
        "steps": 4,
        "tpot_s": {"mean": 1.0},
        "ttft_s": {"mean": None},
    }
    return PolicyOutcome(name=name, metrics=tuple(metrics | {"score": score} for score in scores))


def test_ratios_are_taken_seed_by_seed_and_regret_counts_plain_decoding():
    rows = rows_of(
        [compared("ours", 2.0, 4.0), compared("plain", 3.0, 5.0), compared("oracle", 4.0, 5.0)]
    )
    ours, plain, oracle = rows
    assert ours["to_oracle"]["ratio"] == pytest.approx((0.5 + 0.8) / 2)
    assert ours["to_oracle"]["interval"] == pytest.approx([0.53, 0.77])
    assert ours["regret_ratio"] == pytest.approx(1 - 3 / 4) and plain["regret_ratio"] == 0.0
    assert oracle["regret_ratio"] is None and "to_expected" not in ours
    assert ours["drafted_per_step"] == 0.5 and ours["ttft_s"] is None


def test_a_single_seed_has_no_interval():
    (row,) = rows_of([compared("ours", 2.0)])
    assert row["score_interval"] is None and row["to_ours"] == {"ratio": 1.0, "interval": None}


def test_an_open_load_is_scored_by_what_a_user_sees():
    metrics = {"tokens_per_s": 900.0, "tpot_s": {"mean": 0.02}}
    assert (
        score_of(metrics, by_user=True) == pytest.approx(50.0)
        and score_of(metrics, by_user=False) == 900.0
    )
    assert score_of({"tokens_per_s": None, "tpot_s": {"mean": None}}, by_user=True) == 0.0
