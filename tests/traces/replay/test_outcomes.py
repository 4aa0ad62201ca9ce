"""Drafts for outcomes of a verification, replayed: against a walk in other words, and how they grow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from tests.property_examples import examples
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.outcomes import foreseen_tokens, replay_outcomes
from traces.replay.walk import replay_chain

WIDTH = 6


def recording(ranks):
    """Texts whose tokens stand at these places among the candidates, -1 behind them all."""
    emitted, offsets = [], [0]
    for text in ranks:
        for at in range(len(text)):
            run = 0
            while at + run < len(text) and text[at + run] == 0:
                run += 1
            emitted.append(min(run + 1, len(text) - at))
        offsets.append(offsets[-1] + len(text))
    return AcceptanceTrace(
        offsets=np.array(offsets),
        emitted=np.array(emitted),
        rank=np.concatenate([np.array(text) for text in ranks]),
        rank_width=WIDTH,
        depth_invariant=True,
    )


RANKS = st.lists(
    st.lists(st.sampled_from([0, 0, 0, 0, 1, 2, 3, 5, -1]), min_size=1, max_size=30),
    min_size=1,
    max_size=4,
)


def walked(text, k, fan_out, waits):
    """Steps, draft tokens and ready steps of one text, outcome by outcome."""
    at, foreseen, counts = 0, False, [0, 0, 0]
    while at < len(text):
        drafts = k if foreseen or waits else 0
        counts = [counts[0] + 1, counts[1] + drafts, counts[2] + foreseen]
        accepted = 0
        while accepted < drafts and at + accepted < len(text) - 1 and text[at + accepted] == 0:
            accepted += 1
        decided = at + accepted
        guesses = set(range(fan_out)) if accepted == drafts else set(range(1, fan_out + 1))
        foreseen = decided < len(text) - 1 and text[decided] in guesses
        at = decided + 1
    return counts


@settings(max_examples=examples(60))
@given(ranks=RANKS, k=st.integers(1, 5), fan_out=st.integers(1, WIDTH - 1), waits=st.booleans())
def test_outcomes_are_those_of_a_walk_in_other_words(ranks, k, fan_out, waits):
    found = replay_outcomes(recording(ranks), k, fan_out, waits=waits)
    told = np.array([walked(text, k, fan_out, waits) for text in ranks])
    assert found.replay.steps.tolist() == told[:, 0].tolist()
    assert found.replay.drafted_tokens.tolist() == told[:, 1].tolist()
    assert found.ready_steps.tolist() == told[:, 2].tolist()
    assert 0.0 <= found.foreseen_ratio <= 1.0


@settings(max_examples=examples(40))
@given(ranks=RANKS, k=st.integers(1, 5))
def test_waiting_steps_are_those_of_chains_and_a_wider_fan_has_more_ready(ranks, k):
    trace = recording(ranks)
    waiting = [replay_outcomes(trace, k, fan_out, waits=True) for fan_out in range(1, WIDTH)]
    chain = replay_chain(trace, k)
    for found in waiting:
        assert found.replay.steps.tolist() == chain.steps.tolist()
    ready = [found.ready_steps.sum() for found in waiting]
    assert ready == sorted(ready)


def test_a_drafted_token_is_no_guess_in_its_own_place():
    behind, instead = foreseen_tokens(recording([[0, 1, 2, -1]]), 2)
    assert behind.tolist() == [True, True, False, False]
    assert instead.tolist() == [False, True, True, False]


@pytest.mark.parametrize("fan_out", [0, WIDTH])
def test_more_guesses_than_were_recorded_are_refused(fan_out):
    with pytest.raises(InputError, match="fan_out"):
        replay_outcomes(recording([[0, 1]]), 2, fan_out, waits=True)
