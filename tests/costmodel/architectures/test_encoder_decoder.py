"""Encoder-decoders: counts against the model classes, whose weights are read when, and layers that
are dealt out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.architectures.hf.config import architecture_from_config
from costmodel.architectures.library import load_model, model_names
from costmodel.architectures.rearranged import dealt_out, fused
from hardware_profiles.errors import InputError
from tests.costmodel.architectures.family_samples import sample
from tests.property_examples import examples

FAMILIES = ("t5", "bart", "whisper")
CLASSES = {
    "t5": "T5ForConditionalGeneration",
    "bart": "BartForConditionalGeneration",
    "whisper": "WhisperForConditionalGeneration",
}


def build(config):
    return architecture_from_config(config, name="any", file="config.json", source="test")


def of_class(config):
    """Parameters of the class that transformers makes of a config; T5's class always shares
    embedding and head."""
    torch, hf = pytest.importorskip("torch"), pytest.importorskip("transformers")
    given = {key: value for key, value in config.items() if key != "model_type"}
    made = hf.CONFIG_MAPPING[config["model_type"]](
        **given, pad_token_id=0, bos_token_id=1, eos_token_id=2
    )
    with torch.device("meta"):
        model = getattr(hf, CLASSES[config["model_type"]])(made)
    return sum(parameter.numel() for parameter in model.parameters())


@st.composite
def drawn(draw):
    family = draw(st.sampled_from(FAMILIES))
    few, heads, widths = st.integers(1, 5), st.sampled_from((2, 4, 8)), st.integers(8, 64)
    config = sample(family) | {
        "vocab_size": draw(st.integers(8, 64)),
        "d_model": draw(st.sampled_from((32, 64))),
    }
    if family == "t5":
        return config | {
            "num_layers": draw(few),
            "num_decoder_layers": draw(st.none() | few),
            "num_heads": draw(heads),
            "d_kv": draw(st.sampled_from((4, 16))),
            "d_ff": draw(widths),
            "feed_forward_proj": draw(st.sampled_from(("relu", "gated-gelu", "gated-silu"))),
        }
    return config | {
        "encoder_layers": draw(few),
        "decoder_layers": draw(few),
        "encoder_ffn_dim": draw(widths),
        "decoder_ffn_dim": draw(widths),
        "encoder_attention_heads": draw(heads),
        "decoder_attention_heads": draw(heads),
    }


@pytest.mark.heavy
@given(drawn())
@settings(max_examples=examples(25), deadline=None)
def test_counts_equal_the_model_class(config):
    model = build(config)
    assert model.parameters == of_class(config)
    assert model.layers == config.get(
        "decoder_layers", config.get("num_decoder_layers") or config.get("num_layers")
    )


@pytest.mark.parametrize(
    "name", [name for name in model_names() if load_model(name).encoder is not None]
)
def test_a_decode_pass_reads_the_decoder_alone(name):
    model = load_model(name)
    alone = model.without_encoder
    crossing = sum(
        count * (block.cross.parameters(model.hidden) + model.hidden * model.final_norm)
        for block, count in model.blocks
    )
    assert model.weight_values == alone.weight_values + crossing
    assert model.parameters == alone.parameters + crossing + model.encoder.parameters
    assert model.weight_values < model.parameters - 0.9 * model.encoder.parameters


def test_t5_xxl_by_hand():
    """Of 24 + 24 layers: attention 4·4096², feed-forward 3·4096·10240; an embedding and a head of
    32128 rows."""
    attention, feed_forward, rows, norm = 4 * 4096**2, 3 * 4096 * 10_240, 32_128 * 4096, 4096
    encoder = 24 * (attention + feed_forward + 2 * norm) + norm + 32 * 64
    decoder = 24 * (2 * attention + feed_forward + 3 * norm) + norm + 32 * 64
    model = load_model("google/t5-v1_1-xxl")
    assert model.parameters == encoder + decoder + 2 * rows == 11_135_332_352
    made = 24 * 2 * 4096**2  # keys and values for cross-attention, which the encoder's pass makes
    assert model.encoder.parameters == encoder + made
    assert model.kv_values_per_token == 24 * 2 * 4096


@pytest.mark.parametrize(
    ("family", "change", "key"),
    [
        ("t5", {"feed_forward_proj": "double-gelu"}, "feed_forward_proj"),
        ("t5", {"feed_forward_proj": 3}, "feed_forward_proj"),
        ("t5", {"num_layers": 0}, "num_layers"),
        ("whisper", {"encoder_attention_heads": 7}, "encoder_attention_heads"),
        ("bart", {"encoder_ffn_dim": "wide"}, "encoder_ffn_dim"),
        ("bart", {"encoder_layers": None}, "encoder_layers"),
        ("whisper", {"max_source_positions": -1}, "max_source_positions"),
    ],
)
def test_mistakes_name_the_key(family, change, key):
    with pytest.raises(InputError, match=f"config.json: .*{key}"):
        build(sample(family) | change)


@given(st.floats(0.01, 0.99))
def test_layers_are_dealt_out_without_loss(ratio):
    for name in ("t5-v1.1-large", "whisper-large-v2", "llama-3.2-1b"):
        model = load_model(name)
        dealt = dealt_out(model, ratio)
        reads = sum(count for block, count in dealt.encoder.blocks if block.attention.heads)
        own = (
            sum(count for block, count in model.encoder.blocks if block.attention.heads)
            if model.encoder
            else 0
        )
        assert dealt.layers >= 1 <= reads
        assert dealt.layers + reads == model.layers + own
        assert all(
            block.attention.mask == "both_ways"
            for block, _ in dealt.encoder.blocks
            if block.attention.heads
        )
        made = dealt.encoder.blocks[-1][0].extra
        assert len(made) == dealt.layers
        assert dealt.source_positions == model.source_positions


def test_half_of_an_even_encoder_decoder_is_itself():
    for name in ("t5-xxl", "whisper-large-v2"):
        assert dealt_out(load_model(name), 0.5) == load_model(name)


@given(attention=st.floats(0.05, 1.0), more=st.floats(0.01, 1.0), width=st.floats(0.1, 1.0))
def test_fusing_keeps_the_feed_forward_weights(attention, more, width):
    model = load_model("llama-3.1-8b")
    ratios = {"attention_ratio": attention, "width_ratio": width}
    one = fused(model, fused_ratio=more, **ratios)
    apart = fused(model, fused_ratio=1.0, **ratios)

    def inner(changed):
        return sum(count * block.feed_forward.width for block, count in changed.blocks)

    assert inner(one) == pytest.approx(inner(apart), abs=model.layers)
    assert one.layers <= apart.layers <= model.layers
    assert one.kv_values_per_token == apart.kv_values_per_token <= model.kv_values_per_token


def test_what_cannot_be_dealt_out_or_fused_is_refused():
    for name in ("mamba-2.8b", "deepseek-v3"):
        with pytest.raises(InputError, match="dealt out"):
            dealt_out(load_model(name), 0.5)
    for name in ("mixtral-8x7b", "t5-xxl"):
        with pytest.raises(InputError, match="fused"):
            fused(load_model(name), attention_ratio=0.5, fused_ratio=0.6, width_ratio=1.0)
