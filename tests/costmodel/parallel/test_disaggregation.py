"""Prompts and decoding apart, attention and feed-forward apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.parallel.disaggregation import cache_bytes, split_layers
from costmodel.passes.precision import Precision

PART = st.floats(1e-6, 1e-2)


def test_a_cache_has_two_values_per_head_and_layer():
    assert cache_bytes(load_model("llama-3.1-8b"), Precision(), 1000) == 1000 * 32 * 2 * 8 * 128 * 2
    gemma = load_model("gemma-2-9b")
    long, longer = cache_bytes(gemma, Precision(), 10_000), cache_bytes(gemma, Precision(), 20_000)
    assert longer < 2 * long  # half of the layers stop at their window


@given(a=PART, f=PART, x=PART, batches=st.integers(1, 8))
def test_split_layers_keep_their_bounds(a, f, x, batches):
    split = split_layers(a, f, x, layers=61, micro_batches=batches, requests=100)
    assert split.step_s >= 61 * max(batches * max(a, f, x), a + f + 2 * x) * (1 - 1e-12)
    assert split.step_s <= 61 * batches * (a + f + 2 * x) * (1 + 1e-12)  # one after another
    assert split.tokens_per_s == pytest.approx(100 / split.step_s)


@given(a=PART, f=PART)
def test_one_micro_batch_without_communication_is_the_sum_and_many_hide_the_smaller(a, f):
    one = split_layers(a, f, 0.0, layers=10, micro_batches=1)
    assert one.step_s == pytest.approx(10 * (a + f))
    assert one.limit == "latency"
    many = split_layers(a, f, 0.0, layers=10, micro_batches=10_000)
    assert many.step_s / 10_000 == pytest.approx(10 * max(a, f))


def test_four_equal_parts_fill_four_micro_batches():
    """With a = f = x a round trip is 4a: three micro-batches leave a quarter idle, four none."""
    three, four = (split_layers(1.0, 1.0, 1.0, layers=1, micro_batches=m) for m in (3, 4))
    assert three.step_s == four.step_s == 4.0
    assert (str(three.limit), str(four.limit)) == ("latency", "attention")


@pytest.mark.parametrize(
    ("parts", "limit"),
    [((3, 1, 1), "attention"), ((1, 3, 1), "feed_forward"), ((1, 1, 3), "communication")],
)
def test_the_busiest_part_is_named(parts, limit):
    assert split_layers(*parts, layers=1, micro_batches=9).limit == limit


def _walk(a, f, x, batches, rounds=80):
    """Seconds per layer of micro-batches that circulate over two groups and two directions of a
    link."""
    free, out = dict.fromkeys("afud", 0.0), [0.0] * batches
    marks = []
    for _ in range(rounds):
        for batch in range(batches):
            now = out[batch]
            for part, seconds in (("a", a), ("u", x), ("f", f), ("d", x)):
                now = free[part] = max(now, free[part]) + seconds
            out[batch] = now
        marks.append(out[-1])
    return (marks[-1] - marks[19]) / (rounds - 20)


@given(a=PART, f=PART, x=PART, batches=st.integers(1, 6))
def test_split_layers_equal_an_event_walk(a, f, x, batches):
    expected = _walk(a, f, x, batches)
    assert split_layers(a, f, x, layers=1, micro_batches=batches).step_s == pytest.approx(
        expected, rel=0.02
    )
