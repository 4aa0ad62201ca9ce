"""Cells under a load: what their requests see, whatever else is asked."""

from pathlib import Path

import pytest

from app.answers.sweep.evaluate import SweepEvaluation
from app.answers.sweep.file import Sweep, SweepFile

pytestmark = pytest.mark.heavy
LENGTHS = {"prompt_tokens": ["uniform:200:800"], "output_tokens": [60]}


def rows(seed=0, **lists):
    evaluation = SweepEvaluation(Sweep(lists=SweepFile(**lists), folder=Path()), seed)
    shards = range(evaluation.cells.shards)
    return [row for shard in shards for row in evaluation.shard(shard).to_pylist()]


@pytest.fixture(scope="module")
def by_rate():
    return rows(
        models=["llama-3.1-8b"],
        drafters=["eagle-3", "n-gram:0.5"],
        rates=[0.5, 8, 30, 400],
        slo_ttft=200,
        slo_tpot=9,
        **LENGTHS,
    )


def test_times_grow_with_the_load_and_what_is_too_much_is_marked(by_rate):
    for drafter in ("eagle-3", "n-gram:0.5"):
        own = [row for row in by_rate if row["drafter"] == drafter]
        assert [row["rate_per_s"] for row in own] == [0.5, 8.0, 30.0, 400.0]
        assert all(row["feasible"] and row["batch"] is None and row["users"] is None for row in own)
        assert [row["sustained"] for row in own] == [True, True, True, False]
        for name in ("ttft_s", "tpot_s", "e2e_s", "ttft_p99_s", "tpot_p99_s", "e2e_p99_s"):
            times = [row[name] for row in own]
            assert times == sorted(times), name
        drafts = [row["draft_tokens"] for row in own]
        assert drafts == sorted(drafts, reverse=True) and drafts[0] > 0
        for row in own[:3]:
            assert row["tokens_per_s"] == pytest.approx(60 * row["rate_per_s"], rel=0.15)
            assert row["speedup"] >= 1.0
            assert 0.0 <= row["goodput_per_s"] <= 1.1 * row["rate_per_s"]
        assert own[0]["good_ratio"] == 1.0 and own[3]["good_ratio"] < 0.5
        assert own[3]["speedup"] is None


@pytest.mark.parametrize("at", [0, 2, 3, 5])
def test_a_row_does_not_depend_on_what_else_is_asked(by_rate, at):
    row = by_rate[at]
    alone = rows(
        models=["llama-3.1-8b"],
        drafters=[row["drafter"]],
        rates=[row["rate_per_s"]],
        slo_ttft=200,
        slo_tpot=9,
        **LENGTHS,
    )
    assert alone == [row]


def test_users_keep_a_replica_as_busy_as_they_are_many():
    told = rows(models=["llama-3.1-8b"], drafters=["eagle-3"], users=[1, 8, 64], **LENGTHS)
    rates = [row["tokens_per_s"] for row in told]
    assert rates == sorted(rates) and rates[0] * 3 < rates[2]
    assert [row["users"] for row in told] == [1, 8, 64] and all(row["sustained"] for row in told)
    for row in told:
        stay = row["e2e_s"]
        assert stay == pytest.approx(row["ttft_s"] + 59 * row["tpot_s"], rel=1e-6)
        assert row["users"] / stay == pytest.approx(row["tokens_per_s"] / 60, rel=0.05)


def test_whole_requests_beyond_their_limit_do_not_count():
    told = rows(models=["llama-3.1-8b"], rates=[30], **LENGTHS, slo_e2e=600)
    free = rows(models=["llama-3.1-8b"], rates=[30], **LENGTHS)
    assert told[0]["good_ratio"] < free[0]["good_ratio"] == 1.0
    assert told[0]["e2e_p99_s"] > 0.6


def test_cells_that_cannot_be_are_marked_and_the_others_stay():
    told = rows(
        models=["llama-3.3-70b", "llama-3.2-1b"],
        devices=["l4"],
        drafters=["n-gram:0.5"],
        rates=[1],
        **LENGTHS,
    )
    assert [row["feasible"] for row in told] == [False, True]
    assert "memory" in told[0]["reason"] and told[0]["ttft_s"] is None
    unknown = rows(models=["llama-3.2-1b"], engines=["none"], rates=[1], **LENGTHS)
    assert not unknown[0]["feasible"] and "scheduler" in unknown[0]["reason"]


def test_without_drafters_plain_decoding_serves():
    told = rows(models=["llama-3.1-8b"], rates=[2], **LENGTHS)
    assert told[0]["topology"] == "off" and told[0]["drafter"] == "plain-decoding"
    assert told[0]["speedup"] == 1.0
