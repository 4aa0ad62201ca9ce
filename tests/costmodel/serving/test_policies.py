"""The published defaults of engines, and what a policy refuses."""

from dataclasses import replace

import pytest

from costmodel.overheads import engine_names
from costmodel.serving.policies import policy, policy_names
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import load_device
from hardware_profiles.units import GIGA


@pytest.fixture(scope="module")
def h100():
    return load_device("h100-sxm")


def test_every_policy_names_its_source_and_an_engine_with_overheads(h100):
    for name in policy_names():
        found = policy(name, h100)
        assert found.engine == name
        assert found.source
        assert found.versions
        assert name in engine_names()


@pytest.mark.parametrize("alias", ["trtllm", "TRTLLM", "tensorrt_llm", "tensorrt-llm"])
def test_tensorrt_llm_goes_by_several_names(alias, h100):
    assert policy(alias, h100).engine == "tensorrt-llm"


def test_vllm_takes_smaller_batches_on_small_devices_and_on_a100(h100):
    assert policy("vllm", h100).batch_tokens == 8192
    assert policy("vllm", load_device("a100-sxm-80")).batch_tokens == 2048
    assert policy("vllm", load_device("l4")).requests < policy("vllm", h100).requests


def test_sglang_keeps_the_same_bytes_apart_on_every_device(h100):
    apart = {
        name: (1.0 - policy("sglang", load_device(name)).memory_ratio) * load_device(name).memory_bytes / GIGA
        for name in ("h100-sxm", "h200-sxm")
    }
    assert apart["h100-sxm"] == pytest.approx(apart["h200-sxm"])
    assert policy("sglang", h100).memory_ratio == pytest.approx(0.836, abs=1e-3)


def test_engines_differ_in_how_prompts_meet_decodes(h100):
    assert policy("vllm", h100).mixes
    assert policy("vllm", h100).chunks
    assert not policy("trtllm", h100).chunks
    assert not policy("sglang", h100).mixes
    assert policy("trtllm", h100).reserve_ratio == 1.0


@pytest.mark.parametrize(
    ("version", "ahead"),
    [("0.11.2", False), ("v0.12.0", False), ("0.14.0", True), ("v0.18.0rc1", True), ("1.0", True), (None, True),
     ("latest", True)],
)  # fmt: skip
def test_vllm_schedules_ahead_from_0_14_on(version, ahead, h100):
    assert policy("vllm", h100, version).ahead == ahead
    assert policy("trtllm", h100, version).ahead
    assert policy("sglang", h100, version).ahead


def test_an_unknown_engine_is_refused_with_the_nearest_names(h100):
    with pytest.raises(UnknownNameError, match="vllm"):
        policy("vlm", h100)


@pytest.mark.parametrize(
    ("key", "value"),
    [("batch_tokens", 0), ("requests", 0), ("memory_ratio", 0.0), ("memory_ratio", 1.5), ("reserve_ratio", -0.1)],
)
def test_impossible_limits_are_refused(key, value, h100):
    with pytest.raises(InputError, match=key):
        replace(policy("vllm", h100), **{key: value})
