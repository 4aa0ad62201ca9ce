"""What do the model families of Hugging Face configs leave out, one entry for each family?

Values that a model class fills in, keys that have other names, and the rules by which layers slide
and carry biases. Defaults are those of the configuration classes of transformers 5.23 (Dream, LLaDA
and Kimi-K2: of the code published with the weights). How a config is read and checked stands in
`hf_config`, families with recurrent layers in `hybrid_families`, those with an encoder in
`encoder_families`.
"""

from collections.abc import Mapping
from dataclasses import replace

from costmodel.architectures.hf.encoder_families import ENCODER_FAMILIES
from costmodel.architectures.hf.expert_families import EXPERT_FAMILIES
from costmodel.architectures.hf.family import EXPERTS_OF_FULL_WIDTH, Family
from costmodel.architectures.hf.hybrid_families import HYBRID_FAMILIES
from costmodel.architectures.hf.llama_like_families import LLAMA_LIKE_FAMILIES

_DEEPSEEK = Family(
    defaults={
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "n_shared_experts": 2,
        "max_position_embeddings": 2048,
    },
    spellings={
        "num_experts": ("n_routed_experts", "num_local_experts", "num_experts"),
        "num_nextn_predict_layers": ("num_nextn_predict_layers", "num_mtp_layers"),
    },
    fixed={"moe_layer_freq": 1},
    bias="attention_bias",
    output_bias="attention_bias",
    moe=True,
    mla=True,
)
_DEEPSEEK_V3 = replace(
    _DEEPSEEK,
    defaults={
        **_DEEPSEEK.defaults,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 3,
        "num_nextn_predict_layers": 1,
        "max_position_embeddings": 4096,
    },
)
_INDEXED = replace(
    _DEEPSEEK_V3,
    defaults={
        **_DEEPSEEK_V3.defaults,
        "index_topk": 2048,
        "index_head_dim": 128,
        "index_n_heads": 64,
        "num_nextn_predict_layers": 0,
        "max_position_embeddings": 163840,
    },
    indexer=True,
)
_QWEN2 = Family(
    defaults={
        "num_key_value_heads": 32,
        "sliding_window": 4096,
        "max_window_layers": 28,
        "max_position_embeddings": 32768,
    },
    bias=True,
    window="late",
    window_switch=True,
)
_GEMMA = {"head_dim": 256, "tie_word_embeddings": True, "max_position_embeddings": 8192}

FAMILIES: Mapping[str, Family] = {
    "llama": Family(
        defaults={"max_position_embeddings": 2048},
        bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
    ),
    "mistral": Family(
        defaults={
            "num_key_value_heads": 8,
            "sliding_window": 4096,
            "max_position_embeddings": 131072,
        },
        window="all",
    ),
    "mixtral": Family(
        defaults={
            "num_key_value_heads": 8,
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "max_position_embeddings": 131072,
        },
        spellings=EXPERTS_OF_FULL_WIDTH,
        moe=True,
        window="all",
    ),
    "qwen2": _QWEN2,
    "Dream": replace(_QWEN2, block_tokens=0),
    "qwen3": Family(
        defaults={**_QWEN2.defaults, "head_dim": 128},
        bias="attention_bias",
        output_bias="attention_bias",
        qk_norm=True,
        window="late",
        window_switch=True,
    ),
    "qwen3_moe": Family(
        defaults={
            "num_key_value_heads": 4,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "sliding_window": 4096,
            "max_position_embeddings": 32768,
        },
        spellings={"num_experts": ("num_experts", "num_local_experts")},
        bias="attention_bias",
        output_bias="attention_bias",
        qk_norm=True,
        moe=True,
        window="all",
        window_switch=True,
    ),
    "gemma": Family(
        defaults={**_GEMMA, "num_key_value_heads": 16},
        bias="attention_bias",
        output_bias="attention_bias",
    ),
    "gemma2": Family(
        defaults={
            **_GEMMA,
            "num_key_value_heads": 4,
            "sliding_window": 4096,
            "sliding_window_pattern": 2,
        },
        bias="attention_bias",
        output_bias="attention_bias",
        norms=4,
        window="periodic",
    ),
    "gemma3_text": Family(
        defaults={
            **_GEMMA,
            "num_key_value_heads": 4,
            "sliding_window": 4096,
            "sliding_window_pattern": 6,
            "max_position_embeddings": 131072,
        },
        nested={
            "vocab_size": 262208,
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "num_hidden_layers": 26,
            "num_attention_heads": 8,
        },
        bias="attention_bias",
        output_bias="attention_bias",
        qk_norm=True,
        norms=4,
        window="periodic",
    ),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK_V3,
    "kimi_k2": _DEEPSEEK_V3,
    "deepseek_v32": _INDEXED,
    "glm_moe_dsa": replace(
        _INDEXED,
        defaults={
            **_INDEXED.defaults,
            "q_lora_rank": 2048,
            "qk_nope_head_dim": 192,
            "v_head_dim": 256,
            "index_n_heads": 32,
            "max_position_embeddings": 202752,
        },
    ),
    "glm4_moe_lite": replace(
        _DEEPSEEK_V3,
        defaults={
            **_DEEPSEEK_V3.defaults,
            "q_lora_rank": 768,
            "qk_nope_head_dim": 192,
            "v_head_dim": 256,
            "num_experts_per_tok": 4,
            "first_k_dense_replace": 1,
            "num_nextn_predict_layers": 0,
            "max_position_embeddings": 202752,
        },
    ),
    "step3_text": Family(
        defaults={"num_key_value_heads": 1, "max_position_embeddings": 65536},
        spellings={
            "num_key_value_heads": ("num_attention_groups",),
            "q_lora_rank": ("share_q_dim",),
            "num_experts": ("moe_num_experts",),
            "num_experts_per_tok": ("moe_top_k",),
            "shared_expert_width": ("share_expert_dim",),
            "max_position_embeddings": ("max_position_embedding", "max_position_embeddings"),
        },
        moe=True,
        factored_query=True,
    ),
    "llama4_text": Family(
        defaults={
            "num_key_value_heads": 8,
            "head_dim": 128,
            "n_shared_experts": 1,
            "num_experts_per_tok": 1,
            "sliding_window": 8192,
            "sliding_window_pattern": 4,
            "decoder_sparse_step": 1,
            "max_position_embeddings": 131072,
        },
        spellings={
            "num_experts": ("num_local_experts",),
            "moe_intermediate_size": ("intermediate_size",),
            "intermediate_size": ("intermediate_size_mlp",),
            "decoder_sparse_step": ("interleave_moe_layer_step",),
            "sliding_window": ("attention_chunk_size",),
            "sliding_window_pattern": ("no_rope_layer_interval",),
        },
        bias="attention_bias",
        output_bias="attention_bias",
        moe=True,
        window="periodic",
    ),
    "phi3": Family(defaults={"max_position_embeddings": 4096}, window="all"),
    "gpt_oss": Family(
        defaults={
            "num_key_value_heads": 8,
            "head_dim": 64,
            "attention_bias": True,
            "num_experts_per_tok": 4,
            "sliding_window": 128,
            "sliding_window_pattern": 2,
            "max_position_embeddings": 131072,
        },
        spellings=EXPERTS_OF_FULL_WIDTH,
        bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias=True,
        sinks=True,
        moe=True,
        window="periodic",
    ),
    "opt": Family(
        defaults={
            "tie_word_embeddings": True,
            "enable_bias": True,
            "max_position_embeddings": 2048,
        },
        spellings={"intermediate_size": ("ffn_dim",)},
        fixed={
            "do_layer_norm_before": True,
            "_remove_final_layer_norm": False,
            "layer_norm_elementwise_affine": True,
        },
        bias="enable_bias",
        output_bias="enable_bias",
        mlp_bias="enable_bias",
        gated=False,
        norm_bias=True,
        extra_positions=2,
    ),
    "gpt2": Family(
        defaults={"tie_word_embeddings": True, "max_position_embeddings": 1024},
        spellings={
            "hidden_size": ("n_embd", "hidden_size"),
            "num_hidden_layers": ("n_layer", "num_hidden_layers"),
            "num_attention_heads": ("n_head", "num_attention_heads"),
            "max_position_embeddings": ("n_positions", "max_position_embeddings"),
            "intermediate_size": ("n_inner",),
        },
        fixed={"add_cross_attention": False},
        bias=True,
        output_bias=True,
        mlp_bias=True,
        gated=False,
        norm_bias=True,
        inner_ratio=4,
        extra_positions=0,
    ),
    "llada": Family(
        defaults={
            "tie_word_embeddings": True,
            "max_position_embeddings": 1024,
            "block_type": "sequential",
            "layer_norm_type": "default",
            "include_bias": True,
        },
        spellings={
            "hidden_size": ("d_model",),
            "num_hidden_layers": ("n_layers",),
            "num_attention_heads": ("n_heads",),
            "num_key_value_heads": ("n_kv_heads",),
            "intermediate_size": ("mlp_hidden_size",),
            "vocab_size": ("embedding_size", "vocab_size"),
            "tie_word_embeddings": ("weight_tying",),
            "max_position_embeddings": ("max_sequence_length",),
        },
        fixed={
            "block_type": "llama",
            "layer_norm_type": "rms",
            "include_bias": False,
            "include_qkv_bias": False,
            "attention_layer_norm": False,
        },
        block_tokens=0,
    ),
    **LLAMA_LIKE_FAMILIES,
    **EXPERT_FAMILIES,
    **HYBRID_FAMILIES,
    **ENCODER_FAMILIES,
}
