"""Tiles, waves, rereads and libraries: the laws that the calibrated forms obey on every shipped
GPU."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.passes import kernels, ops
from costmodel.passes.kernels.timing import rounded
from costmodel.passes.ops import Work
from hardware_profiles.errors import InputError
from hardware_profiles.loader import device_names, load_device


def has_kernels_of_its_own(device):
    """Whether anything was fitted to it; the others carry constants of these over."""
    return any(
        each.kind == "measured"
        for name, each in device.provenance.items()
        if name.startswith("constants.")
    )


GPUS = [
    name
    for name in device_names()
    if load_device(name).kind == "gpu" and has_kernels_of_its_own(load_device(name))
]
BF16 = {"weight_bytes": 2.0, "activation_bytes": 2.0}


def product(device, m, n=8192, k=8192):
    work = ops.gemm(m, n, k, **BF16)
    return float(kernels.gemm(device, work, m, "bf16", outputs=n).seconds)


@pytest.mark.parametrize("name", GPUS)
@given(m=st.integers(1, 2048), n=st.integers(8, 400), k=st.integers(8, 400))
def test_products_grow_with_every_size(name, m, n, k):
    device = load_device(name)
    here = product(device, m, 64 * n, 64 * k)
    assert product(device, m + 1, 64 * n, 64 * k) >= here * (1 - 1e-2), (
        "waves fill up before the next one starts"
    )
    assert product(device, m, 128 * n, 64 * k) >= here
    assert product(device, m, 64 * n, 128 * k) >= here


def test_rows_jump_at_the_tiles_of_the_a100():
    """A row more than a tile costs as much as a tile more, where arithmetic bounds the product."""
    device = load_device("a100-sxm-80")
    for edge in (128, 256):
        assert product(device, edge + 1) > 1.08 * product(device, edge)
        assert product(device, edge - 1) > 0.97 * product(device, edge)


def test_a_cpu_has_no_tiles():
    device = load_device("cpu-generic")
    one, sixteen = (
        kernels.gemm(device, ops.gemm(m, 512, 512, **BF16), m, "bf16").compute_s for m in (1, 16)
    )
    assert float(sixteen) == pytest.approx(16 * float(one))


@given(waves=st.floats(0.01, 1e4), share=st.floats(0.0, 1.0))
def test_rounding_lies_between_the_waves_and_the_next_whole_number(waves, share):
    found = float(rounded(np.asarray(waves), share))
    assert max(1.0, waves) <= found * (1 + 1e-9)
    assert found <= max(1.0, np.ceil(waves)) * (1 + 1e-9)


def attention(device, b, n, ctx, *, split, heads=32, kv_heads=8):
    work = ops.attention(
        b,
        n,
        ctx,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=128,
        window=None,
        kv_bytes=2.0,
        activation_bytes=2.0,
    )
    form = kernels.split_attention if split else kernels.unsplit_attention
    shape = {
        "requests": b,
        "query_tokens": n,
        "context": ctx,
        "heads": heads,
        "kv_heads": kv_heads,
        "dtype": "bf16",
    }
    return form(device, work, **shape).seconds


@pytest.mark.parametrize("name", GPUS)
@given(b=st.integers(1, 256), n=st.integers(2, 64), ctx=st.integers(64, 60_000))
def test_unsplit_attention_grows_with_batch_and_context(name, b, n, ctx):
    device = load_device(name)
    here = attention(device, b, n, ctx, split=False)
    assert attention(device, 2 * b, n, ctx, split=False) >= here * (1 - 1e-12)
    assert attention(device, b, n, 2 * ctx, split=False) >= here * (1 - 1e-12)


@pytest.mark.parametrize("split", [True, False])
@given(batch=st.lists(st.integers(1, 256), min_size=2, max_size=4), ctx=st.integers(1, 30_000))
def test_arrays_equal_one_at_a_time(split, batch, ctx):
    device = load_device("a100-sxm-80")
    tokens = np.array([1.0, 2.0, 9.0])[:, None]
    together = attention(device, np.array(batch, dtype=float), tokens, float(ctx), split=split)
    single = [
        [float(attention(device, float(b), float(n), float(ctx), split=split)) for b in batch]
        for n in tokens[:, 0]
    ]
    np.testing.assert_allclose(together, single, rtol=1e-12)


def test_several_tokens_take_the_constants_of_verification():
    device = load_device("a100-sxm-80")
    slow = replace(device, constants=device.constants.changed({"verify.launch_s": 1e-3}))
    assert attention(slow, 4, 1, 4096, split=True) == attention(device, 4, 1, 4096, split=True)
    assert attention(slow, 4, 2, 4096, split=True) > 0.9e-3


def test_heads_of_a_group_share_reads_until_too_many_requests_are_in_flight():
    device = load_device("rtx-pro-6000")
    per_token = [float(attention(device, b, 1, 16_384, split=False)) / b for b in (16, 64, 256)]
    one_read = (
        16_384
        * 2
        * 8
        * 128
        * 2
        / (device.bandwidth_bytes_per_s * device.constants.unsplit.bandwidth_efficiency)
    )
    assert per_token[2] == pytest.approx(4 * one_read, rel=0.05), (
        "four query heads per cached head, four reads"
    )
    assert per_token[0] < 0.8 * per_token[2]


def test_requests_beside_a_chunk_take_their_time():
    device = load_device("rtx-pro-6000")
    work = ops.attention(
        1,
        512,
        4096,
        heads=32,
        kv_heads=8,
        head_dim=128,
        window=None,
        kv_bytes=2.0,
        activation_bytes=2.0,
    )
    shape = {
        "requests": 1,
        "query_tokens": 512,
        "context": 4096,
        "heads": 32,
        "kv_heads": 8,
        "dtype": "bf16",
    }
    alone = kernels.unsplit_attention(device, work, **shape).seconds
    assert kernels.unsplit_attention(device, work, **shape, beside=(0, 0)).seconds == alone
    grown = [
        kernels.unsplit_attention(device, work, **shape, beside=(b, 4096)).seconds
        for b in (1, 16, 64)
    ]
    assert alone <= grown[0] <= grown[1] < grown[2]


@pytest.mark.parametrize("name", GPUS)
@given(n=st.integers(2, 8192))
def test_prompts_cost_at_least_their_arithmetic_at_the_stated_share(name, n):
    device = load_device(name)
    work = ops.attention(
        1, n, 0, heads=32, kv_heads=8, head_dim=128, window=None, kv_bytes=2.0, activation_bytes=2.0
    )
    timing = kernels.prefill_attention(
        device, work, "bf16", requests=1, query_tokens=n, context=0, heads=32
    )
    assert timing.seconds >= timing.launch_s + max(timing.compute_s, timing.memory_s)


@pytest.mark.parametrize("name", GPUS)
@given(
    window=st.sampled_from([128, 512, 1024, 4096]),
    prompt=st.integers(1, 12).map(lambda parts: 2048 * parts),
)
def test_a_windowed_prompt_walks_the_tiles_of_its_parts(name, window, prompt):
    """Without launches and traffic, parts together take the time of the whole; a wide window is
    none."""
    device = load_device(name)
    walks = {"launch_s": 0.0, "unit_s": 0.0, "wave_ratio": 0.0, "norm": 64.0}
    device = replace(
        device,
        constants=device.constants.changed({f"context.{key}": x for key, x in walks.items()}),
    )
    idle = Work(np.zeros(()), np.zeros(()))

    def seconds(new, before, window):
        return float(
            kernels.prefill_attention(
                device,
                idle,
                "bf16",
                requests=8,
                query_tokens=new,
                context=before,
                heads=32,
                window=window,
            ).seconds
        )

    parts = sum(seconds(2048, before, window) for before in range(0, prompt, 2048))
    assert parts == pytest.approx(seconds(prompt, 0, window), rel=1e-9)
    assert seconds(prompt, 0, window) <= seconds(prompt, 0, None) * (1.0 + 1e-12)
    assert seconds(prompt, 0, prompt) == pytest.approx(seconds(prompt, 0, None), rel=1e-9)


def test_a_cache_that_is_not_split_is_walked_whatever_the_batch():
    device = load_device("a100-sxm-80")

    def seconds(b, ctx):
        work = ops.latent_attention(
            b, 1, ctx, heads=16, latent=512, rope=64, kv_bytes=2.0, activation_bytes=2.0
        )
        return float(
            kernels.latent_attention(device, work, "bf16", context=ctx, requests=b, rows=16).seconds
        )

    assert seconds(2, 16_384) < 1.1 * seconds(1, 16_384)
    assert seconds(1, 16_384) > 1.8 * seconds(1, 8192)


@pytest.mark.parametrize("name", ["a100-sxm-80", "l40s"])
def test_latent_caches_that_are_not_split_are_walked_in_waves(name):
    """As in the tables of the A100, in walks of one request alone: half of the processors walk as
    long as one, all of them 1.35 times, and one request more waits for a wave of its own.
    """
    device = load_device(name)

    def walks(requests, heads=16):
        work = ops.latent_attention(
            requests,
            1,
            65_536,
            heads=heads,
            latent=512,
            rope=64,
            kv_bytes=2.0,
            activation_bytes=2.0,
        )
        timing = kernels.latent_attention(
            device, work, "bf16", context=65_536, requests=requests, rows=heads
        )
        return float(timing.seconds)

    half, all_of_them = device.processors // 2, device.processors
    pair = device.constants.mla.pair_ratio
    assert walks(half) == pytest.approx(walks(1), rel=0.01)
    assert walks(half + 1) == pytest.approx(pair * walks(1), rel=0.01)
    assert walks(all_of_them) >= 0.99 * pair * walks(1)
    assert walks(all_of_them + 1) >= 0.99 * (pair + 1.0) * walks(1)
    if name == "a100-sxm-80":  # the L40S has less bandwidth for more processors
        assert walks(all_of_them + 1) == pytest.approx((pair + 1.0) * walks(1), rel=0.05)
    assert walks(half // 2, heads=128) == pytest.approx(walks(half // 2), rel=0.01)
    assert walks(half, heads=128) > 1.3 * walks(half), "128 heads are two units"


def test_few_query_rows_over_a_latent_cache_read_it_once_per_tile_of_sixteen():
    """B200: 32 heads take half as long again as 16, and 64 run together in less time than 32."""
    device = load_device("b200-sxm")

    def seconds(heads):
        work = ops.latent_attention(
            256, 1, 16_384, heads=heads, latent=512, rope=64, kv_bytes=2.0, activation_bytes=2.0
        )
        timing = kernels.latent_attention(
            device, work, "bf16", context=16_384, requests=256, rows=heads
        )
        return float(timing.seconds)

    assert seconds(32) / seconds(16) == pytest.approx(
        1.0 + device.constants.mla.reread_ratio, rel=0.02
    )
    assert seconds(64) < seconds(32)


@pytest.mark.parametrize("outputs", [1024, 4096, 65_536])
def test_products_with_few_output_tiles_stream_their_weights_with_few_processors(outputs):
    device = load_device("b200-sxm").in_format("fp8")
    even = replace(device, constants=device.constants.changed({"gemm.fill_ratio": 0.0}))
    work = ops.gemm(1, outputs, 65_536, weight_bytes=1.0, activation_bytes=2.0)
    slower = [
        kernels.gemm(each, work, 1, "fp8", outputs=outputs).memory_s for each in (device, even)
    ]
    idle = max(device.processors * 128 / outputs, 1.0) - 1.0
    assert slower[0] / slower[1] == pytest.approx(1.0 + device.constants.gemm.fill_ratio * idle)


def test_a_narrower_head_saves_arithmetic_and_no_softmax():
    device = load_device("b200-sxm")
    shape = {"requests": 8, "query_tokens": 8192, "context": 0, "heads": 32}
    times = []
    for width in (64, 128):
        work = ops.attention(
            8,
            8192,
            0,
            heads=32,
            kv_heads=4,
            head_dim=width,
            window=None,
            kv_bytes=2.0,
            activation_bytes=2.0,
        )
        times.append(
            float(kernels.prefill_attention(device, work, "bf16", head_dim=width, **shape).seconds)
        )
    assert 0.6 < times[0] / times[1] < 1.0


def test_more_tokens_than_experts_take_larger_tiles():
    keywords = {"hidden": 64, "width": 64, "matrices": 3, "experts_per_token": 1, **BF16}
    few, many = (ops.experts(t, 8, experts=8, many_rows=64.0, **keywords).flops for t in (8, 9))
    assert float(many) == pytest.approx(4 * float(few))
    assert ops.experts(9, 8, many_rows=64.0, **keywords).flops == few, (
        "without the number of experts tiles stay small"
    )
    assert ops.experts(9, 8, experts=8, **keywords).flops == few, (
        "kernels that go by the load keep small tiles"
    )
    assert 2 * ops.experts(9, 8, experts=8, few_rows=8.0, many_rows=8.0, **keywords).flops == few
    assert ops.experts(9, 8, padded_rows=100, **keywords).flops == 2 * 100 * 3 * 64 * 64


@pytest.mark.parametrize("backend", ["vllm", "trtllm", "nccl"])
@given(size=st.floats(1.0, 1e9), devices=st.sampled_from([2, 4, 8]))
def test_reductions_grow_within_a_library(backend, size, devices):
    device = load_device("h100-sxm")

    def seconds(message, graphs=True):
        return float(
            kernels.allreduce(device, message, devices, graphs=graphs, backend=backend).seconds
        )

    edge = 16 * 2**20
    if (size < edge) == (2 * size < edge):
        assert seconds(2 * size) > seconds(size)
    assert seconds(size, graphs=False) == pytest.approx(
        max(seconds(size), device.constants.allreduce.eager_s)
    )


def test_large_messages_go_to_nccl():
    device = load_device("h100-sxm")
    for backend in ("vllm", "trtllm"):
        large = kernels.allreduce(device, 2.0**24, 8, backend=backend).seconds
        assert large == kernels.allreduce(device, 2.0**24, 8, backend="nccl").seconds
    with pytest.raises(InputError, match="must be one of vllm, trtllm, nccl"):
        kernels.allreduce(device, 1e6, 2, backend="gloo")


@pytest.mark.parametrize("name", GPUS)
@given(b=st.integers(1, 128), n=st.integers(2, 16), ctx=st.integers(1, 131_072))
def test_several_query_tokens_never_take_less_time_than_one(name, b, n, ctx):
    """Within one tile of rows: with more tiles a kernel has more units to spread, and may need no
    splits."""
    device = load_device(name)
    one, several = (float(attention(device, b, count, ctx, split=True)) for count in (1, n))
    assert several >= one * (1 - 1e-12)


def test_short_contexts_of_many_requests_cost_their_units_or_their_reads_and_not_both():
    """B200, 2048 requests with 8 cached heads: 188 us at 32 tokens, 190 at 128, 314 at 256 were
    measured."""
    device = load_device("b200-sxm")
    for context, measured_s in ((32, 188e-6), (128, 190e-6), (256, 314e-6)):
        work = ops.attention(
            2048,
            1,
            context,
            heads=16,
            kv_heads=8,
            head_dim=128,
            window=None,
            kv_bytes=2.0,
            activation_bytes=2.0,
        )
        timing = kernels.split_attention(
            device,
            work,
            requests=2048,
            query_tokens=1,
            context=context,
            heads=16,
            kv_heads=8,
            dtype="bf16",
        )
        assert float(timing.seconds) == pytest.approx(measured_s, rel=0.12), context
