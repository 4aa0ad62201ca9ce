"""Overlapped drafting: event simulations against closed forms, policy by policy, under independent acceptance."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.parallel.placement import overlapped_drafting
from simulator.engine import simulate
from simulator.overlap import OVERLAPS, Overlap, long_run, side_by_side_s, step_s
from simulator.request import Workload
from simulator.scenario import Scenario, SchedulerOptions, SpeculationOptions
from traces.schema import AcceptanceTrace

USERS, OUTPUT = 8, 1500
PASS_S, ROW_S = 1e-2, 1e-5


@cache
def recorded(rate, covered, seed=0, n=40_000):
    """One long text: the drafter's first choice is right with chance `rate`, one of its first two with `covered`."""
    rng = np.random.default_rng(seed)
    drawn = rng.random(n)
    rank = np.where(drawn < rate, 0, np.where(drawn < covered, 1, -1)).astype(np.int8)
    misses = np.where(rank == 0, n, np.arange(n))
    following = np.minimum(np.minimum.accumulate(misses[::-1])[::-1], n - 1)
    emitted = np.minimum(following - np.arange(n) + 1, 60).astype(np.int16)
    return AcceptanceTrace(offsets=[0, n], emitted=emitted, rank=rank, rank_width=2, depth_invariant=True)


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
def run(policy, k, rate, covered, each_s):
    workload = Workload(
        arrival_s=np.zeros(USERS), prompt_tokens=np.full(USERS, 4), output_tokens=np.full(USERS, OUTPUT)
    )
    speculation = SpeculationOptions(topology=k, trace=recorded(rate, covered), draft=drafting(each_s), overlap=policy)
    options = SchedulerOptions(kv_blocks=100_000)
    return simulate(Scenario(workload=workload, scheduler=options, timer=law, speculation=speculation), machine=False)


POLICIES = {
    "serial": None, **OVERLAPS,
    "three branches' worth of interference": Overlap(name="x", ahead=True, branches=2, interference_ratio=0.4),
    "ahead in parts": Overlap(name="x", ahead=True, parts=2),
    "parts that keep everybody": Overlap(name="x", parts=3),
}  # fmt: skip


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
    assert c["wasted"] == c["drafted"] - c["accepted"] + c["rolled_back"]


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("each_s", [1e-4, 2e-3, 2e-2])
def test_a_long_run_takes_the_time_that_its_law_says(name, each_s):
    """Drafting is far shorter than verification, or far longer, so that the longer phase is the same in all steps."""
    policy, k, rate, covered = POLICIES[name], 4, 0.7, 0.9
    result = run(policy, k, rate, covered, each_s)
    expected = long_run(policy, k, rate, covered)
    made = USERS * max(policy.branches if policy else 0, 1)
    draft_s = drafting(each_s)(made, k, 0.0, 0)
    parts = expected.query_tokens
    if policy is not None and policy.ahead and policy.parts > 1:
        parts = None  # its parts are unequal, and no closed form says how
    if parts is not None:
        verify = [law(1, USERS * queries, 0.0, []) for queries in parts]
        seconds = step_s(policy, draft_s, verify)
        assert result.busy_s / result.iterations == pytest.approx(seconds, rel=0.02)
        each = (OUTPUT - 1) / (result.last_token_s - result.first_token_s)
        assert each.mean() == pytest.approx(expected.tokens_per_step / seconds, rel=0.03)
    assert result.finished.all()


@pytest.mark.parametrize(("k", "rate"), [(1, 0.6), (2, 0.3), (4, 0.8), (6, 0.95)])
def test_drafting_ahead_agrees_with_the_cost_models_chain_of_states(k, rate):
    """Two derivations of PEARL's long run, of which the cost model's counts the first token of every draft."""
    theirs = overlapped_drafting(2e-3, 1e-2, draft_tokens=k, acceptance=rate)
    mine = long_run(OVERLAPS["pearl"], k, rate)
    assert mine.tokens_per_step == pytest.approx(float(theirs.tokens_per_step), rel=1e-9)
    assert mine.wasted_per_step / k == pytest.approx(float(theirs.wasted_ratio), rel=1e-9)
    result = run(OVERLAPS["pearl"], k, rate, rate, 2e-3)
    assert result.tokens_per_step == pytest.approx(float(theirs.tokens_per_step), rel=0.02)


def test_branches_roll_back_less_where_the_drafter_is_often_second_best():
    """Foreseeing the target's token in two branches instead of one keeps more steps supplied with drafts."""
    one, two = (Overlap(name="x", ahead=True, branches=n) for n in (1, 2))
    few, many = (run(policy, 4, 0.6, 0.9, 1e-3) for policy in (one, two))
    assert many.tokens_per_step > few.tokens_per_step > run(OVERLAPS["pearl"], 4, 0.6, 0.9, 1e-3).tokens_per_step
    # per drafted token the branches waste more, per emitted one the steps without a draft are fewer
    assert many.counters["drafted"] / many.counters["steps"] > few.counters["drafted"] / few.counters["steps"]


def test_pruning_saves_rows_and_changes_no_token():
    kept, pruned = (run(Overlap(name="x", parts=4, prunes=prunes), 8, 0.4, 0.6, 1e-3) for prunes in (False, True))
    assert pruned.counters == kept.counters
    assert pruned.clock_s < kept.clock_s


@settings(max_examples=60)
@given(
    k=st.integers(1, 9), rate=st.floats(0.0, 1.0), more=st.floats(0.0, 1.0), branches=st.integers(0, 4),
    draft_s=st.floats(1e-4, 1e-1), verify_s=st.floats(1e-4, 1e-1), x=st.floats(0.0, 1.0),
)  # fmt: skip
def test_laws_keep_their_bounds(k, rate, more, branches, draft_s, verify_s, x):
    covered = rate + (1.0 - rate) * more
    policy = Overlap(name="x", ahead=True, branches=branches, interference_ratio=x)
    found = long_run(policy, k, rate, covered)
    assert 1.0 - 1e-9 <= found.tokens_per_step <= k + (branches > 0) + 1e-9
    assert found.tokens_per_step <= long_run(None, k, rate).tokens_per_step + 1e-9  # a fresh draft at every step
    drafts = k * max(branches, 1)
    assert -1e-9 <= found.wasted_per_step <= drafts + 1e-9
    assert found.verified_per_step <= k + 1e-9
    ahead_s = step_s(policy, draft_s, [verify_s])
    assert max(draft_s, verify_s) <= ahead_s <= step_s(None, draft_s, [verify_s]) + 1e-15
    assert side_by_side_s(draft_s, verify_s, 1.0) == pytest.approx(draft_s + verify_s)
    # in parts of equal length the whole is at least the longer phase, and at most both
    split_s = step_s(Overlap(name="x", parts=k), draft_s, [verify_s / k] * k)
    assert max(draft_s, verify_s) <= split_s + 1e-12 and split_s <= draft_s + verify_s + 1e-12


@given(rate=st.floats(0.01, 0.99), k=st.integers(1, 8))
def test_more_acceptance_emits_more(rate, k):
    for policy in (None, *OVERLAPS.values()):
        assert long_run(policy, k, rate + 0.01).tokens_per_step > long_run(policy, k, rate).tokens_per_step - 1e-12
