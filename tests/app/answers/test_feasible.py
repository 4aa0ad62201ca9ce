"""Changes that are named to make a configuration fit: each of them does."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.answers.feasible import change_words, nearest_changes, require_cell
from costmodel.answers.estimate import footprint_of
from costmodel.answers.fit import left_bytes
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from hardware_profiles.errors import InfeasibleError
from tests.property_examples import examples

FIELDS = {"--tp": "tensor_parallel", "--kv-dtype": "kv_dtype", "--dtype": "dtype"}
deployments = st.builds(
    DeploymentNames,
    model=st.sampled_from(["llama-3.1-8b", "llama-3.1-70b", "qwen3-30b-a3b", "gpt2"]),
    device=st.sampled_from(["h100-sxm", "l4", "cpu-generic"]),
    engine=st.sampled_from(["vllm", "none", "llama.cpp"]),
    data_parallel=st.sampled_from([1, 1, 2]),
)


def left(asked, acceptance, batch, context):
    setting = build_setting(asked)
    return float(
        left_bytes(setting, footprint_of(setting, acceptance, batch=batch, context=context))
    )


def changed(asked, batch, context, change):
    names = {FIELDS[option]: value for option, value in change.items() if option in FIELDS}
    return (
        replace(asked, deployment=replace(asked.deployment, **names)),
        change.get("--batch", batch),
        change.get("--context", context),
    )


@settings(max_examples=examples(40))
@given(deployments, st.integers(1, 4000), st.integers(0, 100_000), st.sampled_from([0, 3]))
def test_every_change_that_is_named_fits(where, batch, context, k):
    asked, acceptance = DecodingConfiguration(deployment=where, method="n-gram"), geometric(0.6, k)
    try:
        require_cell(asked, build_setting(asked), acceptance, batch=batch, context=context)
    except InfeasibleError:
        for change in nearest_changes(asked, acceptance, batch=batch, context=context):
            now, b, c = changed(asked, batch, context, change)
            require_cell(now, build_setting(now), acceptance, batch=b, context=c)
            if "--batch" in change and b + 1 < batch:
                assert left(now, acceptance, b + 1, c) < 0  # the largest that fits
            if "--context" in change and c + 1 < context:
                assert left(now, acceptance, b, c + 1) < 0
    else:
        assert left(asked, acceptance, batch, context) >= 0


def test_what_no_change_helps_names_none():
    asked = DecodingConfiguration(
        deployment=DeploymentNames(model="llama-3.1-405b", device="l4", tensor_parallel=1)
    )
    assert (
        nearest_changes(asked, geometric(0, 0), batch=1, context=1024, holds=lambda *_: False) == []
    )


def test_where_no_change_suffices_two_together_may():
    asked = DecodingConfiguration(
        deployment=DeploymentNames(model="llama-3.1-405b", device="h100-sxm")
    )
    alone = nearest_changes(asked, geometric(0, 0), batch=1, context=1024)
    assert [change_words(each) for each in alone] == ["tp 16"]
    few = nearest_changes(
        asked,
        geometric(0, 0),
        batch=1,
        context=1024,
        holds=lambda now, setting, b, c: (
            now.deployment.tensor_parallel == 4 and now.deployment.dtype == "fp8"
        ),
    )
    assert (
        few == [{"--dtype": "fp8", "--tp": 4}] and change_words(few[0]) == "fp8 weights with tp 4"
    )


def test_a_refusal_says_what_was_asked():
    asked = DecodingConfiguration(
        deployment=DeploymentNames(model="llama-3.1-70b", data_parallel=2)
    )
    with pytest.raises(InfeasibleError, match="batch 8, context 64, 0 draft tokens, --dp 2 needs"):
        require_cell(asked, build_setting(asked), geometric(0, 0), batch=8, context=64)
