"""Walks along recordings, draft lengths, overlap and block decoders: laws that they keep."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.laws.acceptance import law_for, replay_by
from costmodel.laws.batching import SERIAL, check_batch
from costmodel.method import Batch, Stop
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError
from simulator.engine import simulate
from simulator.loop.block_options import BlockOptions
from simulator.loop.decoders.speculation import build_drafts, place_requests
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import Workload
from simulator.loop.state import REQUEST
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree
from traces.library import read_trace
from traces.replay.walk import replay_chain, replay_tree

PEARL = load_method("pearl").batch
TREE = Tree.from_paths([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])


def recorded(rate, *, requests=30, seed=0, **changes):
    """A recording with a given chance of every draft token, drawn independently."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(80, 200, requests)
    n, offsets = int(lengths.sum()), np.concatenate([[0], np.cumsum(lengths)])
    rank = np.where(rng.random(n) < rate, 0, rng.integers(-1, 3, n)).astype(np.int8)
    emitted = np.ones(n, dtype=np.int16)
    for first, end in pairwise(offsets.tolist()):
        for i in range(end - 2, first - 1, -1):
            emitted[i] = min(emitted[i + 1] + 1, 20) if rank[i] == 0 else 1
    return AcceptanceTrace(
        offsets=offsets, emitted=emitted, rank=rank, rank_width=3, depth_invariant=True, **changes
    )


def law(decode_requests, query_tokens, decode_context_tokens, prefill, longest_context=0.0):
    """Ten milliseconds a pass and a little per row."""
    return 1e-2 + 2e-5 * (decode_requests * query_tokens + sum(new for new, _ in prefill))


def drafts(decode_requests, draft_tokens, decode_context_tokens, prefill_tokens):
    return 1e-3 * draft_tokens


def run(requests=60, output=150, timer=law, users=12, seed=0, **decoder):
    workload = Workload(
        arrival_s=np.zeros(requests),
        prompt_tokens=np.full(requests, 10),
        output_tokens=np.full(requests, output),
        users=users,
    )
    options = SchedulerOptions(kv_blocks=100_000, max_requests=64)
    return simulate(
        Scenario(workload=workload, scheduler=options, timer=timer, seed=seed, **decoder)
    )


@pytest.mark.parametrize("topology", [1, 4, 9, TREE], ids=["1", "4", "9", "tree"])
def test_the_walk_emits_what_replay_says(topology):
    trace = recorded(0.7)
    replay = (
        replay_tree(trace, topology)
        if isinstance(topology, Tree)
        else replay_chain(trace, topology)
    )
    result = run(speculation=SpeculationOptions(topology=topology, trace=trace))
    # the last step of a request may emit less than it would have: one step in about fifty
    assert result.tokens_per_step == pytest.approx(replay.tokens_per_step, rel=0.03)
    c = result.counters
    assert c["drafted"] == c["steps"] * replay.draft_tokens
    assert c["wasted"] == c["drafted"] - c["accepted"]
    assert c["emitted"] <= c["accepted"] + c["steps"]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("rule", "topology"),
    [
        ("token_rejection", 3),
        ("block", 3),
        ("without_replacement", TREE),
        ("typical", 3),
        ("near_match", TREE),
    ],
)
def test_drawn_acceptance_is_on_average_that_of_the_law(rule, topology):
    trace = read_trace("traces/recorded/level-3/smollm2-135m--layer-skip--t1.parquet")
    law = law_for(trace, rule, (topology,), strict=True)
    result = run(200, 400, speculation=SpeculationOptions(topology=topology, trace=trace, law=law))
    # some 40,000 steps, and ends of requests as above
    assert result.tokens_per_step == pytest.approx(
        replay_by(trace, law, topology).tokens_per_step, rel=0.02
    )
    few, again = (
        run(20, 50, speculation=SpeculationOptions(topology=topology, trace=trace, law=law))
        for _ in range(2)
    )
    assert again.counters == few.counters


def test_one_place_reads_the_recording_in_order():
    """A request that starts at the beginning of a recorded text decodes in exactly the steps of its
    replay."""
    trace = recorded(0.6, requests=1)
    n = int(trace.output_tokens[0])
    workload = Workload(
        arrival_s=np.zeros(1), prompt_tokens=np.array([5]), output_tokens=np.array([n + 1])
    )
    for seed in range(400):
        scenario = Scenario(
            workload=workload,
            scheduler=SchedulerOptions(kv_blocks=1000),
            timer=law,
            seed=seed,
            speculation=SpeculationOptions(topology=4, trace=trace),
        )
        generator = np.random.default_rng(seed)
        built = build_drafts(scenario, generator)
        records = np.zeros(1, dtype=REQUEST)
        place_requests(records, built, generator)
        if records["place"][0] == 0:
            assert simulate(scenario).counters["steps"] == replay_chain(trace, 4).steps[0]
            return
    raise AssertionError("no seed starts at the beginning")


def test_proposals_that_are_only_known_as_a_share():
    trace = recorded(0.4, match_rate=0.6)
    result = run(speculation=SpeculationOptions(topology=3, trace=trace))
    replay = replay_chain(trace, 3)
    assert result.counters["drafted"] / result.counters["steps"] == pytest.approx(
        3 * replay.proposal_ratio, rel=0.03
    )
    assert result.tokens_per_step == pytest.approx(replay.tokens_per_step, rel=0.03)


def test_a_schedule_turns_drafting_off_at_large_batches():
    trace = recorded(0.7)
    options = SpeculationOptions(topology=4, trace=trace, schedule=((1, 6, 4), (7, 64, 0)))
    few, many = run(users=4, speculation=options), run(users=12, speculation=options)
    assert few.tokens_per_step > 2.0
    by_batch = many.emitted_by_batch / np.maximum(many.steps_by_batch, 1)
    assert np.all(by_batch[7:][many.steps_by_batch[7:] > 0] == 1.0)
    assert many.counters["drafted"] == 0 < few.counters["drafted"]


def test_the_ema_controller_drafts_less_where_less_is_accepted():
    made = {
        rate: run(
            speculation=SpeculationOptions(topology=8, trace=recorded(rate), stop=Stop(rule="ema"))
        ).counters
        for rate in (0.1, 0.5, 0.9)
    }
    lengths = [made[rate]["drafted"] / made[rate]["steps"] for rate in (0.1, 0.5, 0.9)]
    assert lengths[0] < 1.7 < lengths[1] < lengths[2] < 8
    fixed = run(speculation=SpeculationOptions(topology=8, trace=recorded(0.1))).counters
    assert made[0.1]["wasted"] < 0.3 * fixed["wasted"]


class Tabled:
    """Rows cost `row_s` each beyond a pass of ten milliseconds."""

    def __init__(self, row_s):
        from simulator.loop.tables import no_tables

        self.row_s = row_s
        self.made = no_tables()._replace(row_s=1e-2 + row_s * np.arange(2.0))

    def tables(self, size, *, drafts):
        return self.made

    def __call__(
        self, decode_requests, query_tokens, decode_context_tokens, prefill, longest_context=0.0
    ):
        return 1e-2 + self.row_s * (decode_requests * query_tokens + sum(new for new, _ in prefill))


@pytest.mark.parametrize(
    ("row_s", "rate", "low", "high"), [(1e-6, 0.9, 5.5, 6.0), (2e-3, 0.3, 0.0, 0.2)]
)
def test_the_goodput_controller_drafts_where_it_pays(row_s, rate, low, high):
    options = SpeculationOptions(topology=6, trace=recorded(rate), stop=Stop(rule="goodput"))
    counters = run(timer=Tabled(row_s), speculation=options).counters
    assert low <= counters["drafted"] / counters["steps"] <= high


def test_goodput_is_never_much_worse_than_the_best_fixed_length():
    for row_s, rate in ((1e-6, 0.9), (1e-4, 0.6), (2e-3, 0.3)):
        trace, timer = recorded(rate), Tabled(row_s)
        fixed = min(
            run(timer=timer, speculation=SpeculationOptions(topology=k, trace=trace)).clock_s
            for k in range(7)
        )
        chosen = run(
            timer=timer,
            speculation=SpeculationOptions(topology=6, trace=trace, stop=Stop(rule="goodput")),
        )
        assert chosen.clock_s < 1.07 * fixed


def test_overlap_costs_the_longer_phase_and_wastes_what_was_drafted_in_vain():
    trace = recorded(0.8)
    serial = run(users=1, speculation=SpeculationOptions(topology=5, trace=trace, draft=drafts))
    overlapped = run(
        users=1, speculation=SpeculationOptions(topology=5, trace=trace, draft=drafts, batch=PEARL)
    )
    step_s = np.diff(overlapped.series[0].t_s)
    assert step_s.max() <= law(1, 6.0, 0, [(10, 0)]) + 1e-9  # never the sum of both
    assert (
        overlapped.counters["wasted"]
        > overlapped.counters["drafted"] - overlapped.counters["accepted"]
    )
    assert (
        overlapped.tokens_per_step < serial.tokens_per_step
    )  # no bonus token, and steps without a draft


def test_overlap_pays_where_everything_is_accepted_and_drafting_is_slow():
    trace = recorded(1.0)

    def slow(decode_requests, draft_tokens, decode_context_tokens, prefill_tokens):
        return 9e-3 if draft_tokens else 0.0

    serial = run(users=1, speculation=SpeculationOptions(topology=5, trace=trace, draft=slow))
    overlapped = run(
        users=1, speculation=SpeculationOptions(topology=5, trace=trace, draft=slow, batch=PEARL)
    )
    assert overlapped.clock_s < 0.75 * serial.clock_s


def test_padding_costs_and_changes_nothing_else():
    trace = recorded(0.6, match_rate=0.5)
    ragged = run(speculation=SpeculationOptions(topology=5, trace=trace))
    padded = run(speculation=SpeculationOptions(topology=5, trace=trace, batch=Batch(ragged="pad")))
    assert padded.counters == ragged.counters
    assert padded.clock_s > ragged.clock_s


@given(rate=st.floats(0.0, 1.0), k=st.integers(0, 8), seed=st.integers(0, 1000))
def test_speculation_never_changes_what_is_delivered(rate, k, seed):
    options = SpeculationOptions(topology=k, trace=recorded(rate, requests=3, seed=seed))
    result = run(requests=12, output=40, seed=seed, speculation=options)
    assert result.finished.all()
    assert result.counters["emitted"] == 12 * 39
    assert 1.0 <= result.tokens_per_step <= k + 1


def test_more_acceptance_is_never_slower():
    clocks = [
        run(speculation=SpeculationOptions(topology=4, trace=recorded(rate))).clock_s
        for rate in (0, 0.4, 0.8, 1)
    ]
    assert clocks == sorted(clocks, reverse=True)


def test_a_block_decoder_takes_its_passes():
    """Blocks of 8 tokens in 3 passes and one that closes: four passes of 10 ms for 8 tokens."""
    commits = np.array([[4, 3, 1, 0]])
    options = BlockOptions(
        block_tokens=8, commits=commits, query_tokens=np.array([8, 8, 8, 8]), closing_passes=1
    )
    result = run(requests=1, output=80, users=1, blocks=options)
    assert result.counters["emitted"] == 80
    assert result.counters["steps"] == 10 * 4 - 1  # the last block need not be stored
    passes = 39 * law(1, 8, 0, []) + law(0, 0, 0, [(10, 0)])
    assert result.clock_s == pytest.approx(passes, rel=1e-9)
    # the first block takes three passes, and no token comes before it
    assert result.first_token_s[0] == pytest.approx(
        law(0, 0, 0, [(10, 0)]) + 3 * law(1, 8, 0, []), rel=1e-9
    )


@given(data=st.data())
def test_block_decoders_agree_with_their_law(data):
    """Mean passes per block of the table times blocks are the steps, up to the last blocks."""
    size = data.draw(st.integers(1, 12))
    rng = np.random.default_rng(data.draw(st.integers(0, 100)))
    commits = np.array([rng.multinomial(size, [0.5, 0.3, 0.1, 0.1]) for _ in range(7)])
    closing = data.draw(st.integers(0, 2))
    options = BlockOptions(
        block_tokens=size, commits=commits, query_tokens=np.full(4, size), closing_passes=closing
    )
    blocks = 70
    result = run(requests=4, output=blocks * size, users=4, blocks=options)
    passes = (4 - np.argmax(commits[:, ::-1] > 0, axis=1)).mean()
    assert result.counters["steps"] == 4 * (round(blocks * passes) + (blocks - 1) * closing)


def confident(seed=0, n=3000):
    """One text whose drafter is right as often as it says."""
    rng = np.random.default_rng(seed)
    probability = rng.uniform(0.05, 0.99, n)
    rank = np.where(rng.random(n) < probability, 0, -1).astype(np.int8)
    misses = np.minimum.accumulate(np.where(rank == 0, n, np.arange(n))[::-1])[::-1]
    probs = probability[:, None]
    return AcceptanceTrace(
        offsets=[0, n],
        emitted=np.minimum(np.minimum(misses, n - 1) - np.arange(n) + 1, 50),
        rank=rank,
        rank_width=1,
        depth_invariant=True,
        draft_ids=np.zeros((n, 1), np.int32),
        draft_probs=probs,
        target_probs=probs,
        emitted_target_prob=probability,
        residual_mass=1.0 - probability,
    )


@pytest.mark.parametrize("slots", ["likeliest", "by_request"])
def test_a_budget_of_verified_tokens_is_kept_and_spent(slots):
    batch = Batch(slots=slots, budget_per_request=2.5)
    counters = run(
        speculation=SpeculationOptions(topology=5, trace=confident(), batch=batch)
    ).counters
    everything = run(speculation=SpeculationOptions(topology=5, trace=confident())).counters
    assert counters["drafted"] <= 2.5 * counters["steps"]
    assert counters["drafted"] > 2.2 * counters["steps"]  # what floors and ends of texts leave
    assert counters["drafted"] + counters["unselected"] == pytest.approx(
        5 * counters["steps"], rel=0.02
    )
    whole = run(
        speculation=SpeculationOptions(
            topology=5, trace=confident(), batch=replace(batch, budget_per_request=9.0)
        )
    )
    assert whole.counters == everything


def test_the_likeliest_draft_tokens_are_accepted_more_often_than_equally_many_alike():
    """TETRIS: five drafted and one of them verified on average, against one that is drafted and
    verified by each."""
    likeliest = replace(load_method("tetris").batch, budget_per_request=1.0)
    chosen, alike = (
        run(speculation=SpeculationOptions(topology=k, trace=confident(), batch=batch))
        for k, batch in ((5, likeliest), (1, SERIAL))
    )
    assert chosen.counters["drafted"] <= chosen.counters["steps"]
    assert chosen.tokens_per_step > 1.05 * alike.tokens_per_step
    rate = [each.counters["accepted"] / each.counters["drafted"] for each in (chosen, alike)]
    assert rate[0] > 1.1 * rate[1]


def test_what_cannot_be_is_refused():
    trace = recorded(0.5)
    lengths = replace(trace, rank=None, rank_width=0)
    for options, message in (
        ({"topology": -1}, "draft tokens"),
        ({"topology": 3, "schedule": ((4, 2, 1),)}, "ranges"),
        ({"topology": 3, "schedule": ((1, 2, 5),)}, "K lie in"),
        ({"topology": 3, "stop": Stop(rule="exit")}, "must be one of length"),
        ({"topology": TREE, "stop": Stop(rule="ema")}, "for chains"),
        ({"topology": 3, "ema_weight": 0.0}, r"\(0, 1\]"),
        ({"topology": 3, "batch": Batch(ragged="mixed")}, "split, pad, regroup"),
        ({"topology": 3, "group_requests": 2}, "padded"),
        ({"topology": 3, "batch": Batch(ragged="pad"), "group_requests": 0}, ">= 1"),
        ({"topology": 3, "batch": Batch(ragged="pad", parts=2)}, "in parts"),
        ({"topology": 3, "stop": Stop(rule="probability", at=0.5)}, "level 3"),
        ({"topology": TREE, "batch": Batch(parts=2)}, "for chains"),
        ({"topology": 3, "batch": Batch(slots="likeliest")}, "level 3"),
        ({"topology": TREE, "batch": Batch(slots="by_request")}, "of chains are chosen"),
        (
            {"topology": 3, "batch": Batch(slots="by_request"), "stop": Stop(rule="ema")},
            "no controller",
        ),
        ({"topology": 3, "batch": Batch(budget_per_request=-1.0)}, ">= 0"),
        ({"topology": 3, "batch": Batch(drafts_during_verify=True, branches=4)}, "3 likeliest"),
    ):
        with pytest.raises(InputError, match=message):
            SpeculationOptions(trace=trace, **options)
    with pytest.raises(InputError, match="level 2"):
        SpeculationOptions(topology=TREE, trace=lengths)
    with pytest.raises(InputError, match="several branches needs a trace of level 2"):
        SpeculationOptions(topology=3, trace=lengths, batch=load_method("specbranch").batch)
    for wrong, message in (
        ({"branches": 2}, "during verification"),
        ({"drafts_during_verify": True, "branches": -1}, "0..64"),
        ({"parts": 0}, "1..64"),
        ({"interference_ratio": 1.5}, r"\[0, 1\]"),
    ):
        with pytest.raises(InputError, match=message):
            check_batch(Batch(**wrong))
    with pytest.raises(InputError, match="sum to the block"):
        BlockOptions(block_tokens=3, commits=np.array([[1, 1]]), query_tokens=np.array([3, 3]))
    with pytest.raises(InputError, match="one number"):
        BlockOptions(block_tokens=2, commits=np.array([[1, 1]]), query_tokens=np.array([3]))
    empty = AcceptanceTrace(offsets=np.array([0, 1]), emitted=np.array([1]), first_step_position=1)
    with pytest.raises(InputError, match="no decoding step"):
        run(speculation=SpeculationOptions(topology=2, trace=empty))
    with pytest.raises(InputError, match="tabulated"):
        run(speculation=SpeculationOptions(topology=2, trace=trace, stop=Stop(rule="goodput")))


def test_steps_that_nothing_is_drawn_for_are_read_once():
    """Another draft timer or policy walks along the same arrays, another length or recording along
    its own."""
    trace = recorded(0.6)

    def built(**options):
        workload = Workload(
            arrival_s=np.zeros(1), prompt_tokens=np.array([5]), output_tokens=np.array([9])
        )
        scenario = Scenario(
            workload=workload,
            scheduler=SchedulerOptions(kv_blocks=100),
            timer=law,
            speculation=SpeculationOptions(**({"topology": 3, "trace": trace} | options)),
        )
        return build_drafts(scenario, np.random.default_rng(0))

    first = built()
    assert built(draft=drafts, ema_weight=0.5).emits is first.emits
    for other in (
        {"topology": 2},
        {"trace": recorded(0.6)},
        {"stop": Stop(rule="ema", most_tokens=2)},
    ):
        found = built(**other)
        assert found.emits is not first.emits
    drawn = recorded(0.6, match_rate=0.9)
    assert built(trace=drawn).proposes is not built(trace=drawn).proposes
