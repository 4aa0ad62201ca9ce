"""Passes of fixed shape equal ordinary ones, whatever lies in the slots they mask; capture, against
a fake."""

import contextlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.architectures.architecture import Architecture, Block, FeedForward
from costmodel.architectures.attention import Attention
from hardware_profiles.errors import InputError
from real_runs.decoding.tree import tree_mask, tree_positions
from real_runs.models.config import LlamaConfig
from real_runs.models.graphs import StaticPass
from real_runs.models.llama import Llama
from real_runs.models.loading.weights_like import weights_like
from real_runs.models.rope import RopeScaling
from tests.property_examples import examples
from tests.real_runs.random_weights import random_weights

PARENTS = [-1, 0, 0, 1, 1]
LATENT = Attention(
    heads=4,
    kv_heads=1,
    head_dim=12,
    kv_lora_rank=16,
    q_lora_rank=20,
    rope_dim=4,
    nope_dim=8,
    value_dim=6,
)


def stand_in(attention, feed_forward=None):
    block = Block(attention=attention, feed_forward=feed_forward or FeedForward(width=24), norms=2)
    architecture = Architecture(
        name="t", hidden=32, vocab=97, tied=True, blocks=((block, 2),), max_context=64
    )
    return Llama(weights_like(architecture, dtype=torch.float32))


@pytest.fixture(scope="module", params=["grouped", "windows", "latent", "experts"])
def model(request, tiny_model):
    grouped = Attention(
        heads=4, kv_heads=2, head_dim=8, window=4 if request.param == "windows" else None
    )
    experts = FeedForward(width=24, experts=5, experts_per_token=2)
    return {
        "grouped": lambda: tiny_model,
        "windows": lambda: stand_in(grouped),
        "latent": lambda: stand_in(LATENT),
        "experts": lambda: stand_in(grouped, experts),
    }[request.param]()


def filled(model, lengths, capacity=40):
    """A cache whose rows have these lengths, and noise in every slot after them."""
    cache = model.new_cache(capacity, batch=len(lengths))
    rows = [
        [(3 * slot + 11 * row) % 97 for slot in range(max(lengths))] for row in range(len(lengths))
    ]
    model.forward(rows, cache, logits="none")
    cache.commit(lengths)
    for row, length in enumerate(lengths):
        for stored in (cache.keys, cache.values):
            stored[:, row, :, length:] = 50.0
    return cache


@settings(max_examples=examples(10))
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=4),
    st.integers(1, 5),
    st.sampled_from([20, 33, 40]),
)
def test_chains_of_ragged_rows_equal_ordinary_passes(model, lengths, count, slots):
    ids = [[(17 * row + 5 * token) % 97 for token in range(count)] for row in range(len(lengths))]
    ordinary, static = filled(model, lengths), filled(model, lengths)
    expected = model.forward(ids, ordinary).logits
    made = StaticPass(model, static, tokens=count, slots=slots).run(ids)
    torch.testing.assert_close(made, expected, atol=1e-4, rtol=1e-3)
    for row, length in enumerate(lengths):
        written = slice(0, length + count)
        torch.testing.assert_close(
            static.keys[:, row, :, written], ordinary.keys[:, row, :, written]
        )
        assert (static.keys[:, row, :, length + count :] == 50.0).all()


def test_one_pass_serves_decoding_as_rows_grow(model):
    """The same buffers, step after step."""
    lengths = [3, 253]
    ordinary, static = filled(model, lengths, 300), filled(model, lengths, 300)
    passed = StaticPass(model, static, tokens=1, slots=300)
    tokens = [[5], [9]]
    for _ in range(5):
        expected = model.forward(tokens, ordinary).logits
        made = passed.run(tokens)
        torch.testing.assert_close(made, expected, atol=2e-4, rtol=1e-3)
        tokens = made.argmax(dim=-1).tolist()
        ordinary.commit(1)
        static.commit(1)


def test_a_tree_equals_an_ordinary_pass_with_its_mask(model):
    length = 7
    positions = tree_positions(PARENTS, length)
    among = tree_mask(PARENTS, 0)
    tokens = [[50, 1, 2, 3, 4]]
    expected = model.forward(
        tokens, filled(model, [length]), positions=positions, mask=tree_mask(PARENTS, length)
    ).logits
    static = StaticPass(model, filled(model, [length]), tokens=5, slots=24)
    made = static.run(tokens, positions=positions, among=among).clone()
    torch.testing.assert_close(made, expected, atol=1e-4, rtol=1e-3)
    causal = static.run(tokens, positions=positions)
    assert (causal - expected).abs().max() > 1e-4  # the mask among the new tokens is used
    by_slot = static.run(tokens, among=among)
    assert (by_slot - expected).abs().max() > 1e-5  # and so are the positions


def test_rows_are_distinguished():
    """Negative control: another row's length gives other logits."""
    config = LlamaConfig(
        vocabulary=97, width=32, layers=2, heads=4, kv_heads=2, head_dim=8, ffn_width=48
    )
    model = Llama(random_weights(config, seed=3, scale=0.2))
    static = StaticPass(model, filled(model, [3, 9]), tokens=1, slots=16)
    right = static.run([[5], [6]]).clone()
    wrong = static.run([[5], [6]], starts=[9, 3])
    assert (right - wrong).abs().amax(dim=(1, 2)).min() > 0.1


class FakeGraph:
    """Stands in for a captured graph: replaying runs nothing but counts."""

    def __init__(self):
        self.replays = 0

    def replay(self):
        self.replays += 1


def test_on_cuda_a_pass_is_captured_once_and_replayed(monkeypatch, tiny_model):
    """The order of calls on a GPU, with torch's own objects replaced: nothing is captured here."""
    log = []

    @contextlib.contextmanager
    def scope(name, *_, **__):
        log.append(f"enter {name}")
        yield
        log.append(f"leave {name}")

    class Stream:
        def __init__(self, *_):
            pass

        def wait_stream(self, _):
            log.append("wait")

    static = StaticPass(tiny_model, filled(tiny_model, [4]), tokens=1, slots=16)
    expected = static.run([[5]])
    inner = static._pass
    monkeypatch.setattr(static, "_pass", lambda: (log.append("pass"), inner())[1])
    monkeypatch.setattr(static.model, "device", torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: scope("stream"))
    monkeypatch.setattr(torch.cuda, "graph", lambda *_, **__: scope("graph"))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    first = static.run([[5]])
    captured = [
        "wait",
        "enter stream",
        "pass",
        "pass",
        "leave stream",
        "wait",
        "enter graph",
        "pass",
        "leave graph",
    ]
    assert log == captured
    torch.testing.assert_close(first, expected)
    assert static.run([[6]]) is first
    assert (log, static._graph.replays) == (captured, 2)


def test_misuse_is_refused(tiny_model):
    cache = filled(tiny_model, [4, 9])
    static = StaticPass(tiny_model, cache, tokens=2, slots=10)
    with pytest.raises(InputError, match="2 rows whose 2 tokens end within 10 slots"):
        static.run([[1, 2], [3, 4]])
    with pytest.raises(InputError, match=r"slots: must lie in 2\.\.40"):
        StaticPass(tiny_model, cache, tokens=2, slots=41)
    scaling = RopeScaling(kind="dynamic", factor=2.0, original_positions=16)
    config = LlamaConfig(
        vocabulary=9,
        width=8,
        layers=1,
        heads=1,
        kv_heads=1,
        head_dim=8,
        ffn_width=8,
        rope_scaling=scaling,
    )
    changing = Llama(random_weights(config))
    with pytest.raises(InputError, match="change beyond 16 positions"):
        StaticPass(changing, changing.new_cache(32), tokens=1, slots=32)
