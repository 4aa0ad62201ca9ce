"""Verification that is weighed at every step, in our own loop: the same text, the steps of its law,
and widths that follow what they cost."""

import numpy as np
import pytest

from costmodel.laws.controllers import cost_chain
from costmodel.method import Stop
from hardware_profiles.errors import InputError
from real_runs.decoding.batch_speculative import BatchEarlyExit, speculate_batch
from real_runs.decoding.paying_widths import PayingWidths, timed_widths
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import speculate
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree, chain_tree

K, TOKENS = 5, 60
PROMPTS = [[5, 9, 11], [4] * 11, [7, 3, 2, 8, 1]]


def samplers(number):
    return [
        Sampler(temperature=0.0, seed=0, request=str(r), positions=TOKENS) for r in range(number)
    ]


def decoded(model, propose, prompts):
    return speculate_batch(
        model,
        prompts,
        propose,
        samplers(len(prompts)),
        tree=chain_tree(K),
        max_new_tokens=TOKENS,
    )


@pytest.fixture
def drafter(tiny_model, tiny_bridge):
    return BatchEarlyExit(tiny_model, tiny_bridge)


def recorded(model, drafter, prompt):
    """What drafts of this length would have said and emitted at every position of a text."""
    (run,) = speculate_batch(
        model,
        [prompt],
        lambda *_: [[]],
        samplers(1),
        tree=chain_tree(1),
        max_new_tokens=TOKENS,
    )
    text = list(run.tokens)
    said, right = np.zeros(len(text)), np.zeros(len(text), bool)
    for place in range(1, len(text)):
        prefix = prompt + text[:place]
        cache = model.new_cache(len(prefix) + 2, batch=1)
        model.forward([prefix[:-1]], cache)
        cache.commit([len(prefix) - 1])
        ((draft,),), ((sure,),) = drafter.sure([prefix], cache, chain_tree(1))
        said[place], right[place] = sure, draft == text[place]
    emitted = np.ones(len(text), np.int64)
    for place in range(len(text) - 2, -1, -1):
        if right[place]:
            emitted[place] = emitted[place + 1] + 1
    wide = said[:, None]
    return text, AcceptanceTrace(
        offsets=[0, len(text)],
        first_step_position=1,
        emitted=emitted,
        rank=np.where(right, 0, -1).astype(np.int8),
        rank_width=1,
        depth_invariant=True,
        draft_ids=np.zeros((len(text), 1), np.int32),
        draft_probs=wide,
        target_probs=wide,
        emitted_target_prob=said,
        residual_mass=np.zeros(len(text)),
    )


@pytest.mark.parametrize("weight", [0.0, 0.2])
@pytest.mark.parametrize("slope", [0.02, 0.3, 5.0])
def test_the_text_stays_that_of_the_target(tiny_model, drafter, slope, weight):
    seconds = 1.0 + slope * np.arange(K + 1)
    runs = decoded(tiny_model, PayingWidths(drafter, seconds, weight=weight), PROMPTS)
    for prompt, run in zip(PROMPTS, runs, strict=True):
        (sampler,) = samplers(1)
        plain = speculate(
            tiny_model, prompt, lambda *_: [], sampler, draft_tokens=0, max_new_tokens=TOKENS
        )
        assert run.tokens == plain.tokens and run.ended == plain.ended
        assert max(run.drafted) <= K and (slope < 5.0 or not any(run.drafted))


def test_wider_passes_that_cost_more_are_narrower(tiny_model, drafter):
    widths = [
        np.mean(
            decoded(tiny_model, PayingWidths(drafter, 1.0 + s * np.arange(K + 1)), PROMPTS)[
                0
            ].drafted
        )
        for s in (0.0, 0.1, 0.4, 5.0)
    ]
    assert widths[0] == K and widths[-1] == 0.0
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_the_loop_takes_the_steps_of_the_law(tiny_model, drafter, prompt):
    """Step for step along the recorded text: the law walks it again and again, here once."""
    text, trace = recorded(tiny_model, drafter, prompt)
    seconds = 1.0 + 0.05 * np.arange(K + 1)
    (run,) = decoded(tiny_model, PayingWidths(drafter, seconds), [prompt])
    assert list(run.tokens) == text
    law = cost_chain(trace, K, Stop(rule="cost"), None, seconds=seconds, batch=1)
    # the loop drafts beyond what it will accept; the law as if everything before were accepted
    assert law.tokens_per_step == pytest.approx(np.mean(run.emitted), rel=0.1)
    assert law.lengths.mean_tokens == pytest.approx(np.mean(run.drafted), rel=0.25)


def test_passes_are_timed_by_width(tiny_model):
    seconds = timed_widths(tiny_model, K, requests=2, context=8, runs=1)
    assert seconds.shape == (K + 1,) and np.all(seconds > 0.0) and np.all(np.diff(seconds) >= 0.0)
    with pytest.raises(InputError, match=">= 1"):
        timed_widths(tiny_model, 0, requests=2, context=8)


def test_trees_and_weights_beyond_one_are_refused(tiny_model, drafter):
    with pytest.raises(InputError, match="chain"):
        speculate_batch(
            tiny_model,
            PROMPTS[:1],
            PayingWidths(drafter, np.ones(3)),
            samplers(1),
            tree=Tree.from_paths([(0,), (1,)]),
            max_new_tokens=4,
        )
    with pytest.raises(InputError, match=r"0\.\.1"):
        PayingWidths(drafter, np.ones(3), weight=2.0)
