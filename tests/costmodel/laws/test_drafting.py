"""Dynamic trees and early stops: against plain walks, and what a recording cannot tell."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.laws.acceptance import accepted_by, law_for
from costmodel.laws.drafting import dynamic_tree, stopped, stopped_chain, tree_policy
from costmodel.method import Shape, Stop
from hardware_profiles.errors import InputError
from tests.property_examples import examples
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.provenance import Provenance
from traces.library import read_trace
from traces.replay.dynamic import walk_policy
from traces.replay.walk import replay_chain

LEVEL_3 = "traces/recorded/level-3/smollm2-135m--"


@st.composite
def sure_texts(draw):
    """Level 3 recordings of a drafter that re-reads true tokens, first step at position 1."""
    sizes = draw(st.lists(st.integers(0, 12), min_size=1, max_size=4).filter(any))
    n = sum(sizes)
    right = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    sure = draw(st.lists(st.sampled_from([0.125, 0.5, 0.75, 1.0]), min_size=n, max_size=n))
    offsets = np.cumsum([0, *sizes])
    rank = np.where(right, 0, -1).astype(np.int8)
    emitted = []
    for start, end in itertools.pairwise(offsets):
        for place in range(start, end):
            run = 0
            while place + run < end and right[place + run]:
                run += 1
            emitted.append(min(run + 1, end - place))
    wide = np.array(sure, dtype=np.float16)[:, None]
    return AcceptanceTrace(
        offsets=offsets,
        emitted=np.array(emitted),
        rank=rank,
        rank_width=1,
        depth_invariant=True,
        draft_ids=np.zeros((n, 1), np.int32),
        draft_probs=wide,
        target_probs=wide,
        emitted_target_prob=wide[:, 0],
        residual_mass=np.zeros(n),
        first_step_position=1,
    )


def with_unlikely(stop):
    """The rule, and where it has an unlikely token the one that verifies it."""
    both = [stop, replace(stop, unlikely_tokens=1)] if stop.rule == "probability" else [stop]
    return st.sampled_from(both)


STOPS = st.builds(
    Stop,
    rule=st.sampled_from(["probability", "product"]),
    at=st.sampled_from([0.0, 0.25, 0.5, 0.6, 1.0]),
    least_tokens=st.integers(0, 3),
    most_tokens=st.sampled_from([0, 0, 2, 5]),
).flatmap(with_unlikely)


def plain_length(trace, place, end, stop, k):
    """Draft tokens of a step that starts at `place`, and the passes that they take; one token after
    another."""
    most = min(k, stop.most_tokens or k)
    kept, length = 1.0, 0
    while length < min(most, end - place - 1):
        sure = float(trace.draft_probs[place + length, 0])
        unlikely = stop.rule == "probability" and sure < stop.at
        if unlikely and not stop.unlikely_tokens and length >= stop.least_tokens:
            return length, length + 1
        length += 1
        kept *= sure
        if unlikely and stop.unlikely_tokens and length >= stop.least_tokens:
            return length, length
        if stop.rule == "product" and length >= stop.least_tokens and 1.0 - kept > stop.at:
            return length, length
    looks_on = stop.rule == "probability" and not stop.unlikely_tokens and length < k
    return length, min(length + looks_on, k)


@pytest.mark.heavy
@settings(max_examples=examples(200))
@given(sure_texts(), STOPS, st.integers(1, 6))
def test_a_stopped_chain_equals_a_plain_walk(trace, stop, k):
    tokens = steps = 0
    drafted, passes = [], []
    for start, end in itertools.pairwise(trace.offsets):
        place = start + 1
        while place < end:
            length, taken = plain_length(trace, place, end, stop, k)
            emitted = 1
            while emitted <= length and trace.rank[place + emitted - 1] == 0:
                emitted += 1
            emitted = min(emitted, end - place)
            drafted.append(length)
            passes.append(taken)
            tokens, steps, place = tokens + emitted, steps + 1, place + emitted
    if not steps:
        return
    found = stopped_chain(trace, k, stop, None)
    assert found.tokens_per_step == pytest.approx(tokens / steps)
    assert found.lengths.mean_tokens == pytest.approx(np.mean(drafted))
    assert found.lengths.mean_passes == pytest.approx(np.mean(passes))
    assert found.proposal_ratio == pytest.approx(np.mean(np.array(drafted) > 0))
    assert found.draft_tokens == k and found.stop == stop


@given(sure_texts(), STOPS)
def test_a_stop_never_emits_more_at_a_position_than_no_stop(trace, stop):
    ends = stopped(trace, stop)
    assert np.all(ends.emitted <= trace.emitted)
    assert np.all(ends.emitted <= ends.drafted + 1)
    if stop.most_tokens:
        assert ends.drafted.max() <= stop.most_tokens


@pytest.mark.parametrize("drafter", ["layer-skip", "feature-head", "medusa-heads"])
def test_limits_that_stop_nothing_leave_the_chain(drafter):
    trace = read_trace(f"{LEVEL_3}{drafter}--greedy.parquet")
    for k in (1, 4):
        plain = replay_chain(trace, k)
        for stop in (Stop(rule="probability", at=0.0), Stop(rule="product", at=1.0)):
            found = stopped_chain(trace, k, stop, None)
            # only the token behind the last position of a text is drafted by the one and not by the
            # other
            assert found.tokens_per_step == pytest.approx(plain.tokens_per_step, rel=1e-12)
            assert k - 0.1 * k < found.lengths.mean_tokens <= k


def test_a_verified_unlikely_token_costs_no_pass_and_is_now_and_then_accepted():
    trace = read_trace(f"{LEVEL_3}layer-skip--greedy.parquet")
    drops, keeps = (
        stopped_chain(trace, 8, Stop(rule="probability", at=0.6, unlikely_tokens=tokens), None)
        for tokens in (0, 1)
    )
    assert keeps.tokens_per_step > drops.tokens_per_step
    assert keeps.lengths.mean_tokens > drops.lengths.mean_tokens
    assert keeps.lengths.mean_passes == pytest.approx(keeps.lengths.mean_tokens)
    for wrong in ({"rule": "product", "unlikely_tokens": 1}, {"unlikely_tokens": 2}):
        with pytest.raises(InputError, match="unlikely"):
            Stop(**{"rule": "probability", "at": 0.5} | wrong)


def test_a_stricter_threshold_drafts_less():
    trace = read_trace(f"{LEVEL_3}layer-skip--t1.parquet")
    laws = [
        stopped_chain(trace, 8, Stop(rule="probability", at=at), None) for at in (0.1, 0.4, 0.8)
    ]
    for loose, strict in itertools.pairwise(laws):
        assert strict.lengths.mean_tokens < loose.lengths.mean_tokens
        assert strict.tokens_per_step < loose.tokens_per_step


SHAPE = Shape(kind="dynamic_tree", nodes=8)


@pytest.mark.parametrize(
    "drafter", ["layer-skip", "draft-model", "feature-head", "medusa-heads", "early-exit"]
)
def test_a_dynamic_tree_is_its_replay_and_beats_the_chain_of_as_many_nodes_per_step(drafter):
    trace = read_trace(f"{LEVEL_3}{drafter}--greedy.parquet")
    found = dynamic_tree(trace, SHAPE, None)
    replay, _ = walk_policy(trace, tree_policy(SHAPE))
    assert found.tokens_per_step == replay.tokens_per_step
    assert found.lengths.mean_tokens == pytest.approx(replay.drafted_per_step)
    assert (found.topology, found.truncated_ratio, found.draft_tokens) == ("dynamic_tree", 0.0, 8)
    assert found.samples.size == 0
    best_chain = max(
        replay_chain(trace, k).tokens_per_step for k in range(1, 9) if k <= (trace.depth or 8)
    )
    assert found.tokens_per_step > best_chain


def test_steps_that_were_recorded_too_short_count_as_a_lower_bound():
    trace = read_trace(f"{LEVEL_3}layer-skip--greedy.parquet")
    shallow = dynamic_tree(trace, replace(SHAPE, nodes=16, depth=2), None)
    assert 0.5 < shallow.truncated_ratio < 1.0
    assert shallow.lengths.mean_tokens == pytest.approx(16.0)  # priced in full
    assert (
        shallow.tokens_per_step == walk_policy(trace, tree_policy(shallow.shape))[0].tokens_per_step
    )
    # with fewer nodes the recording holds nearly all of it, and more nodes never emit less at a
    # position
    few = dynamic_tree(trace, replace(SHAPE, nodes=4, depth=2), None)
    assert few.truncated_ratio < 0.2 and few.tokens_per_step < shallow.tokens_per_step


def test_gains_stop_drafting_and_cost_tokens():
    trace = read_trace(f"{LEVEL_3}layer-skip--greedy.parquet")
    laws = [
        dynamic_tree(trace, SHAPE, None, stop=Stop(rule="gain", at=at)) for at in (0.01, 0.2, 0.5)
    ]
    for eager, early in itertools.pairwise(laws):
        assert early.lengths.mean_passes < eager.lengths.mean_passes
        assert early.tokens_per_step <= eager.tokens_per_step


def test_what_a_recording_cannot_tell_is_refused():
    trace = read_trace(f"{LEVEL_3}layer-skip--greedy.parquet")
    with pytest.raises(InputError, match=r"shape\.nodes.*1\.\.16"):
        dynamic_tree(trace, replace(SHAPE, nodes=17), None)
    with pytest.raises(InputError, match="depth"):
        dynamic_tree(trace, replace(SHAPE, depth=9), None)
    with pytest.raises(InputError, match="expanded"):
        dynamic_tree(read_trace(f"{LEVEL_3}layer-skip--t1.parquet"), SHAPE, None)
    with pytest.raises(InputError, match=r"stop\.rule"):
        dynamic_tree(trace, SHAPE, None, stop=Stop(rule="probability", at=0.5))
    with pytest.raises(InputError, match=r"shape\.kind"):
        tree_policy(Shape(kind="chain"))
    with pytest.raises(InputError, match="level"):
        stopped_chain(
            replace(
                trace,
                draft_probs=None,
                draft_ids=None,
                target_probs=None,
                emitted_target_prob=None,
                residual_mass=None,
            ),
            3,
            Stop(rule="probability", at=0.5),
            None,
        )
    for wrong in (
        Stop(rule="length"),
        Stop(rule="product", at=1.5),
        Stop(rule="product", at=0.5, least_tokens=-1),
    ):
        with pytest.raises(InputError):
            stopped(trace, wrong)


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.tuples(st.floats(0.1, 1.0), st.sampled_from([0.25, 0.5, 0.9])), min_size=2, max_size=7
    ),
    st.sampled_from([0.3, 0.6]),
    st.integers(0, 2),
    st.integers(1, 4),
)
def test_drawn_chains_that_stop_are_every_outcome_weighted(text, at, least, k):
    """A text whose drafter draws the true token with probability q where the target does with p;
    every step by hand."""
    n = len(text)
    drawn = np.array([[q, 0.0] for _, q in text], dtype=np.float16)
    target = np.array([[p, 0.0] for p, _ in text], dtype=np.float16)
    trace = AcceptanceTrace(
        offsets=[0, n],
        emitted=np.arange(n, 0, -1),
        rank=np.zeros(n, np.int8),
        rank_width=2,
        depth_invariant=True,
        draft_ids=np.tile(np.array([[0, 1]], np.int32), (n, 1)),
        draft_probs=drawn,
        target_probs=target,
        emitted_target_prob=target[:, 0],
        residual_mass=1 - target[:, 0],
        first_step_position=0,
        provenance=Provenance(sampling={"temperature": 1.0}),
    )
    # scaled to add up to 1, the drafter always draws the true token: it stays with probability
    # min(1, 1 / p) = 1
    stop = Stop(rule="probability", at=at, least_tokens=least)
    law = law_for(trace, "token_rejection", (k,), strict=True)
    found = stopped_chain(trace, k, stop, None, law)
    place, lengths = 0, []
    while place < n:
        lengths.append(plain_length(trace, place, n, stop, k)[0])
        place += min(lengths[-1] + 1, n - place)
    assert found.rule == "token_rejection"
    assert found.tokens_per_step == pytest.approx(n / len(lengths))
    assert found.lengths.mean_tokens == pytest.approx(np.mean(lengths))


@pytest.mark.parametrize("rule", ["token_rejection", "block"])
def test_a_stop_that_never_comes_leaves_the_drawn_chain(rule):
    trace = read_trace(f"{LEVEL_3}layer-skip--t1.parquet")
    law = law_for(trace, rule, (3,), strict=True)
    whole = accepted_by(trace, law, 3, None)
    found = stopped_chain(trace, 3, Stop(rule="product", at=1.0), None, law)
    assert found.tokens_per_step == pytest.approx(whole.tokens_per_step, rel=1e-9)
    early = stopped_chain(trace, 3, Stop(rule="product", at=0.5), None, law)
    assert early.tokens_per_step < whole.tokens_per_step and early.lengths.mean_tokens < 2.5
