"""Recurrent layers: weights and states by hand, and what each kind needs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.architecture import NO_ATTENTION, Architecture, Block, FeedForward
from costmodel.architectures.attention import Attention
from costmodel.architectures.library import load_model
from costmodel.architectures.state_layers import STATE_BYTES, StateLayer

MAMBA = StateLayer(
    kind="mamba", inner=5120, heads=5120, state_size=16, kernel=4, rank=160, conv_bias=True
)
MAMBA2 = StateLayer(
    kind="mamba2", inner=5120, heads=80, state_size=128, kernel=4, conv_bias=True, inner_norms=5120
)
DELTA = StateLayer(
    kind="delta", inner=4096, heads=32, state_size=128, groups=16, kernel=4, inner_norms=128
)
MEMORY = StateLayer(kind="memory", inner=5120, heads=5120)


def test_weights_by_hand():
    """Matrices of the published checkpoints, tensor by tensor; hidden width 2560 (Mamba) and 2048
    (delta)."""
    mamba = (
        10240 * 2560
        + 192 * 5120
        + 5120 * 160
        + 2560 * 5120
        + 5120 * 4
        + 5120
        + 5120 * 16
        + 5120
        + 5120
    )
    assert MAMBA.parameters(2560) == mamba
    mamba2 = 10576 * 2560 + 2560 * 5120 + 5376 * 4 + 5376 + 3 * 80 + 5120
    assert MAMBA2.parameters(2560) == mamba2
    delta = 12288 * 2048 + 64 * 2048 + 2048 * 4096 + 8192 * 4 + 2 * 32 + 128
    assert DELTA.parameters(2048) == delta
    assert MEMORY.parameters(2560) == 2 * 5120 * 2560


def test_states_by_hand():
    assert MAMBA2.state_values == 80 * 64 * 128
    assert DELTA.state_values == 32 * 128 * 128
    assert MAMBA2.conv_values == (5120 + 2 * 128) * 3
    assert MAMBA.conv_width == 5120  # Mamba-1 convolves its values alone
    assert DELTA.state_bytes(2.0) == 32 * 128 * 128 * STATE_BYTES + 8192 * 3 * 2.0
    assert (MEMORY.state_values, MEMORY.conv_values, MEMORY.input_values) == (0, 0, 0)
    assert load_model("mamba2-2.7b").state_values == 64 * MAMBA2.state_values


@given(
    kind=st.sampled_from(("mamba", "mamba2", "delta", "memory")),
    inner=st.integers(1, 64),
    hidden=st.integers(1, 64),
    size=st.integers(1, 32),
    kernel=st.integers(0, 5),
)
def test_weights_are_at_least_the_products_and_grow_with_width(kind, inner, hidden, size, kernel):
    layer = StateLayer(kind=kind, inner=inner, heads=inner, state_size=size, kernel=kernel, rank=3)
    wider = StateLayer(
        kind=kind, inner=inner + 1, heads=inner + 1, state_size=size, kernel=kernel, rank=3
    )
    products = sum(n * k for _, n, k in layer.projections(hidden))
    assert products <= layer.parameters(hidden) < wider.parameters(hidden)
    assert [name for name, _, _ in layer.projections(hidden)][-1] == "state_output"
    assert layer.projections(hidden)[-1][1:] == (hidden, inner)


def model(*blocks):
    return Architecture(name="toy", hidden=64, vocab=100, tied=True, blocks=blocks, max_context=128)


ATTENDING = Block(
    attention=Attention(heads=4, kv_heads=2, head_dim=16),
    feed_forward=FeedForward(width=96),
    norms=2,
)
RECURRENT = Block(
    attention=NO_ATTENTION,
    feed_forward=FeedForward(width=96),
    norms=2,
    state=StateLayer(kind="mamba2", inner=128, heads=8, state_size=16, kernel=4),
)


def test_only_attending_layers_cache_keys_and_values():
    hybrid = model((ATTENDING, 2), (RECURRENT, 6))
    assert hybrid.kv_values_per_token == model((ATTENDING, 2)).kv_values_per_token
    assert hybrid.state_values == 6 * 128 * 16
    assert (hybrid.is_recurrent, model((ATTENDING, 8)).is_recurrent) == (True, False)
    assert (ATTENDING.sublayers, RECURRENT.sublayers) == (2, 2)


@given(st.integers(2, 40))
def test_fewer_layers_keep_the_mixture(layers):
    hybrid = model((ATTENDING, 3), (RECURRENT, 9))
    shrunk = hybrid.with_layers(layers)
    assert shrunk.layers == layers
    attending = sum(count for block, count in shrunk.blocks if block.attention.heads)
    assert attending == pytest.approx(layers / 4, abs=1)


def test_a_single_layer_of_a_hybrid_attends():
    """A prediction head is one transformer layer, whatever the model around it is made of."""
    (block, count), *rest = model((ATTENDING, 1), (RECURRENT, 9)).with_layers(1).blocks
    assert (count, rest, block.attention.heads, block.state) == (1, [], 4, None)
    only = model((RECURRENT, 9)).with_layers(1)
    assert only.blocks == ((RECURRENT, 1),)
