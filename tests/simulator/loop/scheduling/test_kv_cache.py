"""What a cache of few blocks holds, shares and forgets: schedules worked out by hand."""

from tests.simulator.loop.scheduling.test_scheduler import run


def test_a_partly_filled_block_needs_a_whole_one():
    # 4 + 4 tokens fill two blocks; the next ones need one each, and there is one: the second goes
    # and computes 5 again
    found = run([4, 4], 2, kv_blocks=3, block_tokens=4)
    assert found.last_token_s.tolist() == [9.0, 14.0]
    assert found.counters["preemptions"] == 1


def test_a_chunk_of_several_blocks_needs_its_last_one_whole():
    # 4 + 3, then 1 + 6 tokens: the second request holds 9 tokens in 5 blocks, the first 5 in 3, and
    # there are 8; the second one's last 2 tokens find none, so that it goes and computes 11 again
    # in chunks of 7 and 4
    found = run([4, 11], [3, 1], kv_blocks=8, block_tokens=2, token_budget=7)
    assert found.last_token_s.tolist() == [15.0, 26.0]
    assert found.counters["preemptions"] == 1


def test_shared_blocks_that_somebody_holds_are_nobody_s_room():
    # the second wakes 4 blocks that the first left and takes 6 more in the end; the third needs 6
    # of 10 and waits
    shared = (0, 1, 2, 3)
    found = run(
        [5, 5, 6], [1, 6, 1], arrival_s=[0, 10, 10.5], prefix_ids=(shared, shared, ()), kv_blocks=10
    )
    assert found.counters["prefix_hit_tokens"] == 4
    assert found.last_token_s.tolist() == [5.0, 16.0, 22.0]


def test_of_a_shared_prompt_the_end_is_forgotten_first():
    # 8 blocks are left idle; the second one's prompt takes the place of 5 of them, and the first 3
    # are still a prefix
    shared = tuple(range(8))
    found = run([9, 7, 9], 1, arrival_s=[0, 20, 40], prefix_ids=(shared, (), shared), kv_blocks=10)
    assert found.counters["prefix_hit_tokens"] == 3
    assert found.last_token_s.tolist() == [9.0, 27.0, 46.0]
