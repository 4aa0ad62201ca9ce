"""The suffix automaton against a naive search, and its drafts against a real loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import speculate
from real_runs.drafters.prompt_lookup import PromptLookup
from real_runs.drafters.suffix_automaton import SuffixAutomaton, suffix_lengths
from tests.property_examples import examples
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.walk import replay_chain, step_starts

letters = st.integers(0, 2)
free = st.lists(letters, max_size=40)
repetitive = st.builds(
    lambda parts: [token for span, times in parts for token in span * times],
    st.lists(st.tuples(st.lists(letters, min_size=1, max_size=5), st.integers(1, 5)), max_size=5),
)
texts = st.one_of(free, repetitive)


def naive_match(known):
    """Length of the longest suffix that ended before, and its last end before; (0, None) where none
    did."""
    n = len(known)
    for length in range(n - 1, 0, -1):
        for end in range(n - 2, length - 2, -1):
            if known[end - length + 1 : end + 1] == known[n - length :]:
                return length, end
    return 0, None


@settings(max_examples=examples(300))
@given(texts)
def test_longest_match_and_its_latest_place_equal_the_naive_search(text):
    automaton = SuffixAutomaton(least_match=1)
    for count, token in enumerate(text, start=1):
        automaton.extend([token])
        length, end = naive_match(text[:count])
        assert automaton.matched == length
        assert automaton.propose(100) == ([] if end is None else text[end + 1 : count])


@given(texts, texts, st.integers(1, 4), st.integers(1, 6))
def test_lengths_equal_the_naive_search(prompt, output, least, most):
    made = suffix_lengths(prompt, output, least_match=least, most=most)
    for position in range(len(output)):
        known = prompt + output[:position]
        length, end = naive_match(known)
        drafts = known[end + 1 : end + 1 + most] if length >= least else []
        left = output[position:]
        run = 0
        while run < min(len(drafts), len(left)) and drafts[run] == left[run]:
            run += 1
        assert made.drafted[position] == len(drafts)
        assert made.emitted[position] == min(run + 1, len(left))


@given(texts, st.lists(st.integers(1, 7), max_size=10))
def test_text_may_come_in_pieces_of_any_size(text, sizes):
    whole, pieces = SuffixAutomaton(), SuffixAutomaton()
    whole.extend(text)
    start = 0
    for size in [*sizes, len(text)]:
        pieces(text[: start + size], None, 3)
        start += size
    assert pieces.propose(50) == whole.propose(50)
    assert pieces.matched == whole.matched


@given(texts, st.integers(1, 10), st.integers(1, 10))
def test_a_shorter_limit_cuts_the_same_proposal(known, few, more):
    automaton = SuffixAutomaton()
    automaton.extend(known)
    longest = automaton.propose(max(few, more))
    assert automaton.propose(min(few, more)) == longest[: min(few, more)]


def test_the_longest_suffix_wins_over_a_more_recent_shorter_one():
    automaton = SuffixAutomaton()
    automaton.extend([1, 2, 3, 4, 70, 3, 4, 80, 9, 1, 2, 3, 4])
    assert (automaton.matched, automaton.propose(2)) == (4, [70, 3])


def test_the_most_recent_of_equal_matches_wins():
    automaton = SuffixAutomaton()
    automaton.extend([3, 4, 70, 3, 4, 80, 9, 3, 4])
    assert (automaton.matched, automaton.propose(1)) == (2, [80])


def test_matches_that_are_too_short_propose_nothing():
    text = [1, 2, 3, 1, 2]
    for least, wanted in ((2, [3, 1, 2]), (3, [])):
        automaton = SuffixAutomaton(least_match=least)
        automaton.extend(text)
        assert automaton.propose(9) == wanted


@given(st.lists(letters, max_size=60))
def test_a_match_is_at_least_as_long_as_the_ngram_of_prompt_lookup(text):
    """Where an n-gram of three occurred before, the suffix match is no shorter, and never proposes
    less often."""
    lookup, automaton = PromptLookup((3,)), SuffixAutomaton(least_match=3)
    lookup.extend(text)
    automaton.extend(text)
    assert bool(lookup.propose(1)) == bool(automaton.propose(1)) == (automaton.matched >= 3)


@pytest.mark.parametrize("least", [0, -1])
def test_least_matches_below_one_are_refused(least):
    with pytest.raises(InputError, match="least_match"):
        SuffixAutomaton(least_match=least)


def states_visited(text):
    """States whose place was written while the text was read: what the search costs beyond the
    automaton."""
    automaton = SuffixAutomaton()
    written = 0

    class Counted(list):
        def __setitem__(self, index, value):
            nonlocal written
            written += 1
            super().__setitem__(index, value)

    automaton._recent = Counted(automaton._recent)
    automaton.extend(text)
    return written, len(automaton._link)


def test_states_stay_below_twice_the_text():
    for text in ([0, 1] + [1, 0, 1] * 300, np.random.default_rng(0).integers(0, 3, 1000).tolist()):
        assert states_visited(text)[1] <= 2 * len(text)


def test_a_loop_costs_nothing_and_a_random_text_a_logarithm():
    assert states_visited([7] * 5000)[0] == 1
    random = np.random.default_rng(1).integers(0, 50, 5000).tolist()
    assert states_visited(random)[0] < 5000 * 4
    spans = [token for _ in range(70) for token in [7] * 70 + [8]]
    assert states_visited(spans)[0] < 5000 * 4


@settings(max_examples=examples(8))
@given(
    st.lists(st.integers(1, 96), min_size=1, max_size=15),
    st.sampled_from([0.0, 0.7]),
    st.integers(1, 8),
)
def test_real_loop_takes_the_steps_that_the_lengths_replay(
    tiny_model, prompt, temperature, draft_tokens
):
    sampler = Sampler(temperature=temperature, seed=2, request="r", positions=50)
    made = generate(tiny_model, prompt, sampler, max_new_tokens=50)
    run = speculate(
        tiny_model, prompt, SuffixAutomaton(), sampler, draft_tokens=draft_tokens, max_new_tokens=50
    )
    assert run.tokens == made.tokens
    lengths = suffix_lengths(prompt, made.tokens)
    trace = AcceptanceTrace(
        offsets=np.array([0, len(made.tokens)]),
        first_step_position=1,
        emitted=lengths.emitted,
        drafted=lengths.drafted,
    )
    starts = np.append(step_starts(trace, draft_tokens), len(made.tokens))
    assert np.diff(starts).tolist() == list(run.emitted)
    replay = replay_chain(trace, draft_tokens)
    assert replay.drafted_tokens.tolist() == [sum(run.drafted)]
    assert replay.proposed_steps.tolist() == [sum(count > 0 for count in run.drafted)]
