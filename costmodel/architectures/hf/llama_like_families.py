"""What do the configs of near relatives of Llama leave out, one entry for each family?

Dense decoders that differ from it in norms, biases, windows or the feed-forward alone. Defaults are
those of the configuration classes of transformers 5.23.
"""

from collections.abc import Mapping

from costmodel.architectures.hf.family import Family

LLAMA_LIKE_FAMILIES: Mapping[str, Family] = {
    "granite": Family(
        defaults={"max_position_embeddings": 2048},
        bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
    ),
    "smollm3": Family(
        defaults={
            "num_key_value_heads": 4,
            "tie_word_embeddings": True,
            "max_position_embeddings": 32768,
        },
        fixed={"use_sliding_window": False},
        bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
    ),
    "ministral3": Family(
        defaults={"num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 262144},
        window="all",
    ),
    "qwen3_vl_text": Family(
        defaults={"num_key_value_heads": 32, "head_dim": 128, "max_position_embeddings": 128000},
        bias="attention_bias",
        output_bias="attention_bias",
        qk_norm=True,
    ),
    "olmo2": Family(
        defaults={"max_position_embeddings": 2048},
        bias="attention_bias",
        output_bias="attention_bias",
        qk_norm=True,
        qk_norm_joint=True,
    ),
    "olmo3": Family(
        defaults={
            "sliding_window": 4096,
            "sliding_window_pattern": 4,
            "max_position_embeddings": 2048,
        },
        bias="attention_bias",
        output_bias="attention_bias",
        qk_norm=True,
        qk_norm_joint=True,
        window="periodic",
    ),
    "exaone4": Family(
        defaults={
            "num_key_value_heads": 32,
            "sliding_window": 4096,
            "sliding_window_pattern": 4,
            "max_position_embeddings": 2048,
        },
        qk_norm=True,
        window="periodic",
    ),
    "cohere2": Family(
        defaults={
            "tie_word_embeddings": True,
            "sliding_window": 4096,
            "sliding_window_pattern": 4,
            "max_position_embeddings": 8192,
        },
        bias="attention_bias",
        output_bias="attention_bias",
        norms=1,
        window="periodic",
    ),
    "glm4": Family(
        defaults={
            "num_key_value_heads": 2,
            "head_dim": 128,
            "attention_bias": True,
            "max_position_embeddings": 131072,
        },
        bias="attention_bias",
        norms=4,
    ),
    "seed_oss": Family(
        defaults={
            "num_key_value_heads": 8,
            "head_dim": 128,
            "attention_bias": True,
            "max_position_embeddings": 524288,
        },
        bias="attention_bias",
        output_bias="attention_out_bias",
        mlp_bias="mlp_bias",
    ),
    "ernie4_5": Family(
        defaults={
            "num_key_value_heads": 2,
            "head_dim": 128,
            "tie_word_embeddings": True,
            "max_position_embeddings": 131072,
        },
        bias="use_bias",
        output_bias="use_bias",
        mlp_bias="use_bias",
    ),
    "arcee": Family(
        defaults={"max_position_embeddings": 4096},
        bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
        gated=False,
    ),
    "nemotron": Family(
        defaults={"max_position_embeddings": 4096},
        bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
        gated=False,
        norm_bias=True,
    ),
    "starcoder2": Family(
        defaults={
            "num_key_value_heads": 2,
            "use_bias": True,
            "tie_word_embeddings": True,
            "max_position_embeddings": 4096,
        },
        bias="use_bias",
        output_bias="use_bias",
        mlp_bias="use_bias",
        gated=False,
        norm_bias=True,
        window="all",
    ),
    "stablelm": Family(
        defaults={"num_key_value_heads": 32, "max_position_embeddings": 4096},
        fixed={"qk_layernorm": False, "use_parallel_residual": False},
        bias="use_qkv_bias",
        norm_bias=True,
    ),
}
