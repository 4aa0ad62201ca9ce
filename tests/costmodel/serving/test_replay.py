"""Schedules worked out by hand, and laws that every schedule keeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.serving.replay import DECODED, FINISHED, HOST, PREEMPTED, PROMPT, Limits, Prices, replay

# an iteration takes as many seconds as it has rows; attention and sampling are free
PRICES = Prices(
    row_s=np.arange(4096.0), head_s=np.zeros(129), decode_s=np.zeros((129, 4)), prompt_s=np.zeros(4),
    launch_s=0.0, context_step=4096, prompt_step=4096,
)  # fmt: skip


def limits(**changes):
    base = {
        "mixes": True, "chunks": True, "batch_tokens": 1000, "requests": 128, "cache_tokens": 1e9,
        "reserve_ratio": 0.0, "graph_rows": 0, "eager_s": 0.0, "step_s": 0.0, "token_s": 0.0, "intake_s": 0.0,
    }  # fmt: skip
    return Limits(**(base | changes))


def run(users, requests, prompt, output, prices=PRICES, **changes):
    return replay(users, requests, prompt, output, limits(**changes), prices)


def test_chunked_prompts_share_iterations_with_decodes():
    found = run(2, 2, 10, 2, batch_tokens=12)  # 10 + 2 rows, then 1 + 8, then 1
    assert found.ttft_s.tolist() == [12.0, 21.0]
    assert found.last_s.tolist() == [21.0, 22.0]
    assert found.iterations == 3


def test_whole_prompts_wait_for_an_iteration_that_holds_them():
    found = run(2, 2, 10, 2, batch_tokens=12, chunks=False)  # 10 rows, then 1 + 10, then 1
    assert found.ttft_s.tolist() == [10.0, 21.0]
    assert found.last_s.tolist() == [21.0, 22.0]


def test_prompts_first_keeps_decodes_waiting():
    found = run(2, 2, 10, 2, batch_tokens=10, mixes=False)  # 10, 10, then both decode
    assert found.ttft_s.tolist() == [10.0, 20.0]
    assert found.last_s.tolist() == [22.0, 22.0]


def test_out_of_cache_the_latest_gives_way_and_computes_again():
    found = run(2, 2, 10, 4, cache_tokens=24.5)  # 20, 2, 2, then 1 alone, then 10 + 3 again
    assert found.counts[PREEMPTED] == 1
    assert found.last_s.tolist() == [25.0, 38.0]
    assert found.counts[PROMPT] == 20 + 13


def test_reserving_the_output_never_evicts():
    found = run(2, 2, 10, 4, cache_tokens=25.0, reserve_ratio=1.0)
    assert found.counts[PREEMPTED] == 0
    assert found.ttft_s.tolist() == [10.0, 23.0]
    assert found.last_s.tolist() == [13.0, 26.0]


def test_a_user_sends_the_next_request_when_the_last_is_answered():
    found = run(1, 3, 5, 2)
    assert found.ttft_s.tolist() == [5.0, 5.0, 5.0]
    assert found.clock_s == 18.0


def test_the_front_end_takes_prompts_in_one_after_another():
    found = run(2, 2, 10, 1, intake_s=1.0)  # the first starts at 1 s and the second joins the next iteration
    assert found.ttft_s.tolist() == [11.0, 21.0]


def test_an_iteration_put_together_ahead_misses_who_arrives_in_between():
    late = {"intake_s": 1.0, "batch_tokens": 1000}
    direct, ahead = (run(2, 2, 10, 4, ahead=each, **late) for each in (False, True))
    # the first at 1 s takes 10 s; the second, there since 2 s, joins at 11 s, or after the decode from 11 to 12 s
    assert direct.ttft_s.tolist() == [11.0, 22.0]
    assert ahead.ttft_s.tolist() == [11.0, 23.0]


def test_lengths_may_differ_by_request():
    found = replay(1, 3, np.array([5, 7, 2]), np.array([2, 1, 3]), limits(), PRICES)
    assert found.ttft_s.tolist() == [5.0, 7.0, 2.0]
    assert found.last_s.tolist() == [6.0, 7.0, 4.0]


def test_requests_beyond_the_limit_queue():
    found = replay(3, 3, 4, 2, limits(requests=2), PRICES)
    assert found.ttft_s.tolist() == [8.0, 8.0, 14.0]


def test_the_host_bounds_iterations_outside_graphs():
    eager = run(1, 1, 5, 3, eager_s=9.0)
    assert eager.seconds[HOST] == 4.0
    assert eager.ttft_s[0] == 9.0
    assert run(1, 1, 5, 3, eager_s=9.0, graph_rows=5).seconds[HOST] == 0.0


def test_the_engine_adds_its_own_time_to_every_iteration():
    found = run(2, 2, 5, 3, step_s=0.5, token_s=0.25)
    assert found.clock_s == pytest.approx(10 + 2 + 2 + 3 * 0.5 + 6 * 0.25)


schedules = st.fixed_dictionaries(
    {
        "mixes": st.booleans(), "chunks": st.booleans(), "batch_tokens": st.integers(9, 200),
        "cache_tokens": st.floats(60, 400), "reserve_ratio": st.floats(0, 1),
        "intake_s": st.floats(0, 5), "ahead": st.booleans(),
    }
)  # fmt: skip


@given(users=st.integers(1, 8), each=st.integers(1, 4), prompt=st.integers(1, 40), output=st.integers(1, 20),
       changes=schedules)  # fmt: skip
def test_every_schedule_conserves_requests_and_tokens(users, each, prompt, output, changes):
    found = run(users, users * each, prompt, output, **changes)
    assert found.counts[FINISHED] == users * each
    assert np.all(found.ttft_s > 0)
    assert np.all(found.last_s >= found.ttft_s)
    again = found.counts[PROMPT] - users * each * prompt  # tokens that preempted requests computed once more
    assert again >= 0
    assert (again == 0) or (found.counts[PREEMPTED] > 0)
    emitted = found.counts[DECODED] + users * each
    assert users * each * output - found.counts[PREEMPTED] <= emitted <= users * each * output
    assert found.row_counts.sum() == found.iterations == found.sampled_counts.sum()


@given(users=st.integers(1, 8), prompt=st.integers(1, 40), output=st.integers(1, 20), mixes=st.booleans())
def test_a_budget_without_end_makes_chunks_whole_prompts(users, prompt, output, mixes):
    chunked, whole = (
        run(users, users * 3, prompt, output, batch_tokens=3000, mixes=mixes, chunks=chunks) for chunks in (True, False)
    )
    assert np.array_equal(chunked.ttft_s, whole.ttft_s)
    assert np.array_equal(chunked.last_s, whole.last_s)


@given(users=st.integers(1, 6), prompt=st.integers(2, 40), output=st.integers(2, 20), mixes=st.booleans())
def test_no_request_beats_its_own_prompt_and_its_own_tokens(users, prompt, output, mixes):
    found = run(users, users * 3, prompt, output, batch_tokens=50, mixes=mixes)
    assert np.all(found.ttft_s >= prompt)
    assert np.all(found.last_s - found.ttft_s >= output - 1)
