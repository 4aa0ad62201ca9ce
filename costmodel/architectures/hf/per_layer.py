"""Which layers of a Gemma 4 model slide, share a cache or read an embedding of their own?

Full layers have other heads than sliding ones; the last layers may read keys and values that
earlier ones stored; small models add an embedding per layer. Leaves out vision and audio.
"""

from collections.abc import Mapping
from dataclasses import replace

from costmodel.architectures.attention import Attention, Projection
from costmodel.architectures.hf.keys import ConfigKeys
from costmodel.architectures.hf.layer import LAYER_LIMIT, Layer

_NORMS, _EXPERT_NORMS = 4, 3


def gemma4_layers(
    keys: ConfigKeys, hidden: int, attention: Attention, routed: list[bool]
) -> list[Layer]:
    """The layers of a Gemma 4 config, in order; arguments as `hybrids.hybrid_layers`."""
    layers = len(routed)
    kinds = keys.words("layer_types", layers, ("full_attention", "sliding_attention"))
    if kinds is None:
        kinds = [
            "full_attention" if (layer + 1) % 6 == 0 else "sliding_attention"
            for layer in range(layers)
        ]
    kinds = [*kinds[:-1], "full_attention"]
    sliding = replace(attention, window=keys.count("sliding_window", most=1_000_000_000))
    joined_kv = keys.flag("attention_k_eq_v")
    kv_heads = (
        keys.count("num_global_key_value_heads", null=attention.kv_heads)
        if joined_kv
        else attention.kv_heads
    )
    full = replace(
        attention, head_dim=keys.count("global_head_dim"), kv_heads=kv_heads, value_is_key=joined_kv
    )
    first_shared = layers - keys.count("num_kv_shared_layers", least=0, most=layers - 1, null=0)
    double, width = (
        keys.flag("use_double_wide_mlp"),
        keys.count("hidden_size_per_layer_input", least=0, null=0),
    )
    extra: tuple[Projection, ...] = ()
    if width:
        extra = (
            ("layer_gate", width, hidden),
            ("layer_input", width, hidden),
            ("layer_output", hidden, width),
        )
    placed = []
    for number, (kind, experts) in enumerate(zip(kinds, routed, strict=True)):
        own = _overridden(keys, number, full if kind == "full_attention" else sliding)
        shared = number >= first_shared
        values = hidden + keys.count("num_experts") if experts else 0
        placed.append(
            Layer(
                attention=replace(own, shares_kv=shared),
                state=None,
                feed_forward="routed" if experts else "dense",
                norms=_NORMS + (_EXPERT_NORMS if experts else 0) + bool(width),
                width_ratio=2 if double and shared else 1,
                extra=extra,
                extra_values=values,
            )
        )
    return placed


def layer_embedding_parameters(keys: ConfigKeys, layers: int) -> int:
    """Values of an embedding that enters every layer, and of its norm; 0 for families without
    one.

    Args:
        keys: of the config.
        layers: of the model.
    """
    width = keys.count("hidden_size_per_layer_input", least=0, null=0)
    return width * (keys.count("vocab_size_per_layer_input") * layers + 1) if width else 0


def _overridden(keys: ConfigKeys, number: int, attention: Attention) -> Attention:
    """The layer's attention with the overrides of `per_layer_config` (the form that transformers 5
    writes).
    """
    overrides = keys.table("per_layer_config").get(str(number))
    if not isinstance(overrides, Mapping):
        return attention
    head_dim, kv_heads = attention.head_dim, attention.kv_heads
    for key in ("head_dim", "num_key_value_heads"):
        value = overrides.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LAYER_LIMIT:
            raise keys.error(
                "per_layer_config", f"{key} must be a whole number from 1 to {LAYER_LIMIT}", value
            )
        head_dim, kv_heads = (value, kv_heads) if key == "head_dim" else (head_dim, value)
    if attention.heads % kv_heads:
        rule = f"num_key_value_heads must divide num_attention_heads ({attention.heads})"
        raise keys.error("per_layer_config", rule, kv_heads)
    return replace(attention, head_dim=head_dim, kv_heads=kv_heads)
