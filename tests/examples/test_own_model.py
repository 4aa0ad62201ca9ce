"""A model of one's own: a Granite config that nobody ships, from what it is to the file that serves
it."""

import json

import pytest

GRANITE = {
    "architectures": ["GraniteForCausalLM"],
    "model_type": "granite",
    "hidden_size": 3072,
    "intermediate_size": 9216,
    "num_hidden_layers": 28,
    "num_attention_heads": 24,
    "num_key_value_heads": 8,
    "vocab_size": 49155,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "hidden_act": "silu",
    "rms_norm_eps": 1e-05,
    "rope_theta": 1e7,
    "attention_bias": False,
    "attention_multiplier": 0.0078125,
    "embedding_multiplier": 12.0,
    "logits_scaling": 16.0,
    "residual_multiplier": 0.22,
}
WIDTH, HEAD = 3072, 128
PARAMETERS = 49155 * WIDTH + 28 * (2 * WIDTH * 24 * HEAD + 2 * WIDTH * 8 * HEAD + 3 * WIDTH * 9216)


@pytest.fixture
def config(tmp_path):
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "config.json").write_text(json.dumps(GRANITE))


def test_the_config_says_what_a_pass_reads(config, user):
    """Parameters and cache are those that the config's own numbers multiply to; norms are the
    thousandth part."""
    found = user("rooftree models inspect ours/config.json --json").answer["model"]
    assert found["parameters"] == pytest.approx(PARAMETERS, rel=1e-3)
    assert found["kv_bytes_per_token"]["bf16"] == 28 * 2 * 8 * HEAD * 2
    said = user("rooftree models inspect ours/config.json").out
    assert f"{PARAMETERS / 1e9:.2f}" in said and "28" in said


def test_it_is_predicted_and_served_like_any_other(config, user, tmp_path):
    asked = (
        "rooftree predict --model ours/config.json --method n-gram --acceptance 0.6 --batch 1"
        " --json"
    )
    plain = next(row for row in user(asked).answer["predictions"] if row["draft_tokens"] == 0)
    least_s = 2 * PARAMETERS / 3.35e12
    assert least_s < plain["breakdown_s"]["verify"] < 2.0 * least_s

    user(
        "rooftree optimize --model ours/config.json --drafter n-gram:0.6,0.4,0.3 --batch 1,32 --out"
        " plan --quiet"
    )
    served = (tmp_path / "plan" / "vllm" / "vllm-serve.sh").read_text()
    assert "ours" in served and "speculative-config" in served


def test_a_slip_in_the_config_names_file_key_and_value(config, user, tmp_path):
    wrong = GRANITE | {"num_attention_heads": 7}
    (tmp_path / "ours" / "config.json").write_text(json.dumps(wrong))
    refused = user(
        "rooftree predict --model ours/config.json --method n-gram --acceptance 0.6", code=2
    )
    assert "config.json" in refused.err and "num_attention_heads" in refused.err


def test_a_family_that_nobody_knows_is_taken_for_a_llama_when_one_says_so(config, user, tmp_path):
    """The same numbers under a foreign name: refused with the way out, then the same prediction."""
    (tmp_path / "ours" / "config.json").write_text(
        json.dumps(GRANITE | {"model_type": "our-own", "architectures": []})
    )
    asked = (
        "rooftree predict --model ours/config.json --method n-gram --acceptance 0.6 --batch 1"
        " --json"
    )
    refused = user(asked, code=2)
    assert "our-own" in refused.err and "--as" in refused.err
    taken = user(f"{asked} --as llama").answer["predictions"][0]
    (tmp_path / "ours" / "config.json").write_text(json.dumps(GRANITE))
    assert taken["step_s"] == pytest.approx(
        user(asked).answer["predictions"][0]["step_s"], rel=1e-3
    )
