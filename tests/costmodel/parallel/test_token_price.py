"""A token's price at the roofs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.parallel.token_price import cheapest_mix, token_price, token_work
from costmodel.passes import ops
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device

H100 = load_device("h100-sxm", ["device.price_usd_per_hour=2"])
H200 = load_device("h200-sxm", ["device.price_usd_per_hour=1"])
NAMES = st.sampled_from(
    ["llama-3-70b", "qwen3-32b", "mixtral-8x7b", "deepseek-v2-lite", "deepseek-v3", "gemma-2-9b"]
)


@given(name=NAMES)
def test_products_are_the_active_weights(name):
    """Two FLOPs per active weight outside embedding, head, norms and biases."""
    model = load_model(name)
    work = token_work(model, Precision(), 0)
    counted = (work.projection_flops + work.feed_forward_flops) / 2
    ends = model.embedding_parameters + (0 if model.tied else model.head_parameters)
    assert counted == pytest.approx(model.active_parameters - ends, rel=1e-3)
    assert work.cache_bytes == work.attention_flops == 0


@given(context=st.integers(1, 100_000))
def test_attention_is_counted_as_in_a_pass(context):
    """The new token sees itself: `context` cached tokens are the last one and those before it."""
    grouped = load_model("llama-3-70b")
    work = ops.attention(
        1,
        1,
        context - 1,
        heads=64,
        kv_heads=8,
        head_dim=128,
        window=None,
        kv_bytes=2.0,
        activation_bytes=0.0,
    )
    counted = token_work(grouped, Precision(), context)
    assert counted.attention_flops == pytest.approx(80 * work.flops)
    assert counted.cache_bytes == pytest.approx(80 * work.bytes)
    latent = ops.latent_attention(
        1, 1, context - 1, heads=128, latent=512, rope=64, kv_bytes=2.0, activation_bytes=0.0
    )
    counted = token_work(load_model("deepseek-v3"), Precision(), context)
    assert counted.attention_flops == pytest.approx(61 * latent.flops)
    assert counted.cache_bytes == pytest.approx(61 * latent.bytes)


def test_whole_latent_vectors_cost_more_arithmetic_and_no_bytes():
    model = load_model("deepseek-v3")
    usual, whole = (
        token_work(model, Precision(), 8192, whole_latent=flag) for flag in (False, True)
    )
    assert whole.attention_flops / usual.attention_flops == pytest.approx(2 * 576 / (576 + 512))
    assert whole.cache_bytes == usual.cache_bytes


def test_windows_bound_the_cache_and_may_have_their_own_format():
    model = load_model("gemma-2-9b")
    near, far = (token_work(model, Precision(), tokens) for tokens in (4096, 8192))
    assert near.cache_bytes < far.cache_bytes < 2 * near.cache_bytes
    narrow = token_work(model, Precision(), 8192, windowed_kv="fp8")
    full = (
        far.cache_bytes - near.cache_bytes
    )  # what only unbounded layers add over another 4096 tokens
    assert narrow.cache_bytes == pytest.approx(2 * full + near.cache_bytes / 4)


@given(context=st.integers(1, 100_000), usd=st.floats(0.1, 100.0), name=NAMES)
def test_prices_scale_with_rent_and_never_fall_with_context(context, usd, name):
    model = load_model(name)
    work = token_work(model, Precision(), np.array([context, 2 * context]))
    price = token_price(work, H100, "bf16")
    dearer = token_price(work, replace(H100, price_usd_per_hour=2 * usd), "bf16")
    assert dearer.attention_usd == pytest.approx(price.attention_usd * usd)
    assert price.attention_usd[1] >= price.attention_usd[0]


@given(context=st.integers(1, 100_000), name=NAMES)
def test_the_cheapest_mix_costs_no_more_than_any_one_device(context, name):
    work = token_work(load_model(name), Precision(), context)
    mix = cheapest_mix(work, [(H100, "bf16"), (H200, "bf16")])
    for device in (H100, H200):
        assert mix <= sum(token_price(work, device, "bf16")) * (1 + 1e-12)


def test_missing_prices_and_devices_are_refused():
    work = token_work(load_model("llama-3-70b"), Precision(), 10)
    with pytest.raises(InputError, match="price"):
        token_price(work, replace(H100, price_usd_per_hour=None), "bf16")
    with pytest.raises(InputError, match="device"):
        cheapest_mix(work, [])
