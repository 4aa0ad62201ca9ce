"""How much of a draft is verified: never worse in expectation than any fixed width, and the law
against a walk written for reading."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.laws.acceptance import MATCHING, accepted_by, accepted_shares, law_for
from costmodel.laws.controllers import cost_chain
from costmodel.laws.verify_width import padded_width, verified_widths
from costmodel.method import Stop
from hardware_profiles.errors import InputError
from tests.property_examples import examples
from traces.kinds.acceptance import AcceptanceTrace
from traces.library import trace_file
from traces.replay.calibration import calibrated
from traces.storage.acceptance_file import read_acceptance

K = 4
chances = st.lists(
    st.lists(st.integers(0, 20).map(lambda x: x / 20), min_size=K, max_size=K),
    min_size=1,
    max_size=3,
).map(lambda rows: np.cumprod(np.array(rows), axis=1))
rises = st.lists(st.integers(0, 30), min_size=3 * K + 1, max_size=3 * K + 1)


def curve(rise, size):
    return 1.0 + np.cumsum(np.array(rise[:size]) / 20)


@given(chances, rises)
def test_no_other_division_of_the_batch_is_expected_to_emit_more_per_second(survival, rise):
    requests = len(survival)
    seconds = curve(rise, requests * K + 1)
    kept = np.concatenate([np.zeros((requests, 1)), np.cumsum(survival, axis=1)], axis=1)

    def rate(widths):
        gained = sum(kept[r, width] for r, width in enumerate(widths))
        return (requests + gained) / seconds[sum(widths)]

    chosen = rate(verified_widths(survival, seconds).tolist())
    assert chosen == pytest.approx(
        max(rate(widths) for widths in product(range(K + 1), repeat=requests))
    )


@given(st.integers(1, 19), st.integers(1, 30), st.integers(1, 4))
def test_alike_requests_and_even_costs_leave_the_best_fixed_width(chance, slope, requests):
    survival = np.tile(np.cumprod(np.full(K, chance / 20)), (requests, 1))
    seconds = 1.0 + slope / 40 * np.arange(requests * K + 1)
    widths = verified_widths(survival, seconds)
    assert set(widths) == {widths[0]}
    expected = requests * (1.0 + np.concatenate([[0.0], np.cumsum(survival[0])]))
    rates = expected / seconds[::requests]
    assert rates[widths[0]] == pytest.approx(rates.max())


@given(st.lists(chances, min_size=1, max_size=5), rises)
def test_weighed_by_the_long_run_no_fixed_width_emits_more(steps, rise):
    """Of many steps a width that is best for each by itself may lose to a fixed one; what a second
    of all of them emits as the price of a second makes it never lose."""
    steps = [survival[:1] for survival in steps]
    seconds = curve(rise, K + 1)

    def rate(widths):
        emitted = sum(
            1.0 + step[0, :width].sum() for step, width in zip(steps, widths, strict=True)
        )
        return emitted / sum(seconds[width] for width in widths)

    worth = 0.0
    for _ in range(40):
        widths = [verified_widths(step, seconds, worth)[0] for step in steps]
        worth = rate(widths)
    alone = [verified_widths(step, seconds)[0] for step in steps]
    fixed = max(rate([width] * len(steps)) for width in range(K + 1))
    assert worth >= max(fixed, rate(alone)) - 1e-12


@given(chances, rises)
def test_a_padded_pass_of_one_request_is_one_of_its_own(survival, rise):
    seconds = curve(rise, K + 1)
    assert padded_width(survival[:1], seconds) == verified_widths(survival[:1], seconds)[0]


@pytest.mark.parametrize(
    ("survival", "seconds", "key"),
    [
        ([[0.4, 0.6]], [1.0, 1.0, 1.0], "survival"),
        ([[1.4, 0.6]], [1.0, 1.0, 1.0], "survival"),
        ([0.4, 0.2], [1.0, 1.0, 1.0], "survival"),
        ([[0.4, 0.2]], [1.0, 1.0], "seconds"),
        ([[0.4, 0.2]], [1.0, 0.0, 1.0], "seconds"),
    ],
)
def test_what_makes_no_sense_is_refused(survival, seconds, key):
    with pytest.raises(InputError) as error:
        verified_widths(np.array(survival), np.array(seconds))
    assert error.value.key == key


def recording(seed, lengths, *, knows=True):
    """Texts whose drafter is right as often as it says, or says the same of every token."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    n = int(offsets[-1])
    sure = rng.choice([0.25, 0.5, 0.75, 0.97], n).astype(np.float16)
    right = rng.random(n) < sure
    emitted = np.ones(n, np.int64)
    for i in range(n - 2, -1, -1):
        emitted[i] = 1 + emitted[i + 1] if right[i] else 1
    said = sure if knows else np.full(n, 0.6, np.float16)
    return AcceptanceTrace(
        offsets=offsets,
        emitted=emitted,
        rank=np.where(right, 0, -1).astype(np.int8),
        rank_width=1,
        depth_invariant=True,
        draft_ids=np.zeros((n, 1), np.int32),
        draft_probs=said[:, None],
        target_probs=said[:, None],
        emitted_target_prob=said,
        residual_mass=np.zeros(n),
    )


def walked(trace, seconds, batch, steps, weight):
    """Tokens, steps and verified tokens of a batch, and how often it verified so many."""
    sure = trace.draft_probs[:, 0].astype(np.float64)
    ends = np.repeat(trace.offsets[1:], trace.output_tokens)
    places = np.linspace(0, trace.positions, batch, endpoint=False).astype(np.int64)
    counts, budgets, earned, spent = [0, 0, 0], np.zeros(batch * K + 1), 0.0, 0.0
    for _ in range(steps):
        survival = np.zeros((batch, K))
        for row, place in enumerate(places):
            there = min(K, ends[place] - place - 1)
            survival[row, :there] = np.cumprod(sure[place : place + there])
        widths = verified_widths(survival, seconds, earned / spent if spent else None)
        budgets[widths.sum()] += 1
        if weight:
            expected = batch + sum(
                row[:width].sum() for row, width in zip(survival, widths, strict=True)
            )
            earned = (1 - weight) * earned + expected
            spent = (1 - weight) * spent + seconds[widths.sum()]
        for row, width in enumerate(widths):
            emits = min(trace.emitted[places[row]], width + 1, ends[places[row]] - places[row])
            counts[0] += emits
            counts[1] += 1
            counts[2] += width
            places[row] = (places[row] + emits) % trace.positions
    return counts, budgets


@settings(max_examples=examples(8))
@given(st.integers(0, 99), st.integers(1, 5), st.sampled_from([0.0, 0.1]), rises)
def test_the_law_is_the_walk_step_by_step(seed, batch, weight, rise):
    trace = recording(seed, [7, 1, 12, 30])
    seconds = curve([*rise, *rise], batch * K + 1)
    steps = max(256, 8 * trace.positions // batch)
    counts, budgets = walked(trace, seconds, batch, steps, weight)
    law = cost_chain(trace, K, Stop(rule="cost", at=weight), None, seconds=seconds, batch=batch)
    assert law.tokens_per_step == pytest.approx(counts[0] / counts[1])
    assert law.lengths.mean_tokens == pytest.approx(counts[2] / counts[1])
    assert sum(share * mean for share, mean in law.lengths.of_batch) == pytest.approx(
        budgets @ np.arange(budgets.size) / steps / batch
    )
    assert law.lengths.mean_passes == K


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("slope", [0.01, 0.1, 0.4])
def test_who_knows_how_sure_the_drafter_is_beats_every_fixed_width(batch, slope):
    trace = recording(3, [4000])
    seconds = 1.0 + slope * np.arange(batch * K + 1) / batch
    rates = {}
    for weight in (0.0, 0.05):
        stop = Stop(rule="cost", at=weight)
        law = cost_chain(trace, K, stop, None, seconds=seconds, batch=batch)
        # the curve is even, so that a mean of budgets costs their mean
        cost = sum(share * (1.0 + slope * mean) for share, mean in law.lengths.of_batch)
        rates[weight] = law.tokens_per_step / cost
    fixed = []
    for k in range(K + 1):
        emitted, place, taken = 0, 0, 0
        while place < trace.positions:
            step = min(trace.emitted[place], k + 1, trace.positions - place)
            emitted, place, taken = emitted + step, place + step, taken + 1
        fixed.append(emitted / taken / seconds[k * batch])
    assert rates[0.05] > max(fixed) * 0.995
    assert rates[0.05] > rates[0.0] * 0.99


def test_a_drafter_that_tells_nothing_leaves_the_best_fixed_width():
    trace = recording(5, [4000], knows=False)
    share = float(np.mean(trace.rank == 0))
    calibration = calibrated(trace)
    assert calibration.accepted(np.array([0.1, 0.6, 0.9])) == pytest.approx(share, abs=0.01)
    seconds = 1.0 + 0.3 * np.arange(K + 1)
    law = cost_chain(
        trace,
        K,
        Stop(rule="cost"),
        None,
        seconds=seconds,
        batch=1,
        calibration=calibration,
    )
    expected = np.cumsum(share ** np.arange(K + 1)) / seconds
    width = int(np.argmax(expected))
    assert law.lengths.tokens[width] > 0.99, "but for the ends of texts"


def test_a_weight_of_no_share_or_too_few_seconds_are_refused():
    trace = recording(0, [20])
    stop = Stop(rule="cost")
    with pytest.raises(InputError, match="9 numbers"):
        cost_chain(trace, K, stop, None, seconds=np.ones(5), batch=2)
    for wrong in (Stop(rule="cost", at=1.5), Stop(rule="ema")):
        with pytest.raises(InputError, match="must be cost"):
            cost_chain(trace, K, wrong, None, seconds=np.ones(5), batch=1)


@pytest.mark.parametrize("method", ["draft-model", "layer-skip"])
def test_drafts_that_are_drawn_stay_as_often_as_their_law_says(method):
    """Where a further token costs nothing, whole drafts are verified, by the rejection test too."""
    trace = read_acceptance(trace_file(f"level-3/smollm2-135m--{method}--t1"))
    law = law_for(trace, "token_rejection", [K])
    assert not law.by_matching
    calibration = calibrated(trace, accepted_shares(trace, law))
    chain = cost_chain(
        trace,
        K,
        Stop(rule="cost"),
        None,
        seconds=np.ones(K + 1),
        batch=1,
        calibration=calibration,
        law=law,
    )
    whole = accepted_by(trace, law, K, None)
    assert chain.rule == "token_rejection"
    assert chain.tokens_per_step == pytest.approx(whole.tokens_per_step, rel=0.02)
    matched = accepted_by(trace, MATCHING, K, None)
    assert chain.tokens_per_step > matched.tokens_per_step
    dear = cost_chain(
        trace, K, Stop(rule="cost"), None, seconds=1.0 + np.arange(K + 1.0), batch=1, law=law
    )
    assert dear.lengths.mean_tokens < 0.5


def test_rules_that_change_the_text_are_refused():
    trace = read_acceptance(trace_file("level-3/smollm2-135m--draft-model--t1"))
    law = law_for(trace, "typical", [K])
    with pytest.raises(InputError, match="part of a draft"):
        cost_chain(trace, K, Stop(rule="cost"), None, seconds=np.ones(5), batch=1, law=law)
