"""Every token of a step is in one pass, and passes hold equally many tokens of consecutive
slots."""

from hypothesis import given
from hypothesis import strategies as st

from real_runs.validation.servers.batches import split_equally


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8))
def test_passes_hold_every_token_once_in_runs_of_slots(query_tokens):
    parts = split_equally(query_tokens)
    for slot, tokens in enumerate(query_tokens):
        own = [part for part in parts if slot in part.slots]
        assert sum(part.query_tokens for part in own) == tokens
        taken = 0
        for part in own:  # what a slot computed before a pass is at most what the pass says
            assert part.before >= taken
            taken += part.query_tokens
    for part in parts:
        assert part.query_tokens > 0
        assert list(part.slots) == list(range(part.slots[0], part.slots[-1] + 1))


@given(st.integers(1, 8), st.integers(1, 17))
def test_slots_that_have_equally_many_tokens_share_one_pass(slots, tokens):
    (part,) = split_equally([tokens] * slots)
    assert part.slots == tuple(range(slots)) and part.query_tokens == tokens and part.before == 0


def test_idle_slots_and_lone_drafts_cut_passes():
    def shapes(query_tokens):
        return [
            (part.slots, part.query_tokens, part.before) for part in split_equally(query_tokens)
        ]

    assert shapes([1, 0, 1]) == [((0,), 1, 0), ((2,), 1, 0)]
    assert shapes([9, 1, 9, 1]) == [((0, 1, 2, 3), 1, 0), ((0,), 8, 1), ((2,), 8, 1)]
    assert shapes([1, 5, 5]) == [((0, 1, 2), 1, 0), ((1, 2), 4, 1)]
    assert shapes([0, 0]) == []
