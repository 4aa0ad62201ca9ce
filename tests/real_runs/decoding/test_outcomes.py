"""Drafts for several outcomes of a verification: the text against plain decoding, the steps against
chains, and what was ready against the replay of the same drafter's ranks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.decoding.generate import generate
from real_runs.decoding.outcomes import speculate_outcomes
from real_runs.decoding.sampling import Sampler
from real_runs.drafters.entries.early_exit import observed_early_exit
from tests.property_examples import examples
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.outcomes import replay_outcomes
from traces.replay.walk import replay_chain


@settings(max_examples=examples(10))
@given(
    prompt=st.lists(st.integers(1, 96), min_size=1, max_size=8),
    temperature=st.sampled_from([0.0, 0.7]),
    draft_tokens=st.integers(1, 4),
    fan_out=st.integers(1, 5),
    waits=st.booleans(),
    length=st.integers(1, 40),
)
def test_a_real_loop_has_ready_what_its_ranks_foretell(
    tiny_model, tiny_bridge, readers, prompt, temperature, draft_tokens, fan_out, waits, length
):
    sampler = Sampler(temperature=temperature, seed=2, request="r", positions=length)
    made = speculate_outcomes(
        tiny_model,
        prompt,
        readers["early exit"],
        sampler,
        draft_tokens=draft_tokens,
        fan_out=fan_out,
        waits=waits,
        max_new_tokens=length,
    )
    plain = generate(tiny_model, prompt, sampler, max_new_tokens=length)
    assert (made.run.tokens, made.run.ended) == (plain.tokens, plain.ended)
    assert made.run.drafted == tuple(draft_tokens if waits or ready else 0 for ready in made.ready)
    observed = observed_early_exit(tiny_model, tiny_bridge, parameters={})
    arrays = observed.observe(prompt, plain)
    trace = AcceptanceTrace(
        offsets=np.array([0, len(plain.tokens)]),
        first_step_position=1,
        emitted=arrays["emitted"],
        rank=arrays["rank"],
        rank_width=16,
        depth_invariant=True,
    )
    replayed = replay_outcomes(trace, draft_tokens, fan_out, waits=waits)
    assert replayed.replay.steps.tolist() == [len(made.run.emitted)]
    assert replayed.ready_steps.tolist() == [sum(made.ready)]
    if waits:
        assert replayed.replay.steps.tolist() == replay_chain(trace, draft_tokens).steps.tolist()


@pytest.mark.parametrize("wrong", [{"draft_tokens": 0}, {"fan_out": 0}])
def test_numbers_out_of_range_are_refused(tiny_model, readers, wrong):
    sampler = Sampler(temperature=0, seed=0, request="", positions=4)
    asked = {"draft_tokens": 2, "fan_out": 1, "waits": True, "max_new_tokens": 4} | wrong
    with pytest.raises(InputError, match=next(iter(wrong))):
        speculate_outcomes(tiny_model, [5], readers["early exit"], sampler, **asked)
