"""Tokens of a request over several devices: rings and trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.parallel import context
from costmodel.parallel.plan import Link, ParallelPlan
from costmodel.passes.precision import Precision
from hardware_profiles.loader import load_device

BF16, LINK = Precision(), Link(bytes_per_s=50e9, latency_s=0.0)
H100 = load_device("h100-sxm")
LLAMA = load_model("llama-3.1-405b").blocks[0][0].attention  # 128 heads, 8 key/value heads
SECONDS = st.floats(1e-7, 10.0)


@given(work=SECONDS, step=SECONDS, devices=st.integers(1, 64))
def test_a_ring_lies_between_the_larger_phase_and_the_sum(work, step, devices):
    total, exposed = context.ring_attention(work, step, devices)
    sending = (devices - 1) * step
    assert max(work, sending) * (1 - 1e-9) <= total <= (work + sending) * (1 + 1e-9)
    assert total == pytest.approx(work + exposed, abs=1e-12)
    if step <= work / devices:
        assert exposed == pytest.approx(0.0, abs=1e-9 * work)


@given(
    total=st.integers(1_000, 1_000_000), share=st.floats(0.001, 1.0), tensor=st.sampled_from([1, 8])
)
def test_messages_cross_where_the_equation_says(total, share, tensor):
    """Passing keys and values sends less exactly from T/(T+P) = 2·8/128 on."""
    plan, new = ParallelPlan(tensor=tensor, context=4), share * total
    cached = total - new
    kv = context.pass_kv(
        LINK, LLAMA, BF16, plan, new=new, cached=cached, attention_s=0.0
    ).message_bytes
    q = context.pass_q(LINK, LLAMA, BF16, plan, new=new, attention_s=0.0).message_bytes
    crossing = 2 * 8 / 128
    if share > crossing * 1.001:
        assert kv < q
    elif share < crossing * 0.999:
        assert kv > q


def test_the_crossover_of_the_whole_ring_lies_below_the_messages_one():
    """Returning partial outputs makes queries dearer, as the published equation 5 says."""
    plan, total = ParallelPlan(tensor=8, context=4), 128_000.0
    share = np.geomspace(1e-3, 1.0, 400)
    arguments = {"new": share * total, "attention_s": 1e-9}
    kv = context.pass_kv(LINK, LLAMA, BF16, plan, cached=(1 - share) * total, **arguments).seconds
    q = context.pass_q(LINK, LLAMA, BF16, plan, **arguments).seconds
    switch = share[np.argmax(kv <= q)]
    # (N-1)·(T+P)·2·kv = (N-1)·T·heads + (N-1)·T·(heads + statistics): half of the messages'
    # crossing.
    per_query = 2 * 128 * 128 + 128 * context.STATISTIC_BYTES / 2
    assert switch == pytest.approx(2 * 8 * 128 / per_query, rel=0.02)
    assert switch < 2 * 8 / 128


@given(queries=st.integers(1, 4096), tensor=st.sampled_from([1, 8]))
def test_a_tree_beats_a_ring_from_some_size_on(queries, tensor):
    same = Link(bytes_per_s=50e9, latency_s=10e-6)
    wins = []
    for exponent in range(1, 18):
        plan = ParallelPlan(tensor=tensor, context=2**exponent, within=same, between=same)
        tree = context.tree_decode(H100, LLAMA, BF16, plan, queries=queries)
        ring = context.ring_decode(same, LLAMA, BF16, plan, queries=queries)
        wins.append(bool(tree < ring))
    assert wins[-1]
    assert wins == sorted(wins)  # once it wins it keeps winning


def test_nothing_is_added_for_one_device():
    plan = ParallelPlan()
    assert context.ring_decode(LINK, LLAMA, BF16, plan, queries=7) == 0.0
    assert context.tree_decode(H100, LLAMA, BF16, plan, queries=7) == 0.0
    assert (
        context.pass_kv(LINK, LLAMA, BF16, plan, new=9.0, cached=0.0, attention_s=2.0).seconds
        == 2.0
    )
    assert context.pass_q(LINK, LLAMA, BF16, plan, new=9.0, attention_s=2.0).seconds == 2.0


def test_latent_attention_returns_latent_vectors_and_passes_its_cache():
    mla = load_model("deepseek-v3").blocks[0][0].attention
    partial = context.partial_bytes(mla, BF16, 1, 1.0)
    assert partial == 128 * 512 * 2 + 128 * 4
    plan = ParallelPlan(context=2, tensor=8)
    message = context.pass_kv(
        LINK, mla, BF16, plan, new=10.0, cached=10.0, attention_s=0.0
    ).message_bytes
    assert message == 10 * 576 * 2  # not shared by the tensor group
