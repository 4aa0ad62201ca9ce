"""Who may run and who must wait or go where the cache is tight: schedules worked out by hand."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions
from simulator.loop.request import Workload
from tests.simulator.test_schedules import Rows


def run(prompt, output, *, arrival_s=0.0, priority=None, prefix_ids=None, **changes):
    """Requests by hand, on an engine whose iterations take as many seconds as they have rows."""
    prompt, output, arrival_s = np.broadcast_arrays(prompt, output, arrival_s)
    workload = Workload(
        arrival_s=arrival_s.astype(float),
        prompt_tokens=prompt,
        output_tokens=output,
        priority=priority,
        prefix_ids=prefix_ids,
        prefix_block_tokens=changes.get("block_tokens", 1),
    )
    options = {
        "token_budget": 1000,
        "max_requests": 128,
        "block_tokens": 1,
        "watermark_ratio": 0.0,
    } | changes
    scheduler = SchedulerOptions(
        **options, priorities=priority is not None, prefix_cache=prefix_ids is not None
    )
    result = simulate(Scenario(workload=workload, scheduler=scheduler, timer=Rows()))
    assert result.finished.all()
    return result


def test_swapped_blocks_take_their_time_there_and_back():
    found = run([10, 10], 4, kv_blocks=24, preemption="swap", swap_block_s=0.5)
    # 20, 2, 2, then 12 blocks go and one decodes, then 12 blocks come back and the other does
    assert found.last_token_s.tolist() == [24 + 6 + 1, 24 + 6 + 1 + 6 + 1]
    assert found.counters["preemptions"] == 1 and found.counters["prompt_tokens_computed"] == 20


def test_nobody_is_preempted_in_an_iteration_that_it_takes_part_in():
    # the second one is more urgent: its chunk of 3 beside a decode at 2 s; its rest finds one
    # block, and waits until at 8 s the first one has none either, goes, and later computes 2 + 4
    # tokens again in chunks of 4 and 2
    found = run(
        [2, 6], [5, 1], arrival_s=[0, 1], priority=np.array([1, 0]), kv_blocks=8, token_budget=4
    )
    assert found.first_token_s.tolist() == [2.0, 11.0]
    assert found.last_token_s.tolist() == [17.0, 11.0]
    assert found.counters["preemptions"] == 1


def test_spare_blocks_are_kept_from_those_who_join():
    spared, full = (run([5, 10], 2, kv_blocks=20, watermark_ratio=ratio) for ratio in (0.3, 0.0))
    assert spared.first_token_s.tolist() == [
        5.0,
        16.0,
    ]  # 15 - 10 blocks are fewer than 6 while somebody runs
    assert full.first_token_s.tolist() == [15.0, 15.0]


@example(priority=[0, 2, 1, 3])
@given(priority=st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_who_waits_is_served_by_priority_and_then_by_arrival(priority):
    found = run([2] * len(priority), 1, priority=np.array(priority), kv_blocks=100, max_requests=1)
    served = np.argsort(found.scheduled_s).tolist()
    assert served == sorted(range(len(priority)), key=lambda r: (priority[r], r))


@pytest.mark.parametrize("block_tokens", [1, 2, 4])
def test_no_more_is_in_the_cache_than_it_holds(block_tokens):
    """Requests that take turns in a cache of 12 tokens, each of its last block to be filled or
    not."""
    for prompt in range(1, 9):
        found = run([prompt] * 3, 5, kv_blocks=12 // block_tokens, block_tokens=block_tokens)
        held = -(-(prompt + 4) // block_tokens)  # the last token is emitted and never written
        assert found.counters["preemptions"] == 0 or 3 * held > 12 // block_tokens
        if 2 * held > 12 // block_tokens:
            ends = np.sort(found.last_token_s)
            assert ends[0] < ends[1] < ends[2]
