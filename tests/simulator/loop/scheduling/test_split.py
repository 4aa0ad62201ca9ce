"""Passes of an iteration that is longer than one may be, against the engine's own token by token;
schedules by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from simulator.engine import simulate
from simulator.loop.compiled import laid_out
from simulator.loop.entries import line_up, next_pass
from simulator.loop.fleet import buffers_of, new_fleet
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import DECODING, PREFILLING, Workload
from simulator.loop.state import new_limits, new_prefixes, new_requests
from tests.simulator.plain_passes import equal_passes, simple_passes
from traces.kinds.acceptance import AcceptanceTrace

SLOTS = {
    "numbered_slots": True,
    "reserve_ratio": 1.0,
    "block_tokens": 1,
    "kv_blocks": 1 << 20,
    "token_budget": 2048,
}


def one_a_pass(decode_requests, query_tokens, decode_context_tokens, prefill, longest_context=0.0):
    """Every pass takes a second, whatever it holds."""
    return 1.0


def run(arrivals, prompts, outputs, timer=one_a_pass, speculation=None, seed=1, **changes):
    workload = Workload(
        arrival_s=np.array(arrivals, dtype=float),
        prompt_tokens=np.array(prompts),
        output_tokens=np.array(outputs),
    )
    options = SchedulerOptions(
        **({"max_requests": 4, "pass_tokens": 512, "equal_passes": True} | SLOTS | changes)
    )
    scenario = Scenario(
        workload=workload, scheduler=options, timer=timer, speculation=speculation, seed=seed
    )
    found = simulate(scenario)
    assert found.finished.all()
    return found


def test_a_prompt_of_several_passes_keeps_decoding_waiting():
    # 512 tokens; then slot 2 (decoding) has no neighbour after it, and 1 token of it goes before
    # 1023 = 512 + 511
    found = run([0.0, 0.5], [512, 1024], [3, 1], max_requests=2)
    assert found.first_token_s.tolist() == [1.0, 4.0]
    assert found.last_token_s.tolist() == [5.0, 4.0]


def test_a_budget_is_shared_in_the_order_of_slots():
    # the first request takes the last slot, so that the second one's prompt comes first: 2048 =
    # 1900 + 148
    found = run([0.0, 0.0], [300, 1900], [1, 1], max_requests=2)
    assert found.first_token_s[1] < found.first_token_s[0]


def test_requests_wait_for_a_free_slot_in_order_of_arrival():
    found = run([0.0, 0.0, 0.0], [8, 8, 8], [4, 2, 2], max_requests=2)
    # both prompts in one pass, both second tokens in the next; the third takes slot 0, which stands
    # behind slot 1 in the batch, so that its prompt is a pass of its own
    assert found.scheduled_s.tolist() == [0.0, 0.0, 2.0]
    assert found.last_token_s.tolist() == [5.0, 2.0, 5.0]


def test_of_several_that_waited_the_last_takes_the_slot_that_was_left_first():
    # two prompts end together and leave slots 0 and 1, in that order; the fourth request takes slot
    # 0, so that of a budget of 6 tokens its prompt takes 2 and the third one's 4
    held = []

    def timer(decode_requests, query_tokens, decode_context_tokens, prefill, longest_context=0.0):
        held.append(list(prefill))
        return 1.0

    found = run([0.0] * 4, [2, 2, 5, 2], [1] * 4, timer, max_requests=2, token_budget=6)
    assert held == [[(2, 0), (2, 0)], [(2, 0), (2, 0)], [(2, 2)], [(1, 4)]]
    assert found.last_token_s.tolist() == [1.0, 1.0, 4.0, 3.0]


def test_a_slot_between_two_that_decode_makes_two_passes():
    # slots 3, 2, 1; the second request (slot 2) ends first, and what decodes is slots 1 and 3
    found = run([0.0, 0.0, 0.0], [4, 4, 4], [6, 2, 6])
    assert found.last_token_s.tolist() == [10.0, 2.0, 10.0]  # 1 + 1 + 4 x 2 passes
    one = run([0.0, 0.0, 0.0], [4, 4, 4], [6, 2, 6], equal_passes=False)
    assert one.last_token_s.tolist() == [6.0, 2.0, 6.0]


def test_drafts_of_unequal_lengths_make_several_passes():
    # both walk along two places where 1 and 3 tokens are drafted, all rejected, and start at
    # different ones
    lengths = np.array([1, 3], dtype=np.int16)
    trace = AcceptanceTrace(
        offsets=np.array([0, 2]), emitted=np.ones(2, dtype=np.int16), drafted=lengths
    )
    plan = SpeculationOptions(topology=3, trace=trace)
    rows = []

    def timer(decode_requests, query_tokens, decode_context_tokens, prefill, longest_context=0.0):
        rows.append((decode_requests, query_tokens))
        return 1.0

    found = run([0.0, 0.0], [4, 4], [9, 9], timer, plan)
    assert rows[1:] == 8 * [
        (2, 2.0),
        (1, 2.0),
    ]  # a token and a draft of both, then what is left of the longer draft
    assert found.clock_s == 17.0
    assert run([0.0, 0.0], [4, 4], [9, 9], speculation=plan, equal_passes=False).clock_s == 9.0


def test_nobody_drafts_beyond_the_end_of_its_output():
    trace = AcceptanceTrace(
        offsets=np.array([0, 40]), emitted=np.full(40, 9, dtype=np.int16), first_step_position=0
    )
    plan = SpeculationOptions(topology=8, trace=trace)
    beyond, within = (
        run([0.0], [4], [5], speculation=plan, drafts_within_output=inside).counters
        for inside in (False, True)
    )
    assert (
        beyond["drafted"] == 8 and within["drafted"] == 3
    )  # four tokens are left after the prompt's own
    assert beyond["emitted"] == within["emitted"] == 4


def test_passes_are_timed_with_what_they_hold():
    asked = []

    def timer(decode_requests, query_tokens, decode_context_tokens, prefill, longest_context=0.0):
        asked.append((decode_requests, query_tokens, decode_context_tokens, list(prefill)))
        return 1.0

    run([0.0, 0.5], [100, 700], [3, 1], max_requests=2, timer=timer)
    assert asked[0] == (0, 0.0, 0.0, [(100, 0)])
    # the decoding request holds slot 1, and slot 0's prompt is no neighbour behind it
    assert asked[1:4] == [
        (1, 1.0, 100.0, []),
        (0, 0.0, 0.0, [(512, 0)]),
        (0, 0.0, 0.0, [(188, 512)]),
    ]


@pytest.mark.parametrize("machine", [False, True])
@given(data=st.data())
def test_passes_are_those_of_the_engine_token_by_token(machine, data):
    slots = data.draw(st.integers(1, 6))
    held = data.draw(
        st.lists(st.integers(0, slots - 1), min_size=1, max_size=slots, unique=True).map(sorted)
    )
    decodes = [data.draw(st.booleans()) for _ in held]
    rows = [data.draw(st.integers(1, 6 if decode else 40)) for decode in decodes]
    most, equal = data.draw(st.integers(1, 24)), data.draw(st.booleans())
    batch = [
        slot
        for prompt in (False, True)
        for slot, decode, count in zip(held, decodes, rows, strict=True)
        for _ in range(count)
        if decode != prompt
    ]
    wanted = equal_passes(batch, most) if equal else simple_passes(batch, most)
    assert found_passes(held, decodes, rows, most, equal, machine) == [
        {slot: each.count(slot) for slot in each} for each in wanted
    ]


def found_passes(held, decodes, rows, most, equal, machine):
    """Rows of every pass by slot."""
    count = len(held)
    workload = Workload(
        arrival_s=np.zeros(count), prompt_tokens=np.full(count, 50), output_tokens=np.full(count, 9)
    )
    options = SchedulerOptions(**SLOTS, max_requests=8, pass_tokens=most, equal_passes=equal)
    limits = new_limits(workload, options, lag=1, lookahead=0)
    requests = new_requests(workload, options)
    fleet = new_fleet(limits, new_prefixes(workload, options), 1, count)
    replica, buffers = fleet.replicas[0], buffers_of(fleet, 0)
    requests["quota"], requests["slot"] = rows, held
    requests["phase"] = [DECODING if decode else PREFILLING for decode in decodes]
    buffers.running[:count] = range(count)
    replica.running = count
    line, take = (line_up, next_pass) if machine else (line_up.py_func, next_pass.py_func)
    limits, _ = laid_out(limits)
    lined = line(replica, buffers.running, buffers.seats, requests)
    left, passes = sum(rows), []
    while left:
        left -= take(buffers, requests, limits, lined)[5]
        taken = buffers.seats[["order", "rows_now"]][:count].tolist()
        passes.append({held[r]: now for r, now in taken if now})
    return passes


def test_slots_need_room_for_all_of_their_request():
    with pytest.raises(InputError, match="reserve_ratio"):
        SchedulerOptions(kv_blocks=4, numbered_slots=True)
    with pytest.raises(InputError, match="equal_passes"):
        SchedulerOptions(kv_blocks=4, equal_passes=True)
