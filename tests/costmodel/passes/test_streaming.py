"""Weights and caches in the host's memory: what a pass waits for, and that both doors lead to
it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.estimate import step_cost
from costmodel.answers.settings import build_setting
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.passes.deployment import Deployment
from costmodel.passes.forward import pass_cost
from costmodel.passes.memory import layer_weight_bytes
from costmodel.passes.precision import Precision
from costmodel.passes.streaming import HOST_LINK_EFFICIENCY, host_rate, streamed_s
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device

RATE, LATENCY_S = 25e9, 5e-6
PLAIN = Deployment(
    architecture=load_model("llama-3.1-8b"), device=load_device("h100-sxm"), precision=Precision()
)


@given(st.floats(1e-4, 1.0), st.floats(0.0, 1e11), st.integers(1, 100))
def test_prefetch_lies_between_the_larger_part_and_the_sum(seconds, moved, layers):
    prefetched = streamed_s(seconds, moved, RATE, latency_s=LATENCY_S, layers=layers)
    assert max(seconds, moved / RATE) <= prefetched * (1 + 1e-12)
    assert prefetched <= (seconds + moved / RATE + layers * LATENCY_S) * (1 + 1e-12)


def test_nothing_to_fetch_costs_nothing():
    assert streamed_s(0.25, 0.0, RATE, latency_s=LATENCY_S, layers=32) == 0.25


def test_a_small_batch_runs_at_the_rate_of_the_link():
    """With every layer on the host, a decode pass takes about as long as the weights over the
    link."""
    on_host = pass_cost(
        replace(PLAIN, host_weights_ratio=1.0), batch=1, query_tokens=1, context=128
    )
    least = layer_weight_bytes(PLAIN.architecture, PLAIN.precision) / host_rate(PLAIN.device)
    assert least < on_host.total_s < 1.02 * least
    assert on_host.total_s == pytest.approx(sum(float(s) for s in on_host.seconds.values()))


def test_a_link_brings_less_than_its_nominal_rate_and_a_cpu_what_was_timed():
    cpu = load_device("cpu-generic")
    assert host_rate(PLAIN.device) == pytest.approx(
        HOST_LINK_EFFICIENCY * PLAIN.device.host_link_bytes_per_s
    )
    assert host_rate(cpu) == cpu.host_link_bytes_per_s


def test_a_cache_on_the_host_is_fetched_over_the_link_by_every_request():
    """Keys and values of eight heads in 32 layers, 16 bits each, of all requests and all cached
    tokens."""
    at = {"query_tokens": 1, "context": 32_768}
    for batch in (1, 8):
        half, whole = (
            pass_cost(replace(PLAIN, host_cache_ratio=r), batch=batch, **at).seconds["host_fetch"]
            for r in (0.5, 1.0)
        )
        held = batch * 32_768 * 32 * 2 * 8 * 128 * 2.0
        assert whole - half == pytest.approx(0.5 * held / host_rate(PLAIN.device), rel=0.01)
    without = pass_cost(replace(PLAIN, host_cache_ratio=1.0), batch=1, query_tokens=1, context=0)
    assert float(without.total_s) == float(
        pass_cost(PLAIN, batch=1, query_tokens=1, context=0).total_s
    )


def test_a_draft_confined_to_a_part_of_the_cache_does_not_fetch_it():
    names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none")
    setting = build_setting(DecodingConfiguration(method="magicdec", deployment=names))
    on_host = replace(setting, deployment=replace(setting.deployment, host_cache_ratio=1.0))
    drafts, fetched = (
        step_cost(each, geometric(0.8, 3), batch=1.0, context=32_768.0)
        for each in (setting, on_host)
    )
    assert float(fetched.draft_s) == float(drafts.draft_s)
    assert float(fetched.verify_s) > 5.0 * float(drafts.verify_s)


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_more_on_the_host_never_gets_faster(one, other):
    few, many = sorted((one, other))
    times = [
        float(
            pass_cost(
                replace(PLAIN, host_weights_ratio=r), batch=8, query_tokens=2, context=512
            ).total_s
        )
        for r in (few, many)
    ]
    assert times[0] <= times[1] * (1 + 1e-12)


def test_a_shared_prefix_is_read_once_through_the_front_door():
    at = {"batch": 64, "query_tokens": 4, "context": 8192 + 256}
    separate, shared = (
        pass_cost(PLAIN, **at),
        pass_cost(replace(PLAIN, shared_prefix_tokens=8192), **at),
    )
    cache = (
        2 * 8 * 128 * 2.0 * 32 * 8192
    )  # bytes of one prefix: keys and values of eight heads in 32 layers
    assert separate.bytes - shared.bytes == pytest.approx(63 * cache, rel=0.02)
    assert shared.total_s < separate.total_s
    short = pass_cost(
        replace(PLAIN, shared_prefix_tokens=8192), batch=64, query_tokens=4, context=0
    )
    assert float(short.total_s) == pytest.approx(
        float(pass_cost(PLAIN, batch=64, query_tokens=4, context=0).total_s)
    )


@pytest.mark.parametrize(
    "wrong", [{"host_weights_ratio": 1.5}, {"host_cache_ratio": -0.1}, {"shared_prefix_tokens": -1}]
)
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        replace(PLAIN, **wrong)


def test_measured_passes_know_neither():
    for each in ({"host_weights_ratio": 0.5}, {"host_cache_ratio": 0.5}):
        with pytest.raises(InputError, match="fidelity"):
            replace(PLAIN, **each, fidelity="measured")
