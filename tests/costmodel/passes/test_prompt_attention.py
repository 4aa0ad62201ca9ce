"""Attention over prompts in FlashAttention 3 against calls of it that were timed on an H100."""

from dataclasses import replace

import numpy as np
import pandas
import pytest

from costmodel.architectures.library import load_model
from costmodel.calibration.own_trace import trace_measurements
from costmodel.calibration.timing import timed
from costmodel.engine_library import load_engine
from costmodel.passes import kernels, ops
from costmodel.passes.deployment import Deployment
from costmodel.passes.precision import Precision
from costmodel.passes.prompt_attention import with_prompt_attention
from hardware_profiles.loader import load_device
from real_runs.campaigns.results import SHIPPED
from simulator.timing.engine_passes import EnginePasses
from traces.storage.kernels import read_kernels

FILE = SHIPPED / "h100-80gb-hbm3" / "2026-11-22" / "kernels.parquet"
H100 = load_device("h100-sxm")
D = Deployment(architecture=load_model("llama-3.1-70b"), device=H100, precision=Precision())
PROMPT = {"batch": 1.0, "query_tokens": 8192.0, "context": 0.0, "prefill": True}


@pytest.fixture(scope="module")
def calls():
    """Calls of FlashAttention 3 in place of the fastest kernel of each shape."""
    (fastest,) = (
        each for each in trace_measurements(FILE) if each.operation == "attention_context"
    )
    times = {
        (row.requests, row.query_tokens, row.context): row.median_s
        for row in read_kernels(FILE).rows
        if (row.operation, row.implementation, row.graph)
        == ("prefill_attention", "vllm-flash-attn-3", True)
    }
    shapes = zip(
        *(fastest.columns[name] for name in ("requests", "query_tokens", "context")), strict=True
    )
    return replace(fastest, seconds=np.array([times[tuple(map(int, shape))] for shape in shapes]))


def test_flash_attention_3_is_timed_by_its_own_constants(calls):
    own, tables = (
        np.abs(timed(device, calls)[0] / calls.seconds - 1.0)
        for device in (with_prompt_attention(D, "flash-attention-3").device, H100)
    )
    assert len(calls) == 32
    assert np.median(own) < 0.035 and np.quantile(own, 0.9) < 0.09
    assert np.median(tables) > 0.15


def test_windowed_prompts_are_as_fast_as_tables_say(reference_data):
    """vLLM's FlashAttention 3 with windows of 128 on an H100: prompts beyond four windows, whose tiles
    before the window are passed over, are as far off as prompts that a window holds. The shortest
    calls (batch 1, one head) are launches, which the tables' own run has shorter."""
    rows = pandas.read_parquet(reference_data / "kernels" / "by_engine_attn_ctx_window.parquet")
    rows = rows[
        (rows.gpu == "h100_sxm")
        & (rows.kernel_source == "vllm_flash_attn_fa3")
        & (rows.attn_dtype == "bfloat16")
        & (rows.kv_cache_dtype == "bfloat16")
        & (rows.window_size == 128)
        & (rows.head_dim == 64)
    ]
    b, n, heads = (rows[name].to_numpy(float) for name in ("batch_size", "isl", "num_heads"))
    shape = {"requests": b, "query_tokens": n, "context": np.zeros_like(n), "heads": heads}
    kv_heads = rows.num_key_value_heads.to_numpy(float)
    work = ops.attention(
        *(shape[name] for name in ("requests", "query_tokens", "context")),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=64,
        window=128,
        kv_bytes=2.0,
        activation_bytes=2.0,
    )
    device = with_prompt_attention(D, "flash-attention-3").device
    timing = kernels.prefill_attention(device, work, "bf16", **shape, head_dim=64, window=128)
    error = np.abs(timing.seconds * 1e6 / rows.time_us.to_numpy() - 1.0)
    beyond = n > 4 * 128
    assert beyond.sum() > 2000 and np.median(error[beyond]) < 0.22
    assert abs(np.median(error[beyond]) - np.median(error[~beyond])) < 0.06
    without = kernels.prefill_attention(device, work, "bf16", **shape, head_dim=64)
    assert np.median(np.abs(without.seconds * 1e6 / rows.time_us.to_numpy() - 1.0)[beyond]) > 0.5


def test_what_a_user_set_stays():
    slow = replace(
        D, device=load_device("h100-sxm", ["device.constants.context.compute_efficiency=0.2"])
    )
    constants = with_prompt_attention(slow, "flash-attention-3").device.constants
    assert constants.context.compute_efficiency == 0.2 and constants.context.norm == 4.0


def test_only_hopper_has_other_kernels_than_its_profile():
    assert with_prompt_attention(D, "profile") is D
    b200 = replace(D, device=load_device("b200-sxm"))
    assert with_prompt_attention(b200, "flash-attention-3") is b200


@pytest.mark.parametrize(
    ("engine", "faster"), [("vllm", True), ("sglang", True), ("tensorrt-llm", False)]
)
def test_prompts_run_in_the_engines_kernels(engine, faster):
    found = EnginePasses(D, load_engine(engine))
    profile = EnginePasses(D, replace(load_engine(engine), kernels=load_engine("none").kernels))
    own, plain = (float(each.seconds(**PROMPT)["attention"]) for each in (found, profile))
    assert own < plain if faster else own == plain
    one = {"batch": 8.0, "query_tokens": 1.0, "context": 4096.0}
    assert found.seconds(**one)["attention"] == profile.seconds(**one)["attention"]
