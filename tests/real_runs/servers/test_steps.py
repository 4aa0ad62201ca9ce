"""Steps of one answer: those that were taken, or none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from real_runs.servers.events import Mark
from real_runs.servers.steps import RequestSteps, UnclearStepsError, request_steps
from tests.real_runs.servers.speculating_server import Steps, drawn_steps, llama_cpp_marks

SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def answers(draw, share=(0.0, 0.4, 1.0), cut=True):
    """Steps of an answer; one that is not cut ends where a step does."""
    generator = np.random.default_rng(draw(SEEDS))
    steps = drawn_steps(draw(st.integers(1, 40)), generator, share=draw(st.sampled_from(share)))
    if cut or not steps.behind_end:
        return steps
    return Steps(drafted=steps.drafted, accepted=steps.accepted)


def marks_of(rows):
    return [Mark(tokens=tokens, drafted=d, accepted=a) for tokens, d, a in rows]


def event_marks(steps, sizes=()):
    """An event per step, or of as many steps as the sizes say in turn."""
    ends, at = np.cumsum([1, *steps.emitted]).tolist(), -1
    taken = []
    for size in (*sizes, *[1] * len(ends)):
        at = min(at + size, len(ends) - 1)
        taken.append(ends[at])
    return [Mark(tokens=tokens) for tokens in dict.fromkeys(taken)]


def own_counts(kind, steps, *, listed=False):
    if kind == "sglang":
        return {
            "spec_verify_ct": len(steps.emitted),
            "spec_num_correct_drafts": sum(steps.accepted),
            "spec_correct_drafts_histogram": steps.histogram,
        }
    counts = {
        "acceptance_histogram": steps.histogram,
        "num_spec_steps": steps.proposals,
        "num_draft_tokens": sum(steps.drafted),
        "num_accepted_draft_tokens": sum(steps.accepted),
    }
    if listed:
        both = [pair for pair in zip(steps.drafted, steps.accepted, strict=True) if pair[0]]
        counts["per_step_drafted"] = [drafted for drafted, _ in both]
        counts["per_step_accepted"] = [kept for _, kept in both]
    return counts


@given(data=st.data(), is_by_step=st.booleans())
def test_running_counts_tell_every_step(data, is_by_step):
    # servers that count by step count what stands behind the end, too
    steps = data.draw(answers(cut=not is_by_step))
    rows = llama_cpp_marks(steps, is_by_step=is_by_step)
    told = request_steps("llama.cpp", marks_of([*rows, rows[-1]]), None, rows[-1][0])
    assert told == RequestSteps(
        emitted=steps.emitted,
        drafted=steps.drafted,
        proposals=steps.proposals,
        draft_tokens=sum(steps.drafted),
        accepted_tokens=sum(steps.accepted),
        is_checked=True,
    )


@given(data=st.data(), held=st.sets(st.integers(0, 39)), is_by_step=st.booleans())
def test_tokens_without_an_event_hide_steps_and_invent_none(data, held, is_by_step):
    steps = data.draw(answers(cut=not is_by_step))
    rows = llama_cpp_marks(steps, is_by_step=is_by_step)
    sent = [row for at, row in enumerate(rows) if at not in held]
    try:
        told = request_steps("llama.cpp", marks_of([*sent, rows[-1]]), None, rows[-1][0])
    except UnclearStepsError:
        return
    assert told.emitted == steps.emitted
    # of steps that no event shows, only what was drafted in all is certain
    assert sum(told.drafted) == sum(steps.drafted)
    assert told.proposals in (None, steps.proposals)


def test_a_token_held_inside_a_step_hides_nothing():
    rows = llama_cpp_marks(Steps(drafted=(3, 0, 3), accepted=(2, 0, 1)))
    sent = [row for at, row in enumerate(rows) if at not in (2, 3)]
    told = request_steps("llama.cpp", marks_of([*sent, rows[-1]]), None, 7)
    assert told.emitted == (3, 1, 2)


def test_a_hidden_step_whose_full_draft_was_refused_is_told():
    rows = llama_cpp_marks(Steps(drafted=(3, 3, 3, 3), accepted=(1, 0, 0, 2)))
    told = request_steps("llama.cpp", marks_of([*rows[:3], *rows[4:], rows[-1]]), None, 8)
    assert (told.emitted, told.drafted) == ((2, 1, 1, 3), (3, 3, 3, 3))
    assert (told.proposals, told.draft_tokens) == (None, 12)


@pytest.mark.parametrize(
    ("rows", "tokens", "message"),
    [
        ([], 3, "do not say how many tokens"),
        ([(1, 0, 0), (2, 0, 0)], 3, "another number of tokens"),
        ([(1, 0, 0), (2, 1, 2), (3, 1, 2)], 3, "contradict the tokens that arrived"),
        ([(1, 0, 0), (2, 3, 2), (3, 4, 3), (4, 4, 3)], 4, "contradict the tokens that arrived"),
        ([(1, 0, 0), (4, 3, 1), (5, 3, 1)], 5, "inside a character"),
        ([(1, 0, 0), (2, 40000, 0)], 2, "a step has more than 32767 tokens"),
        ([(1, 0, 0), (2000000000, 0, 0)], 2000000000, "more than 1048576"),
        ([(0, 0, 0)], 0, "no token"),
    ],
)
def test_running_counts_that_tell_no_steps_are_refused(rows, tokens, message):
    with pytest.raises(UnclearStepsError, match=message):
        request_steps("llama.cpp", marks_of(rows), None, tokens)


@pytest.mark.parametrize(("kind", "share"), [("vllm", 0.4), ("vllm", 1.0), ("sglang", 1.0)])
@given(seed=SEEDS, tokens=st.integers(1, 40), listed=st.booleans())
def test_an_event_per_step_tells_every_step(kind, share, seed, tokens, listed):
    steps = drawn_steps(tokens, np.random.default_rng(seed), share=share)
    told = request_steps(kind, event_marks(steps), own_counts(kind, steps, listed=listed), tokens)
    assert (told.emitted, told.is_checked) == (steps.emitted, True)
    assert told.proposals == steps.proposals
    if kind == "vllm" and listed and share == 1.0:
        assert told.drafted == steps.drafted
    assert request_steps(kind, event_marks(steps), None, tokens).emitted == steps.emitted


@pytest.mark.parametrize(("kind", "share"), [("vllm", (0.4, 1.0)), ("sglang", (1.0,))])
@given(data=st.data(), sizes=st.lists(st.integers(1, 3), max_size=40), listed=st.booleans())
def test_gathered_events_are_refused_by_the_engines_counts(kind, share, data, sizes, listed):
    steps = data.draw(answers(share=share, cut=False))
    tokens = 1 + sum(steps.emitted)
    counts = own_counts(kind, steps, listed=listed)
    try:
        told = request_steps(kind, event_marks(steps, sizes), counts, tokens)
    except UnclearStepsError:
        return
    assert told.emitted == steps.emitted


@given(steps=answers(share=(1.0,)), sizes=st.lists(st.integers(1, 3), max_size=40))
def test_steps_that_the_engine_lists_stand_whatever_was_gathered(steps, sizes):
    counts = own_counts("vllm", steps, listed=True)
    tokens = 1 + sum(steps.emitted)
    if steps.emitted:
        told = request_steps("vllm", event_marks(steps, sizes), counts, tokens)
        assert (told.emitted, told.drafted) == (steps.emitted, steps.drafted)


@pytest.mark.parametrize(
    ("marks", "counts", "message"),
    [
        ([2, 3], None, "several steps"),
        ([1, 3, 2], None, "fall from one event to the next"),
        ([1, 3], {"num_spec_steps": 2, "acceptance_histogram": [1, 1]}, "other steps than"),
        ([1, 3], {"num_spec_steps": -1}, "counts are none"),
        ([1, 40000], None, "a step has more than 32767 tokens"),
    ],
)
def test_events_that_tell_no_steps_are_refused(marks, counts, message):
    with pytest.raises(UnclearStepsError, match=message):
        request_steps("vllm", [Mark(tokens=tokens) for tokens in marks], counts, marks[-1])
