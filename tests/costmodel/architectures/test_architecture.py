"""Counts of an architecture: laws that hold for every shape, and hand-counted examples."""

from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.architecture import Architecture, Block, FeedForward
from costmodel.architectures.attention import Attention

SIZES = st.integers(1, 4096)


@st.composite
def attentions(draw):
    kv_heads = draw(st.integers(1, 16))
    if draw(st.booleans()):
        return Attention(
            heads=kv_heads * draw(st.integers(1, 16)),
            kv_heads=kv_heads,
            head_dim=draw(st.integers(1, 256)),
            window=draw(st.none() | SIZES),
            bias=draw(st.booleans()),
            output_bias=draw(st.booleans()),
            qk_norm=draw(st.booleans()),
            sinks=draw(st.booleans()),
        )
    nope_dim, rope_dim = draw(st.integers(1, 128)), draw(st.integers(1, 64))
    return Attention(
        heads=draw(st.integers(1, 128)),
        kv_heads=1,
        head_dim=nope_dim + rope_dim,
        bias=draw(st.booleans()),
        kv_lora_rank=draw(st.integers(1, 512)),
        q_lora_rank=draw(st.integers(0, 1536)),
        rope_dim=rope_dim,
        nope_dim=nope_dim,
        value_dim=draw(st.integers(1, 128)),
    )


@st.composite
def feed_forwards(draw):
    experts = draw(st.integers(0, 64))
    return FeedForward(
        width=draw(SIZES),
        gated=draw(st.booleans()),
        bias=draw(st.booleans()),
        experts=experts,
        experts_per_token=draw(st.integers(1, experts)) if experts else 0,
        shared_width=draw(st.integers(0, 512)) if experts else 0,
    )


@st.composite
def blocks(draw):
    return Block(
        attention=draw(attentions()),
        feed_forward=draw(feed_forwards()),
        norms=draw(st.integers(0, 4)),
        norm_bias=draw(st.booleans()),
    )


@st.composite
def architectures(draw):
    return Architecture(
        name="any",
        hidden=draw(SIZES),
        vocab=draw(st.integers(1, 300_000)),
        tied=draw(st.booleans()),
        blocks=tuple(
            draw(st.lists(st.tuples(blocks(), st.integers(1, 100)), min_size=1, max_size=3))
        ),
        max_context=draw(SIZES),
        final_norm=draw(st.integers(0, 2)),
        learned_positions=draw(st.integers(0, 4096)),
    )


TINY_ATTENTION = Attention(heads=4, kv_heads=2, head_dim=8)
TINY_BLOCK = Block(attention=TINY_ATTENTION, feed_forward=FeedForward(width=64), norms=2)
TINY = Architecture(
    name="tiny", hidden=32, vocab=100, tied=False, blocks=((TINY_BLOCK, 3),), max_context=128
)
LATENT = Attention(
    heads=4,
    kv_heads=1,
    head_dim=12,
    kv_lora_rank=16,
    q_lora_rank=24,
    rope_dim=4,
    nope_dim=8,
    value_dim=6,
)


def test_dense_layer_is_counted_by_hand():
    attention = 32 * (32 + 16 + 16) + 32 * 32
    feed_forward = 3 * 32 * 64
    assert TINY_BLOCK.parameters(32) == attention + feed_forward + 2 * 32
    assert TINY.parameters == 3 * TINY_BLOCK.parameters(32) + 2 * 100 * 32 + 32
    assert TINY.kv_values_per_token == 3 * (16 + 16)


def test_biases_norms_and_sinks_are_counted_by_hand():
    plain = TINY_ATTENTION.parameters(32)
    assert replace(TINY_ATTENTION, bias=True).parameters(32) - plain == 32 + 16 + 16
    assert replace(TINY_ATTENTION, output_bias=True).parameters(32) - plain == 32
    assert replace(TINY_ATTENTION, qk_norm=True).parameters(32) - plain == 8 + 8
    assert replace(TINY_ATTENTION, sinks=True).parameters(32) - plain == 4
    assert replace(TINY_BLOCK, norm_bias=True).parameters(32) - TINY_BLOCK.parameters(32) == 2 * 32
    dense = FeedForward(width=64, gated=False)
    assert replace(dense, bias=True).parameters(32) - dense.parameters(32) == 64 + 32


def test_latent_attention_is_counted_by_hand():
    assert LATENT.projections(32) == (
        ("q_down", 24, 32),
        ("q_up", 4 * 12, 24),
        ("kv_down", 16 + 4, 32),
        ("kv_up", 4 * (8 + 6), 16),
        ("output", 32, 4 * 6),
    )
    weights = 24 * 32 + 48 * 24 + 20 * 32 + 56 * 16 + 32 * 24
    assert LATENT.parameters(32) == weights + 24 + 16
    assert replace(LATENT, bias=True).parameters(32) - LATENT.parameters(32) == 24 + 20
    assert replace(LATENT, q_lora_rank=0).projections(32)[0] == ("q", 48, 32)
    assert (LATENT.query_width, LATENT.kv_width, LATENT.output_width) == (48, 20, 24)


def test_latent_cache_holds_one_vector_for_keys_and_values():
    assert LATENT.is_mla
    assert LATENT.kv_values_per_token == 16 + 4
    assert not TINY_ATTENTION.is_mla


def test_experts_are_counted_by_hand():
    layer = FeedForward(width=16, experts=8, experts_per_token=2, shared_width=24)
    one = 3 * 32 * 16
    assert layer.projections(32) == (
        ("router", 8, 32),
        ("shared_gate_up", 48, 32),
        ("shared_down", 32, 24),
    )
    assert layer.expert_projections(32) == (("expert_gate_up", 32, 32), ("expert_down", 32, 16))
    assert layer.parameters(32) == 8 * 32 + 3 * 32 * 24 + 8 * one
    assert layer.active_parameters(32) == 8 * 32 + 3 * 32 * 24 + 2 * one
    assert replace(layer, shared_width=0).projections(32) == (("router", 8, 32),)
    assert replace(layer, bias=True).expert_parameters(32) == one + 32 + 32


def test_tying_saves_one_matrix_and_reads_as_many():
    tied = replace(TINY, tied=True)
    assert TINY.parameters - tied.parameters == TINY.head_parameters == 3200
    assert TINY.weight_values == tied.weight_values == TINY.parameters - TINY.embedding_parameters


def test_records_cannot_be_changed_and_can_be_hashed():
    with pytest.raises(FrozenInstanceError):
        TINY.hidden = 64
    assert hash(TINY) == hash(replace(TINY))


@given(attentions(), SIZES)
def test_projections_hold_all_weights_but_vectors(attention, hidden):
    matrices = sum(n_out * k_in for _, n_out, k_in in attention.projections(hidden))
    vectors = attention.parameters(hidden) - matrices
    widths = attention.query_width + 2 * attention.kv_width + attention.q_lora_rank
    assert 0 <= vectors <= 2 * widths + hidden + attention.heads + 2 * attention.head_dim
    assert all(n_out > 0 and k_in > 0 for _, n_out, k_in in attention.projections(hidden))


@given(feed_forwards(), SIZES)
def test_active_experts_lie_between_none_and_all(layer, hidden):
    assert 0 < layer.active_parameters(hidden) <= layer.parameters(hidden)
    if not layer.is_moe:
        assert layer.active_parameters(hidden) == layer.parameters(hidden)
    visits_all = replace(layer, experts_per_token=layer.experts)
    assert visits_all.active_parameters(hidden) == layer.parameters(hidden)


@given(architectures())
def test_counts_are_positive_and_add_up(model):
    assert 0 < model.active_parameters <= model.parameters
    assert model.kv_values_per_token > 0
    assert (model.active_parameters == model.parameters) or model.is_moe
    unread = model.parameters - model.weight_values
    assert unread == model.embedding_parameters - (model.head_parameters if model.tied else 0)


@given(architectures(), st.integers(1, 50))
def test_counts_grow_with_layers_and_widths(model, more):
    (block, count), *rest = model.blocks
    deeper = replace(model, blocks=((block, count + more), *rest))
    assert deeper.layers == model.layers + more
    assert deeper.parameters - model.parameters == more * block.parameters(model.hidden)
    assert deeper.kv_values_per_token > model.kv_values_per_token
    wider = replace(model, hidden=model.hidden + more)
    assert wider.parameters > model.parameters
    feed_forward = replace(block.feed_forward, width=block.feed_forward.width + more)
    fatter = replace(model, blocks=((replace(block, feed_forward=feed_forward), count), *rest))
    assert fatter.parameters > model.parameters


@given(architectures())
def test_order_and_grouping_of_blocks_do_not_count(model):
    split = tuple((block, 1) for block, count in reversed(model.blocks) for _ in range(count))
    ungrouped = replace(model, blocks=split)
    assert ungrouped.layers == model.layers
    assert ungrouped.parameters == model.parameters
    assert ungrouped.kv_values_per_token == model.kv_values_per_token


@given(architectures(), st.integers(0, 40))
def test_with_layers_keeps_the_most_frequent_block(model, layers):
    cut = model.with_layers(layers)
    assert cut.layers == layers
    assert (cut.hidden, cut.vocab, cut.tied) == (model.hidden, model.vocab, model.tied)
    (block, _), *rest = cut.blocks
    assert not rest
    assert max(count for _, count in model.blocks) in [
        n for each, n in model.blocks if each == block
    ]
