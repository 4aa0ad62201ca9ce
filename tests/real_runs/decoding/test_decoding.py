"""Stopping, sampling, and speculative decoding against plain decoding and against replay."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import agreeing_run, speculate
from real_runs.decoding.stopping import LONGEST_SPAN, LOOP_TOKENS, StopRule, looped_tokens
from real_runs.decoding.tree import tree_mask, tree_positions
from real_runs.drafters.bridge_fit import fit_bridge
from real_runs.drafters.early_exit import EarlyExit
from real_runs.drafters.entries.early_exit import early_exit_drafter
from real_runs.drafters.entries.prompt_lookup import prompt_lookup_drafter
from real_runs.drafters.prompt_lookup import PromptLookup
from tests.property_examples import examples
from tests.real_runs.accepted_path import accepted_path
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree
from traces.replay.walk import replay_chain, replay_tree, step_starts


def first_stop(tokens, *, eos=(0,), limit=10_000):
    taken, ended = StopRule(eos, limit).take(tokens)
    return ended, len(taken)


def is_loop(tokens):
    """The definition, read off directly: some span stands three times at the end and fills enough
    tokens."""
    for span in range(1, LONGEST_SPAN + 1):
        size = max(3 * span, LOOP_TOKENS)
        if len(tokens) >= size:
            tail = tokens[-size:]
            if all(tail[i] == tail[i + span] for i in range(size - span)):
                return True
    return False


@given(
    st.lists(st.integers(1, 3), max_size=30),
    st.lists(st.integers(1, 5), min_size=1, max_size=20),
    st.integers(0, 60),
)
def test_loop_is_found_at_the_first_token_that_closes_it(start, span, extra):
    tokens = start + (span * 40)[: 3 * len(span) + extra]
    first = next((n for n in range(1, len(tokens) + 1) if is_loop(tokens[:n])), None)
    assert first_stop(tokens) == (("loop", first) if first else (None, len(tokens)))


def test_endings_and_their_order():
    assert first_stop([5, 6, 0, 7]) == ("eos", 3)
    assert first_stop(list(range(1, 50)), limit=7) == ("length", 7)
    assert first_stop([1, 2, 0], limit=3) == ("eos", 3)
    assert first_stop([9] * 50) == ("loop", LOOP_TOKENS)
    assert first_stop([4, 5] * 11) == (None, 22)
    assert first_stop(list(range(1, 66)) * 4) == (None, 260)  # a span longer than those looked for


def test_looped_tokens_leave_the_first_span_out():
    assert looped_tokens([8, 8, *list(range(10, 20)) * 3]) == 20
    assert looped_tokens([1, 2, *[7] * 30]) == 29
    assert looped_tokens(list(range(40))) == 0
    assert looped_tokens([*list(range(10, 20)) * 3, 5]) == 0
    assert looped_tokens([]) == 0


def test_samples_follow_the_softmax():
    logits = torch.tensor([2.0, 0.0, 1.0, -1.0])
    sampler = Sampler(temperature=0.8, seed=1, request="a", positions=20_000)
    drawn = np.bincount(sampler.tokens(logits.expand(20_000, 4), 0), minlength=4)
    expected = torch.softmax(logits / 0.8, 0).numpy() * 20_000
    assert (
        (drawn - expected) ** 2 / expected
    ).sum() < 16.3  # chi-squared, 3 degrees of freedom, p = .001


def test_draws_belong_to_seed_request_and_position():
    logits = torch.randn(12, 50, generator=torch.Generator().manual_seed(0))

    def drawn(seed, request):
        return Sampler(temperature=1.0, seed=seed, request=request, positions=12).tokens(logits, 0)

    assert drawn(0, "a") == drawn(0, "a")
    assert drawn(0, "a") != drawn(0, "b")
    assert drawn(0, "a") != drawn(1, "a")
    sampler = Sampler(temperature=1.0, seed=0, request="a", positions=12)
    one_by_one = [sampler.tokens(logits[i : i + 1], i)[0] for i in reversed(range(12))]
    assert one_by_one[::-1] == drawn(0, "a")


def test_greedy_takes_the_largest_and_negative_temperatures_are_refused():
    sampler = Sampler(temperature=0, seed=0, request="", positions=1)
    assert sampler.tokens(torch.tensor([[0.0, 3.0, 1.0], [2.0, -1.0, 0.0]]), 0) == [1, 0]
    with pytest.raises(InputError, match="temperature"):
        Sampler(temperature=-0.1, seed=0, request="", positions=1)


def test_plain_decoding_does_not_depend_on_what_ran_before(tiny_model):
    def run(request, prompt):
        sampler = Sampler(temperature=0.9, seed=4, request=request, positions=40)
        return generate(tiny_model, prompt, sampler, max_new_tokens=40).tokens

    forwards = [run("a", [3, 4, 5]), run("b", [6, 7])]
    assert forwards == [run("b", [6, 7]), run("a", [3, 4, 5])][::-1]


def test_captured_states_are_those_of_a_full_pass(tiny_model):
    prompt = [3, 4, 5]
    sampler = Sampler(temperature=0.9, seed=4, request="a", positions=20)
    made = generate(tiny_model, prompt, sampler, max_new_tokens=20, capture_layer=2)
    text = [*prompt, *made.tokens]
    full = tiny_model.forward(text, tiny_model.new_cache(len(text)), capture=(2,)).hidden[2][0]
    expected = full[len(prompt) - 1 : len(text) - 1]
    torch.testing.assert_close(made.hidden, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("prompt", [[], [1] * 8191, [97], [-1]])
def test_prompts_that_do_not_fit_are_refused(tiny_model, prompt):
    with pytest.raises(InputError, match="prompt"):
        generate(
            tiny_model,
            prompt,
            Sampler(temperature=0, seed=0, request="", positions=4),
            max_new_tokens=4,
        )


def test_agreeing_run_stops_at_the_first_difference():
    assert agreeing_run([1, 2, 3], [1, 2, 4, 5]) == 2
    assert agreeing_run([], [1]) == 0
    assert agreeing_run([7], [8, 7]) == 0


def recorded_trace(drafter, prompt, made):
    arrays = {name: np.asarray(values) for name, values in drafter.observe(prompt, made).items()}
    n = len(made.tokens)
    return AcceptanceTrace(
        offsets=np.array([0, n]), first_step_position=1, **arrays, **drafter.trace_fields
    )


def check_replay(model, bridge, prompt, *, temperature, draft_tokens, length):
    """Speculative text equals plain text, and its steps are those of the recorded trace; tokens per
    step."""
    sampler = Sampler(temperature=temperature, seed=2, request="r", positions=length)
    made = generate(model, prompt, sampler, max_new_tokens=length, capture_layer=bridge.exit_layer)
    pairs = (
        (prompt_lookup_drafter((3, 2, 1), 20), PromptLookup()),
        (early_exit_drafter(model, bridge, parameters={}), EarlyExit(model, bridge)),
    )
    rates = []
    for drafter, propose in pairs:
        run = speculate(
            model, prompt, propose, sampler, draft_tokens=draft_tokens, max_new_tokens=length
        )
        assert run.tokens == made.tokens
        assert run.ended == made.ended
        trace = recorded_trace(drafter, prompt, made)
        replay = replay_chain(trace, draft_tokens)
        starts = np.append(step_starts(trace, draft_tokens), len(made.tokens))
        assert np.diff(starts).tolist() == list(run.emitted)
        assert replay.steps.tolist() == [len(run.emitted)]
        assert replay.drafted_tokens.tolist() == [sum(run.drafted)]
        assert replay.proposed_steps.tolist() == [sum(count > 0 for count in run.drafted)]
        rates.append(replay.tokens_per_step if run.emitted else 1.0)
    return rates


@pytest.fixture(scope="module")
def tiny_bridge(tiny_model):
    generator = torch.Generator().manual_seed(8)
    sequences = torch.randint(0, 97, (30, 60), generator=generator).tolist()
    return fit_bridge(tiny_model, sequences, exit_layer=3, ridge=1e-3)


@settings(max_examples=examples(25))
@given(
    st.lists(st.integers(1, 96), min_size=1, max_size=20),
    st.sampled_from([0.0, 0.7]),
    st.integers(1, 8),
    st.integers(1, 60),
)
def test_speculative_text_and_steps_equal_plain_text_and_replay(
    tiny_model, tiny_bridge, prompt, temperature, draft_tokens, length
):
    check_replay(
        tiny_model,
        tiny_bridge,
        prompt,
        temperature=temperature,
        draft_tokens=draft_tokens,
        length=length,
    )


def test_the_replayed_runs_do_accept_and_reject(tiny_model, tiny_bridge):
    """The agreement above is no empty one: both drafters are right at times, and wrong at times."""
    rates = np.array(
        [
            check_replay(
                tiny_model, tiny_bridge, [seed, 5, 9], temperature=0.0, draft_tokens=4, length=60
            )
            for seed in range(1, 9)
        ]
    )
    assert (rates.mean(axis=0) > 1.05).all()
    assert (rates.mean(axis=0) < 4.9).all()


def tree_steps(model, bridge, prompt, tree, *, length):
    """Greedy decoding with a static tree of the early exit's candidates; text and tokens emitted
    per step."""
    cache, stop = (
        model.new_cache(len(prompt) + length + tree.nodes),
        StopRule(model.config.eos_ids, length),
    )
    known = [*prompt, int(model.forward(prompt, cache, logits="last").logits[0, 0].argmax())]
    cache.commit(len(prompt))
    ended, emitted = stop.after(known[-1]), []
    mask_of = {n: tree_mask(tree.parents, n) for n in range(len(prompt), len(prompt) + length + 1)}
    while ended is None:
        at, tokens = cache.length, [known[-1]] + [0] * (tree.nodes - 1)
        positions = tree_positions(tree.parents, at)
        for _ in range(tree.depth - 1):  # once per level: a node's candidates need its own token
            hidden = model.forward(
                tokens,
                cache,
                positions=positions,
                mask=mask_of[at],
                logits="none",
                capture=(bridge.exit_layer,),
                stop_after=bridge.exit_layer,
            ).hidden[bridge.exit_layer][0]
            best = model.head(bridge(hidden)).topk(8, dim=-1).indices
            for node in range(1, tree.nodes):
                tokens[node] = int(best[tree.parents[node], tree.ranks[node]])
        logits = model.forward(tokens, cache, positions=positions, mask=mask_of[at]).logits[0]
        answers = logits.argmax(dim=-1).tolist()
        path = accepted_path(tree.parents, tokens, answers)
        cache.compact(path)
        emitted.append(0)
        for node in path:
            known.append(answers[node])
            emitted[-1] += 1
            ended = stop.after(answers[node])
            if ended:
                break
    return tuple(known[len(prompt) :]), emitted


def test_a_real_tree_takes_the_steps_that_recorded_ranks_replay(tiny_model, tiny_bridge):
    tree = Tree.from_paths([(0,), (1,), (3,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 0, 2)])
    accepted = 0
    for seed in range(1, 7):
        prompt = [seed, 5, 9]
        sampler = Sampler(temperature=0, seed=0, request="", positions=60)
        made = generate(tiny_model, prompt, sampler, max_new_tokens=60, capture_layer=3)
        trace = recorded_trace(
            early_exit_drafter(tiny_model, tiny_bridge, parameters={}), prompt, made
        )
        text, emitted = tree_steps(tiny_model, tiny_bridge, prompt, tree, length=60)
        assert text == made.tokens
        starts = np.append(step_starts(trace, tree), len(made.tokens))
        assert np.diff(starts).tolist() == emitted
        assert replay_tree(trace, tree).steps.tolist() == [len(emitted)]
        accepted += sum(emitted) - len(emitted)
    assert accepted > 0


def test_zero_draft_tokens_decode_plainly(tiny_model):
    sampler = Sampler(temperature=0, seed=0, request="", positions=10)
    run = speculate(tiny_model, [5, 6], PromptLookup(), sampler, draft_tokens=0, max_new_tokens=10)
    assert set(run.emitted) == {1}
    assert run.tokens == generate(tiny_model, [5, 6], sampler, max_new_tokens=10).tokens


@pytest.mark.model
@pytest.mark.heavy
@pytest.mark.parametrize("temperature", [0.0, pytest.param(0.8, marks=pytest.mark.slow)])
def test_shipped_model_speculates_as_recorded(shipped_model, temperature):
    """A real prompt; the bridge is fitted on little text, so its drafts are poor and all the same
    exact."""
    from real_runs.drafters.heads.fit_data import help_topics

    model, tokenizer = shipped_model
    ids = [token for text in help_topics(3000) for token in tokenizer.ids(text)][:250]
    bridge = fit_bridge(model, [ids], exit_layer=10, ridge=0.1)
    prompt = tokenizer.chat_ids(
        "Repeat this sentence three times: The quick brown fox jumps over the lazy dog."
    )
    rates = check_replay(model, bridge, prompt, temperature=temperature, draft_tokens=3, length=20)
    assert max(rates) > 1.0
