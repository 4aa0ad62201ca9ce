"""What do the configs of hybrid and recurrent families leave out, one entry for each family?

Models whose layers are not all attention; where each layer stands is `hybrids`. Defaults are those
of the configuration classes of transformers 5.23 (Phi-4-mini-flash: of the code published with the
weights).
"""

from collections.abc import Mapping
from dataclasses import replace

from costmodel.architectures.hf.family import EXPERTS_OF_FULL_WIDTH, Family

_SELECTIVE_SCAN = {
    "mamba_expand": 2,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_dt_rank": "auto",
    "mamba_conv_bias": True,
}
_SCAN_BY_HEADS = {
    "num_key_value_heads": 8,
    "mamba_n_heads": 128,
    "mamba_d_head": "auto",
    "mamba_n_groups": 1,
    "mamba_d_state": 256,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_conv_bias": True,
}
_DELTA_NET = {
    "head_dim": 256,
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "max_position_embeddings": 32768,
}
_SHARED_EXPERT = {"shared_expert_width": ("shared_expert_intermediate_size",)}
_PREDICTION_LAYERS = {
    "num_nextn_predict_layers": ("mtp_num_hidden_layers", "num_nextn_predict_layers")
}
_NO_LIMIT = 1 << 20  # contexts of attention-free models are bounded by nothing that a config states
_QWEN3_NEXT = Family(
    defaults={**_DELTA_NET, "num_key_value_heads": 4},
    spellings=_PREDICTION_LAYERS,
    bias="attention_bias",
    output_bias="attention_bias",
    qk_norm=True,
    gated_attention=True,
    hybrid="qwen3_next",
)
_QWEN3_NEXT_EXPERTS = replace(
    _QWEN3_NEXT, spellings={**_SHARED_EXPERT, **_PREDICTION_LAYERS}, moe=True, shared_gate=True
)

HYBRID_FAMILIES: Mapping[str, Family] = {
    "qwen3_next": replace(
        _QWEN3_NEXT_EXPERTS,
        defaults={
            **_DELTA_NET,
            "num_key_value_heads": 2,
            "num_experts": 512,
            "num_experts_per_tok": 10,
            "shared_expert_width": 512,
        },
    ),
    "qwen3_5_text": _QWEN3_NEXT,
    "qwen3_5_moe_text": replace(
        _QWEN3_NEXT_EXPERTS,
        defaults={
            **_DELTA_NET,
            "num_key_value_heads": 2,
            "num_experts": 256,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 512,
            "shared_expert_width": 512,
        },
    ),
    "bamba": Family(
        defaults={**_SCAN_BY_HEADS, "max_position_embeddings": 262144},
        bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
        hybrid="bamba",
    ),
    "falcon_h1": Family(
        defaults={**_SCAN_BY_HEADS, "mamba_d_ssm": 1024, "max_position_embeddings": 8192},
        fixed={"projectors_bias": False},
        bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
        hybrid="falcon_h1",
    ),
    "granitemoehybrid": Family(
        defaults={
            **_SCAN_BY_HEADS,
            "num_key_value_heads": None,
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "shared_expert_width": 1024,
            "intermediate_size": 1024,
            "max_position_embeddings": 2048,
        },
        spellings={
            **EXPERTS_OF_FULL_WIDTH,
            "shared_expert_width": ("shared_intermediate_size",),
            "intermediate_size": ("shared_intermediate_size",),
            "layer_types": ("layer_types", "layers_block_type"),
        },
        bias="attention_bias",
        output_bias="attention_bias",
        moe=True,
        hybrid="granitemoehybrid",
    ),
    "zamba2": Family(
        defaults={
            "tie_word_embeddings": True,
            "mamba_num_heads": 8,
            "mamba_expand": 2,
            "mamba_d_state": 64,
            "mamba_n_groups": 1,
            "mamba_d_conv": 4,
            "mamba_conv_bias": True,
            "num_mem_blocks": 1,
            "adapter_rank": 128,
            "max_position_embeddings": 4096,
        },
        spellings={
            "mamba_num_heads": ("n_mamba_heads",),
            "mamba_n_groups": ("mamba_ngroups",),
            "mamba_conv_bias": ("use_conv_bias",),
            "layer_types": ("layer_types", "layers_block_type"),
        },
        fixed={"add_bias_linear": False},
        norms=1,
        hybrid="zamba2",
    ),
    "gemma4_text": Family(
        defaults={
            "num_key_value_heads": 4,
            "head_dim": 256,
            "global_head_dim": 512,
            "tie_word_embeddings": True,
            "sliding_window": 512,
            "enable_moe_block": False,
            "hidden_size_per_layer_input": 256,
            "vocab_size_per_layer_input": 262144,
            "max_position_embeddings": 131072,
        },
        nested={
            "vocab_size": 262144,
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "num_hidden_layers": 30,
            "num_attention_heads": 8,
        },
        spellings={
            "num_experts_per_tok": ("top_k_experts",),
            "shared_expert_width": ("intermediate_size",),
        },
        bias="attention_bias",
        output_bias="attention_bias",
        qk_norm=True,
        norms=4,
        moe=True,
        hybrid="gemma4",
    ),
    "jamba": Family(
        defaults={
            **_SELECTIVE_SCAN,
            "num_key_value_heads": 8,
            "num_experts": 16,
            "num_experts_per_tok": 2,
            "attn_layer_period": 8,
            "attn_layer_offset": 4,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "max_position_embeddings": 262144,
        },
        spellings=EXPERTS_OF_FULL_WIDTH,
        hybrid="jamba",
    ),
    "nemotron_h": Family(
        defaults={
            "num_key_value_heads": 8,
            "head_dim": 128,
            "mamba_num_heads": 128,
            "mamba_head_dim": 64,
            "mamba_d_state": 128,
            "mamba_n_groups": 8,
            "mamba_d_conv": 4,
            "mamba_conv_bias": True,
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 7688,
            "shared_expert_width": 7688,
            "max_position_embeddings": 4096,
        },
        spellings={
            "head_dim": ("head_dim", "attention_head_dim"),
            "mamba_d_state": ("ssm_state_size",),
            "mamba_n_groups": ("n_groups", "mamba_n_groups"),
            "mamba_d_conv": ("conv_kernel", "mamba_d_conv"),
            "mamba_conv_bias": ("use_conv_bias", "mamba_conv_bias"),
            "mamba_proj_bias": ("use_bias",),
            "layer_types": ("layer_types", "layers_block_type"),
            "num_experts": ("n_routed_experts",),
            "shared_expert_width": ("moe_shared_expert_intermediate_size",),
        },
        fixed={"mlp_bias": False, "attention_bias": False},
        gated=False,
        norms=1,
        hybrid="nemotron_h",
    ),
    "phi4flash": Family(
        defaults={
            **_SELECTIVE_SCAN,
            "tie_word_embeddings": True,
            "num_key_value_heads": 4,
            "sliding_window": 2047,
            "max_position_embeddings": 4096,
        },
        fixed={"mb_per_layer": 2, "mlp_bias": False, "lm_head_bias": False},
        bias=True,
        output_bias=True,
        norm_bias=True,
        hybrid="phi4flash",
    ),
    "mamba": Family(
        defaults={
            **_SELECTIVE_SCAN,
            "tie_word_embeddings": True,
            "max_position_embeddings": _NO_LIMIT,
        },
        spellings={
            "mamba_expand": ("expand",),
            "mamba_d_state": ("state_size",),
            "mamba_d_conv": ("conv_kernel",),
            "mamba_dt_rank": ("time_step_rank",),
            "mamba_conv_bias": ("use_conv_bias",),
            "mamba_proj_bias": ("use_bias",),
        },
        norms=1,
        attention_free=True,
        hybrid="mamba",
    ),
    "mamba2": Family(
        defaults={
            "num_heads": 128,
            "head_dim": 64,
            "mamba_expand": 2,
            "mamba_d_state": 128,
            "mamba_n_groups": 8,
            "mamba_d_conv": 4,
            "mamba_conv_bias": True,
            "max_position_embeddings": _NO_LIMIT,
        },
        spellings={
            "mamba_expand": ("expand",),
            "mamba_d_state": ("state_size",),
            "mamba_n_groups": ("n_groups",),
            "mamba_d_conv": ("conv_kernel",),
            "mamba_conv_bias": ("use_conv_bias",),
            "mamba_proj_bias": ("use_bias",),
        },
        norms=1,
        attention_free=True,
        hybrid="mamba2",
    ),
}
