import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError, UnknownNameError


def test_a_schedule_keeps_its_last_k_over_gaps_and_past_its_end(build):
    choice = build(schedule=((1, 4, 5), (10, 20, 2), (21, 30, 2)))
    assert choice.steps == ((1, 5), (10, 2))
    assert [choice.draft_tokens_at(batch) for batch in (1, 4, 9, 10, 30, 400)] == [5, 5, 5, 2, 2, 2]
    assert choice.largest_batch == 30


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 7)), min_size=1, max_size=6))
def test_steps_say_what_the_ranges_say(build, pieces):
    schedule, start = [], 1
    for length, tokens in pieces:
        schedule.append((start, start + length - 1, tokens))
        start += length
    choice = build("ngram", schedule=tuple(schedule))
    for low, high, tokens in schedule:
        assert {choice.draft_tokens_at(batch) for batch in range(low, high + 1)} == {tokens}
    assert choice.varies == (len({tokens for _, _, tokens in schedule}) > 1)


def test_lists_as_read_from_json_serve_as_ranges(build):
    assert build(schedule=[[1, 8, 5], [9, 64, 1]]).schedule == ((1, 8, 5), (9, 64, 1))


def test_without_a_schedule_k_is_the_same_everywhere(build):
    choice = build(draft_tokens=3)
    assert (choice.draft_tokens_at(1), choice.draft_tokens_at(999)) == (3, 3)
    assert (choice.varies, choice.largest_batch) == (False, None)


def test_a_tree_that_is_a_chain_counts_as_one(build, tree_of, binary_tree):
    assert build(tree=tree_of([(0,), (0, 0)])).tree_paths is None
    assert len(build(tree=binary_tree).tree_paths) == 6


def test_nothing_drafted_is_no_speculation(build):
    assert not build("eagle3", draft_tokens=0).speculates
    assert not build("plain").speculates


def test_a_choice_cannot_be_changed(build):
    with pytest.raises(dataclasses.FrozenInstanceError):
        build().draft_tokens = 4


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"draft_tokens": -1}, "draft_tokens"),
        ({"draft_tokens": True}, "draft_tokens"),
        ({"draft_tokens": 2.0}, "draft_tokens"),
        ({"context": 0}, "context"),
        ({"tensor_parallel": 0}, "tensor_parallel"),
        ({"max_batch": 0}, "max_batch"),
        ({"ngram_min": 4, "ngram_max": 3}, "ngram_min"),
        ({"confidence_threshold": 1.5}, "confidence_threshold"),
        ({"confidence_threshold": float("nan")}, "confidence_threshold"),
        ({"model": ""}, "model"),
        ({"model": "--trust-remote-code"}, "model"),
        ({"model": "a\nb"}, "model"),
        ({"draft_model": "a\x00b"}, "draft_model"),
        ({"draft_model": None}, "draft_model"),
        ({"method": "early_exit", "exit_layers": None}, "exit_layers"),
        ({"method": "plain", "draft_tokens": 3}, "draft_tokens"),
        ({"topology": "off"}, "topology"),
        ({"topology": "tree"}, "tree"),
        ({"schedule": ((2, 4, 5),)}, "schedule"),
        ({"schedule": ((1, 4, 5), (4, 9, 1))}, "schedule"),
        ({"schedule": ((1, 4, 5), (9, 8, 1))}, "schedule"),
        ({"schedule": ((1, 4, 5), (9, 10, -1))}, "schedule"),
        ({"schedule": ((1, 4),), "draft_tokens": 5}, "schedule"),
        ({"schedule": (7,), "draft_tokens": 5}, "schedule"),
        ({"schedule": ("158",), "draft_tokens": 5}, "schedule"),
        ({"schedule": ((1, 4, 5.0),), "draft_tokens": 5}, "schedule"),
        ({"schedule": ((1, 4, 3),), "draft_tokens": 5}, "draft_tokens"),
        ({"acceptance_by_depth": (0.5, 0.6)}, "acceptance_by_depth"),
        ({"acceptance_by_depth": (1.1,)}, "acceptance_by_depth"),
        ({"acceptance_by_depth": (float("nan"),)}, "acceptance_by_depth"),
    ],
)
def test_contradictions_are_refused_by_key(build, changes, key):
    with pytest.raises(InputError) as caught:
        build(**changes)
    assert caught.value.key == key


def test_the_size_of_a_tree_and_draft_tokens_must_agree(build, binary_tree):
    choice = build(tree=binary_tree)
    with pytest.raises(InputError, match="6"):
        dataclasses.replace(choice, draft_tokens=7)
    with pytest.raises(InputError, match="schedule"):
        dataclasses.replace(choice, schedule=((1, 8, 6),))


def test_unknown_names_offer_the_nearest(build):
    with pytest.raises(UnknownNameError, match="eagle3"):
        build("eagle")
    with pytest.raises(UnknownNameError, match="chain"):
        build(topology="chan")
