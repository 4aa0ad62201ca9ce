"""Overlapped drafting: event simulations against closed forms, policy by policy, under independent
acceptance."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.laws.batching import SERIAL, long_run
from costmodel.laws.outcomes import outcome_chain
from costmodel.method import Batch
from costmodel.method_library import load_method
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import Workload
from tests.property_examples import examples
from tests.simulator.plain_timing import side_by_side_s, step_s
from traces.kinds.acceptance import AcceptanceTrace
from traces.library import read_trace
from traces.replay.outcomes import replay_outcomes

USERS, OUTPUT = 8, 1500
PASS_S, ROW_S = 1e-2, 1e-5


@cache
def recorded(rate, covered, seed=0, n=40_000):
    """One long text: the drafter's first choice is right with chance `rate`, one of its first two
    with `covered`."""
    rng = np.random.default_rng(seed)
    drawn = rng.random(n)
    rank = np.where(drawn < rate, 0, np.where(drawn < covered, 1, -1)).astype(np.int8)
    misses = np.where(rank == 0, n, np.arange(n))
    following = np.minimum(np.minimum.accumulate(misses[::-1])[::-1], n - 1)
    emitted = np.minimum(following - np.arange(n) + 1, 60).astype(np.int16)
    return AcceptanceTrace(
        offsets=[0, n], emitted=emitted, rank=rank, rank_width=2, depth_invariant=True
    )


def law(decode_requests, query_tokens, decode_context_tokens, prefill, longest_context=0.0):
    return (PASS_S if decode_requests or prefill else 0.0) + ROW_S * (
        decode_requests * query_tokens + sum(new for new, _ in prefill)
    )


@cache
def drafting(each_s):
    def draft(decode_requests, draft_tokens, decode_context_tokens, prefill_tokens):
        return each_s * draft_tokens + 1e-6 * decode_requests if draft_tokens else 0.0

    return draft


@cache
def run(policy, k, rate, covered, each_s, users=USERS):
    workload = Workload(
        arrival_s=np.zeros(users),
        prompt_tokens=np.full(users, 4),
        output_tokens=np.full(users, OUTPUT),
    )
    speculation = SpeculationOptions(
        topology=k, trace=recorded(rate, covered), draft=drafting(each_s), batch=policy
    )
    options = SchedulerOptions(kv_blocks=100_000)
    return simulate(
        Scenario(workload=workload, scheduler=options, timer=law, speculation=speculation),
    )


PEARL = load_method("pearl").batch
BRANCHES = replace(load_method("specbranch").batch, branch_at=1.0)
OUTCOMES = load_method("speculative-speculative-decoding").batch
POLICIES = {
    "serial": SERIAL,
    "pearl": PEARL,
    "specbranch": BRANCHES,
    "faser": load_method("faser").batch,
    "branches that interfere": replace(BRANCHES, interference_ratio=0.4),
    "parallel in parts": replace(PEARL, parts=2),
    "parts that keep everybody": Batch(parts=3),
}


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize(("rate", "covered"), [(0.5, 0.75), (0.85, 0.95)])
def test_a_long_run_emits_verifies_and_wastes_what_its_law_says(name, rate, covered):
    policy, k = POLICIES[name], 4
    result = run(policy, k, rate, covered, 2e-3)
    expected = long_run(policy, k, rate, covered)
    c = result.counters
    assert result.tokens_per_step == pytest.approx(expected.tokens_per_step, rel=0.02)
    assert c["drafted"] / c["steps"] == pytest.approx(expected.verified_per_step, rel=0.02)
    assert c["wasted"] / c["steps"] == pytest.approx(expected.wasted_per_step, rel=0.03)
    assert c["unselected"] / c["steps"] == pytest.approx(expected.unselected_per_step, rel=0.02)
    assert c["wasted"] == c["drafted"] - c["accepted"] + c["rolled_back"] + c["unselected"]


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("each_s", [1e-4, 2e-3, 2e-2])
def test_a_long_run_takes_the_time_that_its_law_says(name, each_s):
    """Drafting is far shorter than verification, or far longer, so that the longer phase is the
    same in all steps."""
    policy, k, rate, covered = POLICIES[name], 4, 0.7, 0.9
    result = run(policy, k, rate, covered, each_s)
    expected = long_run(policy, k, rate, covered)
    made = USERS * max(policy.branches, 1)
    draft_s = drafting(each_s)(made, k, 0.0, 0)
    parts = expected.query_tokens
    if policy.drafts_during_verify and policy.parts > 1:
        parts = None  # its parts are unequal, and no closed form says how
    if parts is not None:
        verify = [law(1, USERS * queries, 0.0, []) for queries in parts]
        seconds = step_s(policy, draft_s, verify)
        assert result.busy_s / result.iterations == pytest.approx(seconds, rel=0.02)
        each = (OUTPUT - 1) / (result.last_token_s - result.first_token_s)
        assert each.mean() == pytest.approx(expected.tokens_per_step / seconds, rel=0.03)
    assert result.finished.all()


@pytest.mark.parametrize("on_miss", ["wait", "plain"])
@pytest.mark.parametrize(("rate", "covered"), [(0.5, 0.75), (0.85, 0.95)])
def test_drafts_for_outcomes_emit_verify_and_waste_what_their_law_says(on_miss, rate, covered):
    """The drafter's second choice alone is known beside its first, so that one guess a place is
    made."""
    policy, k = replace(OUTCOMES, fan_out=1, on_miss=on_miss), 4
    result = run(policy, k, rate, covered, 2e-3)
    expected = long_run(policy, k, rate, rate, recovered=(covered - rate) / (1.0 - rate))
    c = result.counters
    assert result.tokens_per_step == pytest.approx(expected.tokens_per_step, rel=0.02)
    assert c["drafted"] / c["steps"] == pytest.approx(expected.verified_per_step, rel=0.02)
    assert c["wasted"] / c["steps"] == pytest.approx(expected.wasted_per_step, rel=0.02)
    assert c["unselected"] / c["steps"] == pytest.approx(expected.unselected_per_step, rel=0.02)
    ready = 1.0 - c["rolled_back"] / c["steps"] / k
    assert ready == pytest.approx(expected.foreseen_ratio, abs=0.01)


@pytest.mark.parametrize("each_s", [1e-4, 2e-2])
def test_a_step_waits_for_the_drafts_of_outcomes_that_were_not_foreseen(each_s):
    """Of one request, so that a step waits as often as that."""
    policy, k, rate, covered = replace(OUTCOMES, fan_out=1), 4, 0.7, 0.9
    result = run(policy, k, rate, covered, each_s, users=1)
    expected = long_run(policy, k, rate, rate, recovered=(covered - rate) / (1.0 - rate))
    ahead_s, late_s = (drafting(each_s)(n, passes, 0.0, 0) for n, passes in ((5, 5), (1, 4)))
    seconds = max(ahead_s, law(1, 5.0, 0.0, [])) + (1.0 - expected.foreseen_ratio) * late_s
    assert result.busy_s / result.iterations == pytest.approx(seconds, rel=0.03)


@pytest.mark.parametrize("on_miss", ["wait", "plain"])
def test_outcomes_of_a_recording_are_simulated_as_they_are_replayed(root, on_miss):
    """A recorded drafter, whose ranks say which outcome came about."""
    trace = read_trace(root / "traces/recorded/level-3/smollm2-135m--layer-skip--greedy.parquet")
    policy, k = replace(OUTCOMES, on_miss=on_miss), 4
    replayed = replay_outcomes(trace, k, policy.fan_out, waits=on_miss == "wait")
    _, _, tokens = rolled_back(policy, trace, k)
    assert tokens == pytest.approx(replayed.replay.tokens_per_step, rel=0.04)
    claim = outcome_chain(trace, k, policy, None)
    assert claim.tokens_per_step == pytest.approx(replayed.replay.tokens_per_step)
    assert claim.foreseen_ratio == replayed.foreseen_ratio


@given(
    rate=st.floats(0.01, 0.99),
    k=st.integers(1, 8),
    fan_out=st.integers(1, 20),
    on_miss=st.sampled_from(["wait", "plain"]),
)
def test_a_wider_fan_foresees_more_and_no_draft_emits_more_than_a_fresh_one(
    rate, k, fan_out, on_miss
):
    few, many = (
        long_run(replace(OUTCOMES, fan_out=n, on_miss=on_miss), k, rate)
        for n in (fan_out, fan_out + 1)
    )
    fresh = long_run(SERIAL, k, rate)
    assert 0.0 <= few.foreseen_ratio <= many.foreseen_ratio <= 1.0
    assert few.tokens_per_step <= many.tokens_per_step + 1e-12 <= fresh.tokens_per_step + 1e-9
    if on_miss == "wait":
        assert few.tokens_per_step == pytest.approx(fresh.tokens_per_step)
    assert few.foreseen_ratio >= rate**k * rate - 1e-12  # a whole draft with its next token


def test_branches_roll_back_less_where_the_drafter_is_often_second_best():
    """Foreseeing the target's token in two branches instead of one keeps more steps supplied with
    drafts."""
    one, two = (replace(BRANCHES, branches=n) for n in (1, 2))
    few, many = (run(policy, 4, 0.6, 0.9, 1e-3) for policy in (one, two))
    assert (
        many.tokens_per_step > few.tokens_per_step > run(PEARL, 4, 0.6, 0.9, 1e-3).tokens_per_step
    )
    # per drafted token the branches waste more, per emitted one the steps without a draft are fewer
    assert (
        many.counters["drafted"] / many.counters["steps"]
        > few.counters["drafted"] / few.counters["steps"]
    )


def test_pruning_saves_rows_and_changes_no_token():
    kept, pruned = (
        run(Batch(parts=4, prunes=prunes), 8, 0.4, 0.6, 1e-3) for prunes in (False, True)
    )
    assert pruned.counters == kept.counters
    assert pruned.clock_s < kept.clock_s


@settings(max_examples=examples(60))
@given(
    k=st.integers(1, 9),
    rate=st.floats(0.0, 1.0),
    more=st.floats(0.0, 1.0),
    branches=st.integers(0, 4),
    draft_s=st.floats(1e-4, 1e-1),
    verify_s=st.floats(1e-4, 1e-1),
    x=st.floats(0.0, 1.0),
)
def test_laws_keep_their_bounds(k, rate, more, branches, draft_s, verify_s, x):
    covered = rate + (1.0 - rate) * more
    policy = Batch(drafts_during_verify=True, branches=branches, interference_ratio=x)
    found = long_run(policy, k, rate, covered)
    assert 1.0 - 1e-9 <= found.tokens_per_step <= k + (branches > 0) + 1e-9
    assert (
        found.tokens_per_step <= long_run(SERIAL, k, rate).tokens_per_step + 1e-9
    )  # a fresh draft at every step
    drafts = k * max(branches, 1)
    assert -1e-9 <= found.wasted_per_step <= drafts + 1e-9
    assert found.verified_per_step <= k + 1e-9
    parallel_s = step_s(policy, draft_s, [verify_s])
    assert max(draft_s, verify_s) <= parallel_s <= step_s(SERIAL, draft_s, [verify_s]) + 1e-15
    assert side_by_side_s(draft_s, verify_s, 1.0) == pytest.approx(draft_s + verify_s)
    # in parts of equal length the whole is at least the longer phase, and at most both
    split_s = step_s(Batch(parts=k), draft_s, [verify_s / k] * k)
    assert max(draft_s, verify_s) <= split_s + 1e-12 and split_s <= draft_s + verify_s + 1e-12


@given(rate=st.floats(0.01, 0.99), k=st.integers(1, 8))
def test_more_acceptance_emits_more(rate, k):
    for policy in (SERIAL, PEARL, BRANCHES, POLICIES["faser"]):
        assert (
            long_run(policy, k, rate + 0.01).tokens_per_step
            > long_run(policy, k, rate).tokens_per_step - 1e-12
        )


@cache
def calibrated(sure_ratio, seed=3, n=6_000):
    """A drafter that is right as often as it says: 0.95 where it is sure, and 0.2 elsewhere."""
    rng = np.random.default_rng(seed)
    probability = np.where(rng.random(n) < sure_ratio, 0.95, 0.2)
    drawn = rng.random(n)
    rank = np.where(
        drawn < probability, 0, np.where(drawn < (1.0 + probability) / 2.0, 1, -1)
    ).astype(np.int8)
    misses = np.minimum.accumulate(np.where(rank == 0, n, np.arange(n))[::-1])[::-1]
    emitted = np.minimum(np.minimum(misses, n - 1) - np.arange(n) + 1, 60).astype(np.int16)
    probs = np.stack([probability, (1.0 - probability) / 2.0], axis=1)
    return AcceptanceTrace(
        offsets=[0, n],
        emitted=emitted,
        rank=rank,
        rank_width=2,
        depth_invariant=True,
        draft_ids=np.tile(np.arange(2), (n, 1)),
        draft_probs=probs,
        target_probs=probs,
        emitted_target_prob=probs[:, 0],
        residual_mass=1.0 - probs.sum(axis=1),
    )


def rolled_back(batch, trace, k):
    """Draft tokens that were rejected or thrown away behind a rejected one, and all wasted ones,
    per emitted token."""
    workload = Workload(
        arrival_s=np.zeros(4), prompt_tokens=np.full(4, 4), output_tokens=np.full(4, 900)
    )
    speculation = SpeculationOptions(topology=k, trace=trace, draft=drafting(1e-3), batch=batch)
    scenario = Scenario(
        workload=workload,
        scheduler=SchedulerOptions(kv_blocks=100_000),
        timer=law,
        speculation=speculation,
    )
    result = simulate(scenario)
    c = result.counters
    return (
        (c["wasted"] - c["unselected"]) / c["emitted"],
        c["wasted"] / c["emitted"],
        result.tokens_per_step,
    )


@pytest.mark.parametrize("sure_ratio", [0.3, 0.6])
def test_drafts_that_branch_where_the_drafter_is_unsure_roll_back_half_of_what_pearl_does(
    sure_ratio,
):
    """As SpecBranch reports for poorly aligned models; drafts that never end early do not, whatever
    their branches."""
    trace, k = calibrated(sure_ratio), 6
    pearl, _, pearl_tau = rolled_back(PEARL, trace, k)
    unsure, wasted, tau = rolled_back(load_method("specbranch").batch, trace, k)
    always, wasted_always, _ = rolled_back(BRANCHES, trace, k)
    assert unsure < 0.5 * pearl
    assert 0.8 * pearl < always <= pearl
    assert wasted < 0.6 * wasted_always  # and fewer tokens are drafted in vain altogether
    assert tau > 0.95 * pearl_tau


def test_a_recorded_draft_model_rolls_back_less_than_half_of_what_pearl_does(root):
    trace = read_trace(root / "traces/recorded/level-3/smollm2-135m--early-exit--greedy.parquet")
    pearl, _, _ = rolled_back(PEARL, trace, 8)
    unsure, _, _ = rolled_back(load_method("specbranch").batch, trace, 8)
    assert unsure < 0.5 * pearl
