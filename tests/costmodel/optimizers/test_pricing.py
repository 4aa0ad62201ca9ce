"""Candidates that are priced together cost, fit and are allowed as each is alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.answers.estimate import estimate
from costmodel.answers.first_token import unloaded_first_token_s
from costmodel.answers.fit import fits
from costmodel.answers.settings import build_setting
from costmodel.answers.workload import Limits, RequestTimes
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.pricing import evaluate
from hardware_profiles.errors import InputError
from tests.property_examples import examples

CHAINS = [geometric(0.7, draft_tokens) for draft_tokens in (0, 1, 4)]


def contender(model, copies):
    where = DeploymentNames(model=model, device="h100-sxm", data_parallel=copies)
    asked = DecodingConfiguration(method="eagle-3", deployment=where)
    return Contender(configuration=asked, setting=build_setting(asked), candidates=CHAINS)


EAGLE, PLANNED = contender("llama-3.1-8b", 1), contender("qwen3-30b-a3b", 2)
BATCHES = st.lists(st.sampled_from([2, 16, 64, 256, 1024, 4096]), min_size=1, max_size=3)
CONTEXTS = st.lists(st.sampled_from([0, 1024, 16_384, 120_000]), min_size=1, max_size=2)
LIMITS = st.builds(
    Limits,
    ttft_s=st.sampled_from([None, 0.05, 1.0]),
    tpot_s=st.sampled_from([None, 0.004, 0.02]),
)


@pytest.mark.parametrize("contender", [EAGLE, PLANNED])
@settings(max_examples=examples(15), deadline=None)
@given(batches=BATCHES, contexts=CONTEXTS, limits=LIMITS)
def test_together_is_as_alone(contender, batches, contexts, limits):
    b, c = np.array(batches)[:, None], np.array(contexts)[None, :]
    at, setting = evaluate(contender, batch=b, context=c, limits=limits), contender.setting
    rates = at.value
    assert rates.shape == at.step_s.shape == (len(CHAINS), len(batches), len(contexts))
    for place, chain in enumerate(CHAINS):
        for row, batch in enumerate(batches):
            for column, context in enumerate(contexts):
                one = estimate(setting, chain, batch=batch, context=context)
                here = place, row, column
                assert at.tokens_per_s[here] == pytest.approx(float(one.tokens_per_s), rel=1e-12)
                held = bool(fits(setting, chain, batch=batch, context=context))
                assert at.fits[here] == held
                step_s = np.asarray(float(one.step_s))
                first = unloaded_first_token_s(
                    setting,
                    prompt_tokens=max(context, 1),
                    batch=np.asarray(float(batch)),
                    step_s=step_s,
                    drafts=chain.draft_tokens > 0,
                )
                tpot_s = step_s / chain.tokens_per_step
                met = limits.met(RequestTimes(ttft_s=first, tpot_s=tpot_s, e2e_s=np.nan))
                assert at.allowed[here] == (held and bool(np.all(met)))
                assert np.isfinite(rates[here]) == at.allowed[here]


def test_a_batch_and_a_context_say_nothing_of_whole_requests():
    here = np.array([[8.0]])
    with pytest.raises(InputError, match="slo_e2e: needs output lengths"):
        _ = evaluate(EAGLE, batch=here, context=128.0 * here, limits=Limits(e2e_s=9.0)).allowed


def test_what_is_known_at_one_point_alone_is_allowed_nowhere_else():
    held = replace(CHAINS[1], holds_at=(16, 1024))
    only = replace(EAGLE, candidates=[CHAINS[0], held])
    at = evaluate(only, batch=np.array([[16.0], [64.0]]), context=np.array([1024.0, 2048.0]))
    assert at.allowed[1].tolist() == [[True, False], [False, False]]
