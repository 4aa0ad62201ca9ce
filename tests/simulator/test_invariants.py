"""What holds at every moment of any simulation: conservation, budgets, order, and that everybody
ends.

`-m slow` runs ten thousand scenarios and prints how often what happened.
"""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from simulator.engine import simulate
from simulator.loop import state as s
from simulator.loop.decoders.record import BLOCK
from simulator.loop.fleet import buffers_of, new_fleet
from simulator.loop.iteration import COMPOSED, DONE
from simulator.loop.options import SchedulerOptions
from simulator.loop.request import DECODING, ENDINGS, PREFILLING, WAITING, Workload
from simulator.loop.scheduling import kv_cache, waiting
from tests.property_examples import examples
from tests.simulator.stepping import alone

pytestmark = pytest.mark.heavy


def check_cache(replica, buffers, requests, prefixes, limits):
    """Every block is somewhere exactly once."""
    resident = buffers.blocks["resident"][:-1] == 1
    references = buffers.blocks["references"][:-1]
    assert replica.unused_blocks >= 0 and np.all(requests["private"] >= 0)
    assert replica.unused_blocks + requests["private"].sum() + resident.sum() == limits.kv_blocks
    assert replica.idle_blocks == (resident & (references == 0)).sum()
    assert np.all(references[~resident] == 0)
    held = np.zeros(references.size, dtype=np.int64)
    for r in range(requests.size):
        first = prefixes.start[r] * prefixes.per_id
        for block in range(int(prefixes.start[r + 1] - prefixes.start[r]) * prefixes.per_id):
            if prefixes.held[first + block]:
                held[kv_cache.entry(prefixes, r, block)] += 1
    np.testing.assert_array_equal(held, references)
    ring, at = [], buffers.blocks["next"][-1]
    while at != references.size:
        ring.append(at)
        at = buffers.blocks["next"][at]
    assert len(ring) == len(set(ring)) == replica.idle_blocks


def check_iteration(replica, buffers, requests, limits, decoder):
    """What a composed iteration may hold."""
    running = buffers.running[: replica.running]
    assert len(set(running.tolist())) == running.size <= limits.max_requests
    assert np.all(np.diff(requests["slot" if limits.numbered_slots else "key"][running]) > 0)
    assert np.all(np.isin(requests["phase"][running], [PREFILLING, DECODING]))
    assert replica.rows == requests["quota"].sum()
    alone = np.count_nonzero(requests["quota"]) == 1
    if (limits.chunked and decoder != BLOCK) or not alone:
        assert replica.rows <= limits.token_budget
    part = requests[requests["quota"] > 0]
    assert np.all(part["slots"] >= part["computed"] + part["quota"])
    if limits.prefill_first:
        assert replica.chunks == 0 or replica.decoding == 0 or replica.admitted > 0
    if limits.reserve_ratio >= 0.0:
        assert replica.reserved_blocks <= limits.kv_blocks
    if limits.reserve_ratio == 1.0:
        assert replica.preempted == 0


def run_checked(scenario):
    """Run one replica step by step and look at it after each."""
    replica, pool = alone(scenario)
    state, buffers, requests, turns = replica.state, replica.buffers, pool.requests, 0
    while (status := replica.begin()) == COMPOSED:
        check_iteration(state, buffers, requests, pool.limits, pool.drafts.decoder)
        check_cache(state, buffers, requests, pool.prefixes, pool.limits)
        assert state.end_s > state.clock_s
        before = int(requests["generated"].sum())
        replica.settle()
        check_cache(state, buffers, requests, pool.prefixes, pool.limits)
        assert requests["generated"].sum() >= before
        turns += 1
        assert turns < 200_000, "the simulation does not end"
    assert status == DONE
    assert np.all(np.isin(requests["phase"], list(ENDINGS)))
    assert state.ended == requests.size == len(set(buffers.queue["over"].tolist()))
    assert state.idle_blocks + state.unused_blocks == pool.limits.kv_blocks
    return requests


def check_result(scenario, result):
    """What holds of any outcome."""
    counts = Counter(result.state.tolist())
    assert sum(counts.values()) == scenario.workload.requests and set(counts) <= set(
        ENDINGS.values()
    )
    done = result.finished
    times = (result.arrival_s, result.scheduled_s, result.first_token_s, result.last_token_s)
    for earlier, later in pairwise(times):
        assert np.all(earlier[done] <= later[done])
    assert np.all(result.last_token_s[done] <= result.clock_s)
    assert np.all(np.isnan(result.last_token_s[~done]))
    c = result.counters
    assert 0 <= c["accepted"] <= c["drafted"]
    assert c["wasted"] == c["drafted"] - c["accepted"] + c["rolled_back"] + c["unselected"]
    assert min(c["rolled_back"], c["unselected"]) >= 0
    assert (
        result.steps_by_batch.sum() == c["steps"] and result.emitted_by_batch.sum() == c["emitted"]
    )
    assert result.busy_s <= result.clock_s * (1 + 1e-9)
    assert 0 <= result.kv_peak_ratio <= 1
    if scenario.scheduler.horizon_s is None:
        assert counts["failed"] == 0


def happened(scenario, result):
    """Which of the rarer things took place."""
    return {
        "preemption": result.counters["preemptions"] > 0,
        "prefix hits": result.counters["prefix_hit_tokens"] > 0,
        "speculation": result.counters["drafted"] > 0,
        "rejection": bool((result.state == "rejected").any()),
        "failure": bool((result.state == "failed").any()),
        "blocks": scenario.blocks is not None,
        "several replicas": scenario.replicas > 1,
    }


def many(random_scenario, seeds):
    seen = Counter()
    for seed in seeds:
        scenario = random_scenario(
            seed, **({} if seed % 8 else {"replicas": 2, "router": "least-loaded"})
        )
        result = simulate(scenario)
        if scenario.replicas == 1:
            check_result(scenario, result)
        seen.update({name: int(value) for name, value in happened(scenario, result).items()})
    return seen


@pytest.mark.heavy
def test_a_hundred_scenarios_keep_every_rule(random_scenario, capsys):
    seen = many(random_scenario, range(20_000, 20_100))
    with capsys.disabled():
        print(f"\n100 scenarios: {dict(seen)}")
    assert (
        min(seen[name] for name in ("preemption", "prefix hits", "speculation", "rejection")) >= 10
    )


@pytest.mark.slow
def test_ten_thousand_scenarios_keep_every_rule(random_scenario, capsys):
    seen = many(random_scenario, range(10_000))
    with capsys.disabled():
        print(f"\n10000 scenarios: {dict(seen)}")
    assert (
        min(seen[name] for name in ("preemption", "prefix hits", "speculation", "rejection"))
        >= 1000
    )


@settings(max_examples=examples(25))
@given(seed=st.integers(0, 1 << 32))
def test_every_iteration_of_a_random_scenario_keeps_every_rule(random_scenario, seed):
    run_checked(random_scenario(seed))


@given(seed=st.integers(0, 1 << 32))
def test_without_limits_everything_that_fits_finishes(random_scenario, seed):
    scenario = random_scenario(
        seed, slo_ttft_s=None, horizon_s=None, chunked_prefill=True, kv_blocks=4000
    )
    result = simulate(scenario)
    assert result.finished.all()
    emitted = result.counters["emitted"]
    first = 0 if scenario.blocks is not None else result.request.size
    assert emitted + first >= result.output_tokens.sum()
    if result.counters["preemptions"] == 0:
        assert emitted + first == result.output_tokens.sum()


@given(seed=st.integers(0, 1 << 32))
def test_nobody_of_equal_priority_waits_for_ever(random_scenario, seed):
    """The first key always gets on: in order of keys, first tokens cannot be overtaken without
    end."""
    scenario = random_scenario(seed, priorities=False, slo_ttft_s=None, horizon_s=None)
    result = simulate(scenario)
    done = result.finished
    assert np.all(np.diff(result.scheduled_s[done]) >= 0)  # first come, first admitted


class CacheMachine(RuleBasedStateMachine):
    """Prompts over a few names take, share and release blocks in any order."""

    def __init__(self):
        super().__init__()
        r = 12
        rng = np.random.default_rng(0)
        ids = tuple(tuple(int(i) for i in rng.integers(0, 2, 8).cumsum()) for _ in range(r))
        workload = Workload(
            arrival_s=np.zeros(r),
            prompt_tokens=np.full(r, 34),
            output_tokens=np.full(r, 9),
            prefix_ids=ids,
            prefix_block_tokens=4,
        )
        options = SchedulerOptions(kv_blocks=30, block_tokens=4, prefix_cache=True)
        self.requests = s.new_requests(workload, options)
        self.prefixes = s.new_prefixes(workload, options)
        self.limits = s.new_limits(workload, options, lag=1, lookahead=0)
        fleet = new_fleet(self.limits, self.prefixes, 1, r)
        self.replica, self.buffers = fleet.replicas[0], buffers_of(fleet, 0)
        self.inside = set()

    def cached(self, r):
        parts = (self.buffers.blocks, self.prefixes, self.limits, self.requests[r])
        return kv_cache.cached_prefix(*parts, r, 33)

    def release(self, r):
        held = (self.buffers.seats, self.buffers.blocks, self.prefixes, self.limits)
        kv_cache.release(self.replica, *held, self.requests[r], r)

    @rule(r=st.integers(0, 11))
    def enter(self, r):
        if r in self.inside:
            return
        hits, idle = self.cached(r)
        if kv_cache.obtainable(self.replica) - idle < 9 - hits:
            return
        blocks, request = self.buffers.blocks, self.requests[r]
        named = (blocks, self.prefixes, self.limits, request, r)
        kv_cache.claim(self.replica, *named, hits)
        kv_cache.grow(self.replica, blocks, request, self.limits, 9 - hits)
        kv_cache.publish(*named, 4 * hits, 34)
        self.inside.add(r)
        assert self.requests[r]["slots"] == 36
        again, _ = self.cached(r)
        assert again == 8  # what was just computed is there

    @precondition(lambda self: self.inside)
    @rule(data=st.data())
    def leave(self, data):
        r = data.draw(st.sampled_from(sorted(self.inside)))
        self.release(r)
        self.inside.discard(r)
        assert self.requests[r]["slots"] == self.requests[r]["private"] == 0

    @rule(r=st.integers(0, 11))
    def leave_twice(self, r):
        if r not in self.inside:
            before = self.replica.copy()
            self.release(r)
            assert before == self.replica  # nothing is freed twice

    @precondition(lambda self: self.inside)
    @rule(data=st.data(), blocks=st.integers(1, 5))
    def write_on(self, data, blocks):
        r = data.draw(st.sampled_from(sorted(self.inside)))
        if kv_cache.obtainable(self.replica) >= blocks:
            request = self.requests[r]
            kv_cache.grow(self.replica, self.buffers.blocks, request, self.limits, blocks)
            self.requests["slots"][r] = (
                36  # the request's own count is none of this test's business
            )

    @invariant()
    def every_block_is_somewhere_once(self):
        check_cache(self.replica, self.buffers, self.requests, self.prefixes, self.limits)


class QueueMachine(RuleBasedStateMachine):
    """The heap against a sorted list."""

    def __init__(self):
        super().__init__()
        self.requests = np.zeros(40, dtype=s.REQUEST)
        self.requests["key"] = np.random.default_rng(1).permutation(40)
        limits, none = (
            s.SchedulerLimits(*[0] * len(s.SchedulerLimits._fields)),
            s.Prefixes(*[np.zeros(0, np.int32)] * 3, 1, 0),
        )
        fleet = new_fleet(limits, none, 1, 40)
        self.replica, self.buffers = fleet.replicas[0], buffers_of(fleet, 0)
        self.inside = []

    @rule(r=st.integers(0, 39))
    def put(self, r):
        if r not in self.inside:
            waiting.enqueue(self.replica, self.buffers.queue, self.requests, r)
            self.inside.append(r)

    @precondition(lambda self: self.inside)
    @rule()
    def take(self):
        first = min(self.inside, key=lambda r: self.requests["key"][r])
        assert waiting.dequeue(self.replica, self.buffers.queue, self.requests) == first
        self.inside.remove(first)

    @invariant()
    def nobody_is_lost(self):
        assert sorted(self.buffers.queue["heap"][: self.replica.queued].tolist()) == sorted(
            self.inside
        )


TestCache = CacheMachine.TestCase
TestQueue = QueueMachine.TestCase


def test_a_request_knows_the_most_blocks_that_it_can_hold(random_scenario, blocks_scenario):
    for seed in range(30):
        scenario = (random_scenario, blocks_scenario)[seed % 2](seed, kv_blocks=4000)
        replica, pool = alone(scenario)
        while replica.begin() == COMPOSED:
            for r in np.nonzero(pool.requests["quota"])[0]:
                most = kv_cache.most_blocks(pool.requests[r], pool.limits)
                assert pool.requests["slots"][r] <= most * pool.limits.block_tokens
            replica.settle()


def test_a_stuck_engine_gives_one_request_up_instead_of_hanging(random_scenario):
    """A cache that somebody else has filled: no rule leads there, and it still ends."""
    scenario = random_scenario(1, kv_blocks=4000, slo_ttft_s=None, horizon_s=None)
    replica, pool = alone(scenario)
    replica.state.unused_blocks = 0
    while replica.begin() == COMPOSED:
        replica.settle()
    assert np.all(np.isin(pool.requests["phase"], list(ENDINGS)))
    assert np.all(pool.requests["phase"] != WAITING)
