"""Which layers of a hybrid model attend, which are recurrent, and how wide are they?

The layouts of configs that mix attention with recurrent layers; keys are read and checked by
`hf_config`. A layer here is one entry of the config's own list, whose parts may be a mixer, a
feed-forward, or both. Leaves out what the families share with others (widths of attention and
feed-forward).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from costmodel.architectures.architecture import NO_ATTENTION
from costmodel.architectures.attention import Attention, Projection
from costmodel.architectures.hf.family import Layout
from costmodel.architectures.hf.keys import ConfigKeys
from costmodel.architectures.hf.layer import LAYER_LIMIT, Layer
from costmodel.architectures.hf.per_layer import gemma4_layers
from costmodel.architectures.state_layers import StateLayer

_DT_RANK_DIVISOR = 16  # "auto" is the hidden width over this, rounded up
_PATTERN = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
_EITHER = ("full_attention", "linear_attention")


def hybrid_layers(
    layout: Layout, keys: ConfigKeys, hidden: int, attention: Attention | None, routed: list[bool]
) -> list[Layer]:
    """The layers of a hybrid model, in order.

    Args:
        layout: how the family places its layers.
        keys: the config.
        hidden: length of the residual vector.
        attention: its attention layer; None for a family without one.
        routed: per layer, whether the family's common keys route its tokens to experts.

    Raises:
        InputError: a key is missing, malformed or contradicts another.
    """
    return _LAYOUTS[layout](keys, hidden, attention or NO_ATTENTION, routed)


def _qwen3_next(
    keys: ConfigKeys, hidden: int, attention: Attention, routed: list[bool]
) -> list[Layer]:
    layers = len(routed)
    kinds = keys.words("layer_types", layers, _EITHER)
    if kinds is None:
        period = keys.count("full_attention_interval", most=LAYER_LIMIT)
        kinds = [
            "linear_attention" if (layer + 1) % period else "full_attention"
            for layer in range(layers)
        ]
    heads, value_dim = keys.count("linear_num_value_heads"), keys.count("linear_value_head_dim")
    state = StateLayer(
        kind="delta",
        inner=heads * value_dim,
        heads=heads,
        state_size=keys.count("linear_key_head_dim"),
        groups=keys.count("linear_num_key_heads", most=heads),
        kernel=keys.count("linear_conv_kernel_dim"),
        inner_norms=value_dim,
    )
    return [
        _either(kind, attention, state, experts)
        for kind, experts in zip(kinds, routed, strict=True)
    ]


def _jamba(keys: ConfigKeys, hidden: int, attention: Attention, routed: list[bool]) -> list[Layer]:
    layers = range(len(routed))
    attends = _every(keys, "attn_layer_period", "attn_layer_offset")
    experts = _every(keys, "expert_layer_period", "expert_layer_offset")
    state = _selective_scan(keys, hidden, normalised=True)
    kinds = ["full_attention" if attends(layer) else "linear_attention" for layer in layers]
    return [
        _either(kind, attention, state, experts(layer))
        for layer, kind in zip(layers, kinds, strict=True)
    ]


def _nemotron_h(
    keys: ConfigKeys, hidden: int, attention: Attention, routed: list[bool]
) -> list[Layer]:
    layers, pattern = len(routed), keys.get("hybrid_override_pattern")
    kinds = keys.words("layer_types", layers, tuple(_PATTERN.values()))
    if kinds is None:
        if not isinstance(pattern, str) or len(pattern) != layers or set(pattern) - set(_PATTERN):
            rule = f"must have one of {' '.join(_PATTERN)} per layer ({layers})"
            raise keys.error(
                "hybrid_override_pattern", rule, pattern if isinstance(pattern, str) else None
            )
        kinds = [_PATTERN[letter] for letter in pattern]
    state = _scan_by_heads(keys, keys.count("mamba_num_heads"), keys.count("mamba_head_dim"))
    layer_of_kind = {
        "linear_attention": Layer(NO_ATTENTION, state, "none"),
        "full_attention": Layer(attention, None, "none"),
        "mlp": Layer(NO_ATTENTION, None, "dense"),
        "moe": Layer(NO_ATTENTION, None, "routed"),
    }
    return [layer_of_kind[kind] for kind in kinds]


def _phi4flash(
    keys: ConfigKeys, hidden: int, attention: Attention, routed: list[bool]
) -> list[Layer]:
    """A self-decoder that alternates scans with windows, one full layer, and a cross-decoder that
    reads only.
    """
    layers, window = len(routed), keys.count("sliding_window", most=1_000_000_000)
    state = _selective_scan(keys, hidden, normalised=False)
    gate = StateLayer(kind="memory", inner=state.inner, heads=state.heads)
    sliding, reading = replace(attention, window=window), replace(attention, shares_kv=True)
    half, placed = layers // 2, []
    for layer in range(layers):
        if layer <= half + 1:
            attends = sliding if layer < half else attention
            placed.append(
                Layer(attends, None, "dense") if layer % 2 else Layer(NO_ATTENTION, state, "dense")
            )
        else:
            kept = Layer(reading, None, "dense", True)
            placed.append(kept if layer % 2 else Layer(NO_ATTENTION, gate, "dense", True))
    return placed


def _mamba(keys: ConfigKeys, hidden: int, attention: Attention, routed: list[bool]) -> list[Layer]:
    return [Layer(NO_ATTENTION, _selective_scan(keys, hidden, normalised=False), "none")] * len(
        routed
    )


def _mamba2(keys: ConfigKeys, hidden: int, attention: Attention, routed: list[bool]) -> list[Layer]:
    heads, width = keys.count("num_heads"), keys.count("head_dim")
    if heads * width != hidden * keys.count("mamba_expand"):
        raise keys.error(
            "num_heads", f"times head_dim must be expand times hidden_size ({hidden})", heads
        )
    return [Layer(NO_ATTENTION, _scan_by_heads(keys, heads, width), "none")] * len(routed)


def _bamba(keys: ConfigKeys, hidden: int, attention: Attention, routed: list[bool]) -> list[Layer]:
    """Attention or a scan by heads in each layer, as a list of words or of layer numbers says."""
    layers = len(routed)
    kinds = keys.words("layer_types", layers, _EITHER)
    if kinds is None:
        attending = keys.numbers("attn_layer_indices", layers)
        kinds = [_EITHER[0] if layer in attending else _EITHER[1] for layer in range(layers)]
    state = _scan_by_heads(keys, *_heads_of(keys, hidden * keys.count("mamba_expand", most=64)))
    return [
        _either(kind, attention, state, experts)
        for kind, experts in zip(kinds, routed, strict=True)
    ]


def _falcon_h1(
    keys: ConfigKeys, hidden: int, attention: Attention, routed: list[bool]
) -> list[Layer]:
    """Attention and a scan side by side in every layer."""
    inner = keys.count("mamba_d_ssm", null=hidden * keys.count("mamba_expand", most=64))
    state = _scan_by_heads(keys, *_heads_of(keys, inner))
    if not keys.flag("mamba_rms_norm"):
        state = replace(state, inner_norms=0)
    return [Layer(attention, state, "dense")] * len(routed)


def _zamba2(keys: ConfigKeys, hidden: int, attention: Attention, routed: list[bool]) -> list[Layer]:
    """Scans, before some of which one of few shared transformer layers runs, with adapters of their
    own.

    A shared layer reads the residual vector joined with the embedding.
    """
    layers = len(routed)
    kinds = keys.words("layer_types", layers, ("linear_attention", "hybrid"))
    if kinds is None:
        raise keys.error("layer_types", "is missing; it must name the kind of every layer")
    heads = keys.count("mamba_num_heads")
    state = _scan_by_heads(keys, heads, hidden * keys.count("mamba_expand", most=64) // heads)
    wide = replace(attention, head_dim=2 * hidden // attention.heads, input_ratio=2)
    rank, inner = keys.count("adapter_rank"), keys.count("intermediate_size", null=4 * hidden)
    extra: list[Projection] = [
        ("link", hidden, hidden),
        ("adapter_down", rank, hidden),
        ("adapter_up", 2 * inner, rank),
    ]
    if keys.flag("use_shared_attention_adapter"):
        extra += [("adapter_down", rank, 2 * hidden), ("adapter_up", 2 * hidden, rank)] * 3
    distinct = keys.count("num_mem_blocks", most=LAYER_LIMIT)
    placed, used = [], 0
    for kind in kinds:
        if kind == "linear_attention":
            placed.append(Layer(NO_ATTENTION, state, "none"))
            continue
        placed.append(
            Layer(wide, state, "dense", norms=4, extra=tuple(extra), reused=used >= distinct)
        )
        used += 1
    return placed


_LAYOUTS: Mapping[Layout, Callable[[ConfigKeys, int, Attention, list[bool]], list[Layer]]] = {
    "qwen3_next": _qwen3_next,
    "jamba": _jamba,
    "nemotron_h": _nemotron_h,
    "phi4flash": _phi4flash,
    "mamba": _mamba,
    "mamba2": _mamba2,
    "bamba": _bamba,
    "falcon_h1": _falcon_h1,
    "granitemoehybrid": _bamba,
    "zamba2": _zamba2,
    "gemma4": gemma4_layers,
}


def _heads_of(keys: ConfigKeys, inner: int) -> tuple[int, int]:
    """Heads of a scan and the width of each; "auto" shares the inner width out."""
    heads = keys.count("mamba_n_heads")
    width = inner // heads if keys.get("mamba_d_head") == "auto" else keys.count("mamba_d_head")
    if heads * width != inner:
        raise keys.error(
            "mamba_n_heads", f"times mamba_d_head must be the inner width ({inner})", heads
        )
    return heads, width


def _either(kind: str, attention: Attention, state: StateLayer, experts: bool) -> Layer:
    feed_forward: Literal["dense", "routed"] = "routed" if experts else "dense"
    if kind == "full_attention":
        return Layer(attention, None, feed_forward)
    return Layer(NO_ATTENTION, state, feed_forward)


def _every(keys: ConfigKeys, period_key: str, offset_key: str) -> Callable[[int], bool]:
    period = keys.count(period_key, most=LAYER_LIMIT)
    offset = keys.count(offset_key, least=0, most=period - 1)
    return lambda layer: layer % period == offset


def _selective_scan(keys: ConfigKeys, hidden: int, *, normalised: bool) -> StateLayer:
    inner, size = hidden * keys.count("mamba_expand", most=64), keys.count("mamba_d_state")
    rank = -(-hidden // _DT_RANK_DIVISOR)
    if keys.get("mamba_dt_rank") != "auto":
        rank = keys.count("mamba_dt_rank")
    return StateLayer(
        kind="mamba",
        inner=inner,
        heads=inner,
        state_size=size,
        kernel=keys.count("mamba_d_conv"),
        rank=rank,
        conv_bias=keys.flag("mamba_conv_bias"),
        bias=keys.flag("mamba_proj_bias"),
        inner_norms=rank + 2 * size if normalised else 0,
    )


def _scan_by_heads(keys: ConfigKeys, heads: int, width: int) -> StateLayer:
    return StateLayer(
        kind="mamba2",
        inner=heads * width,
        heads=heads,
        state_size=keys.count("mamba_d_state"),
        groups=keys.count("mamba_n_groups"),
        kernel=keys.count("mamba_d_conv"),
        conv_bias=keys.flag("mamba_conv_bias"),
        bias=keys.flag("mamba_proj_bias"),
        inner_norms=heads * width,
    )
