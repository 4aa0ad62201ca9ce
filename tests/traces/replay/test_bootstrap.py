"""Intervals over requests hold as often as they say, on recordings of few requests of unequal
lengths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.replay.bootstrap import drawn_ratios, request_draws

BOUNDS = (1.0, 6.0)
TAILS = [0.1, 0.9]
SIZES = (5, 8, 16, 32, 80)
RECORDINGS = 3000
TWO_ERRORS = 2 * np.sqrt(0.16 / RECORDINGS)  # of a simulated share of 80 %


def spread(generator, tokens, pace):
    """Whole tokens and steps of requests of these lengths and paces, whose steps vary along the
    text as well."""
    steps = tokens / pace
    return tokens.round(), np.maximum(generator.normal(steps, 0.35 * np.sqrt(steps)).round(), 1.0)


def even(generator, shape):
    """Outputs of one length, as benchmarks force them."""
    return spread(generator, np.full(shape, 256.0), 1.0 + 2.4 * generator.beta(4, 4, shape))


def mild(generator, shape):
    """Chat: lengths over an order of magnitude."""
    tokens = np.clip(np.exp(generator.normal(5.3, 0.6, shape)), 8, 2048)
    return spread(generator, tokens, 1.0 + 3.0 * generator.beta(8, 6, shape))


def heavy(generator, shape):
    """A few requests hold most of the tokens, as in logs of a service."""
    tokens = np.clip(np.exp(generator.normal(5.0, 1.0, shape)), 8, 4096)
    return spread(generator, tokens, 1.0 + 3.0 * generator.beta(3, 3, shape))


def long_are_fast(generator, shape):
    """Long outputs repeat themselves, and are accepted more."""
    long = generator.normal(0, 1, shape)
    wild = 0.8 * long + 0.7 * generator.normal(0, 1, shape)
    return spread(
        generator, np.clip(np.exp(5.0 + 0.9 * long), 8, 4096), 1.0 + 3.0 / (1.0 + np.exp(-wild))
    )


def looping(generator, shape):
    """One request in ten loops at nearly the full draft."""
    loops = generator.random(shape) < 0.1
    pace = np.where(
        loops, 4.0 + 0.5 * generator.random(shape), 1.0 + 2.0 * generator.beta(3, 4, shape)
    )
    return spread(generator, np.clip(np.exp(generator.normal(5.0, 0.8, shape)), 8, 4096), pace)


def by_kind(generator, shape):
    """Eight kinds of prompt, each with a pace and lengths of its own, as in MT-bench."""
    kind = np.arange(shape[1]) % 8
    mean = np.array([0.15, 0.3, 0.4, 0.45, 0.5, 0.6, 0.7, 0.85])[np.broadcast_to(kind, shape)]
    tokens = np.clip(np.exp(generator.normal(4.5 + 0.15 * kind, 0.7, shape)), 8, 4096)
    return spread(generator, tokens, 1.0 + 3.0 * generator.beta(12 * mean, 12 * (1 - mean)))


def coverage(draw, requests, kinds, recordings, seed):
    """Share of recordings whose interval holds the ratio of all requests that there are."""
    many = draw(np.random.default_rng(99), (1_000_000 // requests, requests))
    truth = many[0].sum() / many[1].sum()
    tokens, steps = draw(np.random.default_rng(seed), (recordings, requests))
    draws = request_draws(kinds, generator=np.random.default_rng(seed + 1), draws=400)
    held = 0
    for one, other in zip(tokens, steps, strict=True):
        low, high = np.quantile(drawn_ratios(one, other, draws, bounds=BOUNDS), TAILS)
        held += low < truth < high
    return held / recordings


@pytest.mark.heavy
@pytest.mark.parametrize("requests", SIZES)
@pytest.mark.parametrize("draw", [even, mild, heavy, long_are_fast, looping])
def test_intervals_of_80_percent_hold_for_76_to_84(draw, requests):
    share = coverage(draw, requests, [""] * requests, RECORDINGS, 7)
    assert 0.76 - TWO_ERRORS <= share <= 0.84 + TWO_ERRORS


@pytest.mark.heavy
@pytest.mark.parametrize("requests", [16, 32, 80])
def test_intervals_of_recordings_by_kind_hold_for_76_to_84(requests):
    kinds = [str(place % 8) for place in range(requests)]
    assert 0.76 <= coverage(by_kind, requests, kinds, RECORDINGS, 7) <= 0.84


@pytest.mark.parametrize("requests", [8, 16])
def test_few_requests_of_unequal_lengths_are_enough_for_their_interval(requests):
    assert 0.76 <= coverage(heavy, requests, [""] * requests, 1200, 3) <= 0.84


@given(st.lists(st.sampled_from("abcd"), min_size=2, max_size=12), st.integers(0, 2**32))
def test_between_kinds_nothing_varies_but_kinds_with_one_request(kinds, seed):
    """Requests of a kind that are all alike leave no doubt, whatever other kinds are."""
    pace = {"a": 1.5, "b": 2.0, "c": 3.0, "d": 4.0}
    steps = np.full(len(kinds), 50.0)
    draws = request_draws(kinds, generator=np.random.default_rng(seed), draws=50)
    drawn = drawn_ratios(
        np.array([50.0 * pace[kind] for kind in kinds]), steps, draws, bounds=BOUNDS
    )
    several = all(kinds.count(kind) > 1 for kind in kinds) or len(set(kinds)) == 1
    assert (np.ptp(drawn) < 1e-9) == several


def test_requests_without_a_step_change_nothing(generator):
    tokens, steps = mild(generator, (1, 12))
    draws = request_draws(["a"] * 12, generator=np.random.default_rng(0))
    with_idle = request_draws(["a"] * 13, generator=np.random.default_rng(0))
    known = drawn_ratios(tokens[0], steps[0], draws, bounds=BOUNDS)
    idle = drawn_ratios(
        np.append(tokens[0], 0.0), np.append(steps[0], 0.0), with_idle, bounds=BOUNDS
    )
    assert np.std(idle) == pytest.approx(np.std(known), rel=0.15)
    alone = drawn_ratios(
        np.array([30.0, 0.0]),
        np.array([10.0, 0.0]),
        request_draws(["a", "b"], generator=generator),
        bounds=BOUNDS,
    )
    assert np.all(alone == 3.0)


def test_equal_requests_have_the_interval_of_student(generator):
    """For requests of equal length the ratio is a mean, and its interval the textbook's."""
    pace = np.array([1.8, 2.4, 2.1, 2.9, 2.6])
    draws = request_draws(["a"] * 5, generator=generator, draws=200_000)
    low, high = np.quantile(
        drawn_ratios(100 * pace, np.full(5, 100.0), draws, bounds=BOUNDS), TAILS
    )
    half = (
        1.533 * pace.std(ddof=1) / np.sqrt(5)
    )  # Student's quantile at 0.9 with 4 degrees of freedom
    assert (low, high) == pytest.approx((pace.mean() - half, pace.mean() + half), abs=0.01)


def test_draws_stay_within_what_a_step_can_emit(generator):
    tokens, steps = looping(generator, (1, 3))
    draws = request_draws(["a"] * 3, generator=generator)
    drawn = drawn_ratios(tokens[0], steps[0], draws, bounds=(1.0, 5.0))
    assert drawn.min() >= 1.0 and drawn.max() <= 5.0
