"""Kernels of particular engines: reductions, norms of queries and keys, products in 8 bits, and
what a run spends."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.architectures.library import load_model
from costmodel.engine_library import load_engine
from costmodel.passes import kernels
from costmodel.passes.deployment import Deployment
from costmodel.passes.forward import pass_cost
from costmodel.passes.precision import Precision, Stored
from hardware_profiles.loader import load_device
from simulator.timing.engine_passes import EnginePasses

H100 = load_device("h100-sxm")
WHOLE = {"batch": np.array([1.0, 8.0, 600.0]), "query_tokens": 1.0, "context": 512.0}


def deployment(model="llama-3.1-8b", devices=1, **formats):
    return Deployment(
        architecture=load_model(model),
        device=H100,
        precision=Precision(**formats),
        tensor_parallel=devices,
    )


def seconds(d, engine="vllm", sustained_ratio=1.0, **changes):
    found = load_engine(engine)
    held = replace(found, kernels=replace(found.kernels, sustained_ratio=sustained_ratio))
    return EnginePasses(d, held).seconds(**(WHOLE | changes))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_in_16_bits_only_reductions_and_norms_differ_from_a_pass(engine):
    d = deployment()
    plain = pass_cost(d, **WHOLE).seconds
    assert set(seconds(d, engine)) == set(plain)
    for name, value in seconds(d, engine).items():
        np.testing.assert_array_equal(value, plain[name])


@pytest.mark.parametrize("size", [1e3, 1e5, 1e7])
def test_reductions_are_those_of_the_library(size):
    d = deployment("qwen3-32b", 4)
    rows = size / (2.0 * d.architecture.hidden)
    for engine, backend in (("trtllm", "trtllm"), ("vllm", "vllm"), ("transformers", "nccl")):
        passes = EnginePasses(d, load_engine(engine))
        found = passes.seconds(batch=rows, query_tokens=1.0, context=1.0)["allreduce"]
        each = kernels.allreduce(
            H100, size, 4, graphs=passes.others.graphs, backend=backend
        ).seconds
        assert found == pytest.approx(2 * d.architecture.layers * each)


@pytest.mark.parametrize("ratio", [0.5, 0.9])
def test_a_power_limit_slows_arithmetic_and_nothing_that_waits_for_memory(ratio):
    prompt = {"batch": 1.0, "query_tokens": 8192.0, "context": 0.0, "prefill": True}
    full, held = (seconds(deployment(), sustained_ratio=r, **prompt) for r in (1.0, ratio))
    for name in full:
        assert full[name] <= held[name] <= full[name] / ratio * (1 + 1e-9)
    assert held["gemm"] > full["gemm"] * (1.0 + 0.8 * (1.0 / ratio - 1.0))
    alone = {"batch": 1.0}
    single, also = (seconds(deployment(), sustained_ratio=r, **alone) for r in (1.0, ratio))
    assert also["gemm"] < 1.02 * single["gemm"]


@pytest.mark.parametrize(
    ("model", "values"), [("qwen3-32b", 64 * (64 + 8) * 128), ("llama-3.1-8b", 0)]
)
def test_norms_of_queries_and_keys_are_launched_and_move_what_they_normalise(model, values):
    engine, c = load_engine("vllm"), H100.constants
    plain, normed = (
        EnginePasses(
            deployment(model), replace(engine, kernels=replace(engine.kernels, head_norm_kernels=n))
        ).seconds(**WHOLE)["elementwise"]
        for n in (0, 2)
    )
    moved = 2 * 2 * values * WHOLE["batch"]
    launched = 2 * 64 * c.elementwise.kernel_s if values else 0.0
    expected = launched + moved / (H100.bandwidth_bytes_per_s * c.elementwise.bandwidth_efficiency)
    np.testing.assert_allclose(normed - plain, expected, rtol=1e-9, atol=1e-15)


def test_what_stands_between_products_in_8_bits_stays_in_16():
    wide, fp8 = deployment(devices=4), deployment(devices=4, weights="fp8", activations="fp8")
    in_16, in_8 = seconds(wide), seconds(fp8)
    assert in_8["gemm"][-1] < in_16["gemm"][-1]  # at 600 rows
    assert np.all(
        in_8["elementwise"] > in_16["elementwise"]
    )  # vLLM quantises what attention writes
    for name in set(in_16) - {"gemm", "elementwise"}:
        np.testing.assert_array_equal(in_8[name], in_16[name])
    half = seconds(deployment(devices=4, weights="fp8", activations="fp8", kv="fp8"))
    assert np.all(half["attention"] <= in_16["attention"])  # the cache alone is narrower


def test_a_run_spends_what_its_passes_take():
    passes = EnginePasses(deployment("qwen3-30b-a3b"), load_engine("vllm"))
    by_rows, by_sampled = np.zeros(601, dtype=np.int64), np.zeros(20, dtype=np.int64)
    by_rows[[8, 600]], by_sampled[[0, 8]] = (3, 1), (1, 3)
    for _ in range(2):  # the second time from the tables of a larger run
        spent = passes.spent_s(by_rows, by_sampled)
        eight = passes.seconds(batch=8.0, query_tokens=1.0, context=0.0)
        many = passes.seconds(batch=600.0, query_tokens=1.0, context=0.0, logits="none")
        for name in set(many) - {"attention"}:
            assert spent[name] == pytest.approx(float(3 * eight[name] + many[name]), rel=1e-9)
        assert spent["head"] == pytest.approx(float(3 * eight["head"]), rel=1e-9)
        assert "attention" not in spent
        passes.spent_s(np.ones(900, dtype=np.int64), np.ones(70, dtype=np.int64))


def test_states_are_billed_by_request_and_not_by_row():
    passes = EnginePasses(deployment("nemotron-h-8b"), load_engine("vllm"))
    assert "state" not in passes.spent_s(np.ones(9, dtype=np.int64), np.ones(9, dtype=np.int64))
    assert passes.attention == "attention"
    assert EnginePasses(deployment("deepseek-v3", 8), load_engine("vllm")).attention == "mla"


@pytest.mark.parametrize("logits", ["all", "last", "none"])
def test_vllm_sorts_the_vocabulary_of_every_sampled_row_until_it_has_a_kernel_for_that(logits):
    d, engine = deployment("qwen3-32b", 4), load_engine("vllm")
    plain, cut, later = (
        EnginePasses(d, engine.on(H100, version), cuts=cuts).seconds(
            **WHOLE | {"query_tokens": 2.0}, logits=logits
        )
        for version, cuts in (("0.12.0", False), ("0.12.0", True), ("0.18.0", True))
    )
    moved = (
        engine.kernels.cut_bytes
        * d.architecture.vocab
        * WHOLE["batch"]
        * {"all": 2, "last": 1, "none": 0}[logits]
    )
    assert set(cut) == set(plain)
    for name in plain:
        extra = moved / H100.bandwidth_bytes_per_s if name == "sampler" else 0.0
        np.testing.assert_allclose(cut[name] - plain[name], extra, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(later[name], plain[name])


def test_the_host_launches_layers_one_by_one():
    llama, qwen = (
        EnginePasses(deployment(name), load_engine("trtllm")).eager_s
        for name in ("llama-3.1-8b", "qwen3-32b")
    )
    assert qwen == pytest.approx(2 * llama)  # 64 and 32 layers of the same kind
    moe, latent = (
        EnginePasses(deployment(n, 8), load_engine("trtllm"))
        for n in ("gpt-oss-120b", "deepseek-v3")
    )
    assert llama / 32 < moe.eager_s / 36 < latent.eager_s / 61


@pytest.mark.parametrize(("version", "ratio"), [("0.11.0", 1.0), ("0.14.1", 1 / 1.39), (None, 0.0)])
def test_a_narrow_cache_is_read_as_fast_as_a_release_can(version, ratio):
    d, shape = deployment(kv="fp8"), WHOLE | {"context": 8192.0}
    own, bytes_alone = (
        EnginePasses(d, load_engine(name).on(H100, version)).seconds(**shape)
        for name in ("vllm", "sglang")
    )
    wide = EnginePasses(deployment(), load_engine("vllm")).seconds(**shape)["attention"]
    expected = np.maximum(bytes_alone["attention"], ratio * wide)
    np.testing.assert_allclose(own["attention"], expected, rtol=1e-12)
    elsewhere = replace(d, device=load_device("b200-sxm"))
    plain = EnginePasses(elsewhere, load_engine("vllm")).seconds(**shape)["attention"]
    old = EnginePasses(elsewhere, load_engine("vllm").on(H100, "0.11.0")).seconds(**shape)[
        "attention"
    ]
    np.testing.assert_array_equal(old, plain)


def test_where_experts_alone_are_narrow_the_other_products_run_in_sixteen_bits():
    formats = {"weights": "fp4-g32", "activations": "fp8"}
    experts = {"experts": Stored("fp4-g32", "fp8")}
    b200, at = load_device("b200-sxm"), {"batch": 16.0, "query_tokens": 1.0, "context": 2048.0}
    alone, every, wide = (
        EnginePasses(
            replace(deployment("gpt-oss-20b", **form), device=b200), load_engine("vllm")
        ).seconds(**at)
        for form in (experts, formats, {})
    )
    assert float(alone["moe"]) == float(every["moe"]) < 0.6 * float(wide["moe"])
    for name in ("gemm", "elementwise", "attention", "head"):
        assert float(alone[name]) == float(wide[name]), name
    assert float(every["gemm"]) != float(wide["gemm"])
