"""Every kind of rotary scaling against Transformers' own functions and models."""

import math
import warnings

import pytest
import torch
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from hardware_profiles.errors import InputError
from real_runs.models.config import LlamaConfig, from_gguf, from_hf
from real_runs.models.llama import Llama
from real_runs.models.loading.weights import LoadedWeights
from real_runs.models.rope import RopeScaling
from real_runs.models.rotary import Rotary, attention_factor, rope_frequencies, rotated

PAIRS = 8
FACTORS = {
    "short_factor": [1.0 + 0.1 * pair for pair in range(PAIRS)],
    "long_factor": [1.5 + 0.7 * pair for pair in range(PAIRS)],
}
KINDS = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    "yarn without rounding": {
        "rope_type": "yarn",
        "factor": 8.0,
        "original_max_position_embeddings": 64,
        "truncate": False,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
    },
    "yarn with scales": {
        "rope_type": "yarn",
        "factor": 40.0,
        "original_max_position_embeddings": 32,
        "mscale": 1.2,
        "mscale_all_dim": 0.7,
    },
    "yarn with a factor": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32,
        "attention_factor": 1.7,
    },
    "longrope": {"rope_type": "longrope", "original_max_position_embeddings": 32, **FACTORS},
    "longrope with a factor": {
        "rope_type": "longrope",
        "original_max_position_embeddings": 32,
        "attention_factor": 0.8,
        **FACTORS,
    },
    "dynamic": {"rope_type": "dynamic", "factor": 3.0},
}
SHAPE = {
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 2 * PAIRS,
    "intermediate_size": 40,
    "max_position_embeddings": 128,
}


def configs(kind, family="Llama", **changes):
    """Transformers' config and ours, read from it."""
    import transformers

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rope = {"rope_theta": 5000.0, **KINDS[kind]}
        theirs = getattr(transformers, f"{family}Config")(
            **{**SHAPE, **changes, "rope_parameters": rope}
        )
    return theirs, from_hf(theirs.to_dict())


@pytest.mark.parametrize("length", [1, 32, 33, 128, 300])
@pytest.mark.parametrize("kind", KINDS)
def test_frequencies_and_attention_factor_equal_transformers(kind, length):
    theirs, ours = configs(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, factor = ROPE_INIT_FUNCTIONS[KINDS[kind]["rope_type"]](theirs, seq_len=length)
    found = rope_frequencies(ours, length=length)
    torch.testing.assert_close(found.float(), expected, rtol=2e-6, atol=0)
    assert attention_factor(ours.rope_scaling) == pytest.approx(factor, rel=1e-12)


@pytest.mark.parametrize("length", [24, 48, 200])
@pytest.mark.parametrize("family", ["Llama", "Qwen2", "Qwen3"])
@pytest.mark.parametrize("kind", ["yarn", "yarn with scales", "longrope", "dynamic"])
def test_logits_equal_transformers(kind, family, length):
    import transformers

    theirs_config, config = configs(kind, family)
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = getattr(transformers, f"{family}ForCausalLM")(theirs_config).eval()
        with torch.no_grad():
            for name, parameter in theirs.named_parameters():
                parameter.normal_(0, 0.3).add_(1.0 if "norm" in name else 0.0)
            tokens = torch.randint(0, 61, (1, length), generator=torch.Generator().manual_seed(2))
            expected = theirs(tokens).logits
    ours = Llama(LoadedWeights(config=config, tensors=dict(theirs.state_dict()), sha256=""))
    made = ours.forward(tokens, ours.new_cache(length)).logits
    torch.testing.assert_close(made, expected, atol=3e-4, rtol=1e-3)
    plain = from_hf(
        {**theirs_config.to_dict(), "rope_parameters": {"rope_theta": 5000.0}, "rope_scaling": None}
    )
    unscaled = Llama(LoadedWeights(config=plain, tensors=dict(theirs.state_dict()), sha256=""))
    if length > 128 or kind != "dynamic":  # dynamic scaling begins beyond the original context
        assert (
            unscaled.forward(tokens, unscaled.new_cache(length)).logits - expected
        ).abs().max() > 0.05


@pytest.mark.parametrize("kind", ["default", "linear", "yarn"])
def test_rotation_keeps_lengths_and_depends_on_distance_alone(kind):
    scaling = RopeScaling(kind=kind, factor=4.0, original_positions=32)
    config = LlamaConfig(
        vocabulary=9,
        width=16,
        layers=1,
        heads=1,
        kv_heads=1,
        head_dim=16,
        ffn_width=8,
        rope_scaling=scaling,
    )
    rotary = Rotary(config, device=torch.device("cpu"), dtype=torch.float64)
    generator = torch.Generator().manual_seed(4)
    query, key = torch.randn(2, 1, 1, 1, 16, generator=generator, dtype=torch.float64)
    scale = attention_factor(scaling)

    def turned(x, position):
        return rotated(x, rotary.angles(torch.tensor([[position]]), position))

    for position in (0, 1, 17, 3000):
        assert float(turned(query, position).norm()) == pytest.approx(
            scale * float(query.norm()), rel=1e-12
        )
        score = (turned(query, position + 5) * turned(key, position)).sum()
        assert float(score) == pytest.approx(
            float((turned(query, 5) * turned(key, 0)).sum()), abs=1e-9
        )


def test_one_table_serves_every_pass_only_where_frequencies_stay():
    for kind, fits in (("yarn", 128), ("longrope", 32), ("dynamic", 128)):
        _, config = configs(kind)
        rotary = Rotary(config, device=torch.device("cpu"), dtype=torch.float32)
        cos, sin = rotary.table(fits)
        expected = rotary.angles(torch.arange(fits)[None], fits - 1)
        assert torch.equal(cos, expected[0][0, :, 0])
        assert torch.equal(sin, expected[1][0, :, 0])
        if kind != "yarn":
            with pytest.raises(InputError, match=f"{kind} frequencies change beyond {fits}"):
                rotary.table(fits + 1)


def metadata(**changes):
    values = {
        "general.architecture": "llama",
        "llama.block_count": 1,
        "llama.embedding_length": 32,
        "llama.feed_forward_length": 40,
        "llama.attention.head_count": 2,
        "llama.context_length": 128,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 5000.0,
    }
    return values | {f"llama.rope.scaling.{name}": value for name, value in changes.items()}


def test_gguf_keys_give_the_same_scaling_as_a_config():
    yarn = from_gguf(
        metadata(type="yarn", factor=4.0, original_context_length=32), tied_head=True, vocabulary=61
    ).rope_scaling
    assert yarn == configs("yarn")[1].rope_scaling
    factors = {"short": FACTORS["short_factor"], "long": FACTORS["long_factor"]}
    for kind in ({"type": "longrope"}, {}):
        given = metadata(original_context_length=32, **kind)
        long = from_gguf(given, tied_head=True, vocabulary=61, rope_factors=factors).rope_scaling
        assert long == configs("longrope")[1].rope_scaling
    sharpened = from_gguf(
        metadata(type="yarn", factor=4.0, attn_factor=1.5), tied_head=True, vocabulary=61
    )
    assert attention_factor(sharpened.rope_scaling) == pytest.approx(
        1.5 * (1 + 0.1 * math.log(4.0))
    )


@pytest.mark.parametrize(
    ("rope", "message"),
    [
        (
            {"rope_type": "proportional"},
            "must be one of default, linear, llama3, yarn, longrope, dynamic",
        ),
        ({"rope_type": "yarn", "factor": 0.0}, "positive factor"),
        (
            {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]},
            "short_factors: must be 8 positive",
        ),
        ({"rope_type": "longrope", "short_factor": [1.0] * 8}, "long_factors: must be 8 positive"),
        ({"rope_type": "default", "partial_rotary_factor": 0.5}, "rotated in part"),
    ],
)
def test_scalings_that_cannot_run_are_refused_by_name(rope, message):
    with pytest.raises(InputError, match=message):
        from_hf({"model_type": "llama", **SHAPE, "rope_parameters": rope})
    with pytest.raises(InputError, match="positive numbers"):
        from_gguf(metadata(type="longrope"), tied_head=True, vocabulary=61)
