"""Ranks that begin every iteration together: by hand, against an engine alone, and what is
conserved whoever comes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions
from simulator.loop.rank_time import RankTimer
from simulator.loop.request import Workload
from simulator.results.timeline import timeline_events
from tests.property_examples import examples

pytestmark = pytest.mark.heavy


def timed(ranks=2, token_s=1e-4, fullest_s=1e-5):
    """A launch, own rows and cache; together a price per token of all, and one per token of the
    fullest."""

    def own(requests, queries, context, prefill, longest=0.0):
        return 2e-3 + 1e-5 * (requests * queries + sum(new for new, _ in prefill)) + 1e-8 * context

    return RankTimer(
        own=own, together_s=lambda rows: token_s * sum(rows) + fullest_s * max(rows), ranks=ranks
    )


class Together:
    """The same price as tables."""

    by_mean_s = 2e-4 * np.arange(4.0)
    by_most_s = 1e-5 * np.arange(4.0)

    def __call__(self, rows):
        return 2e-4 * sum(rows) / len(rows) + 1e-5 * max(rows)


def scenario(arrival_s, prompt, output, *, ranks=2, timer=None, **changes):
    workload = Workload(
        arrival_s=np.asarray(arrival_s, dtype=np.float64),
        prompt_tokens=np.asarray(prompt, dtype=np.int32),
        output_tokens=np.asarray(output, dtype=np.int32),
    )
    options = SchedulerOptions(kv_blocks=4096, token_budget=256, **changes)
    return Scenario(
        workload=workload,
        scheduler=options,
        timer=timer or timed(ranks),
        replicas=ranks,
        in_step=True,
    )


def test_two_requests_by_hand():
    # 100 and 40 prompt tokens together; then 1 and 1; then the second rank has nothing to do, and
    # takes part with one
    found = simulate(scenario([0.0, 0.0], [100, 40], [3, 2]))
    prompts = 2e-3 + 100 * 1e-5 + 140 * 1e-4 + 100 * 1e-5
    second = 2e-3 + 1e-5 + 100 * 1e-8 + 2e-4 + 1e-5
    third = 2e-3 + 1e-5 + 101 * 1e-8 + 2e-4 + 1e-5
    np.testing.assert_allclose(found.first_token_s, [prompts, prompts])
    np.testing.assert_allclose(found.last_token_s, [prompts + second + third, prompts + second])
    assert found.replica.tolist() == [0, 1]


def test_who_arrives_at_an_idle_rank_waits_for_the_iteration_of_the_others():
    # the prompt of the first takes until then; the second comes meanwhile, to a rank with nothing
    # to do
    found = simulate(scenario([0.0, 0.001], [200, 10], [5, 5]))
    assert found.scheduled_s[1] == found.first_token_s[0] > 0.001
    # and is there at once where nobody is busy
    later = simulate(scenario([0.0, 9.0], [200, 10], [5, 5]))
    assert later.scheduled_s[1] == 9.0


def random_requests(seed, count=40):
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.uniform(0, 2.0, count))
    return arrival, rng.integers(1, 500, count), rng.integers(1, 40, count)


@given(st.integers(0, 10_000), st.integers(1, 4), st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_every_request_and_token_is_accounted_for(seed, ranks, overlapped):
    arrival, prompt, output = random_requests(seed)
    asked = scenario(
        arrival, prompt, output, ranks=ranks, overlapped_scheduling=overlapped, max_requests=5
    )
    found = simulate(asked)
    assert found.finished.all()
    assert found.counters["emitted"] == (output - 1).sum()
    assert found.counters["prompt_tokens_computed"] == prompt.sum()
    assert np.all(found.scheduled_s >= found.arrival_s) and np.all(
        found.first_token_s > found.scheduled_s
    )
    assert np.bincount(found.replica, minlength=ranks).tolist() == [
        len(range(i, 40, ranks)) for i in range(ranks)
    ]
    # every token takes at least the iteration of one rank alone
    assert np.nanmin(found.tpot_s, initial=np.inf) >= 2e-3 + 1e-5 + ranks * 1e-4 - 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_one_rank_is_an_engine_alone(seed):
    asked = scenario(*random_requests(seed), ranks=1, max_requests=4)
    together, alone = (simulate(each) for each in (asked, replace(asked, in_step=False)))
    for name in ("scheduled_s", "first_token_s", "last_token_s"):
        np.testing.assert_allclose(
            getattr(together, name), getattr(alone, name), rtol=1e-9, err_msg=name
        )
    assert together.counters == alone.counters and together.iterations == alone.iterations


@pytest.mark.parametrize("router", ["round-robin", "least-loaded", "reported-load"])
def test_machine_code_and_python_agree(router, as_python):
    asked = replace(scenario(*random_requests(3)), router=router)
    plain, machine = as_python(simulate, asked), simulate(asked)
    for name in ("scheduled_s", "first_token_s", "last_token_s", "replica"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(machine, name), err_msg=name)


def test_waiting_for_each_other_costs_time():
    # the ranks hold different amounts of work; apart each would go at its own pace
    arrival, prompt, output = random_requests(11)
    timer = timed(token_s=0.0, fullest_s=0.0)
    together = scenario(arrival, prompt, output, timer=timer)
    apart = replace(together, in_step=False)
    assert np.nanmean(simulate(together).tpot_s) > np.nanmean(simulate(apart).tpot_s)


def test_a_tenth_of_a_second_passes_before_a_report_counts():
    # all four come within one report: each counts as waiting where it was sent, so they are dealt
    # out in turn
    found = simulate(
        replace(scenario([0.0, 0.01, 0.02, 0.03], [10] * 4, [200] * 4), router="reported-load")
    )
    assert found.replica.tolist() == [0, 1, 0, 1]
    # a second later they say that two requests run on the second rank and none on the first: one is
    # sent there and counts as one that waits, which is more than two that run
    asked = scenario([0.0, 0.01, 0.02, 0.03, 1.0, 1.01], [10] * 6, [2, 900, 2, 900, 9, 9])
    assert simulate(replace(asked, router="reported-load")).replica.tolist() == [0, 1, 0, 1, 0, 1]
    # by another report it has begun, and runs beside none
    asked = scenario([0.0, 0.01, 0.02, 0.03, 1.0, 1.21], [10] * 6, [2, 900, 2, 900, 900, 9])
    assert simulate(replace(asked, router="reported-load")).replica.tolist() == [0, 1, 0, 1, 0, 0]


def test_the_summary_and_the_timeline_tell_ranks_apart():
    found = simulate(scenario([0.0, 0.0, 0.0], [100, 40, 10], [30, 2, 5]))
    summary = found.summary()
    ranks = summary["by_replica"]
    assert [ranks[rank]["requests"] for rank in ("0", "1")] == [2, 1]
    assert sum(each["tokens_per_s"] for each in ranks.values()) == pytest.approx(
        summary["tokens_per_s"]
    )
    # the second rank decodes one token after its prompt, and sits the other 28 iterations of the
    # first out
    assert summary["idle_passes"] == 28
    assert ranks["0"]["busy_ratio"] == pytest.approx(1.0) and ranks["1"]["busy_ratio"] < 0.3
    assert sum(each["busy_ratio"] for each in ranks.values()) / 2 == pytest.approx(
        summary["busy_ratio"]
    )
    names = [
        each["args"]["name"] for each in timeline_events(found) if each["name"] == "process_name"
    ]
    assert names == ["rank 0", "rank 1"]
    alone = simulate(scenario([0.0], [10], [5], ranks=1)).summary()
    assert "by_replica" not in alone


def test_ranks_take_requests_by_what_they_can_say_of_themselves():
    asked = scenario([0.0], [10], [2])
    with pytest.raises(InputError, match="reported-load"):
        simulate(replace(asked, router="prefix"))
    with pytest.raises(InputError, match="ranks in step"):
        replace(asked, router="reported-load", in_step=False)


@pytest.mark.parametrize("router", ["round-robin", "least-loaded", "reported-load"])
def test_tables_and_timers_that_are_asked_agree(tabled_timer, router, as_python):
    together = Together()
    tabled = RankTimer(own=tabled_timer, together_s=together, ranks=2)
    asked = RankTimer(own=tabled_timer.__call__, together_s=together.__call__, ranks=2)
    arrival, prompt, _ = random_requests(4)
    users = 6 if router == "least-loaded" else None
    found = []
    for timer in (tabled, asked):
        # whole prompts, since timers that are asked take every chunk for a prompt's last
        options = scenario(arrival, prompt % 80 + 1, np.full(40, 7), timer=timer, max_requests=3)
        workload = replace(options.workload, users=users)
        found += [
            way(simulate, replace(options, workload=workload, router=router))
            for way in (as_python, lambda run, asked: run(asked))
        ]
    for each in found[1:]:
        for name in ("arrival_s", "scheduled_s", "first_token_s", "last_token_s", "replica"):
            np.testing.assert_allclose(
                getattr(each, name), getattr(found[0], name), rtol=1e-9, err_msg=name
            )
        assert each.idle_passes == found[0].idle_passes and each.iterations == found[0].iterations


def test_ranks_draft_and_verify_in_step(random_scenario):
    seen = 0
    for seed in range(500, 530):
        asked = random_scenario(seed, timer=timed(), replicas=2)
        if asked.speculation is None or asked.workload.users is not None:
            continue
        batch = asked.speculation.batch
        if batch.parts > 1 or batch.ragged != "split" or batch.drafts_during_verify:
            with pytest.raises(InputError, match="one pass after drafting"):
                replace(asked, in_step=True)
            continue
        found = simulate(replace(asked, in_step=True))
        assert set(found.state.tolist()) <= {"finished", "rejected", "failed"}
        assert found.counters["drafted"] >= found.counters["accepted"] >= 0
        seen += 1
    assert seen > 2


def test_a_timer_that_knows_no_ranks_is_refused():
    with pytest.raises(InputError, match="own part"):
        replace(scenario([0.0], [10], [2]), timer=lambda *arguments: 1.0)
