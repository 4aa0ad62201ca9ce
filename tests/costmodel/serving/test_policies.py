"""The published defaults of engines, and what a policy refuses."""

from dataclasses import replace

import pytest

from costmodel.overheads import engine_names
from costmodel.serving.policies import policy, policy_names
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import load_device
from hardware_profiles.units import GIB, MIB


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
        name: (1.0 - policy("sglang", load_device(name)).memory_ratio) * load_device(name).memory_bytes / MIB
        for name in ("h100-sxm", "h200-sxm", "a100-sxm-80", "b200-sxm")
    }
    assert apart == pytest.approx(dict.fromkeys(apart, 512 + 1.5 * 8192 + 2 * 256 + 128))
    assert round(policy("sglang", h100).memory_ratio, 3) == 0.835


def test_an_engine_plans_with_what_its_log_says(h100):
    """vLLM on an H100: 79.22 GiB, of which 0.90 are 71.29 (its pull request 12126)."""
    rules = policy("vllm", h100)
    seen = h100.memory_bytes - rules.unseen_bytes
    assert seen / GIB == pytest.approx(79.22)
    assert rules.memory_ratio * seen / GIB == pytest.approx(71.29, abs=0.01)
    kept = {name: policy(name, h100).unseen_bytes / GIB for name in policy_names()}
    assert 0.3 < kept["vllm"] < kept["sglang"] == kept["tensorrt-llm"] < 1.5  # a process's context comes on top


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
    [
        ("batch_tokens", 0),
        ("requests", 0),
        ("memory_ratio", 0.0),
        ("memory_ratio", 1.5),
        ("reserve_ratio", -0.1),
        ("unseen_bytes", -1.0),
        ("unseen_bytes", float("nan")),
    ],
)
def test_impossible_limits_are_refused(key, value, h100):
    with pytest.raises(InputError, match=key):
        replace(policy("vllm", h100), **{key: value})
