"""Small configs of every family: the keys that its files always carry, and little else."""

from costmodel.architectures.hf.families import FAMILIES

LLAMA = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 50,
}
LLADA = {
    "block_type": "llama",
    "layer_norm_type": "rms",
    "include_bias": False,
    "n_layers": 6,
    "d_model": 64,
    "n_heads": 4,
    "mlp_hidden_size": 96,
    "embedding_size": 50,
    "weight_tying": False,
    "torch_dtype": "bfloat16",
}
_BART = {
    "d_model": 64,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 80,
    "vocab_size": 50,
}
_OTHER_NAMES = {
    "gpt2": {"n_embd": 64, "n_layer": 6, "n_head": 4, "vocab_size": 50},
    "opt": {
        "hidden_size": 64,
        "ffn_dim": 96,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "vocab_size": 50,
    },
    "llada": LLADA,
    "mamba": {"hidden_size": 32, "num_hidden_layers": 3, "vocab_size": 50, "state_size": 8},
    "mamba2": {
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "vocab_size": 50,
        "num_heads": 8,
        "head_dim": 8,
        "n_groups": 2,
        "tie_word_embeddings": False,
    },
    "t5": {
        "d_model": 64,
        "d_kv": 16,
        "d_ff": 96,
        "num_heads": 4,
        "num_layers": 3,
        "vocab_size": 50,
    },
    "bart": _BART,
    "whisper": _BART,
    "step3_text": {
        **LLAMA,
        "num_attention_groups": 1,
        "share_q_dim": 32,
        "moe_num_experts": 6,
        "moe_top_k": 2,
        "moe_intermediate_size": 24,
        "share_expert_dim": 24,
        "head_dim": 16,
    },
}
_ROUTED = {"n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
_LOCAL = {"num_local_experts": 6, "num_experts_per_tok": 2}
_NUMBERED = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
_DELTA = {
    "head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 16,
    "tie_word_embeddings": False,
}
_SHARED = {**_NUMBERED, "shared_expert_intermediate_size": 40}
_SCAN = {"mamba_n_heads": 8, "mamba_d_state": 16, "mamba_n_groups": 2}
_KINDS = ["mamba", "attention", "mamba", "mamba", "attention", "mamba"]
_EXTRA = {
    "mixtral": _LOCAL,
    "gpt_oss": _LOCAL,
    "minimax_m2": _LOCAL | {"head_dim": 16},
    "granitemoe": _LOCAL,
    "granitemoeshared": _LOCAL | {"shared_intermediate_size": 40},
    "llama4_text": _LOCAL | {"intermediate_size_mlp": 80},
    "qwen3_moe": _NUMBERED,
    "qwen2_moe": _SHARED,
    "qwen3_vl_moe_text": _NUMBERED,
    "olmoe": _NUMBERED,
    "llada2_moe": _NUMBERED | {"num_shared_experts": 1, "first_k_dense_replace": 1, "head_dim": 16},
    "deepseek_v2": _ROUTED,
    "deepseek_v3": _ROUTED,
    "kimi_k2": _ROUTED,
    "glm4_moe": _ROUTED,
    "glm4_moe_lite": _ROUTED,
    "deepseek_v32": _ROUTED,
    "glm_moe_dsa": _ROUTED | {"indexer_types": ["full", "shared"] * 3},
    "qwen3_next": _DELTA | _SHARED,
    "qwen3_5_text": _DELTA,
    "qwen3_5_moe_text": _DELTA | _SHARED,
    "jamba": {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "attn_layer_period": 3,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "mamba_dt_rank": 5,
        "tie_word_embeddings": False,
    },
    "nemotron_h": {
        "hybrid_override_pattern": "M-M*M-",
        "head_dim": 16,
        "mamba_num_heads": 4,
        "mamba_head_dim": 32,
        "ssm_state_size": 8,
        "n_groups": 2,
        "tie_word_embeddings": False,
    },
    "phi4flash": {"num_hidden_layers": 8, "sliding_window": 32, "mb_per_layer": 2},
    "bamba": _SCAN | {"attn_layer_indices": [1, 4]},
    "falcon_h1": _SCAN | {"mamba_d_ssm": 128},
    "granitemoehybrid": _SCAN | _LOCAL | {"shared_intermediate_size": 40, "layer_types": _KINDS},
    "zamba2": {
        "n_mamba_heads": 8,
        "num_mem_blocks": 2,
        "use_shared_attention_adapter": True,
        "adapter_rank": 4,
        "layers_block_type": ["hybrid", "mamba", "hybrid", "mamba", "hybrid", "mamba"],
    },
    "gemma4_text": {
        "head_dim": 16,
        "global_head_dim": 32,
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": 50,
    },
}


def sample(model_type):
    """A small config of a family."""
    return {
        **_OTHER_NAMES.get(model_type, LLAMA),
        **_EXTRA.get(model_type, {}),
        "model_type": model_type,
    }


SAMPLES = {model_type: sample(model_type) for model_type in FAMILIES}
