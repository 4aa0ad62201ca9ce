"""A pass that verifies takes no less time than the plain one, so no speedup exceeds the tokens of a step."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.engine_library import engine_names
from costmodel.laws.acceptance import geometric
from hardware_profiles.loader import device_names

MODELS = (
    "vicuna-7b", "llama-2-13b", "llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "qwen3-30b-a3b", "deepseek-v3",
    "gemma-2-9b", "glm-4.7-flash",
)  # fmt: skip
ROUNDED = 1e-9


def speedup_per_token(model, device, engine, split, tokens, batch, context):
    names = DeploymentNames(model=model, device=device, engine=engine, split_verify=split)
    setting = build_setting(DecodingConfiguration(method="n-gram", deployment=names))
    accepted = geometric(0.7, tokens)
    result = estimate(setting, accepted, batch=batch, context=context)
    return float(result.speedup) / float(accepted.tokens_per_step)


@settings(max_examples=150)
@given(
    model=st.sampled_from(MODELS),
    device=st.sampled_from(device_names()),
    engine=st.sampled_from(engine_names()),
    split=st.sampled_from([None, True, False]),
    tokens=st.integers(1, 16),
    batch=st.integers(1, 256),
    context=st.integers(1, 32_768),
)
def test_no_speedup_exceeds_the_tokens_of_a_step(model, device, engine, split, tokens, batch, context):
    assert speedup_per_token(model, device, engine, split, tokens, batch, context) <= 1.0 + ROUNDED


@pytest.mark.parametrize("device", ["rtx-3080", "a100-sxm-80", "l40s"])
def test_verification_that_cannot_split_is_held_to_the_plain_pass(device):
    """Two libraries' kernels were measured; of heads with a cache each, decoding's was the slower one."""
    assert speedup_per_token("vicuna-7b", device, "none", False, 1, 64, 8192) <= 1.0


@pytest.mark.parametrize("context", [4096, 65_536])
def test_heads_that_fill_no_tile_of_latent_attention_verify_no_faster(context):
    """Twenty heads run as tiles that read the cache again, four tokens of them as one."""
    assert speedup_per_token("glm-4.7-flash", "b300-sxm", "vllm", None, 3, 256, context) <= 1.0


@pytest.mark.parametrize(("tokens", "context"), [(3, 32_768), (7, 2048), (15, 512)])
def test_corrections_that_fall_with_the_rows_verify_no_faster(tokens, context):
    """The table of an A100 falls by 5 % from 1 to 64 rows of the largest weights, which take all that time to read."""
    for engine in ("none", "llama.cpp", "sglang"):
        assert speedup_per_token("llama-3.1-405b", "a100-sxm-80", engine, None, tokens, 1, context) <= 1.0
