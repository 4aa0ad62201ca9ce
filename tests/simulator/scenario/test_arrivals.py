"""Arrivals: rates and burstiness as asked for, the same for the same seed, and clear refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammainc, gammaincc, gammaincinv

from hardware_profiles.errors import InputError
from simulator.loop.request import MOST_TOKENS
from simulator.scenario.arrivals import (
    closed_loop,
    drawn_lengths,
    gamma,
    modulated,
    open_loop,
    poisson,
    recorded,
    repeated,
)
from traces.kinds.acceptance import Provenance, RequestTrace
from traces.kinds.provenance import BLOCK_TOKENS_KEY


def trace_of(requests=4, *, blocks=True):
    return RequestTrace(
        arrival_s=np.arange(requests) * 0.5,
        prompt_tokens=np.arange(requests, dtype=np.int32) + 10,
        output_tokens=np.arange(requests, dtype=np.int32) + 1,
        prefix_blocks=tuple((0, i + 1) for i in range(requests)) if blocks else None,
        provenance=Provenance(extra={BLOCK_TOKENS_KEY: 512}),
    )


def test_recorded_requests_stay_as_they_are():
    workload = recorded(trace_of())
    assert workload.arrival_s.tolist() == [0.0, 0.5, 1.0, 1.5]
    assert (
        workload.prefix_ids == ((0, 1), (0, 2), (0, 3), (0, 4))
        and workload.prefix_block_tokens == 512
    )
    few = recorded(trace_of(), requests=2, speed=2.0)
    assert few.arrival_s.tolist() == [0.0, 0.25] and few.prompt_tokens.tolist() == [10, 11]


def test_laps_keep_the_order_and_share_no_prefix():
    again = repeated(trace_of(2), 5)
    assert again.prompt_tokens.tolist() == [10, 11, 10, 11, 10]
    assert again.prefix_blocks == ((0, 1), (0, 2), (3, 4), (3, 5), (6, 7))
    laps = [set(again.prefix_blocks[i]) for i in (0, 2, 4)]
    assert not laps[0] & laps[1] and not laps[1] & laps[2] and not laps[0] & laps[2]
    assert repeated(trace_of(2, blocks=False), 3).prefix_blocks is None


ONCE_IN = 1e12  # samples of the law itself that one assertion below refuses one of


def assert_gamma(gaps, shape, scale_s):
    """Gaps are a sample of a gamma law, whatever that is.

    Their sum follows a gamma law too, and no value of it is less likely than one in `ONCE_IN` on
    its side. How many gaps are below a quantile is a binomial number, which leaves its mean by more
    than sqrt(n ln(2 ONCE_IN) / 2) less than once in `ONCE_IN` (Hoeffding 1963). Gaps are differences
    of arrivals: quantiles near the last digit of these say nothing.
    """
    n, total_s = gaps.size, gaps.sum()
    assert min(tail(n * shape, total_s / scale_s) for tail in (gammainc, gammaincc)) > 1.0 / ONCE_IN
    levels = np.array([0.1, 0.25, 0.5, 0.75, 0.9, 0.99])
    quantiles = scale_s * gammaincinv(shape, levels)
    told = quantiles > 1e4 * np.spacing(total_s)
    assert told[2:].all()
    below = (gaps[:, None] <= quantiles[told]).mean(axis=0)
    assert np.abs(below - levels[told]).max() <= np.sqrt(np.log(2.0 * ONCE_IN) / (2.0 * n))


@given(st.floats(0.1, 1e4), st.floats(0.2, 4.0))
def test_gamma_gaps_follow_their_law(rate, variation):
    gaps = np.diff(gamma(40_000, rate, variation, np.random.default_rng(5)), prepend=0.0)
    assert np.all(gaps >= 0)
    assert_gamma(gaps, variation**-2, variation**2 / rate)


def test_poisson_counts_are_poisson():
    counts = np.histogram(poisson(100_000, 50.0, np.random.default_rng(7)), np.arange(0, 1900))[0]
    assert counts.mean() == pytest.approx(50.0, rel=0.02)
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=0.12)


@given(st.integers(2, 50), st.floats(0.3, 4.0))
def test_gaps_of_a_sample_are_sums_of_gaps_of_all(replicas, variation):
    """Every n-th request of a gamma process, drawn without those between: the same law."""
    places = np.arange(100_000, dtype=np.int64) * replicas + replicas // 2
    drawn = gamma(100_000, 30.0, variation, np.random.default_rng(1), places)
    everyone = gamma(200_000, 30.0, variation, np.random.default_rng(2))
    thinned = everyone[replicas // 2 :: replicas]
    for arrival in (drawn, thinned):
        assert_gamma(np.diff(arrival), replicas / variation**2, variation**2 / 30.0)


def test_all_places_are_all_arrivals():
    """No law changes where every request is simulated."""
    everywhere = np.arange(500, dtype=np.int64)
    bursts = {"burst_ratio": 6.0, "calm_s": 3.0, "burst_s": 1.0}
    for draw in (
        lambda generator, *places: gamma(500, 9.0, 2.0, generator, *places),
        lambda generator, *places: modulated(
            500, 9.0, generator, **bursts, **({"places": places[0]} if places else {})
        ),
    ):
        whole = draw(np.random.default_rng(4))
        assert draw(np.random.default_rng(4), everywhere).tolist() == whole.tolist()


def test_a_sample_of_a_modulated_service_keeps_its_rate_and_bursts():
    places = np.arange(40_000, dtype=np.int64) * 10
    arrival = modulated(
        40_000,
        10.0,
        np.random.default_rng(3),
        burst_ratio=10.0,
        calm_s=30.0,
        burst_s=5.0,
        places=places,
    )
    assert 10 * arrival.size / arrival[-1] == pytest.approx(10.0, rel=0.08)
    counts = 10 * np.histogram(arrival, np.arange(0, arrival[-1] - 1, 5.0))[0]
    assert counts.var() / counts.mean() > 20.0


def test_a_sample_of_a_file_has_its_own_requests():
    trace = trace_of(7)
    places = np.array([1, 4, 6])
    few = recorded(trace, speed=2.0, places=places)
    assert few.arrival_s.tolist() == [0.25, 1.0, 1.5] and few.prompt_tokens.tolist() == [11, 14, 16]
    assert few.prefix_ids == ((0, 2), (0, 5), (0, 7))
    again, whole = repeated(trace, 3, np.array([2, 9, 15])), repeated(trace, 16)
    assert again.prefix_blocks == tuple(whole.prefix_blocks[i] for i in (2, 9, 15))
    assert again.output_tokens.tolist() == whole.output_tokens[[2, 9, 15]].tolist()


def test_a_modulated_service_bursts_and_keeps_its_rate():
    generator = np.random.default_rng(3)
    arrival = modulated(300_000, 10.0, generator, burst_ratio=10.0, calm_s=30.0, burst_s=5.0)
    assert np.all(np.diff(arrival) >= 0)
    assert arrival.size / arrival[-1] == pytest.approx(10.0, rel=0.08)
    counts = np.histogram(arrival, np.arange(0, arrival[-1] - 1))[0]
    assert counts.var() / counts.mean() > 5.0  # a Poisson service has 1
    even = modulated(100_000, 10.0, generator, burst_ratio=1.0, calm_s=30.0, burst_s=5.0)
    counts = np.histogram(even, np.arange(0, even[-1] - 1))[0]
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=0.1)


def test_rates_within_phases_differ_by_the_ratio():
    # one phase lasts longer than all requests: arrivals are Poisson at one of the two rates
    seen = {
        round(
            1000
            / modulated(
                1000, 1.0, np.random.default_rng(s), burst_ratio=9.0, calm_s=1e9, burst_s=1e9
            )[-1],
            1,
        )
        for s in range(12)
    }
    assert min(seen) == pytest.approx(0.2, abs=0.05) and max(seen) == pytest.approx(1.8, abs=0.2)


@pytest.mark.parametrize("draw", [poisson, lambda n, r, g: gamma(n, r, 3.0, g)])
def test_the_same_seed_draws_the_same(draw):
    first, second, other = (draw(50, 4.0, np.random.default_rng(s)) for s in (1, 1, 2))
    assert first.tolist() == second.tolist() != other.tolist()


def test_lengths_follow_their_laws(generator):
    fixed = drawn_lengths("100", "uniform:3:5", 30_000, generator)
    assert set(fixed.prompt_tokens.tolist()) == {100}
    values, counts = np.unique(fixed.output_tokens, return_counts=True)
    assert values.tolist() == [3, 4, 5] and counts.min() > 9_500
    drawn = drawn_lengths("lognormal:1000:0.8", "exponential:200", 60_000, generator)
    assert drawn.prompt_tokens.mean() == pytest.approx(1000, rel=0.02)
    assert drawn.prompt_tokens.std() == pytest.approx(800, rel=0.06)
    assert drawn.output_tokens.mean() == pytest.approx(200, rel=0.03)
    assert drawn.output_tokens.min() >= 1


@pytest.mark.parametrize(
    "law",
    [
        "",
        "many",
        "0",
        "-5",
        "1e30",
        "nan",
        "uniform:3",
        "uniform:5:3",
        "poisson:3",
        "lognormal:10:0",
        "3:4",
    ],
)
def test_other_laws_are_refused(law, generator):
    with pytest.raises(InputError, match="prompt tokens"):
        drawn_lengths(law, "5", 10, generator)


def test_open_and_closed_loops(generator):
    at = poisson(3, 2.0, generator)
    workload = open_loop(trace_of(), at)
    assert workload.requests == 3 and workload.arrival_s.tolist() == at.tolist()
    busy = closed_loop(trace_of(), 2, generator)
    assert (busy.users, busy.think_s, busy.arrival_s.tolist()) == (2, 0.0, [0.0] * 4)


def test_users_think_as_long_as_asked_and_begin_within_it(generator):
    trace = trace_of(4000)
    even = closed_loop(trace, 50, generator, think_s=0.25, variation=0.0)
    assert (even.think_s == 0.25).all() and 0.0 <= even.arrival_s.min() < even.arrival_s[49] <= 0.25
    assert (even.arrival_s[49:] == even.arrival_s[49]).all()
    drawn = closed_loop(trace, 50, generator, think_s=0.25).think_s
    assert drawn.mean() == pytest.approx(0.25, rel=0.05)
    assert drawn.std() == pytest.approx(0.25, rel=0.1)


def test_impossible_arrivals_are_refused(generator):
    empty = RequestTrace(arrival_s=[], prompt_tokens=[], output_tokens=[])
    for call, message in (
        (lambda: recorded(empty), "at least one request"),
        (lambda: repeated(empty, 3), "at least one request"),
        (lambda: recorded(trace_of(), requests=5), "1..4"),
        (lambda: recorded(trace_of(), requests=0), "1..4"),
        (lambda: recorded(trace_of(), speed=0.0), "speed"),
        (lambda: repeated(trace_of(), 1 << 40), "requests"),
        (lambda: poisson(0, 1.0, generator), "requests"),
        (lambda: poisson(3, 0.0, generator), "rate"),
        (lambda: poisson(3, -1.0, generator), "rate"),
        (lambda: poisson(3, float("nan"), generator), "rate"),
        (lambda: gamma(3, 1.0, 0.0, generator), "variation"),
        (lambda: modulated(3, 1.0, generator, burst_ratio=0.5, calm_s=1, burst_s=1), "burst_ratio"),
        (lambda: modulated(3, 1.0, generator, burst_ratio=2.0, calm_s=0, burst_s=1), "calm_s"),
        (lambda: open_loop(trace_of(2), np.arange(3.0)), "must hold 3 requests"),
        (lambda: open_loop(trace_of(), np.array([1.0, 0.5])), "sorted"),
        (lambda: closed_loop(trace_of(), 0, generator), "users"),
        (lambda: closed_loop(trace_of(), 1, generator, think_s=-1.0), "think_s"),
    ):
        with pytest.raises(InputError, match=message):
            call()


def test_a_trace_that_misstates_its_blocks_is_refused():
    wrong = RequestTrace(
        arrival_s=[0.0],
        prompt_tokens=[MOST_TOKENS],
        output_tokens=[1],
        prefix_blocks=((1,),),
        provenance=Provenance(extra={BLOCK_TOKENS_KEY: "16"}),
    )
    with pytest.raises(InputError, match=BLOCK_TOKENS_KEY):
        recorded(wrong)
