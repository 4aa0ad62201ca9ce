"""What can a family of Hugging Face configs leave out, and how is it recorded?

The form of an entry; the entries stand in `families` (and `hybrid_families`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Bias: TypeAlias = bool | str
"""True or False for a whole family, or the config key that decides."""
Layout: TypeAlias = Literal[
    "qwen3_next",
    "jamba",
    "nemotron_h",
    "phi4flash",
    "mamba",
    "mamba2",
    "bamba",
    "falcon_h1",
    "granitemoehybrid",
    "zamba2",
    "gemma4",
]
"""How a family whose layers are of several kinds places them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """What the configs of one family leave out.

    Attributes:
        defaults: Values of the model class for keys that a config may omit.
        nested: Further class values, applied only inside a `text_config`.
        spellings: Names of a key in the config, the usual one first.
        fixed: Keys with the only value that is supported; another value is another architecture.
        window: Which layers slide: "all", those past `max_window_layers`, or all but every
            `sliding_window_pattern`-th.
        window_switch: Windows also need `use_sliding_window`.
        qk_norm: Queries and keys are normalised: True, False, or the config key that decides.
        qk_norm_joint: One norm spans all heads of the queries, and one all heads of the keys.
        indexer: Every query token attends to the cached tokens that a small indexer chooses.
        inner_ratio: Inner width over `hidden_size` where the config gives none.
        factored_query: Queries come from one low-rank product (`q_lora_rank`) without MLA.
        shared_gate: The shared experts' output is scaled by a product with the residual vector.
        gated_attention: The query projection also makes a gate for the output.
        attention_free: No layer attends.
        hybrid: How a family with layers of several kinds places them; None: they differ in window
            and experts alone.
        extra_positions: Rows of the position embedding beyond the context; None: no such embedding.
        block_tokens: Tokens that see each other both ways: 1 causal; 0 all of a text (masked
            diffusion).
        encoder: How the config describes the encoder that the decoder attends to; None: it has
            none.
    """

    defaults: Mapping[str, object] = field(default_factory=dict)
    nested: Mapping[str, object] = field(default_factory=dict)
    spellings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fixed: Mapping[str, object] = field(default_factory=dict)
    bias: Bias = False
    output_bias: Bias = False
    mlp_bias: Bias = False
    qk_norm: Bias = False
    qk_norm_joint: bool = False
    sinks: bool = False
    gated: bool = True
    norms: int = 2
    norm_bias: bool = False
    moe: bool = False
    mla: bool = False
    indexer: bool = False
    factored_query: bool = False
    shared_gate: bool = False
    gated_attention: bool = False
    attention_free: bool = False
    hybrid: Layout | None = None
    window: Literal["all", "late", "periodic"] | None = None
    window_switch: bool = False
    inner_ratio: int | None = None
    extra_positions: int | None = None
    block_tokens: int = 1
    encoder: Literal["t5", "bart", "whisper"] | None = None


COMMON_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "dtype": ("dtype", "torch_dtype"),
    "rope_parameters": ("rope_parameters", "rope_scaling"),
}

EXPERTS_OF_FULL_WIDTH: Mapping[str, tuple[str, ...]] = {
    "num_experts": ("num_local_experts", "num_experts"),
    "moe_intermediate_size": ("intermediate_size",),
}
