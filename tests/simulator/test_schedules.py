"""Schedules worked out by hand, and laws that every schedule keeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions
from simulator.loop.request import Workload
from simulator.loop.tables import no_tables


class Rows:
    """An iteration takes as many seconds as it has rows; attention and sampling are free."""

    def __init__(self, **changes):
        self.made = no_tables()._replace(row_s=np.arange(4096.0), **changes)

    def tables(self, size, *, drafts):
        return self.made

    def __call__(self, *arguments):
        raise AssertionError("tables are there")


def run(users, requests, prompt, output, timer=None, **changes):
    workload = Workload(
        arrival_s=np.zeros(requests),
        prompt_tokens=np.broadcast_to(prompt, requests),
        output_tokens=np.broadcast_to(output, requests),
        users=users,
    )
    options = {
        "token_budget": 1000,
        "max_requests": 128,
        "block_tokens": 1,
        "kv_blocks": 1 << 20,
        "reserve_ratio": 0.0,
    }
    scheduler = SchedulerOptions(**(options | changes))
    result = simulate(Scenario(workload=workload, scheduler=scheduler, timer=timer or Rows()))
    assert result.finished.all()
    return result


def test_chunked_prompts_share_iterations_with_decodes():
    found = run(2, 2, 10, 2, token_budget=12)  # 10 + 2 rows, then 1 + 8, then 1
    assert found.ttft_s.tolist() == [12.0, 21.0]
    assert found.e2e_s.tolist() == [21.0, 22.0]
    assert found.iterations == 3


def test_whole_prompts_wait_for_an_iteration_that_holds_them():
    found = run(2, 2, 10, 2, token_budget=12, chunked_prefill=False)  # 10 rows, then 1 + 10, then 1
    assert found.ttft_s.tolist() == [10.0, 21.0]
    assert found.e2e_s.tolist() == [21.0, 22.0]


def test_prompts_first_keeps_decodes_waiting():
    found = run(2, 2, 10, 2, token_budget=10, prefill_first=True)  # 10, 10, then both decode
    assert found.ttft_s.tolist() == [10.0, 20.0]
    assert found.e2e_s.tolist() == [22.0, 22.0]


def test_out_of_cache_the_latest_is_preempted_and_computes_again():
    found = run(2, 2, 10, 4, kv_blocks=24)  # 20, 2, 2, then 1 alone, then 10 + 3 again
    assert found.counters["preemptions"] == 1
    assert found.e2e_s.tolist() == [25.0, 38.0]
    assert found.counters["prompt_tokens_computed"] == 20 + 13


def test_reserving_the_output_never_evicts():
    found = run(2, 2, 10, 4, kv_blocks=25, reserve_ratio=1.0)
    assert found.counters["preemptions"] == 0
    assert found.ttft_s.tolist() == [10.0, 23.0]
    assert found.e2e_s.tolist() == [13.0, 26.0]


def test_a_prompt_whose_first_chunk_alone_fits_waits():
    """Admitted by its first chunk it would be computed, preempted and computed again, at
    everybody's expense."""
    whole, chunk = (
        run(4, 8, 10, 60, token_budget=8, kv_blocks=150, reserve_ratio=ratio).counters
        for ratio in (0.0, None)
    )
    assert 0 < whole["preemptions"] < chunk["preemptions"]
    assert whole["prompt_tokens_computed"] < chunk["prompt_tokens_computed"]


def test_a_user_sends_the_next_request_when_the_last_is_answered():
    found = run(1, 3, 5, 2)
    assert found.ttft_s.tolist() == [5.0, 5.0, 5.0]
    assert found.clock_s == 18.0


def test_the_front_end_takes_prompts_in_one_after_another():
    found = run(
        2, 2, 10, 1, intake_s=1.0
    )  # the first starts at 1 s and the second joins the next iteration
    assert found.ttft_s.tolist() == [11.0, 21.0]


def test_an_iteration_put_together_early_misses_who_arrives_in_between():
    late = {"intake_s": 1.0}
    direct, early = (run(2, 2, 10, 4, overlapped_scheduling=each, **late) for each in (False, True))
    # the first at 1 s takes 10 s; the second, there since 2 s, joins at 11 s, or after the decode
    # from 11 to 12 s
    assert direct.ttft_s.tolist() == [11.0, 22.0]
    assert early.ttft_s.tolist() == [11.0, 23.0]


def test_lengths_may_differ_by_request():
    found = run(1, 3, np.array([5, 7, 2]), np.array([2, 1, 3]))
    assert found.ttft_s.tolist() == [5.0, 7.0, 2.0]
    assert found.e2e_s.tolist() == [6.0, 7.0, 4.0]


def test_requests_beyond_the_limit_queue():
    found = run(3, 3, 4, 2, max_requests=2)
    assert found.ttft_s.tolist() == [8.0, 8.0, 14.0]


def test_the_host_bounds_iterations_outside_graphs():
    eager = run(1, 1, 5, 3, Rows(eager_s=9.0))
    assert eager.exposed_host_s == 4.0
    assert eager.ttft_s[0] == 9.0
    assert run(1, 1, 5, 3, Rows(eager_s=9.0, graph_rows=5)).exposed_host_s == 0.0


def test_an_overlapping_host_shows_only_where_it_is_slower_than_the_device():
    law = {"step_s": 0.5, "request_s": 0.25, "prompt_host_s": 4.0, "idle_s": 0.125, "overlapped": 1}
    hidden = run(
        2, 2, 5, 3, Rows(**law)
    )  # 10 rows at once, then twice 2: the host is done before the device
    assert (hidden.exposed_host_s, hidden.clock_s) == (0.0, pytest.approx(10 + 2 + 2 + 3 * 0.125))
    slow = run(2, 2, 5, 3, Rows(**law | {"prompt_host_s": 6.0}))
    assert slow.exposed_host_s == 2 * 6.0 + 0.5 + 2 * 0.25 - 10
    alone = run(2, 2, 5, 3, Rows(**law | {"overlapped": 0}))
    assert alone.clock_s == pytest.approx(hidden.clock_s + 2 * 4.0 + 3 * (0.5 + 2 * 0.25 - 0.125))


def test_the_engine_adds_its_own_time_to_every_iteration():
    found = run(2, 2, 5, 3, Rows(step_s=0.5, request_s=0.25))
    assert found.clock_s == pytest.approx(10 + 2 + 2 + 3 * 0.5 + 6 * 0.25)


def test_states_over_time_can_be_left_out():
    workload = Workload(
        arrival_s=np.zeros(3), prompt_tokens=np.full(3, 9), output_tokens=np.array([40, 5, 9])
    )
    with_them, without = (
        simulate(
            Scenario(
                workload=workload,
                scheduler=SchedulerOptions(kv_blocks=99),
                timer=Rows(),
                series=each,
            )
        )
        for each in (True, False)
    )
    assert with_them.series[0].t_s.size > 0 == without.series[0].t_s.size
    np.testing.assert_array_equal(with_them.last_token_s, without.last_token_s)
    assert with_them.iterations == without.iterations and with_them.busy_s == without.busy_s


def test_iterations_are_counted_by_size():
    found = run(2, 2, 10, 2, token_budget=12)  # 10 + 2 rows, then 1 + 8, then 1
    assert np.nonzero(found.iterations_by_rows)[0].tolist() == [1, 9, 12]
    # the part of the second prompt runs the output head as the first, whole one does
    assert found.iterations_by_sampled[:3].tolist() == [0, 1, 2]


schedules = st.fixed_dictionaries(
    {
        "prefill_first": st.booleans(),
        "chunked_prefill": st.booleans(),
        "token_budget": st.integers(49, 200),
        "kv_blocks": st.integers(60, 400),
        "reserve_ratio": st.floats(0, 1),
        "intake_s": st.floats(0, 5),
        "overlapped_scheduling": st.booleans(),
        "wait_iterations": st.integers(0, 5),
        "wait_ratio": st.floats(0, 1),
        "receive_iterations": st.integers(1, 5),
    }
)


@given(
    users=st.integers(1, 8),
    each=st.integers(1, 4),
    prompt=st.integers(1, 40),
    output=st.integers(1, 20),
    changes=schedules,
)
def test_every_schedule_conserves_requests_and_tokens(users, each, prompt, output, changes):
    found = run(users, users * each, prompt, output, **changes)
    assert np.all(found.ttft_s > 0)
    assert np.all(found.e2e_s >= found.ttft_s)
    again = (
        found.counters["prompt_tokens_computed"] - users * each * prompt
    )  # tokens that preempted requests computed once more
    assert again >= 0
    assert (again == 0) or (found.counters["preemptions"] > 0)
    emitted = found.counters["emitted"] + users * each
    assert users * each * output - found.counters["preemptions"] <= emitted <= users * each * output
    assert found.iterations_by_rows.sum() == found.iterations == found.iterations_by_sampled.sum()


@given(
    users=st.integers(1, 8),
    prompt=st.integers(1, 40),
    output=st.integers(1, 20),
    first=st.booleans(),
)
def test_a_budget_without_end_makes_chunks_whole_prompts(users, prompt, output, first):
    chunked, whole = (
        run(
            users,
            users * 3,
            prompt,
            output,
            token_budget=3000,
            prefill_first=first,
            chunked_prefill=chunks,
        )
        for chunks in (True, False)
    )
    assert np.array_equal(chunked.ttft_s, whole.ttft_s)
    assert np.array_equal(chunked.e2e_s, whole.e2e_s)


@given(
    users=st.integers(1, 6),
    prompt=st.integers(2, 40),
    output=st.integers(2, 20),
    first=st.booleans(),
)
def test_no_request_beats_its_own_prompt_and_its_own_tokens(users, prompt, output, first):
    found = run(users, users * 3, prompt, output, token_budget=50, prefill_first=first)
    assert np.all(found.ttft_s >= prompt)
    assert np.all(found.e2e_s - found.ttft_s >= output - 1)
