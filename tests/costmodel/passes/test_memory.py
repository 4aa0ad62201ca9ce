"""Memory: known sizes, monotonicity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.passes.memory import footprint, kv_bytes, weight_bytes
from costmodel.passes.precision import Precision, precision

BF16 = Precision()
LLAMA = load_model("llama-3.1-8b")


def test_known_sizes():
    assert weight_bytes(LLAMA, BF16) == pytest.approx(16.06e9, rel=0.001)
    assert float(kv_bytes(LLAMA, BF16, batch=1, context=16)) == 16 * 131_072  # 128 KiB a token
    deepseek = load_model("deepseek-v3")
    assert (
        float(kv_bytes(deepseek, BF16, batch=1, context=16)) == 16 * 61 * 576 * 2
    )  # latent: 70 KB a token


def test_key_value_heads_are_copied_where_there_are_more_devices_than_heads():
    eight, sixteen = (
        float(kv_bytes(LLAMA, BF16, batch=1, context=16, tensor_parallel=n)) for n in (8, 16)
    )
    assert eight == sixteen == 16 * 131_072 / 8


def test_draft_tokens_need_room_until_they_are_judged():
    held = footprint(LLAMA, BF16, batch=2, context=1000, query_tokens=8, page_tokens=1)
    assert float(held.cache_bytes) == 2 * 1008 * 131_072


def test_pages_round_up():
    assert kv_bytes(LLAMA, BF16, batch=1, context=1) == kv_bytes(LLAMA, BF16, batch=1, context=16)


def test_windows_bound_the_cache():
    gemma = load_model("gemma-2-9b")
    short, long = (float(kv_bytes(gemma, BF16, batch=1, context=c)) for c in (4096, 65_536))
    assert long < 10 * short  # half of the layers stop at 4096


@given(
    batch=st.integers(1, 64),
    context=st.integers(1, 10_000),
    tokens=st.integers(1, 32),
    tp=st.sampled_from([1, 2, 4, 8]),
)
def test_memory_grows_with_everything_and_shrinks_with_devices(batch, context, tokens, tp):
    def needed(**change):
        point = {
            "batch": batch,
            "context": context,
            "query_tokens": tokens,
            "tensor_parallel": tp,
        } | change
        return float(footprint(LLAMA, BF16, **point).total_bytes)

    base = needed()
    assert needed(batch=batch + 1) > base
    assert needed(context=context + 16) > base
    assert needed(query_tokens=tokens + 1) > base
    assert needed(tensor_parallel=2 * tp) < base
    assert needed(drafter_bytes=1e9) == pytest.approx(base + 1e9)


def test_quantised_weights_keep_a_wide_embedding_and_output_head():
    wide = LLAMA.embedding_parameters + LLAMA.head_parameters
    expected = 2 * wide + (LLAMA.parameters - wide) * precision("int4").weight_bytes
    assert weight_bytes(LLAMA, precision("int4")) == pytest.approx(expected)


def test_pages_of_any_size():
    exact = float(kv_bytes(LLAMA, BF16, batch=1, context=33, page_tokens=1))
    assert exact == 33 * 131_072
    assert float(kv_bytes(LLAMA, BF16, batch=1, context=33, page_tokens=32)) == 64 * 131_072
    assert float(kv_bytes(LLAMA, BF16, batch=1, context=33)) == 48 * 131_072
