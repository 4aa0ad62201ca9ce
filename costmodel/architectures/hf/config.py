"""Which architecture does a Hugging Face `config.json` describe?

Only keys that shape a decoder are read, in the spellings of transformers 4 and 5; what differs
between families is data in `families`. A wrapper around a language model (vision, audio) is read
through its `text_config`. Keys that a top-level config always carries have no default: a file
without `hidden_size` is wrong, not a 7B model.

Left out: weights, GGUF, drafter heads. Layers of several kinds stand in `hybrids`, number formats
in `stored_format`, encoders in `encoder_decoder`.
"""

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path

from costmodel.architectures.architecture import NO_FEED_FORWARD, Architecture, Block, FeedForward
from costmodel.architectures.attention import Attention
from costmodel.architectures.hf.encoder_decoder import with_encoder
from costmodel.architectures.hf.families import FAMILIES
from costmodel.architectures.hf.files import json_object, name_of
from costmodel.architectures.hf.hybrids import hybrid_layers
from costmodel.architectures.hf.keys import ConfigKeys
from costmodel.architectures.hf.layer import LAYER_LIMIT, Layer
from costmodel.architectures.hf.per_layer import layer_embedding_parameters
from costmodel.architectures.hf.stored_format import (
    EXPERTS_ALONE,
    excluded_kinds,
    plain_format,
    stored_format,
)
from costmodel.architectures.part_formats import PartFormats, mixed
from hardware_profiles.errors import InputError, UnknownNameError

MODEL_TYPES: tuple[str, ...] = tuple(FAMILIES)

_CONTEXT_LIMIT = 1_000_000_000
_NAME_LIMIT = 100
_WRAPPER_KEYS = ("tie_word_embeddings", "dtype", "torch_dtype", "quantization_config")
_LAYER_TYPES = ("full_attention", "sliding_attention")
_QUANTISER_FILE = "hf_quant_config.json"  # ModelOpt writes the formats beside the config


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What a config says, and what had to be filled in.

    Attributes:
        architecture: The model.
        filled_in: Class defaults that stand in for keys that the config leaves out, by key.
        quantiser: Who quantised the weights, as the config names it; "" for nobody; it ends in "?"
            where its number format is not known, so that the plain one is reported.
        read_as: The family that was asked for instead of the config's own model type; "" where that
            was used.
    """

    architecture: Architecture
    filled_in: Mapping[str, object]
    quantiser: str = ""
    read_as: str = ""


def read_hf_config(path: str | Path, family: str | None = None) -> Reading:
    """Read a Hugging Face `config.json`, and `hf_quant_config.json` beside it.

    Args:
        path: The file, at most 1 MiB of JSON. Its folder names the model if the file is called
            `config.json`.
        family: Read it as this model type, whatever its `model_type` is.

    Returns:
        The architecture, with `source` the path as given, and what was filled in.

    Raises:
        InputError: The file is absent, too large or no JSON object; a key is missing, malformed,
            out of range or contradicts another. The message names file, key, rule and value of
            everything that is wrong.
        UnknownNameError: The model type is not among `MODEL_TYPES`.
    """
    path = Path(path)
    config = dict(json_object(path))
    beside = path.with_name(_QUANTISER_FILE)
    if "quantization_config" not in config and path.name == "config.json" and beside.is_file():
        config["quantization_config"] = json_object(beside).get("quantization")
    return read_config(config, name=name_of(path), file=str(path), source=str(path), family=family)


def architecture_from_config(
    config: Mapping[str, object], *, name: str, file: str, source: str, prefix: str = ""
) -> Architecture:
    """The architecture alone of what `read_config` reads.

    Args:
        config: the parsed `config.json`.
        name: of the model.
        file: name for messages.
        source: where it comes from, for the record.
        prefix: of its keys in messages.

    Raises:
        InputError: as `read_config`.
    """
    return read_config(config, name=name, file=file, source=source, prefix=prefix).architecture


def read_config(
    config: Mapping[str, object],
    *,
    name: str,
    file: str,
    source: str,
    prefix: str = "",
    family: str | None = None,
) -> Reading:
    """Turn the keys of a Hugging Face config into an architecture.

    Args:
        config: Keys and values as parsed from JSON (or TOML); untrusted.
        name: Name of the architecture.
        file: File that messages blame.
        source: Where the architecture says it comes from.
        prefix: Put before keys in messages, where the config is part of a larger file ("config.").
        family: Read it as this model type, whatever its `model_type` is.

    Raises:
        InputError: As `read_hf_config`.
    """
    text, nested = config.get("text_config"), False
    if isinstance(text, Mapping):
        outer = {key: config[key] for key in _WRAPPER_KEYS if key in config}
        inner = f"{config.get('model_type')}_text"
        config = {"model_type": inner if inner in FAMILIES else "", **outer, **text}
        prefix, nested = f"{prefix}text_config.", True
    model_type = _model_type(config, family, file, prefix)
    keys = ConfigKeys(config, FAMILIES[model_type], file=file, prefix=prefix, nested=nested)
    try:
        architecture, quantiser = _architecture(
            keys, name=name, model_type=model_type, source=source
        )
    except InputError as error:
        keys.settled(error)
        raise
    keys.settled()
    family_name = family or ""
    return Reading(
        architecture=architecture,
        filled_in=keys.filled_in,
        quantiser=quantiser,
        read_as=family_name,
    )


def _model_type(config: Mapping[str, object], family: str | None, file: str, prefix: str) -> str:
    if family is not None:
        if family not in FAMILIES:
            raise UnknownNameError("model type", family[:_NAME_LIMIT], MODEL_TYPES, key="as")
        return family
    model_type, key = config.get("model_type"), f"{prefix}model_type"
    if not isinstance(model_type, str) or not model_type:
        raise InputError("must name a model type", file=file, key=key, value=model_type)
    if model_type not in FAMILIES:
        error = UnknownNameError(
            "model type", model_type[:_NAME_LIMIT], MODEL_TYPES, file=file, key=key
        )
        error.message += "; a config of Llama's shape is read with --as llama"
        raise error
    return model_type


def _architecture(
    keys: ConfigKeys, *, name: str, model_type: str, source: str
) -> tuple[Architecture, str]:
    hidden, vocab, tied = (
        keys.count("hidden_size"),
        keys.count("vocab_size"),
        keys.flag("tie_word_embeddings"),
    )
    formats, quantiser = stored_format(keys)
    mtp_layers = keys.count("num_nextn_predict_layers", least=0, most=LAYER_LIMIT, null=0)
    if keys.count("word_embed_proj_dim", null=hidden) != hidden:
        rule = f"only embeddings as wide as the layers ({hidden}) are supported"
        raise keys.error("word_embed_proj_dim", rule, keys.get("word_embed_proj_dim"))
    layers = _layers(keys, hidden)
    kinds = {kind: (_block(keys, hidden, kind), count) for kind, count in Counter(layers).items()}
    reused = [(block, count) for kind, (block, count) in kinds.items() if kind.reused]
    repeated = sum(count * _transformer_parameters(block, hidden) for block, count in reused)
    architecture = Architecture(
        name=name,
        hidden=hidden,
        vocab=vocab,
        tied=tied,
        blocks=tuple(kinds.values()),
        max_context=_max_context(keys),
        final_norm=2 if keys.family.norm_bias else 1,
        learned_positions=_learned_positions(keys),
        dtype=formats.word,
        model_type=model_type,
        mtp_layers=mtp_layers,
        repeated_parameters=repeated,
        layer_embedding_parameters=layer_embedding_parameters(keys, len(layers)),
        source=source,
    )
    if keys.family.encoder:
        architecture = with_encoder(keys, architecture)
    if excluded := excluded_kinds(keys):
        dtype = _without(formats, excluded, plain_format(keys), architecture).word
        architecture = replace(architecture, dtype=dtype)
    return architecture, quantiser


def _without(
    formats: PartFormats, excluded: Set[str], plain: str, model: Architecture
) -> PartFormats:
    """The formats where a quantiser left some kinds of modules as they were."""
    narrow, blocks = formats.matrices, model.blocks
    if narrow in (plain, EXPERTS_ALONE):
        return formats
    attention = sum(count * block.attention.parameters(model.hidden) for block, count in blocks)
    layers = sum(count * block.parameters(model.hidden) for block, count in blocks)
    values = {"attention": attention, "feed_forward": layers - model.routed_parameters - attention}
    shares: Counter[str] = Counter()
    for kind, count in values.items():
        shares[plain if kind in excluded else narrow] += count
    matrices = mixed(shares)
    experts = plain if "experts" in excluded else narrow
    return PartFormats(matrices, experts=experts if model.is_moe and experts != matrices else None)


def _transformer_parameters(block: Block, hidden: int) -> int:
    """Weights of a layer's attention and feed-forward with their norms: what a reused layer has not
    of its own.
    """
    norms = block.norms - int(block.state is not None)
    return (
        block.attention.parameters(hidden) + block.feed_forward.parameters(hidden) + norms * hidden
    )


def _layers(keys: ConfigKeys, hidden: int) -> list[Layer]:
    family = keys.family
    # some configs let a list say how many
    listed = keys.get("layer_types") or keys.get("hybrid_override_pattern")
    layers = keys.count(
        "num_hidden_layers",
        most=LAYER_LIMIT,
        null=len(listed) if family.hybrid and isinstance(listed, list | str) else None,
    )
    attention = None
    if not family.attention_free:
        attention = _latent_attention(keys) if family.mla else _grouped_attention(keys, hidden)
    routed = _routed(keys, layers)
    if family.hybrid:
        return hybrid_layers(family.hybrid, keys, hidden, attention, routed)
    assert attention is not None
    attending = [replace(attention, window=window) for window in _windows(keys, layers)]
    if family.indexer:
        own = zip(attending, _own_indexer(keys, layers), strict=True)
        attending = [layer if chooses else replace(layer, index_heads=0) for layer, chooses in own]
    each_layer = zip(attending, routed, strict=True)
    return [Layer(own, None, "routed" if experts else "dense") for own, experts in each_layer]


def _block(keys: ConfigKeys, hidden: int, layer: Layer) -> Block:
    family = keys.family
    feed_forward = NO_FEED_FORWARD
    if layer.feed_forward != "none":
        feed_forward = _feed_forward(keys, hidden, layer.feed_forward == "routed")
    if layer.width_ratio != 1:
        dense = "shared_width" if feed_forward.is_moe else "width"
        feed_forward = replace(
            feed_forward, **{dense: getattr(feed_forward, dense) * layer.width_ratio}
        )
    return Block(
        attention=layer.attention,
        feed_forward=feed_forward,
        norms=family.norms if layer.norms is None else layer.norms,
        norm_bias=family.norm_bias,
        state=layer.state,
        cross_decoder=layer.cross_decoder,
        extra=layer.extra,
        extra_values=layer.extra_values,
    )


def _grouped_attention(keys: ConfigKeys, hidden: int) -> Attention:
    heads = keys.count("num_attention_heads")
    kv_heads = keys.count("num_key_value_heads", null=heads)
    if heads % kv_heads:
        raise keys.error(
            "num_key_value_heads", f"must divide num_attention_heads ({heads})", kv_heads
        )
    head_dim = keys.count("head_dim", null=0)
    if not head_dim and hidden % heads:
        rule = f"must divide hidden_size ({hidden}) where head_dim is not given"
        raise keys.error("num_attention_heads", rule, heads)
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim or hidden // heads,
        bias=keys.bias(keys.family.bias),
        output_bias=keys.bias(keys.family.output_bias),
        qk_norm=keys.bias(keys.family.qk_norm),
        qk_norm_joint=keys.family.qk_norm_joint,
        sinks=keys.family.sinks,
        gated=keys.family.gated_attention,
        q_lora_rank=keys.count("q_lora_rank") if keys.family.factored_query else 0,
        block_tokens=keys.family.block_tokens,
    )


def _latent_attention(keys: ConfigKeys) -> Attention:
    """MLA: `head_dim` and `num_key_value_heads` of such a config describe neither cache nor
    weights.
    """
    nope_dim, rope_dim = keys.count("qk_nope_head_dim"), keys.count("qk_rope_head_dim")
    return Attention(
        heads=keys.count("num_attention_heads"),
        kv_heads=1,
        head_dim=nope_dim + rope_dim,
        bias=keys.bias(keys.family.bias),
        output_bias=keys.bias(keys.family.output_bias),
        kv_lora_rank=keys.count("kv_lora_rank"),
        q_lora_rank=keys.count("q_lora_rank", null=0),
        rope_dim=rope_dim,
        nope_dim=nope_dim,
        value_dim=keys.count("v_head_dim"),
        index_tokens=keys.count("index_topk") if keys.family.indexer else 0,
        index_heads=keys.count("index_n_heads") if keys.family.indexer else 0,
        index_dim=keys.count("index_head_dim") if keys.family.indexer else 0,
    )


def _feed_forward(keys: ConfigKeys, hidden: int, routed: bool) -> FeedForward:
    family, bias = keys.family, keys.bias(keys.family.mlp_bias)
    if not routed:
        null = family.inner_ratio and family.inner_ratio * hidden
        width = keys.count("intermediate_size", null=null)
        return FeedForward(width=width, gated=family.gated, bias=bias)
    width, experts = keys.count("moe_intermediate_size"), keys.count("num_experts")
    return FeedForward(
        width=width,
        gated=family.gated,
        bias=bias,
        experts=experts,
        experts_per_token=keys.count("num_experts_per_tok", most=experts),
        shared_width=keys.count("shared_expert_width", least=0, null=0)
        or width * keys.count("n_shared_experts", least=0, null=0),
        shared_gate=family.shared_gate,
        latent=keys.count("moe_latent_size", least=0, null=0),
    )


def _routed(keys: ConfigKeys, layers: int) -> list[bool]:
    """Per layer, whether its tokens go to experts."""
    if not keys.family.moe or keys.get("num_experts") == 0 or keys.get("enable_moe_block") is False:
        return [False] * layers
    words = keys.words("mlp_layer_types", layers, ("dense", "sparse"))
    if words is not None:
        return [word == "sparse" for word in words]
    # a class default may exceed a small model
    most = layers if keys.has("first_k_dense_replace") else LAYER_LIMIT
    first = keys.count("first_k_dense_replace", least=0, most=most, null=0)
    step = keys.count("decoder_sparse_step", most=LAYER_LIMIT, null=1)
    dense, listed = (keys.numbers(key, layers) for key in ("mlp_only_layers", "moe_layers_enum"))
    routed = set(listed or range(step - 1, layers, step)).difference(range(first), dense)
    return [layer in routed for layer in range(layers)]


def _own_indexer(keys: ConfigKeys, layers: int) -> list[bool]:
    """Per layer, whether it chooses tokens itself or takes over an earlier layer's choice."""
    words = keys.words("indexer_types", layers, ("full", "shared"))
    if words is not None:
        return [word == "full" for word in words]
    period = keys.count("index_topk_freq", most=LAYER_LIMIT, null=1)
    offset = keys.count("index_skip_topk_offset", least=0, most=LAYER_LIMIT, null=2)
    return [max(layer - offset + 1, 0) % period == 0 for layer in range(layers)]


def _windows(keys: ConfigKeys, layers: int) -> list[int | None]:
    """Per layer, the window of its attention; None: it sees the whole context."""
    family = keys.family
    if not family.window or (family.window_switch and not keys.flag("use_sliding_window")):
        return [
            None
        ] * layers  # whatever width stands beside a switch that is off: transformers writes 0
    window = keys.count("sliding_window", most=_CONTEXT_LIMIT, null=0)
    if not window:
        return [None] * layers
    if family.window == "all":
        return [window] * layers
    types = keys.words("layer_types", layers, _LAYER_TYPES)
    if types is not None:
        return [window if kind == "sliding_attention" else None for kind in types]
    if family.window == "late":
        full = keys.count("max_window_layers", least=0, most=LAYER_LIMIT)
        return [window if layer >= full else None for layer in range(layers)]
    period = keys.count("sliding_window_pattern", most=LAYER_LIMIT)
    return [window if (layer + 1) % period else None for layer in range(layers)]


def _learned_positions(keys: ConfigKeys) -> int:
    extra = keys.family.extra_positions
    return (
        0 if extra is None else keys.count("max_position_embeddings", most=_CONTEXT_LIMIT) + extra
    )


def _max_context(keys: ConfigKeys) -> int:
    """The stated context, or what YaRN stretches the original one to where that is longer."""
    stated = keys.count("max_position_embeddings", most=_CONTEXT_LIMIT)
    rope = keys.table("rope_parameters")
    original = rope.get("original_max_position_embeddings")
    if "yarn" not in (rope.get("rope_type"), rope.get("type")) or original is None:
        return stated
    stretched = _positive(keys, rope, "factor") * _positive(
        keys, rope, "original_max_position_embeddings"
    )
    return max(stated, int(stretched))


def _positive(keys: ConfigKeys, rope: Mapping[str, object], key: str) -> float:
    value = rope.get(key)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 < value <= _CONTEXT_LIMIT
    ):
        raise keys.error(
            "rope_parameters", f"{key} must be a number in (0, {_CONTEXT_LIMIT}]", value
        )
    return value
