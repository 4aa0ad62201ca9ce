"""Closed loops of users: lengths within their spread, and what is refused."""

import numpy as np
import pytest

from hardware_profiles.errors import InputError
from simulator.closed_loop.users import Users


def test_lengths_are_drawn_within_their_spread_and_repeat():
    workload = Users(users=50, prompt_tokens=1000, output_tokens=500, length_spread=0.2)
    prompts, outputs = workload.lengths()
    assert len(prompts) == len(outputs) == workload.requests
    for found, most in ((prompts, 1000), (outputs, 500)):
        assert found.min() >= 0.8 * most
        assert found.max() <= most
        assert found.mean() == pytest.approx(0.9 * most, rel=0.02)
    again = workload.lengths()
    assert np.array_equal(prompts, again[0])
    assert np.array_equal(outputs, again[1])
    equal = Users(users=3, prompt_tokens=7, output_tokens=1).lengths()
    assert set(equal[0]) == {7}
    assert set(equal[1]) == {1}
    assert (
        Users(users=3, prompt_tokens=1, output_tokens=1, length_spread=0.9).lengths()[0].min() == 1
    )


@pytest.mark.parametrize("spread", [-0.1, 1.0])
def test_a_spread_out_of_range_is_refused(spread):
    with pytest.raises(InputError, match="length_spread"):
        Users(users=1, prompt_tokens=1, output_tokens=1, length_spread=spread)


@pytest.mark.parametrize("key", ["users", "prompt_tokens", "output_tokens", "requests_per_user"])
def test_workloads_of_nothing_are_refused(key):
    good = {"users": 1, "prompt_tokens": 1, "output_tokens": 1, "requests_per_user": 1}
    with pytest.raises(InputError, match=key):
        Users(**(good | {key: 0}))


def test_workloads_beyond_reason_are_refused():
    with pytest.raises(InputError, match="tokens"):
        Users(users=1, prompt_tokens=1 << 18, output_tokens=1)
    with pytest.raises(InputError, match="users"):
        Users(users=1 << 20, prompt_tokens=1, output_tokens=1 << 10)
