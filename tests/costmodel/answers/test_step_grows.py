"""More requests, more cached text or slower hardware never make a step shorter, whatever runs
where."""

from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.engine_library import engine_names
from costmodel.laws.acceptance import geometric
from hardware_profiles.errors import InputError
from hardware_profiles.loader import device_names
from tests.property_examples import examples

MODELS = (
    "vicuna-7b",
    "llama-3.1-8b",
    "llama-3.1-70b",
    "qwen3-30b-a3b",
    "deepseek-v3",
    "gemma-2-9b",
    "mixtral-8x7b",
    "nemotron-h-8b",
)
BATCHES = np.arange(1.0, 65.0)[:, None]
CONTEXTS = np.array([1.0, 100.0, 1000.0, 1024.0, 1100.0, 4096.0, 8192.0, 10_000.0, 32_768.0])[
    None, :
]
COMBINED = 0.025
"""A pass whose attention is no longer split saves the kernel that joins the parts: up to 2.1 % of a
step."""
CORRECTED = 0.02
ROUNDED = 1e-9
questions = {
    "model": st.sampled_from(MODELS),
    "device": st.sampled_from(device_names()),
    "engine": st.sampled_from(engine_names()),
    "split": st.sampled_from([None, True, False]),
    "tokens": st.sampled_from([1, 3, 7]),
}


def setting_of(model, device, engine, split):
    names = DeploymentNames(model=model, device=device, engine=engine, split_verify=split)
    try:
        return build_setting(DecodingConfiguration(method="n-gram", deployment=names))
    except InputError:  # an engine that does not run there
        assume(False)


def seconds(setting, tokens, batch=BATCHES, context=CONTEXTS):
    """Plain and speculative step over the grid: float64[2, batches, contexts]."""
    found = estimate(setting, geometric(0.7, tokens), batch=batch, context=context)
    return np.stack(
        [
            np.broadcast_to(each.total_s, np.broadcast(batch, context).shape)
            for each in (found.plain, found.step)
        ]
    )


@settings(max_examples=examples(30))
@given(**questions)
def test_a_step_grows_with_context_and_batch(model, device, engine, split, tokens):
    found = seconds(setting_of(model, device, engine, split), tokens)
    assert (found[:, :, 1:] >= found[:, :, :-1] * (1.0 - ROUNDED)).all()
    assert (found[:, 1:] >= found[:, :-1] * (1.0 - COMBINED)).all()


@settings(max_examples=examples(15))
@given(**questions, factor=st.floats(1.0, 4.0))
def test_a_step_never_grows_with_bandwidth_or_peak(model, device, engine, split, tokens, factor):
    """By the forms of the kernels; a profile's table of corrections is looked up at other shares of
    the two roofs."""
    setting = setting_of(model, device, engine, split)
    known = setting.deployment.device
    plain = replace(known, constants=replace(known.constants, corrections={}))
    for d, most in ((plain, ROUNDED), (known, CORRECTED)):
        wide = replace(d, bandwidth_bytes_per_s=d.bandwidth_bytes_per_s * factor)
        strong = replace(
            d, peak_flops_per_s={name: peak * factor for name, peak in d.peak_flops_per_s.items()}
        )
        base, *better = (
            seconds(
                replace(setting, deployment=replace(setting.deployment, device=each)),
                tokens,
                BATCHES[::9],
            )
            for each in (d, wide, strong)
        )
        assert all((each <= base * (1.0 + most)).all() for each in better)
