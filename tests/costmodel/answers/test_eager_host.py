"""Where nothing is captured, every pass of a step waits for the host that launches it."""

from dataclasses import replace

import pytest

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.drafters.pass_costs import draft_pass
from costmodel.engine_library import engine_names, load_engine
from costmodel.laws.acceptance import geometric


def setting(engine="transformers", device="h100-sxm", method="eagle-3", **names):
    deployment = DeploymentNames(model="llama-2-7b", device=device, engine=engine, **names)
    return build_setting(DecodingConfiguration(method=method, deployment=deployment))


def step_s(asked, batch=1.0, drafted=3):
    return float(estimate(asked, geometric(0.7, drafted), batch=batch, context=512.0).step.total_s)


@pytest.mark.parametrize("engine", engine_names())
def test_engines_without_graphs_wait_on_devices_that_a_host_feeds(engine):
    captured = load_engine(engine).kernels.graphs
    assert (setting(engine).deployment.host_layer_s == 0.0) == captured
    cpu = setting(engine, device="xeon-8480").deployment
    assert (cpu.host_layer_s, cpu.host_pass_s) == (0.0, 0.0)


def test_a_small_batch_takes_as_long_on_any_fast_device():
    plain = [
        step_s(setting(device=device, method="plain-decoding"), drafted=0)
        for device in ("a100-sxm-80", "h100-sxm")
    ]
    host = setting().deployment
    passes = 32 * host.host_layer_s + host.host_pass_s
    assert plain[0] == pytest.approx(plain[1], rel=1e-9)
    assert passes <= plain[0] <= 1.1 * passes
    assert step_s(setting(method="plain-decoding"), 512.0, drafted=0) > 1.5 * plain[0]


@pytest.mark.parametrize("method", ["eagle-3", "medusa"])
def test_drafters_wait_as_well(method):
    asked = setting(method=method)
    (stage,) = asked.drafter.stages
    d = asked.deployment
    layers = stage.architecture.layers if stage.architecture is not None else 0
    found = float(draft_pass(d, asked.drafter, stage, batch=1, query_tokens=1, context=512).total_s)
    captured = replace(d, host_layer_s=0.0, host_pass_s=0.0)
    alone = float(
        draft_pass(captured, asked.drafter, stage, batch=1, query_tokens=1, context=512).total_s
    )
    least = layers * d.host_layer_s + d.host_pass_s
    assert alone < least <= found <= least + alone
