"""Configs of draft heads, in the forms in which they are published."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.hf.draft_head import draft_head
from tests.costmodel.architectures.family_samples import SAMPLES, sample

HEADS = [
    (
        {
            "speculators_model_type": "eagle3",
            "draft_vocab_size": 32000,
            "transformer_layer_config": {"num_hidden_layers": 1},
        },
        "EAGLE-3",
        1,
        32000,
    ),
    (
        {
            "architectures": ["LlamaForCausalLMEagle3"],
            "num_hidden_layers": 1,
            "draft_vocab_size": 32000,
        },
        "EAGLE-3",
        1,
        32000,
    ),
    ({"architectures": ["EagleLlamaForCausalLM"], "num_hidden_layers": 1}, "EAGLE", 1, None),
    ({"model_type": "eagle", "num_hidden_layers": 2}, "EAGLE", 2, None),
    ({"medusa_num_heads": 5, "medusa_num_layers": 1}, "Medusa", 5, None),
    (
        {"architectures": ["MLPSpeculatorPreTrainedModel"], "n_predict": 4},
        "MLP speculator",
        4,
        None,
    ),
    (
        {
            "architectures": ["Qwen3DFlashModel"],
            "dflash_config": {"target_layer_ids": [1]},
            "num_hidden_layers": 5,
        },
        "DFlash",
        5,
        None,
    ),
    (
        {"architectures": ["DeepSeekMTPModel"], "num_hidden_layers": 1},
        "multi-token prediction",
        1,
        None,
    ),
    ({"draft_vocab_size": 32000, "target_hidden_size": 4096}, "EAGLE-3", None, 32000),
]


@pytest.mark.parametrize(("config", "kind", "layers", "vocab"), HEADS)
def test_heads_are_reported_by_their_keys(config, kind, layers, vocab):
    head = draft_head(config)
    assert (head.kind, head.layers, head.draft_vocab, head.certain) == (kind, layers, vocab, True)
    assert head.reason in config


def test_one_layer_alone_is_a_guess_and_says_so():
    head = draft_head(sample("llama") | {"num_hidden_layers": 1})
    assert (head.kind, head.certain) == ("EAGLE", False)


@pytest.mark.parametrize("model_type", SAMPLES)
def test_models_are_no_heads(model_type):
    assert draft_head(SAMPLES[model_type]) is None


@given(
    st.dictionaries(
        st.sampled_from(
            (
                "speculators_model_type",
                "architectures",
                "medusa_num_heads",
                "n_predict",
                "num_hidden_layers",
                "draft_vocab_size",
                "transformer_layer_config",
                "model_type",
            )
        ),
        st.none()
        | st.integers()
        | st.text(max_size=5)
        | st.lists(st.integers() | st.text(max_size=5), max_size=3),
    )
)
def test_no_file_breaks_it(config):
    head = draft_head(config)
    assert head is None or head.layers is None or head.layers > 0
