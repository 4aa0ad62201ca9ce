"""Policies of draft lengths, run as Python: hand-computed cases, brute force, and what a change of
length costs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.method import Batch
from hardware_profiles.errors import InputError
from simulator.engine import simulate
from simulator.loop.compiled import laid_out
from simulator.loop.decoders import lengths, slots
from simulator.loop.decoders.record import walk_of
from simulator.loop.decoders.speculation import build_drafts
from simulator.loop.fleet import buffers_of, new_fleet
from simulator.loop.length_policies import (
    LengthPolicy,
    Tier,
    long_run_verification,
    nightjar,
    sglang_throughput,
    sglang_tiers,
    tensorrt_gate,
    vllm_lengths,
    vllm_verification,
)
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import DECODING, Workload
from simulator.loop.state import (
    GAINS,
    new_limits,
    new_prefixes,
    new_requests,
)
from traces.kinds.acceptance import AcceptanceTrace

K = 7


def recording(rate=0.6, positions=4_000, seed=0):
    rng = np.random.default_rng(seed)
    rank = np.where(rng.random(positions) < rate, 0, 1).astype(np.int8)
    emitted = np.ones(positions, dtype=np.int16)
    for i in range(positions - 2, -1, -1):
        if (i + 1) % 100 and rank[i] == 0:
            emitted[i] = emitted[i + 1] + 1
    sure = np.where(emitted[:, None] > np.arange(1, 3), 0.8, 0.3)
    return AcceptanceTrace(
        offsets=np.arange(0, positions + 1, 100),
        emitted=emitted,
        rank=rank,
        rank_width=2,
        depth_invariant=True,
        draft_ids=np.tile(np.arange(2), (positions, 1)),
        draft_probs=np.sort(sure * [1.0, 0.2])[:, ::-1],
        target_probs=np.sort(sure * [1.0, 0.2])[:, ::-1],
        emitted_target_prob=sure[:, 0],
        residual_mass=np.zeros(positions),
    )


TRACE = recording()


class Loop:
    """The arrays of one engine in which so many requests decode."""

    def __init__(self, policy, tables, running=4, slots="alike", topology=K):
        workload = Workload(
            arrival_s=np.zeros(running),
            prompt_tokens=np.full(running, 20),
            output_tokens=np.full(running, 500),
        )
        speculation = SpeculationOptions(
            topology=topology, trace=TRACE, policy=policy, batch=Batch(slots=slots)
        )
        options = SchedulerOptions(kv_blocks=10_000, max_requests=64)
        scenario = Scenario(
            workload=workload,
            scheduler=options,
            timer=lambda *_: 1.0,
            speculation=speculation,
            seed=3,
        )
        self.drafts = build_drafts(scenario, np.random.default_rng(0))
        self.walk, self.timing = walk_of(self.drafts), laid_out(tables)
        self.d = self.walk.decoder
        limits = new_limits(workload, options, lag=1, lookahead=K)
        self.requests = new_requests(workload, options)
        self.requests["phase"], self.requests["generated"] = DECODING, 1
        fleet = new_fleet(
            limits,
            new_prefixes(workload, options),
            1,
            running,
            memory=lengths.new_memory(self.drafts, limits),
        )
        self.replica, self.buffers = fleet.replicas[0], buffers_of(fleet, 0)
        self.replica.running = running
        self.buffers.running[:running] = np.arange(running)

    def choose(self, decoding=None, context=100.0):
        decoding = self.replica.running if decoding is None else decoding
        found = lengths.batch_drafts(
            self.d,
            self.walk.tables,
            *self.timing,
            self.replica,
            self.buffers,
            self.requests,
            self.buffers.memory,
            decoding,
            context * decoding,
        )
        self.replica.draft_limit, self.replica.decoding = found, decoding
        return found

    def end(self, accepted, seconds=1.0):
        """The iteration ends: every request has accepted so many draft tokens."""
        memory = self.buffers.memory
        self.replica.iterations += 1
        self.replica.just_accepted = int(np.sum(accepted))
        self.replica.began_s, self.replica.end_s = 0.0, seconds
        for r, count in enumerate(accepted):
            lengths.see_step(self.d, self.replica, memory, self.requests[r], int(count) + 1)
        emitted = int(np.sum(accepted)) + len(accepted)
        lengths.learn(self.d, self.walk.tables, self.replica, memory, emitted)

    def seconds(self, decoding, k, context):
        return lengths.length_seconds(*self.timing, self.buffers.chunks, decoding, k, context)


def test_tiers_move_as_their_thresholds_say(tabled_timer):
    """Batch 4 is in the first of SGLang's tiers, 1-3-5-7: it begins at 7 with a mean of 6, and
    looks after 15."""
    loop = Loop(sglang_tiers(K), tabled_timer.made)
    mean = 6.0
    for _ in range(15):
        assert loop.choose() == 7
        loop.end([1] * 4)
        mean += 0.2 * (1.0 - mean)
    assert mean == pytest.approx(1.0 + 5.0 * 0.8**15)
    # 1.18 <= 5 - 0.5 - 0.25 and <= 3 - 0.5 - 0.25, but > 1 - 0.5 - 0.25
    assert loop.choose() == 3
    for _ in range(5):
        loop.end([3] * 4)
    # 1.18 -> 2.40 > 3 - 0.5 - 0.25: it stays, and is not above 3 - 0.5
    assert loop.choose() == 3
    for _ in range(5):
        loop.end([3] * 4)
    assert loop.choose() == 5  # 2.80 > 2.5, and not above 4.5
    assert loop.choose(decoding=40) == 1  # the middle of 0-1, which has no 7


def test_a_tier_without_drafts_tries_the_next_length(tabled_timer):
    policy = LengthPolicy(
        rule="tiers", tiers=(Tier(first_batch=1, lengths=(0, 2), pace=1, warm_up=0),)
    )
    loop = Loop(policy, tabled_timer.made)
    loop.buffers.memory[0, :3] = -1.0, 0.0, 0
    assert loop.choose() == 0
    loop.end([0] * 4)
    assert loop.choose() == 2 and loop.buffers.memory[0, 0] == 1.0  # as neutral as at the start
    loop.end([0] * 4)
    assert loop.choose() == 2  # 0.8 > 0.5
    for _ in range(3):
        loop.end([0] * 4)
    assert loop.choose() == 0


def test_survival_is_remembered_up_to_the_drafts_and_drawn_on_beyond(tabled_timer):
    loop = Loop(LengthPolicy(rule="survival", weight=0.5), tabled_timer.made)
    loop.replica.draft_limit, loop.replica.decoding = 2, 4
    loop.end([2, 1, 0, 2])
    shares = loop.buffers.memory[lengths.SHARE]
    assert shares[1:3].tolist() == [0.75, 0.5]
    loop.end([2, 2, 2, 2])
    assert shares[1:3].tolist() == [0.875, 0.75]
    lengths._expect_survivors(loop.buffers.memory, 4)
    fall = 0.75 / 0.875
    assert loop.buffers.memory[GAINS, :5].tolist() == pytest.approx(
        [1.0, 1.875, 2.625, 2.625 + 0.75 * fall, 2.625 + 0.75 * fall + 0.75 * fall**2]
    )


def test_a_bandit_keeps_its_arm_for_a_bin_and_comes_to_the_best_one(tabled_timer):
    loop = Loop(nightjar(), tabled_timer.made)
    chosen = []
    for _ in range(3_000):
        k = loop.choose()
        chosen.append(k)
        loop.end(
            [min(k, 2)] * 4, seconds=1.0 + 0.1 * k
        )  # 3 tokens for 1.2 s at K = 2, and no better elsewhere
    assert set(chosen[:400]) == set(range(K + 1))
    assert np.mean(np.array(chosen[-1000:]) == 2) > 0.6
    # blocks of 1, 2, 4, ... steps, and a last bin that ends behind its block; of 1024 steps the
    # bins are 32 long
    bins = [math.ceil(math.sqrt(1 << i)) for i in range(10)]
    first = sum(-(-(1 << i) // size) * size for i, size in enumerate(bins))
    changes = np.nonzero(np.diff(chosen[first : first + 1024]))[0] + 1
    assert changes.size and np.all(changes % 32 == 0)


def test_a_bandit_weighs_what_its_drafter_would_have_to_read(tabled_timer):
    costly = tabled_timer.made._replace(draft_row_s=np.array([0.0, 10.0]))
    loop = Loop(nightjar(), costly)
    loop.buffers.memory[4, lengths.TRIES : lengths.TRIES + K + 1] = 1.0
    loop.buffers.memory[4, lengths.TRIES + K + 1 : lengths.TRIES + 2 * K + 2] = np.linspace(
        1.0, 0.3, K + 1
    )
    loop.buffers.memory[4, lengths.BINS] = np.inf  # it does not explore
    arm = (loop.d, loop.walk.tables, *loop.timing, loop.replica, loop.buffers.memory, 4)
    assert lengths._arm(*arm) == K
    loop.replica.undrafted = 5
    assert lengths._arm(*arm) == 0


@given(
    st.lists(st.integers(1, K + 1), min_size=1, max_size=12),
    st.lists(st.integers(1, 30), min_size=12, max_size=12),
)
def test_the_oracle_takes_the_length_that_emits_most_per_second(tabled_timer, emits, missing):
    loop = Loop(LengthPolicy(rule="oracle"), tabled_timer.made, running=len(emits))
    loop.requests["emits"], loop.requests["proposes"] = emits, K
    loop.requests["output"] = 1 + np.array(missing[: len(emits)])
    left = loop.requests["output"] - 1
    b = len(emits)
    rates = [
        np.minimum(np.minimum(emits, left), k + 1).sum() / b / loop.seconds(b, k, 100.0 * b)
        for k in range(K + 1)
    ]
    assert rates[loop.choose()] == pytest.approx(max(rates), rel=1e-12)


def test_who_knows_the_means_takes_the_best_of_them(tabled_timer):
    gains = tuple(np.cumsum(0.7 ** np.arange(K + 1)).tolist())
    loop = Loop(LengthPolicy(rule="expected", gains=gains), tabled_timer.made)
    for b in (1, 4, 30):
        rates = [g / loop.seconds(b, k, 50.0 * b) for k, g in enumerate(gains)]
        assert loop.choose(b, context=50.0) == int(np.argmax(rates))


def test_lengths_that_an_engine_captures_are_the_only_ones(tabled_timer):
    policy = vllm_lengths(6)
    assert policy.lengths == (0, 1, 3, 6)
    loop = Loop(policy, tabled_timer.made)
    assert {loop.choose(b) for b in (1, 4, 64)} <= {0, 1, 3, 6}


@pytest.mark.parametrize("policy", [vllm_verification(), long_run_verification()])
@given(st.integers(1, 6), st.integers(0, 3_900))
def test_the_verified_tokens_are_the_best_prefix_of_the_likeliest(
    tabled_timer, policy, running, first
):
    loop = Loop(policy, tabled_timer.made, running=running, slots="likeliest", topology=3)
    context = 100.0 if policy.profiled_context_tokens is None else policy.profiled_context_tokens
    loop.requests["place"], loop.requests["proposes"] = first + np.arange(running) * 7, 3
    running_list, chunks = loop.buffers.running, loop.buffers.chunks
    slots.share_slots(
        loop.replica,
        running_list,
        loop.requests,
        loop.d,
        loop.walk.places,
        *loop.timing,
        chunks,
        3,
        running,
        100.0 * running,
        loop.buffers.memory,
    )
    chances = sorted(
        (
            c
            for r in range(running)
            for c in np.cumprod(loop.drafts.sure[loop.requests["place"][r] + np.arange(3)])
        ),
        reverse=True,
    )
    seconds = [
        lengths.target_seconds(
            *loop.timing, running, 1.0 + n / running, context * running, chunks, 0, True
        )
        + lengths.draft_seconds(*loop.timing, running, 3, context * running, 0)
        for n in range(3 * running + 1)
    ]
    rates = [(running + sum(chances[:n])) / seconds[n] for n in range(3 * running + 1)]
    granted = int(loop.requests["granted"].sum())
    assert rates[granted] == pytest.approx(max(rates), rel=1e-12)


def test_a_gate_closes_for_good_where_too_small_a_share_is_accepted(tabled_timer):
    loop = Loop(replace(tensorrt_gate(0.5), pace=3), tabled_timer.made)
    memory, replica = loop.buffers.memory, loop.replica
    replica.decoding, replica.draft_limit = 4, K
    chosen = []
    for share in (1.0, 0.2, 0.4, 0.2, 1.0, 1.0):  # means of three: 0.53, 0.27
        replica.just_accepted = round(share * 4 * K)
        lengths.learn(loop.d, loop.walk.tables, replica, memory, 8)
        chosen.append(loop.choose())
        replica.draft_limit = chosen[-1]
    assert chosen == [K, K, K, 0, 0, 0]


def serve(policy, schedule=(), draft=None, users=6, timer=None):
    workload = Workload(
        arrival_s=np.zeros(18),
        prompt_tokens=np.full(18, 10),
        output_tokens=20 + 3 * np.arange(18),
        users=users,
    )
    verifies = policy.rule in ("verified", "cost")
    speculation = SpeculationOptions(
        topology=3,
        trace=TRACE,
        policy=policy,
        schedule=schedule,
        draft=draft,
        batch=Batch(slots="likeliest" if verifies else "alike"),
    )
    return simulate(
        Scenario(
            workload=workload,
            scheduler=SchedulerOptions(kv_blocks=10_000),
            speculation=speculation,
            timer=timer or (lambda *_: 1e-2),
        ),
    )


def test_what_was_generated_without_drafts_is_read_before_the_next():
    """The last users of a closed loop leave, the batch falls below 4, and drafting begins again."""
    rows = []

    def draft(requests, tokens, context, prompt_rows):
        rows.append((tokens, prompt_rows))
        return 1e-3 if tokens else 0.0

    schedule = ((1, 3, 3), (4, 64, 0))
    told = serve(LengthPolicy(rule="schedule"), schedule, draft)
    read = [prompts for tokens, prompts in rows if tokens and prompts]
    assert len(read) >= 1 and max(read) <= 3 * 74 and told.counters["length_changes"] >= 1
    rows.clear()
    serve(LengthPolicy(rule="schedule", rereads=False), schedule, draft)
    assert not [prompts for tokens, prompts in rows if tokens and prompts]


def test_a_change_of_length_takes_its_seconds():
    schedule = ((1, 3, 3), (4, 64, 0))
    free = serve(LengthPolicy(rule="schedule", rereads=False), schedule)
    paid = serve(LengthPolicy(rule="schedule", rereads=False, change_s=0.5), schedule)
    changes = free.counters["length_changes"]
    assert changes >= 1 and paid.busy_s - free.busy_s == pytest.approx(0.5 * changes)


@pytest.mark.parametrize(
    "policy",
    [
        sglang_tiers(3),
        sglang_throughput(),
        vllm_lengths(3),
        vllm_verification(),
        long_run_verification(),
        tensorrt_gate(0.5),
        nightjar(),
        LengthPolicy(rule="oracle"),
    ],
    ids=[
        "sglang",
        "sglang-throughput",
        "vllm",
        "vllm-verification",
        "cost",
        "tensorrt-llm",
        "nightjar",
        "oracle",
    ],
)
def test_every_policy_delivers_what_was_asked(tabled_timer, policy):
    found = serve(policy, timer=tabled_timer, draft=tabled_timer)
    assert found.finished.all() and found.counters["emitted"] + 18 == found.output_tokens.sum()
    again = serve(policy, timer=tabled_timer, draft=tabled_timer)
    assert again.clock_s == found.clock_s and again.counters == found.counters


def test_the_bound_that_looks_ahead_is_above_every_length(tabled_timer):
    """On one batch that stays full, over a thousand steps."""
    best = serve(
        LengthPolicy(rule="oracle", rereads=False), timer=tabled_timer, draft=tabled_timer
    ).clock_s
    for k in range(4):
        assert (
            best
            < serve(
                LengthPolicy(rule="schedule"), ((1, 64, k),), tabled_timer, timer=tabled_timer
            ).clock_s
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"rule": "best"},
        {"rule": "tiers"},
        {"rule": "bandit", "weight": 0.0},
        {"rule": "bandit", "pace": 0},
        {"rule": "gate", "least_share": 1.5},
        {"rule": "bandit", "change_s": -1.0},
        {"rule": "oracle", "gains": (1.0,)},
        {
            "rule": "tiers",
            "tiers": (Tier(first_batch=2, lengths=(1,)), Tier(first_batch=2, lengths=(1,))),
        },
    ],
)
def test_policies_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InputError):
        LengthPolicy(**wrong)


@pytest.mark.parametrize(
    "wrong", [{"lengths": ()}, {"lengths": (3, 1)}, {"first_batch": 0}, {"pace": 0}]
)
def test_tiers_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InputError):
        Tier(**({"first_batch": 1, "lengths": (1, 3)} | wrong))


def test_a_policy_goes_with_chains_of_its_own():
    options = SpeculationOptions(topology=3, trace=TRACE)
    for changes in (
        {"policy": vllm_verification()},
        {"policy": long_run_verification()},
        {"policy": nightjar(), "batch": Batch(slots="likeliest")},
        {"policy": LengthPolicy(rule="expected", gains=(1.0, 1.5))},
    ):
        with pytest.raises(InputError):
            replace(options, **changes)
