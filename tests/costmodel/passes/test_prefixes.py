"""Requests that share the beginning of their context."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.precision import Precision
from costmodel.passes.prefixes import combination_work, shared_attention, shared_prefix_cost
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device

A100 = load_device("a100-sxm-40")
LLAMA = load_model("llama-2-7b")


def _deployed(fidelity="calibrated", model=LLAMA, tensor=1):
    return Deployment(
        architecture=model,
        device=A100,
        precision=Precision(),
        fidelity=fidelity,
        tensor_parallel=tensor,
    )


@given(batch=st.integers(2, 2048), prefix=st.integers(64, 32_768), unique=st.integers(0, 4096))
def test_sharing_saves_what_the_prefix_is_read_again(batch, prefix, unique):
    """Bytes: (b - 1) prefixes fewer, and the joining of partial results more."""
    d = _deployed("datasheet")
    shared = shared_prefix_cost(d, batch=batch, query_tokens=1, prefix=prefix, unique=unique)
    apart = pass_cost(d, batch=batch, query_tokens=1, context=prefix + unique)
    per_token = 32 * 2 * 4096 * 2.0
    attention = LLAMA.blocks[0][0].attention
    vectors = 32 * 2.0 * batch * 4096 * 2.0  # queries and outputs, once more
    added = 32 * combination_work(d, attention, batch).bytes + vectors
    assert apart.bytes - shared.bytes == pytest.approx(
        (batch - 1) * prefix * per_token - added, rel=1e-6
    )


@given(batch=st.integers(1, 512), query=st.integers(1, 16), prefix=st.integers(1, 10_000))
def test_arithmetic_is_the_same_shared_or_not(batch, query, prefix):
    d = _deployed("datasheet")
    shared = shared_prefix_cost(d, batch=batch, query_tokens=query, prefix=prefix, unique=100)
    apart = pass_cost(d, batch=batch, query_tokens=query, context=prefix + 100)
    joining = 32 * combination_work(d, LLAMA.blocks[0][0].attention, batch * query).flops
    assert shared.flops - joining == pytest.approx(apart.flops, rel=1e-9)


def test_long_prefixes_gain_and_short_ones_lose_a_little():
    long = {"batch": 256, "query_tokens": 1}
    d = _deployed(tensor=8)
    apart = pass_cost(d, context=16_384 + 64, **long).total_s
    assert shared_prefix_cost(d, prefix=16_384, unique=64, **long).total_s < apart / 5
    plain = pass_cost(d, batch=1, query_tokens=1, context=128).total_s
    shared = shared_prefix_cost(d, batch=1, query_tokens=1, prefix=64, unique=64).total_s
    assert plain < shared < 1.6 * plain


def test_sums_are_those_of_the_operations():
    cost = shared_prefix_cost(
        _deployed(), batch=np.array([8, 64]), query_tokens=2, prefix=4096, unique=16
    )
    assert cost.total_s.shape == (2,)
    for name in ("prefix", "combine", "attention"):
        listed = sum(op.calls * op.timing.seconds for op in cost.operations if op.name == name)
        assert cost.seconds[name] == pytest.approx(listed)
    assert cost.flops == pytest.approx(sum(op.calls * op.work.flops for op in cost.operations))
    assert cost.launch_s == pytest.approx(
        sum(op.calls * op.timing.launch_s for op in cost.operations)
    )


@pytest.mark.parametrize("name", ["deepseek-v2-lite", "gemma-2-9b"])
def test_latent_and_windowed_attention_are_refused(name):
    model = load_model(name)
    block = next(
        block for block, _ in model.blocks if block.attention.is_mla or block.attention.window
    )
    with pytest.raises(InputError, match="prefix"):
        shared_attention(_deployed(model=model), block.attention, batch=2, query_tokens=1, prefix=8)


@pytest.mark.parametrize("wrong", [{"batch": 0.5}, {"prefix": -1}, {"unique": -1}])
def test_impossible_sharing_is_refused(wrong):
    with pytest.raises(InputError):
        shared_prefix_cost(
            _deployed(), **{"batch": 2, "query_tokens": 1, "prefix": 8, "unique": 8, **wrong}
        )
