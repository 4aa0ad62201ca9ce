"""Text for heads: whose turn it is, states and labels against a fresh pass, sizes, digests; what
training keeps."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.drafters.entries.draft_model import trained_draft_model
from real_runs.drafters.entries.feature_head import FEATURE_HEAD
from real_runs.drafters.entries.medusa_heads import MEDUSA_HEADS
from real_runs.drafters.heads.head_data import HeadData, HeadText, write_text
from real_runs.drafters.heads.head_store import HeadStore
from real_runs.drafters.heads.head_training import (
    HeadRecipe,
    HeadTraining,
    Labels,
    cross_entropy,
    load_head,
    save_head,
)
from real_runs.drafters.heads.medusa_heads import MedusaHeads
from real_runs.drafters.options import DrafterOptions
from real_runs.models.llama import Llama
from real_runs.models.loading.tokenizer import Tokenizer
from real_runs.models.loading.weights import find_model, load_weights
from real_runs.training import module_sha256

OPTIONS = DrafterOptions()
DATA = HeadData(questions=("Why?", "How so?"), rows=6, help_rows=2, row_tokens=40)
RECIPE = HeadRecipe(
    model_sha256="m",
    dtype="float32",
    kind="medusa-heads",
    shape={"heads": 2},
    training=HeadTraining(),
    data="d",
    data_sha256="s",
)


@pytest.fixture(scope="module")
def tiny(tiny_folder):
    source = find_model(tiny_folder)
    weights = load_weights(source)
    return Llama(weights), Tokenizer(source.path), weights.sha256


@pytest.fixture(scope="module")
def text(tiny):
    told = []
    made = write_text(
        *tiny[:2], DATA, layers=(2, 4), report=lambda done, total: told.append((done, total))
    )
    assert told == [(8 * at, 8 * 40) for at in range(1, 41)]
    return made


def test_states_and_likeliest_tokens_are_those_of_a_fresh_pass(tiny, text):
    model = tiny[0]
    made = model.forward(text.tokens, model.new_cache(40, batch=8), capture=(2, 4))
    for layer in (2, 4):
        state = made.hidden[layer]
        unit = state * torch.rsqrt(state.square().mean(-1, keepdim=True))
        torch.testing.assert_close(text.states[layer].float(), unit, atol=5e-3, rtol=5e-3)
    chances = torch.softmax(made.logits, dim=-1)
    named = chances.gather(-1, text.likeliest.long())
    torch.testing.assert_close(text.probabilities.float(), named, atol=2e-3, rtol=5e-3)
    torch.testing.assert_close(named[..., 0], chances.amax(-1), atol=1e-4, rtol=1e-3)


def test_rows_start_as_they_are_given_and_turns_alternate(tiny, text):
    """Opening, then a made-up question; or a question that is kept apart; or help text, which is
    only read."""
    model, tokenizer, _ = tiny
    turn, eos = 257, model.config.eos_ids[0]
    assert text.tokens[0, 0] == turn
    for row, question in ((1, "Why?"), (3, "How so?"), (5, "Why?")):
        ids = tokenizer.chat_ids(question)
        assert text.tokens[row, : len(ids)].tolist() == ids
    help_ids = tokenizer.ids(
        __import__("real_runs.drafters.heads.fit_data", fromlist=["x"]).help_topics(1)[0]
    )
    assert text.tokens[6].tolist() == help_ids[:40]
    assert text.tokens[7].tolist() == help_ids[40:80]
    for row in text.tokens[:6].tolist():
        for at in range(len(row) - 1):
            if row[at] == eos:
                assert row[at + 1] == turn, "what ends is followed by the template's next turn"
    assert len({tuple(row) for row in text.tokens[:6].tolist()}) == 6


def test_text_is_seeded(tiny, text):
    again = write_text(*tiny[:2], DATA, layers=(4,))
    other = write_text(*tiny[:2], replace(DATA, seed=1), layers=(4,))
    assert torch.equal(again.tokens, text.tokens)
    assert not torch.equal(other.tokens, text.tokens)
    assert torch.equal(again.states[4], text.states[4])


def test_data_is_named_digested_and_bounded(tiny):
    assert "6 rows of 40 tokens" in DATA.title
    digests = {DATA.sha256}
    for change in (
        {"questions": ("Who?",)},
        {"rows": 7},
        {"seed": 1},
        {"temperatures": (1.0,)},
        {"help_rows": 3},
    ):
        digests.add(replace(DATA, **change).sha256)
    assert len(digests) == 6
    with pytest.raises(InputError, match="bytes"):
        write_text(*tiny[:2], replace(DATA, rows=100_000, row_tokens=8192), layers=(4,))
    for change in (
        {"rows": 0, "help_rows": 0},
        {"row_tokens": 7},
        {"temperatures": ()},
        {"temperatures": (0.0,)},
    ):
        with pytest.raises(InputError):
            replace(DATA, **change)


@given(
    st.lists(st.lists(st.floats(0.01, 1), min_size=6, max_size=6), min_size=1, max_size=4),
    st.integers(0, 10**6),
)
def test_cross_entropy_is_that_of_the_whole_distribution(rows, seed):
    generator = torch.Generator().manual_seed(seed)
    wanted = torch.tensor(rows)
    wanted /= wanted.sum(dim=1, keepdim=True)
    logits = torch.randn(len(rows), 6, generator=generator)
    best = wanted.topk(6)
    made = cross_entropy(logits, best.indices, best.values)
    torch.testing.assert_close(made, -(wanted * torch.log_softmax(logits, -1)).sum(-1).mean())


def test_labels_outside_the_words_compared_count_nothing():
    text = HeadText(
        tokens=torch.zeros(1, 2, dtype=torch.int64),
        states={},
        likeliest=torch.tensor([[[7, 3], [7, 9]]], dtype=torch.int32),
        probabilities=torch.tensor([[[0.6, 0.3], [0.5, 0.1]]], dtype=torch.float16),
    )
    labels = Labels(text, vocabulary=2, words=12)
    words = labels.words(0, torch.Generator())
    assert words.tolist() == [3, 7]
    places, chances = labels.rows(torch.tensor([0]), words)
    assert places[0, 0].tolist() == [1, 0]
    torch.testing.assert_close(
        chances[0], torch.tensor([[0.6, 0.3], [0.5, 0.0]]), atol=1e-3, rtol=0
    )
    assert set(words.tolist()) <= set(labels.words(5, torch.Generator().manual_seed(1)).tolist())


def test_stored_head_comes_back_for_its_own_recipe_alone(tiny_config, tmp_path):
    path, heads = tmp_path / "heads.safetensors", MedusaHeads(tiny_config, heads=2)
    with torch.no_grad():
        heads.weight.normal_(generator=torch.Generator().manual_seed(3))
    back = MedusaHeads(tiny_config, heads=2)
    assert not load_head(back, RECIPE, path)
    save_head(heads, RECIPE, path)
    assert not load_head(back, replace(RECIPE, training=HeadTraining(steps=7)), path)
    assert not load_head(MedusaHeads(tiny_config, heads=3), RECIPE, path)
    assert module_sha256(back) != module_sha256(heads)
    assert load_head(back, RECIPE, path)
    assert module_sha256(back) == module_sha256(heads)
    path.write_bytes(path.read_bytes()[:-3])
    assert not load_head(back, RECIPE, path)
    assert [each.name for each in tmp_path.iterdir()] == ["heads.safetensors"]


@pytest.mark.parametrize(
    "change", [{"steps": 0}, {"rows": 0}, {"learning_rate": 0.0}, {"vocabulary": 1}]
)
def test_trainings_of_nothing_are_refused(change):
    with pytest.raises(InputError, match=next(iter(change))):
        HeadTraining(**change)


def test_shop_trains_once_and_the_same_again(tiny, tmp_path):
    """A second shop finds what the first one kept; one elsewhere makes the same values anew."""
    from real_runs.drafters.heads.feature_head_fit import FeatureHeadTraining

    model, tokenizer, sha256 = tiny
    short = HeadTraining(steps=2, rows=2, vocabulary=64, others=8)
    feature = FeatureHeadTraining(steps=2, rows=2, vocabulary=64, others=8, levels=2)
    told = []

    def made(folder):
        told.clear()
        shop = HeadStore(
            model=model,
            tokenizer=tokenizer,
            model_sha256=sha256,
            data=DATA,
            folder=folder,
            name="tiny",
            report=lambda what, done, total: told.append(what.split(",")[0]),
        )
        parameters = [
            replace(FEATURE_HEAD, training=feature).trained(shop, OPTIONS)[1],
            replace(MEDUSA_HEADS, training=short).trained(shop, OPTIONS)[1],
        ]
        draft, drafted = trained_draft_model(shop, short, layers=2)
        return [*parameters, drafted], draft.forward([5, 6, 7], draft.new_cache(3)).logits

    first = made(tmp_path / "a")
    assert {"text for heads", "feature head", "Medusa heads", "draft model"} == set(told)
    assert told.count("text for heads") == 40
    again = made(tmp_path / "a")
    assert told == []
    other = made(tmp_path / "b")
    for each in (again, other):
        assert each[0] == first[0]
        assert torch.equal(each[1], first[1])
    assert first[0][0]["train_data_sha256"] == DATA.sha256
    assert len(first[0][0]["head_sha256"]) == 64
    names = {
        "tiny--feature-head.safetensors",
        "tiny--medusa-heads.safetensors",
        "tiny--draft-model",
    }
    assert {each.name for each in (tmp_path / "a").iterdir()} == names
