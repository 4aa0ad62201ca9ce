"""What do the configs of further mixtures of experts leave out, one entry for each family?

Defaults are those of the configuration classes of transformers 5.23 (LLaDA2: of the code published
with the weights). Mixtures with latent attention stand in `families`, those with recurrent layers
in `hybrid_families`.
"""

from collections.abc import Mapping

from costmodel.architectures.hf.family import EXPERTS_OF_FULL_WIDTH, Family

_SHARED_MLP = {**EXPERTS_OF_FULL_WIDTH, "shared_expert_width": ("shared_intermediate_size",)}
_GRANITE_MOE = {"num_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 2048}

EXPERT_FAMILIES: Mapping[str, Family] = {
    "qwen2_moe": Family(
        defaults={
            "num_key_value_heads": 16,
            "num_experts": 60,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 1408,
            "shared_expert_width": 5632,
            "qkv_bias": True,
            "sliding_window": 4096,
            "max_window_layers": 28,
            "max_position_embeddings": 32768,
        },
        spellings={"shared_expert_width": ("shared_expert_intermediate_size",)},
        bias="qkv_bias",
        moe=True,
        shared_gate=True,
        window="late",
        window_switch=True,
    ),
    "qwen3_vl_moe_text": Family(
        defaults={
            "num_key_value_heads": 16,
            "num_experts": 60,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 1408,
            "tie_word_embeddings": True,
            "max_position_embeddings": 128000,
        },
        bias="attention_bias",
        output_bias="attention_bias",
        qk_norm=True,
        moe=True,
    ),
    "minimax_m2": Family(
        defaults={
            "num_key_value_heads": 8,
            "head_dim": 128,
            "num_experts": 256,
            "num_experts_per_tok": 8,
            "max_position_embeddings": 196608,
        },
        spellings={**EXPERTS_OF_FULL_WIDTH, "num_nextn_predict_layers": ("num_mtp_modules",)},
        qk_norm=True,
        qk_norm_joint=True,
        moe=True,
    ),
    "glm4_moe": Family(
        defaults={
            "num_key_value_heads": 8,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 1408,
            "n_shared_experts": 1,
            "first_k_dense_replace": 1,
            "num_nextn_predict_layers": 1,
            "max_position_embeddings": 131072,
        },
        spellings={
            "num_experts": ("n_routed_experts", "num_local_experts", "num_experts"),
            "num_nextn_predict_layers": ("num_nextn_predict_layers", "num_mtp_layers"),
        },
        bias="attention_bias",
        qk_norm="use_qk_norm",
        moe=True,
    ),
    "granitemoe": Family(
        defaults=_GRANITE_MOE,
        spellings=EXPERTS_OF_FULL_WIDTH,
        bias="attention_bias",
        output_bias="attention_bias",
        moe=True,
    ),
    "granitemoeshared": Family(
        defaults={**_GRANITE_MOE, "shared_expert_width": 0},
        spellings=_SHARED_MLP,
        bias="attention_bias",
        output_bias="attention_bias",
        moe=True,
    ),
    "olmoe": Family(
        defaults={"num_experts": 64, "num_experts_per_tok": 8, "max_position_embeddings": 4096},
        spellings=EXPERTS_OF_FULL_WIDTH,
        bias="attention_bias",
        output_bias="attention_bias",
        qk_norm=True,
        qk_norm_joint=True,
        moe=True,
    ),
    "llada2_moe": Family(
        defaults={
            "n_shared_experts": 0,
            "first_k_dense_replace": 0,
            "use_qk_norm": True,
            "max_position_embeddings": 32768,
        },
        spellings={"n_shared_experts": ("num_shared_experts",)},
        bias="use_qkv_bias",
        output_bias="use_bias",
        mlp_bias="use_bias",
        qk_norm="use_qk_norm",
        moe=True,
        # ASSUMED: block_length of its generate(); blocks are causal, their tokens see each other
        block_tokens=32,
    ),
}
