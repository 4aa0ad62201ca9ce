"""Jacobi decoding: lossless runs, windows that keep their places, and finished texts that tell
their steps."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.drafters.jacobi import JacobiWindow, jacobi_lengths, speculate_jacobi
from tests.property_examples import examples


@settings(max_examples=examples(12))
@given(
    st.lists(st.integers(1, 96), min_size=1, max_size=10),
    st.sampled_from([0.0, 0.7]),
    st.sampled_from([1, 3, 8]),
    st.integers(1, 40),
)
def test_runs_are_the_plain_text_and_a_finished_text_tells_their_steps(
    tiny_model, prompt, temperature, columns, length
):
    sampler = Sampler(temperature=temperature, seed=2, request="r", positions=length)
    run = speculate_jacobi(tiny_model, prompt, sampler, max_new_tokens=length, columns=columns)
    plain = generate(tiny_model, prompt, sampler, max_new_tokens=length)
    assert (run.tokens, run.ended) == (plain.tokens, plain.ended)
    lengths = jacobi_lengths(tiny_model, prompt, plain.tokens, columns)
    position = 1
    for drafted, emitted in zip(run.drafted, run.emitted, strict=True):
        assert (lengths.drafted[position], lengths.emitted[position]) == (drafted, emitted)
        assert 1 <= emitted <= columns + 1
        position += emitted
    assert position == len(plain.tokens)


def test_a_fixed_point_is_reached_column_by_column(tiny_model):
    """Plain Jacobi iteration by hand: the guesses behind the text, computed anew from scratch in
    every pass."""
    prompt, columns, length = [7, 5, 9], 4, 24
    sampler = Sampler(temperature=0, seed=0, request="", positions=length)
    run = speculate_jacobi(tiny_model, prompt, sampler, max_new_tokens=length, columns=columns)

    def answers(ids):
        return (
            tiny_model.forward(ids, tiny_model.new_cache(len(ids)))
            .logits[0]
            .argmax(dim=-1)
            .tolist()
        )

    text, steps = [*prompt, answers(prompt)[-1]], []
    window = JacobiWindow(prompt, columns)
    while len(text) < len(prompt) + len(run.tokens):
        said = answers([*text, *window.guesses])[len(text) - 1 :]
        emitted = 1
        while emitted <= columns and window.guesses[emitted - 1] == said[emitted - 1]:
            emitted += 1
        text += said[:emitted]
        steps.append(emitted)
        window.advance(said[1:], emitted)
    assert text[len(prompt) :][: len(run.tokens)] == list(run.tokens)
    assert steps[:-1] == list(run.emitted[:-1])


def test_answers_keep_their_places_and_drawn_tokens_enter():
    window = JacobiWindow([50], 4)
    assert window.guesses == [50] * 4
    window.advance([1, 2, 3, 4], 1)
    assert window.guesses == [1, 2, 3, 4]
    window.advance([5, 6, 7, 8], 3)
    assert window.guesses == [7, 8, 50, 50]
    window.advance([1, 1, 1, 1], 5)
    assert window.guesses == [50] * 4
    for columns in (0, 65):
        with pytest.raises(InputError, match=r"1\.\.64"):
            JacobiWindow([1], columns)
