"""Counts of FLOPs and bytes against numbers worked out by hand, and the laws they obey."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.passes import ops
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.precision import Precision
from hardware_profiles.loader import load_device

BF16 = {"weight_bytes": 2.0, "activation_bytes": 2.0}


def test_gemm_by_hand():
    work = ops.gemm(3, 5, 7, **BF16)
    assert work.flops == 2 * 3 * 5 * 7
    assert work.bytes == 2 * (5 * 7 + 3 * 7 + 3 * 5)


def test_attention_of_one_token_by_hand():
    work = ops.attention(
        2, 1, 10, heads=4, kv_heads=2, head_dim=8, window=None, kv_bytes=2.0, activation_bytes=2.0
    )
    assert work.flops == 4 * 2 * 4 * 8 * 11  # the new token sees itself too
    assert work.bytes == 2 * (11 * 2 * 2 * 8 * 2 + 2 * 4 * 8 * 2)


@given(n=st.integers(1, 40), context=st.integers(0, 200))
def test_causal_attention_equals_a_sum_over_tokens(n, context):
    together = ops.attention(
        1,
        n,
        context,
        heads=1,
        kv_heads=1,
        head_dim=1,
        window=None,
        kv_bytes=1.0,
        activation_bytes=0.0,
    )
    one_by_one = sum(4 * (context + position + 1) for position in range(n))
    np.testing.assert_allclose(together.flops, one_by_one)


@given(n=st.integers(1, 64), context=st.integers(64, 100_000))
def test_verifying_reads_the_cache_once(n, context):
    """n query tokens read the cache once; n separate steps would read it n times."""
    keywords = {
        "heads": 8,
        "kv_heads": 2,
        "head_dim": 16,
        "window": None,
        "kv_bytes": 2.0,
        "activation_bytes": 0.0,
    }
    verify = ops.attention(1, n, context, **keywords).bytes
    single = ops.attention(1, 1, context, **keywords).bytes
    assert verify <= single * (1 + n / context)


def test_a_window_bounds_what_is_read():
    keywords = {"heads": 8, "kv_heads": 8, "head_dim": 4, "kv_bytes": 2.0, "activation_bytes": 0.0}
    near = ops.attention(1, 1, 64, window=128, **keywords)
    assert near == ops.attention(1, 1, 64, window=None, **keywords)
    far = ops.attention(1, 1, 5000, window=128, **keywords)
    assert far.bytes == 128 * 2 * 8 * 4 * 2.0


@given(
    new=st.integers(1, 300),
    context=st.integers(0, 300),
    window=st.one_of(st.none(), st.integers(1, 300)),
    block=st.sampled_from([0, 1, 4, 32]),
)
def test_every_token_sees_its_own_part_of_a_window(new, context, window, block):
    size = block or new
    whole = new - new % size if new >= size else new  # blocks that are all full
    ends = [context + min(size * (at // size + 1), whole) for at in range(whole)]
    seen = [end if window is None else min(end, window) for end in ends]
    law = float(ops.attention_context(whole, context, window, block))
    assert law == pytest.approx(np.mean(seen), rel=1e-12)


@given(
    prompt=st.integers(1, 20_000),
    chunk=st.integers(64, 4096),
    window=st.one_of(st.none(), st.integers(1, 8192)),
)
def test_parts_of_a_prompt_take_the_arithmetic_of_the_whole(prompt, chunk, window):
    keywords = {
        "heads": 8,
        "kv_heads": 2,
        "head_dim": 16,
        "window": window,
        "kv_bytes": 2.0,
        "activation_bytes": 2.0,
    }
    whole = ops.attention(1, prompt, 0, **keywords)
    parts = [
        ops.attention(1, min(chunk, prompt - before), before, **keywords)
        for before in range(0, prompt, chunk)
    ]
    assert sum(float(part.flops) for part in parts) == pytest.approx(float(whole.flops), rel=1e-9)
    assert sum(float(part.written_bytes) for part in parts) == float(whole.written_bytes)
    assert sum(float(part.bytes) for part in parts) >= float(whole.bytes) * (1.0 - 1e-12)


def test_latent_attention_by_hand():
    work = ops.latent_attention(
        3, 1, 9, heads=4, latent=8, rope=2, kv_bytes=2.0, activation_bytes=0.0
    )
    assert work.flops == 2 * 3 * 4 * 10 * (2 * 8 + 2)
    assert work.bytes == 3 * 10 * (8 + 2) * 2


@given(experts=st.integers(2, 256), per_token=st.integers(1, 8), tokens=st.integers(1, 300))
def test_distinct_experts_equal_the_expectation(experts, per_token, tokens):
    per_token = min(per_token, experts)
    distinct = float(ops.distinct_experts(tokens, experts, per_token))
    assert per_token - 1e-9 <= distinct <= min(experts, tokens * per_token) + 1e-9
    if tokens == 1:
        np.testing.assert_allclose(distinct, per_token)


def chosen_experts(generator, tokens, experts, per_token):
    """Experts of every token, [tokens, per_token], drawn with exactly the chances that `ops` sums
    up: a comb of `per_token` teeth over the experts in an order of its own.
    """
    chance = np.arange(1.0, experts + 1.0) ** -ops.EXPERT_SKEW
    chance *= per_token / chance.sum()
    assert chance.max() < 1.0
    drawn = np.empty((tokens, per_token), dtype=int)
    for token in range(tokens):
        order = generator.permutation(experts)
        teeth = generator.random() + np.arange(per_token)
        drawn[token] = order[np.searchsorted(np.cumsum(chance[order]), teeth).clip(max=experts - 1)]
    return drawn


@pytest.mark.parametrize(("experts", "per_token", "tokens"), [(16, 2, 6), (128, 4, 20)])
def test_distinct_experts_against_drawing_them(generator, experts, per_token, tokens):
    seen = [
        len(np.unique(chosen_experts(generator, tokens, experts, per_token))) for _ in range(600)
    ]
    error = np.std(seen) / np.sqrt(len(seen))
    joined_ranks = 0.002 * np.mean(seen)
    exact = ops.distinct_experts(tokens, experts, per_token)
    assert abs(np.mean(seen) - exact) < 4 * error + joined_ranks


@given(
    experts=st.integers(1, 512),
    share=st.floats(0.0, 1.0),
    tokens=st.floats(0.0, 1e4),
    more=st.floats(1.0, 4.0),
)
def test_skewed_tokens_visit_fewer_experts_than_uniform_ones(experts, share, tokens, more):
    per_token = max(1, int(share * experts))
    visited = float(ops.distinct_experts(tokens, experts, per_token))
    uniform = experts * (1.0 - (1.0 - per_token / experts) ** tokens)
    alike = float(ops.distinct_experts(tokens, experts, per_token, skew=0.0))
    assert alike == pytest.approx(uniform, rel=1e-9, abs=1e-9)
    assert float(ops.distinct_experts(1, experts, per_token)) == pytest.approx(per_token)
    assert visited <= experts + 1e-9
    if tokens >= 1.0:
        assert visited <= uniform * (1 + 1e-9) and visited >= per_token * (1 - 1e-9)
    assert float(ops.distinct_experts(tokens * more, experts, per_token)) >= visited - 1e-9


def test_correlated_tokens_count_as_fewer():
    assert ops.independent_tokens(4, 8, 0.0) == 32
    assert ops.independent_tokens(4, 8, 1.0) == 4


def test_expert_rows_are_padded():
    keywords = {"hidden": 4, "width": 8, "matrices": 3, "experts_per_token": 1, **BF16}
    assert ops.experts(1, 1, **keywords).flops == 2 * 16 * 3 * 4 * 8
    assert (
        ops.experts(17, 1, **keywords).flops == 2 * 24.5 * 3 * 4 * 8
    )  # loads of 1 to 16 beyond whole tiles: half a tile


@pytest.mark.parametrize(
    ("tokens", "tile"), [(16, 8.0), (64, 8.0), (100, 8.0), (256, 16.0), (512, 64.0)]
)
def test_padded_rows_against_drawing_experts(tokens, tile, generator):
    experts, per_token = 32, 4
    drawn, visited = [], float(ops.distinct_experts(tokens, experts, per_token))
    for _ in range(200):
        chosen = chosen_experts(generator, tokens, experts, per_token)
        loads = np.bincount(chosen.ravel(), minlength=experts)
        drawn.append(float((np.ceil(loads / tile) * tile).sum()))
    keywords = {
        "hidden": 1,
        "width": 1,
        "matrices": 1,
        "experts_per_token": per_token,
        "experts": experts,
        **BF16,
    }
    rows = (
        float(ops.experts(tokens, visited, few_rows=tile, many_rows=tile, **keywords).flops) / 2.0
    )
    assert rows == pytest.approx(np.mean(drawn), rel=0.12)


def test_arguments_broadcast():
    work = ops.attention(
        np.array([1, 2, 4])[:, None],
        np.array([1, 5])[None, :],
        100.0,
        heads=2,
        kv_heads=1,
        head_dim=4,
        window=None,
        kv_bytes=2.0,
        activation_bytes=2.0,
    )
    assert work.flops.shape == work.bytes.shape == (3, 2)


@given(n=st.integers(1, 64), context=st.integers(0, 100_000), chosen=st.integers(1, 4096))
def test_latent_attention_to_chosen_tokens_never_costs_more_and_is_all_of_it_where_few_are_cached(
    n, context, chosen
):
    shape = {"heads": 16, "latent": 512, "rope": 64, "kv_bytes": 2.0, "activation_bytes": 2.0}
    dense = ops.latent_attention(2, n, context, **shape)
    sparse = ops.latent_attention(2, n, context, chosen=chosen, **shape)
    assert sparse.flops <= dense.flops
    assert sparse.bytes <= dense.bytes
    if context + n <= chosen:
        assert (sparse.flops, sparse.bytes) == (dense.flops, dense.bytes)


@pytest.mark.parametrize(
    ("n", "cached", "block"), [(6, 0, 0), (6, 5, 0), (8, 4, 4), (8, 0, 1), (3, 7, 4)]
)
def test_pairs_of_masks_are_counted(n, cached, block):
    """Every new token sees the cache, and the new tokens up to the end of its block; of one block
    where all see all."""
    size = block or n
    pairs = sum(cached + min(n, (token // size + 1) * size) for token in range(n))
    shape = {
        "heads": 1,
        "kv_heads": 1,
        "head_dim": 1,
        "window": None,
        "kv_bytes": 2.0,
        "activation_bytes": 2.0,
    }
    assert ops.attention(1, n, cached, block_tokens=block, **shape).flops == pytest.approx(
        4.0 * pairs
    )


@pytest.mark.parametrize(("model", "share"), [("llada-8b", 0.818), ("dream-7b", 0.841)])
def test_masked_models_attend_both_ways(model, share):
    """At 16,384 tokens a causal mask counts 18 % too few operations of LLaDA-8B's pass over prompt
    and canvas."""
    full = load_model(model)
    causal = replace(
        full,
        blocks=tuple(
            (replace(block, attention=replace(block.attention, block_tokens=1)), count)
            for block, count in full.blocks
        ),
    )
    costs = [
        pass_cost(
            Deployment(architecture=each, device=load_device("h100-sxm"), precision=Precision()),
            batch=1,
            query_tokens=16_384,
            context=0,
            prefill=True,
        )
        for each in (causal, full)
    ]
    less, more = (
        sum(float(each.calls * each.work.flops) for each in cost.operations) for cost in costs
    )
    assert less / more == pytest.approx(share, abs=0.002)
    assert costs[0].total_s < costs[1].total_s
