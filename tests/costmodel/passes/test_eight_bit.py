"""Products in fp8 on Hopper against rows that hold them alone and rows that hold the conversion
too; who quantises."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.architectures.library import load_model
from costmodel.calibration.calibrate import usable
from costmodel.calibration.own_trace import trace_measurements
from costmodel.calibration.tables import read_measurements
from costmodel.calibration.timing import timed
from costmodel.engine_library import load_engine
from costmodel.passes.deployment import Deployment
from costmodel.passes.eight_bit import with_eight_bit_products
from costmodel.passes.forward import pass_cost
from costmodel.passes.precision import Precision
from hardware_profiles.loader import load_device
from real_runs.campaigns.results import SHIPPED
from simulator.timing.engine_passes import EnginePasses

H100 = load_device("h100-sxm")
OWN = SHIPPED / "h100-80gb-hbm3" / "2026-11-22" / "kernels.parquet"
FP8 = Precision(weights="fp8", activations="fp8")


def deployment(model="llama-3.1-70b", devices=1, **changes):
    settings = {
        "architecture": load_model(model),
        "device": H100,
        "precision": FP8,
        "tensor_parallel": devices,
    }
    return Deployment(**settings | changes)


def device_of(products):
    return with_eight_bit_products(deployment(), products).device


def errors(rows, products):
    return timed(device_of(products), rows, dtype="fp8")[0] / rows.seconds - 1.0


def test_only_fp8_on_hopper_has_constants_of_its_own():
    wide, l4 = deployment(precision=Precision()), deployment(device=load_device("l4"))
    assert with_eight_bit_products(wide) is wide
    assert with_eight_bit_products(l4) is l4
    assert (
        with_eight_bit_products(
            deployment(device=load_device("h200-sxm"))
        ).device.constants.gemm.launch_s
        < 4e-6
    )


def test_products_timed_alone():
    (rows,) = (each for each in trace_measurements(OWN) if each.operation == "gemm")
    fp8 = rows.select(rows.dtype == "fp8")
    error = errors(fp8, "cutlass")
    assert len(error) == 45
    assert np.median(np.abs(error)) < 0.035 and np.quantile(np.abs(error), 0.9) < 0.08
    large = fp8.select(fp8.columns["rows"] == 4096)
    work = 2.0 * large.columns["rows"] * large.columns["outputs"] * large.columns["inputs"]
    share = np.median(work / large.seconds / H100.peak("fp8"))
    assert device_of("cutlass").constants.prefill.compute_efficiency == pytest.approx(
        share, abs=0.005
    )


@pytest.fixture(scope="module", params=["published_kernels", "measured_kernels"])
def kernel_table(request):
    """Products on H100: those that travel with the tests, then the whole table."""
    return request.getfixturevalue(request.param) / "gemm_h100_sxm.csv"


@pytest.mark.parametrize(
    ("products", "low", "high"), [("cutlass", -0.30, -0.15), ("trtllm", -0.04, 0.04)]
)
def test_products_timed_with_the_conversion_of_their_inputs(kernel_table, products, low, high):
    """Few rows are bound by memory in anybody's kernels; many are not, and the tables are of
    TensorRT-LLM's. Two standard errors of the median of a hundred rows are 0.05."""
    (rows,) = read_measurements(kernel_table)
    whole = len(rows) > 10_000
    cold = rows.select(usable(H100, rows, dtype="fp8"))
    sizes, error = cold.columns, errors(cold, products)
    assert (sizes["converts"] == 1.0).all()
    assert abs(np.median(error[sizes["rows"] <= 128])) < 0.05
    large = (sizes["rows"] >= 512) & (sizes["outputs"] >= 2048) & (sizes["inputs"] >= 2048)
    slack = 0.0 if whole else 0.05
    assert large.sum() >= (441 if whole else 100)
    assert low - slack < np.median(error[large]) < high + slack


def test_scales_by_block_slow_prompts_down_in_anybodys_kernels():
    """DeepGEMM on an H100, 1024 x 7168 x 18432: 283 us."""
    by_block = replace(FP8, weights="fp8-block")
    shares = {
        (products, precision.weights): with_eight_bit_products(
            deployment(precision=precision), products
        ).device.constants.prefill.compute_efficiency
        for products in ("cutlass", "trtllm")
        for precision in (FP8, by_block)
    }
    assert shares["cutlass", "fp8"] == shares["trtllm", "fp8"]  # cuBLAS's in both
    assert shares["cutlass", "fp8-block"] == shares["trtllm", "fp8-block"]
    kept_up = shares["trtllm", "fp8-block"] * load_engine("tensorrt-llm").kernels.sustained_ratio
    work = 2.0 * 1024 * 7168 * 18432
    assert work / (kept_up * H100.peak("fp8")) == pytest.approx(283e-6, rel=0.03)
    released = deployment("deepseek-v3", 8)
    assert released.scales_by_block and not deployment().scales_by_block


def quantising(engine, model="llama-3.1-70b", devices=1):
    """Launches per layer that quantise inputs of products, the output head left out."""
    d = load_engine(engine).running(deployment(model, devices))
    cost = pass_cost(d, batch=8.0, query_tokens=1.0, context=512.0, logits="none")
    found = [each for each in cost.operations if each.role == "quantise"]
    return {
        round(float(each.timing.launch_s) / H100.constants.elementwise.kernel_s) for each in found
    } or {0}


@pytest.mark.parametrize(
    ("engine", "devices", "launches"),
    [
        ("vllm", 1, 1),
        ("vllm", 8, 1),
        ("sglang", 8, 4),
        ("tensorrt-llm", 1, 2),
        ("tensorrt-llm", 8, 0),
        ("none", 1, 4),
    ],
)
def test_what_quantises_is_the_engines(engine, devices, launches):
    assert quantising(engine, devices=devices) == {launches}


def test_scales_by_block_always_take_a_kernel():
    counts = {
        engine: quantising(engine, "deepseek-v3", 8)
        for engine in ("vllm", "sglang", "tensorrt-llm")
    }
    assert counts["vllm"] == counts["tensorrt-llm"] and min(counts["vllm"]) > 4
    assert min(counts["sglang"]) > 4


@pytest.mark.parametrize(
    ("model", "saved"), [("llama-3.1-70b", 2), ("llama-3.1-8b", 0), ("qwen3-32b", 0)]
)
def test_reductions_that_normalise_save_two_launches_per_layer(model, saved):
    wide = deployment(model, 8, precision=Precision())

    def launches_s(d):
        cost = pass_cost(d, batch=8.0, query_tokens=1.0, context=512.0)
        return sum(
            float(o.timing.launch_s) * o.calls
            for o in cost.operations
            if o.name == "elementwise" and not o.role
        )

    kernel_s = H100.constants.elementwise.kernel_s * wide.architecture.layers
    running = load_engine("tensorrt-llm").running(wide)
    assert launches_s(replace(running, norms_in_reductions=False)) - launches_s(
        running
    ) == pytest.approx(saved * kernel_s)
    assert launches_s(
        load_engine("tensorrt-llm").running(replace(wide, tensor_parallel=1))
    ) == pytest.approx(launches_s(replace(wide, tensor_parallel=1)))


def test_reductions_that_quantise_exchange_whole_messages_up_to_128_rows():
    """TensorRT-LLM's fused kernel on eight devices: one shot of 2 MB takes twice as long as two of
    a quarter each."""
    found = EnginePasses(deployment(devices=8), load_engine("tensorrt-llm"))
    other = EnginePasses(deployment(devices=8, precision=Precision()), load_engine("tensorrt-llm"))
    rows = np.array([8.0, 64.0, 128.0, 129.0, 2048.0])
    ratio = np.divide(
        *(
            each.seconds(batch=rows, query_tokens=1.0, context=512.0)["allreduce"]
            for each in (found, other)
        )
    )
    np.testing.assert_array_equal(ratio[[0, 3, 4]], 1.0)
    assert 1.2 < ratio[1] < ratio[2] < 2.5


def test_shared_experts_run_among_the_routed_ones_where_an_engine_merges_them():
    shape = {"batch": np.array([4.0, 64.0]), "query_tokens": 1.0, "context": 512.0}
    d = deployment("deepseek-v3", 8)
    sglang, merged = (
        load_engine("sglang"),
        EnginePasses(d, load_engine("sglang")).seconds(**shape),
    )
    apart = EnginePasses(
        d, replace(sglang, kernels=replace(sglang.kernels, merges_experts=frozenset()))
    ).seconds(**shape)
    assert np.all(merged["gemm"] < apart["gemm"]) and np.all(
        merged["elementwise"] < apart["elementwise"]
    )
    assert np.all(merged["moe"] > apart["moe"])
    assert sum(merged.values())[0] < sum(apart.values())[0]  # at few rows launches count
    assert d.architecture.blocks[-1][0].feed_forward.merged().parameters(7168) == pytest.approx(
        d.architecture.blocks[-1][0].feed_forward.parameters(7168), rel=1e-5
    )


def test_products_that_no_kernel_splits_take_the_longer_the_more_inputs_they_have():
    """As profiled on MI325X at 64 rows: 123 us with 7168 inputs, 39 with 2304, 34 with 2048."""
    device = load_device("mi325x")
    sglang = load_engine("sglang").on(device)
    d = deployment("deepseek-r1", 8, device=device)

    def products(running, precision):
        cost = pass_cost(
            replace(running, precision=precision), batch=64.0, query_tokens=1.0, context=512.0
        )
        return {op.role: float(op.timing.seconds) for op in cost.operations if op.name == "gemm"}

    walked = products(sglang.running(d), FP8)
    for role, seconds in {
        "q_down": 123e-6,
        "gate_up": 122e-6,
        "down": 39e-6,
        "output": 34e-6,
    }.items():
        assert walked[role] == pytest.approx(seconds, rel=0.05)
    others = products(replace(sglang.running(d), product_walk_s=0.0), FP8)
    assert all(walked[role] == others[role] for role in ("kv_down", "kv_up", "router"))
    assert all(walked[role] > others[role] for role in ("q_down", "q_up", "output"))


def test_only_scales_by_block_on_devices_that_were_profiled_are_walked():
    sglang = load_engine("sglang")
    walks = {
        (model, name): sglang.running(deployment(model, 8, device=load_device(name))).product_walk_s
        for model in ("deepseek-r1", "llama-3.1-70b")
        for name in ("mi300x", "mi355x", "h200-sxm")
    }
    assert {key for key, walk_s in walks.items() if walk_s} == {
        ("deepseek-r1", "mi300x"),
        ("deepseek-r1", "mi355x"),
    }
    sixteen = replace(
        deployment("deepseek-r1", 8, device=load_device("mi300x")), precision=Precision()
    )
    assert sglang.running(sixteen).product_walk_s == 0.0
    others = EnginePasses(deployment("deepseek-r1", 8, device=load_device("mi300x")), sglang).others
    assert others.product_walk_s == 0.0  # what runs in 16 bits between products
