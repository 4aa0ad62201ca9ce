"""Our statement of llama.cpp's n-gram drafter is the engine's: by its rule written out, and on text
that it decoded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.prompt_set import read_prompts
from real_runs.servers.llama_cpp.launch import launched
from real_runs.servers.llama_cpp.ngram_simple import ngram_simple_lengths
from tests.real_runs.servers.llama_cpp.asked import chat_ids, greedy

texts = st.lists(st.integers(0, 3), max_size=40)
sizes = st.integers(1, 6)


def stated(tokens, sampled, size_n, size_m):
    """The rule as the engine's source has it: every start is tried, the latest first, and never the
    first token."""
    if len(tokens) <= size_n + size_m + 1:
        return []
    pattern = [*tokens[len(tokens) - size_n + 1 :], sampled]
    for start in range(len(tokens) - size_n - 1, 0, -1):
        if tokens[start : start + size_n] == pattern:
            follow = tokens[start + size_n :][:size_m]
            return follow if len(follow) >= size_n else []
    return []


@given(prompt=texts, output=texts, size_n=sizes, size_m=sizes, spare=st.none() | st.integers(0, 8))
def test_the_index_proposes_what_the_rule_states(prompt, output, size_n, size_m, spare):
    most = None if spare is None else len(output) + spare
    found = ngram_simple_lengths(prompt, output, size_n=size_n, size_m=size_m, most_tokens=most)
    text = prompt + output
    for position in range(len(output)):
        known = len(prompt) + position
        draft = stated(text[: known - 1], text[known - 1], size_n, size_m) if position else []
        if most is not None:
            draft = draft[: most - position - 1]
        run = 0
        while run < len(draft) and known + run < len(text) and draft[run] == text[known + run]:
            run += 1
        assert found.drafted[position] == len(draft)
        assert found.emitted[position] == min(run + 1, len(output) - position)


@given(text=texts, size_n=st.integers(2, 6))
def test_a_draft_shorter_than_what_is_looked_up_is_none(text, size_n):
    found = ngram_simple_lengths(text, text, size_n=size_n, size_m=size_n - 1)
    assert not found.drafted.any() and (found.emitted == 1).all()


def test_a_size_below_one_is_refused():
    with pytest.raises(InputError, match="size_m: must be at least 1, got 0"):
        ngram_simple_lengths([], [], size_n=1, size_m=0)


def walked(lengths):
    """Tokens drafted and kept by steps from the second token on."""
    position, drafted, kept = 1, 0, 0
    while position < len(lengths.emitted):
        drafted += int(lengths.drafted[position])
        kept += int(lengths.emitted[position]) - 1
        position += int(lengths.emitted[position])
    return drafted, kept


@pytest.mark.model
@pytest.mark.parametrize(
    ("size_n", "size_m"), [(1, 16), pytest.param(3, 8, marks=pytest.mark.slow)]
)
def test_the_engine_drafts_and_keeps_what_is_computed_from_its_text(
    few_layers, tmp_path, size_n, size_m
):
    sizes = ["--spec-ngram-simple-size-n", str(size_n), "--spec-ngram-simple-size-m", str(size_m)]
    plain = ["--model", str(few_layers), "--ctx-size", "512", "--parallel", "1"]
    counted, computed = np.zeros(2, int), np.zeros(2, int)
    with launched([*plain, "--spec-type", "ngram-simple", *sizes], folder=tmp_path) as running:
        for prompt in read_prompts(None).first_of_each_kind(1).prompts[:2]:
            ids = chat_ids(running, prompt.text)
            answer = greedy(running, ids, 40, ignore_eos=True)
            lengths = ngram_simple_lengths(
                ids, answer["tokens"], size_n=size_n, size_m=size_m, most_tokens=40, context=512
            )
            counted += [answer["timings"].get(name, 0) for name in ("draft_n", "draft_n_accepted")]
            computed += walked(lengths)
    assert counted[1] > 0 and (counted == computed).all()
