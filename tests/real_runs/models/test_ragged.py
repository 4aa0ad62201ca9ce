"""Rows of different lengths in one pass equal each row alone, and differ where a row loses what is
its own."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.decoding.batch_generate import generate_batch
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.tree import tree_mask, tree_positions
from real_runs.models.config import LlamaConfig
from real_runs.models.llama import Llama
from tests.property_examples import examples
from tests.real_runs.random_weights import random_weights

PROMPTS = [[7, 3, 88, 21, 60, 4], [50, 1], [5, 9, 2, 44, 13, 6, 71, 80, 33]]
TREES = [[-1, 0, 0, 1, 1], [-1, 0, 1, 2, 3], [-1, 0, 0, 0, 2]]
NODES = [[50, 1, 2, 3, 4], [8, 9, 10, 11, 12], [20, 21, 22, 23, 24]]
PATHS = [[0, 2], [0, 1, 2, 3], [0, 2, 4]]


@pytest.fixture(scope="module", params=["plain", "headed", "biased"])
def model(request):
    """Grouped heads; head norms; biases."""
    changes = {"headed": {"qk_norm": True, "tied_head": False}, "biased": {"attention_bias": True}}
    config = LlamaConfig(
        vocabulary=97,
        width=32,
        layers=3,
        heads=4,
        kv_heads=2,
        head_dim=8,
        ffn_width=48,
        **changes.get(request.param, {}),
    )
    return Llama(random_weights(config, seed=3, scale=0.2))


def padded(rows):
    longest = max(map(len, rows))
    return [[*row, *[0] * (longest - len(row))] for row in rows]


def alone(model, tokens):
    """Logits after every token of one sequence."""
    return model.forward(tokens, model.new_cache(len(tokens))).logits[0]


def prefilled(model, prompts=PROMPTS, capacity=40):
    cache = model.new_cache(capacity, batch=len(prompts))
    logits = model.forward(
        padded(prompts), cache, at=[len(prompt) - 1 for prompt in prompts]
    ).logits
    cache.commit([len(prompt) for prompt in prompts])
    return cache, logits


def test_padded_prefill_gives_the_logits_of_each_rows_last_token(model):
    cache, logits = prefilled(model)
    assert logits.shape == (3, 1, 97)
    assert cache.lengths == [6, 2, 9]
    for row, prompt in enumerate(PROMPTS):
        torch.testing.assert_close(logits[row, 0], alone(model, prompt)[-1], atol=1e-4, rtol=1e-4)
    wrong = model.forward(padded(PROMPTS), model.new_cache(40, batch=3), logits="last").logits
    assert (
        wrong[1, 0] - alone(model, PROMPTS[1])[-1]
    ).abs().max() > 0.1  # the last token is padding there


@settings(max_examples=examples(15))
@given(
    st.lists(st.lists(st.integers(0, 96), min_size=1, max_size=9), min_size=1, max_size=4),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
)
def test_ragged_passes_equal_each_row_alone(tiny_model, prompts, counts):
    cache, _ = prefilled(tiny_model, prompts)
    texts = [list(prompt) for prompt in prompts]
    for step, count in enumerate(counts):
        added = [
            [(31 * step + 7 * row + index) % 97 for index in range(count)]
            for row in range(len(prompts))
        ]
        logits = tiny_model.forward(added, cache).logits
        cache.commit(count)
        for row, text in enumerate(texts):
            text.extend(added[row])
            torch.testing.assert_close(
                logits[row], alone(tiny_model, text)[-count:], atol=2e-4, rtol=1e-4
            )


def test_rows_committed_by_different_amounts_forget_their_own_rejects(model):
    cache, _ = prefilled(model)
    model.forward([[1, 2, 3, 4]] * 3, cache)
    cache.commit([4, 0, 2])
    logits = model.forward([[9], [9], [9]], cache).logits
    for row, kept in enumerate((4, 0, 2)):
        expected = alone(model, [*PROMPTS[row], *[1, 2, 3, 4][:kept], 9])[-1]
        torch.testing.assert_close(logits[row, 0], expected, atol=1e-4, rtol=1e-4)


def tree_inputs(lengths):
    """Positions [B, T] and masks [B, T, S] of a tree per row."""
    stop = max(lengths) + len(TREES[0])
    mask = torch.zeros(3, len(TREES[0]), stop, dtype=torch.bool)
    for row, length in enumerate(lengths):
        own = tree_mask(TREES[row], length)
        mask[row, :, : own.shape[1]] = own
    return torch.stack(
        [tree_positions(tree, length) for tree, length in zip(TREES, lengths, strict=True)]
    ), mask


def path_logits(model, row):
    """Logits at every node of a row's tree, each decoded along its own path."""
    found = []
    for node in range(len(TREES[row])):
        path, at = [], node
        while at >= 0:
            path.append(NODES[row][at])
            at = TREES[row][at]
        found.append(alone(model, PROMPTS[row] + path[::-1])[-1])
    return torch.stack(found)


def test_a_tree_per_row_equals_path_by_path_decoding(model):
    cache, _ = prefilled(model)
    positions, mask = tree_inputs(cache.lengths)
    logits = model.forward(NODES, cache, positions=positions, mask=mask).logits
    for row in range(3):
        torch.testing.assert_close(logits[row], path_logits(model, row), atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "wrong", ["positions of another row", "mask of another row", "causal mask", "starts"]
)
def test_a_rows_own_positions_mask_and_start_matter(model, wrong):
    """Negative controls: the comparison above sees each of them."""
    cache, _ = prefilled(model)
    positions, mask = tree_inputs(cache.lengths)
    start = None
    if wrong == "positions of another row":
        positions = positions.roll(1, dims=0)
    elif wrong == "mask of another row":
        mask = mask.roll(1, dims=0)
    elif wrong == "causal mask":
        mask = None
    else:
        start = [9, 9, 9]
    logits = model.forward(NODES, cache, positions=positions, mask=mask, start=start).logits
    off = max(float((logits[row] - path_logits(model, row)).abs().max()) for row in range(3))
    assert off > 0.1


def after_compaction(model, compacted):
    cache, _ = prefilled(model)
    positions, mask = tree_inputs(cache.lengths)
    model.forward(NODES, cache, positions=positions, mask=mask, logits="none")
    if compacted:
        cache.compact(PATHS)
    else:
        cache.commit([len(path) for path in PATHS])
    assert cache.lengths == [8, 6, 12]
    return model.forward([[33], [34], [35]], cache).logits[:, 0]


def test_compaction_per_row_keeps_each_rows_path(model):
    expected = torch.stack(
        [
            alone(model, PROMPTS[r] + [NODES[r][node] for node in PATHS[r]] + [33 + r])[-1]
            for r in range(3)
        ]
    )
    torch.testing.assert_close(after_compaction(model, True), expected, atol=2e-4, rtol=1e-4)
    missing = (after_compaction(model, False) - expected).abs().amax(dim=1)
    assert missing[0] > 0.1
    assert missing[2] > 0.1
    assert missing[1] < 1e-3  # a chain from the root lies where it belongs


@settings(max_examples=examples(25))
@given(st.data())
def test_compaction_moves_exactly_the_accepted_slots(tiny_config, data):
    """Against plain lists: every row's committed slots, in order."""
    model = Llama(random_weights(tiny_config))
    lengths = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    cache = model.new_cache(12, batch=len(lengths))
    marks = torch.arange(len(lengths) * 12, dtype=torch.float32).view(1, len(lengths), 1, 12, 1)
    cache.keys += marks
    cache.values -= marks
    cache.commit(lengths)
    kept = [
        sorted(data.draw(st.sets(st.integers(0, 11 - length), max_size=5))) for length in lengths
    ]
    cache.compact(kept)
    for row, (length, path) in enumerate(zip(lengths, kept, strict=True)):
        slots = [*range(length), *(length + slot for slot in path)]
        expected = torch.tensor([12.0 * row + slot for slot in slots])
        assert cache.lengths[row] == len(slots)
        for layer in (0, tiny_config.layers - 1):
            assert torch.equal(cache.keys[layer, row, 1, : len(slots), 3], expected)
            assert torch.equal(cache.values[layer, row, 0, : len(slots), 7], -expected)


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_batch_decoding_equals_each_request_alone(model, temperature):
    prompts = [*PROMPTS, [90], [12, 13, 14, 15]]
    limits = [12, 3, 1, 20, 7]

    def samplers():
        return [
            Sampler(temperature=temperature, seed=1, request=str(row), positions=limit)
            for row, limit in enumerate(limits)
        ]

    together = generate_batch(model, prompts, samplers(), max_new_tokens=limits)
    for prompt, limit, sampler, made in zip(prompts, limits, samplers(), together, strict=True):
        expected = generate(model, prompt, sampler, max_new_tokens=limit)
        assert (made.tokens, made.ended) == (expected.tokens, expected.ended)


def test_released_rows_leave_the_others_as_they_were(model):
    cache, _ = prefilled(model)
    before = model.forward([[1], [2], [3]], cache).logits
    cache.release(0)
    assert cache.lengths == [9, 2]
    after = model.forward([[3], [2]], cache).logits
    torch.testing.assert_close(after, before[[2, 1]], atol=1e-4, rtol=1e-4)
    with pytest.raises(InputError, match=r"0\.\.1"):
        cache.release(2)


def test_misuse_is_refused(tiny_model):
    cache, _ = prefilled(tiny_model)
    with pytest.raises(InputError, match="rows differ in length"):
        _ = cache.length
    with pytest.raises(InputError, match="3 rows of the cache"):
        tiny_model.forward([[1], [2]], cache)
    with pytest.raises(InputError, match="slot for each of 3 rows"):
        tiny_model.forward([[1], [2], [3]], cache, start=[1, 2])
    with pytest.raises(InputError, match=r"shape \(3, 1, 10\)"):
        tiny_model.forward([[1], [2], [3]], cache, mask=torch.ones(1, 10, dtype=torch.bool))
    with pytest.raises(InputError, match=r"shape \(1,\) or \(3, 1\)"):
        tiny_model.forward([[1], [2], [3]], cache, positions=torch.zeros(2, 1, dtype=torch.long))
    with pytest.raises(InputError, match="at: must be one of 1 tokens"):
        tiny_model.forward([[1], [2], [3]], cache, at=[0, 0, 1])
    with pytest.raises(InputError, match="one number for each of 3 rows"):
        cache.commit([1, 2])
    with pytest.raises(InputError, match="one list for each of 3 rows"):
        cache.compact([0, 1, 2])
    with pytest.raises(InputError, match="must lie below 31"):
        cache.compact([[0], [0], [31]])
    sampler = Sampler(temperature=0, seed=0, request="", positions=1)
    with pytest.raises(InputError, match="samplers: must be one for each of 2 prompts"):
        generate_batch(tiny_model, [[1], [2]], [sampler], max_new_tokens=1)
    with pytest.raises(InputError, match="prompt must have"):
        generate_batch(tiny_model, [[1], []], [sampler, sampler], max_new_tokens=1)
