"""Single knobs of drafters: suffix decoding's largest batch, a head's attention, llama.cpp's n-max
and p-min, blocks and caches of masked models.

Asked in ArcticInference#185, vllm-project/recipes#702, llama.cpp#27836 and #26608, and
sglang#33322.
"""

import csv
import json

import pytest

HEAD = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 1,
    "num_attention_heads": 32,
    "head_dim": 128,
    "vocab_size": 128256,
    "draft_vocab_size": 32000,
}


def test_the_largest_batch_of_suffix_decoding(user):
    """Its acceptance is needed from the batch on at which it no longer pays; vLLM takes no schedule
    of it, which the answer says."""
    line = "rooftree breakeven --model qwen3-8b --device h100-sxm --method suffix-decoding"
    rows = user(f"{line} --batch 1,64,256 --json").answer["points"]
    needed = [row["least_tokens_per_step"] for row in rows]
    assert needed == sorted(needed) and needed[0] < 1.1 < needed[2]
    said = user(
        "rooftree optimize --model qwen3-8b --device h100-sxm --drafter"
        " suffix-decoding:length=1.3@4 --batch 1,64,256 --out plan"
    ).out
    assert "suffix ignores a schedule" in said


def test_a_head_with_full_attention_costs_what_its_cache_does(user, tmp_path):
    """The same head with 32 instead of 8 key/value heads, by its own config."""
    rows = {}
    for kv_heads in (8, 32):
        (tmp_path / "head.json").write_text(json.dumps(HEAD | {"num_key_value_heads": kv_heads}))
        rows[kv_heads] = user(
            "rooftree predict --model llama-3.1-8b --device h100-sxm --method eagle-3 --draft"
            " head.json --acceptance 0.7 --draft-tokens 3 --batch 64 --context 512,4096 --json"
        ).answer["predictions"]
    slower = [own["step_s"] / less["step_s"] for own, less in zip(rows[32], rows[8], strict=True)]
    assert 1.0 < slower[0] < slower[1] < 1.25
    usual = user(
        "rooftree predict --model llama-3.1-8b --device h100-sxm --method eagle-3 --acceptance 0.7"
        " --draft-tokens 3 --batch 64 --context 512,4096 --json"
    ).answer["predictions"]
    assert [row["step_s"] for row in rows[8]] == pytest.approx([row["step_s"] for row in usual])


def test_n_max_of_llama_cpp_is_too_hopeful_on_metal(user, published):
    """Plain decoding is right; a draft of five gains far less there than predicted: several rows
    cost Metal's kernels more than this device's profile says. The answer is a bound."""
    with (published / "tracker_numbers.csv").open(newline="", encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if "M2 Ultra" in row["setup"]]
    plain, code, _ = (float(row["value"]) for row in rows)
    predicted = user(
        "rooftree predict --model qwen3.5-27b --dtype q8_0 --device apple-m2-ultra --engine"
        " llama.cpp --method mtp --acceptance 0.96 --draft-tokens 0,5 --batch 1 --json"
    ).answer["predictions"]
    assert predicted[0]["tokens_per_s"] == pytest.approx(plain, rel=0.1)
    assert predicted[1]["speedup"] > code / plain


def test_p_min_is_compared_on_a_recording_and_written_for_llama_cpp(user, tmp_path):
    """A draft that ends where its probability falls beats those of one length on this recording.
    Two drafters of one server together (`draft-mtp,ngram-mod`) are compared, not combined."""
    answer = user(
        "rooftree optimize --trace level-3/smollm2-135m--draft-model--greedy --model qwen3-32b"
        " --dtype q8_0 --draft qwen3-0.6b --device apple-m2-ultra --engine llama.cpp --batch 1"
        " --shape chain:8+probability:0.6,chain:8,chain:3 --out plan --json"
    ).answer
    assert answer["choices"][0]["draft"] == "chain:8+probability:0.6"
    written = "".join(
        path.read_text() for path in (tmp_path / "plan" / "llama.cpp").rglob("*") if path.is_file()
    )
    assert "--spec-draft-p-min 0.6" in written and "--spec-draft-n-max 8" in written


def test_masked_rollouts_by_batch_choose_block_and_cache(user):
    """A cache and short blocks stay best as rollouts grow, and from some batch on no policy beats
    the model decoded token by token."""
    found = user(
        "rooftree optimize --model llada-8b --device h100-sxm --method fast-dllm --trace"
        " confidence/masked-names--plain --trace confidence/masked-names--dual-cache --batch 1,32"
        " --quality-floor 0.95 --out plan --json"
    ).answer
    one, many = found["choices"]
    assert "dual cache" in one["draft"] and "dual cache" in many["draft"]
    assert one["speedup"] > 1.0 > many["speedup"] and many["tokens_per_s"] > one["tokens_per_s"]
