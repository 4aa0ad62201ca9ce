"""Loads: by hand from means and recorded requests, and what is no load."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.workload import (
    Limits,
    Load,
    RequestTimes,
    load_of_means,
    load_of_requests,
    mean_times,
)
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import RequestTrace


def trace(arrival, prompt, output):
    return RequestTrace(
        arrival_s=np.array(arrival), prompt_tokens=np.array(prompt), output_tokens=np.array(output)
    )


def test_means_by_hand():
    load = load_of_means(requests_per_s=2.0, prompt_tokens=100, output_tokens=50)
    assert (load.mean_prompt_tokens, load.decode_context, load.longest_context) == (100, 125, 150)
    assert load.tokens_per_s == 100.0


def times(ttft_s, tpot_s, e2e_s):
    return RequestTimes(ttft_s=ttft_s, tpot_s=tpot_s, e2e_s=e2e_s)


def test_limits_hold_for_all_three_times():
    limits = Limits(ttft_s=1.0, e2e_s=4.0, e2e_percentile=90.0)
    assert limits.limited and limits.highest_percentile == 90.0
    assert limits.words == "mean TTFT <= 1000 ms and p90 E2E <= 4000 ms"
    seconds = np.array([3.0, 5.0, 4.0])
    assert limits.met(times(0.5, 9.0, seconds)).tolist() == [True, False, True]
    held = limits.held(times(seconds, np.full(3, np.nan), np.arange(101.0)))
    assert (held.ttft_s, held.tpot_s, held.e2e_s) == (4.0, 0.0, 90.0)


@given(*(st.floats(0.001, 100.0) for _ in range(6)))
def test_limits_times_their_excess_are_just_met(ttft, tpot, e2e, ttft_limit, tpot_limit, e2e_limit):
    limits = Limits(ttft_s=ttft_limit, tpot_s=tpot_limit, e2e_s=e2e_limit)
    ratio = float(limits.excess(times(ttft, tpot, e2e)))
    enough, short = (ratio * (1.0 + by) for by in (1e-9, -1e-9))
    assert limits.scaled(times(enough, enough, enough)).met(times(ttft, tpot, e2e))
    assert not limits.scaled(times(short, short, short)).met(times(ttft, tpot, e2e))
    assert bool(limits.met(times(ttft, tpot, e2e))) == (ratio <= 1.0)


def test_the_whole_request_is_the_first_token_and_all_later_ones():
    assert mean_times(ttft_s=0.4, tpot_s=0.01, output_tokens=1).e2e_s == 0.4
    assert mean_times(ttft_s=0.4, tpot_s=0.01, output_tokens=61).e2e_s == pytest.approx(1.0)


def test_contexts_are_weighted_by_how_long_requests_stay():
    load = load_of_requests(trace([0.0, 1.0, 2.0], [100, 100, 100], [10, 10, 980]))
    assert load.requests_per_s == pytest.approx(1.0)
    assert load.output_tokens == pytest.approx(1000 / 3)
    expected = (10 * 105 + 10 * 105 + 980 * 590) / 1000
    assert load.decode_context == pytest.approx(expected)
    assert load.longest_context == pytest.approx((2 * 10 * 110 + 980 * 1080) / 1000)


@given(
    prompt=st.lists(st.integers(1, 100_000), min_size=1, max_size=40),
    output=st.integers(1, 5000),
    rate=st.floats(0.001, 1e4),
)
def test_recorded_prompts_keep_their_mean_and_order(prompt, output, rate):
    load = load_of_requests(
        trace(np.arange(len(prompt)), prompt, [output] * len(prompt)), requests_per_s=rate
    )
    assert load.mean_prompt_tokens == pytest.approx(np.mean(prompt))
    assert list(load.prompt_tokens) == pytest.approx(sorted(load.prompt_tokens), rel=1e-12)
    assert min(prompt) <= load.prompt_tokens[0] and load.prompt_tokens[-1] <= max(prompt)
    assert load.requests_per_s == rate


def test_equal_requests_are_their_means():
    recorded = load_of_requests(trace([0.0, 1.0], [300, 300], [40, 40]))
    stated = load_of_means(requests_per_s=1.0, prompt_tokens=300, output_tokens=40)
    assert recorded.decode_context == stated.decode_context
    assert recorded.longest_context == stated.longest_context
    assert set(recorded.prompt_tokens) == set(stated.prompt_tokens)


def test_a_recording_without_a_span_needs_a_rate():
    alone = trace([5.0], [10], [10])
    with pytest.raises(InputError, match="span no time"):
        load_of_requests(alone)
    assert load_of_requests(alone, requests_per_s=3.0).requests_per_s == 3.0


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"requests_per_s": 0.0}, "rate"),
        ({"requests_per_s": float("nan")}, "rate"),
        ({"requests_per_s": float("inf")}, "rate"),
        ({"prompt_tokens": (0.5,)}, "prompt"),
        ({"prompt_tokens": (float("nan"),)}, "prompt"),
        ({"output_tokens": 0.0}, "output"),
        ({"output_tokens": 1e9}, "output"),
    ],
)
def test_what_is_no_load_is_refused(change, key):
    good = {
        "requests_per_s": 1.0,
        "prompt_tokens": (10.0,),
        "output_tokens": 5.0,
        "decode_context": 12.5,
        "longest_context": 15.0,
    }
    Load(**good)
    with pytest.raises(InputError, match=key):
        Load(**(good | change))


def test_a_recording_without_requests_is_refused():
    empty = RequestTrace(arrival_s=[], prompt_tokens=[], output_tokens=[], file="empty.parquet")
    for rate in (None, 2.0):
        with pytest.raises(
            InputError, match=r"empty\.parquet: requests: must hold at least one request"
        ):
            load_of_requests(empty, requests_per_s=rate)
