"""Passes of a draft that an engine adds to those of the method."""

import pytest

from costmodel.answers.settings import build_setting
from costmodel.answers.steps.step import chain_step
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.drafters.pass_costs import draft_pass


def setting_of(engine, method="speculative-decoding", draft_model="llama-3.2-1b"):
    names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine=engine)
    return build_setting(
        DecodingConfiguration(method=method, draft_model=draft_model, deployment=names)
    )


@pytest.mark.parametrize(("batch", "draft_tokens"), [(1, 1), (4, 5)])
def test_a_draft_model_that_follows_its_target_computes_what_is_verified_too(batch, draft_tokens):
    followed, plain = (
        chain_step(
            s.deployment, s.drafter, s.overhead, batch=batch, context=512, draft_tokens=draft_tokens
        )
        for s in (setting_of("llama.cpp"), setting_of("none"))
    )
    s = setting_of("llama.cpp")
    once = draft_pass(
        s.deployment,
        s.drafter,
        s.drafter.stages[0],
        batch=batch,
        query_tokens=draft_tokens + 1,
        context=512,
    ).total_s
    alone = draft_pass(
        s.deployment, s.drafter, s.drafter.stages[0], batch=batch, query_tokens=1, context=512
    ).total_s
    assert followed.draft_s == pytest.approx(float(draft_tokens * alone + once), rel=1e-6)
    assert plain.draft_s < followed.draft_s
    assert (
        chain_step(s.deployment, s.drafter, s.overhead, batch=1, context=9, draft_tokens=0).draft_s
        == 0.0
    )


def test_heads_and_lookups_follow_nothing():
    for method in ("eagle-3", "n-gram"):
        stages = setting_of("llama.cpp", method, None).drafter.stages
        assert not any(stage.follows_target for stage in stages)
