"""Which architecture does a Hugging Face `config.json` describe?

Only keys that shape a decoder are read, in the spellings of transformers 4 and 5; what differs between
families is data in `families`. A wrapper around a language model (vision, audio) is read through its
`text_config`. Keys that a top-level config always carries have no default: a file without `hidden_size` is
wrong, not a 7B model.

Left out: weights, GGUF, encoders, drafter heads. Hybrid layouts stand in `hybrids`. Weight formats that no
device states a peak for (AWQ, GPTQ, MXFP4) give no dtype of their own: the config's `dtype` is reported.
"""

import json
import stat
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from costmodel.architectures.architecture import NO_FEED_FORWARD, Architecture, Attention, Block, FeedForward
from costmodel.architectures.hf.families import FAMILIES
from costmodel.architectures.hf.family import COMMON_SPELLINGS, Bias, Family
from costmodel.architectures.hf.hybrids import Layer, hybrid_layers
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.units import MIB

MODEL_TYPES: tuple[str, ...] = tuple(FAMILIES)

_SIZE_LIMIT_BYTES = MIB
_WIDTH_LIMIT = 10_000_000
_LAYER_LIMIT = 10_000
_CONTEXT_LIMIT = 1_000_000_000
_NAME_LIMIT = 100
_DTYPES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "float8_e4m3fn": "fp8",
    "auto": "bf16",
}
_FP8_METHODS = ("fp8", "fbgemm_fp8")
_WRAPPER_KEYS = ("tie_word_embeddings", "dtype", "torch_dtype", "quantization_config")
_LAYER_TYPES = ("full_attention", "sliding_attention")


def read_hf_config(path: str | Path) -> Architecture:
    """Read the architecture out of a Hugging Face `config.json`.

    Args:
        path: The file, at most 1 MiB of JSON. Its folder names the model if the file is called `config.json`.

    Returns:
        The architecture, with `source` the path as given.

    Raises:
        InputError: The file is absent, too large or no JSON object; a key is missing, malformed, out of range
            or contradicts another. The message names file, key, rule and value.
        UnknownNameError: The model type is not among `MODEL_TYPES`.
    """
    path = Path(path)
    return architecture_from_config(_json_object(path), name=_name_of(path), file=str(path), source=str(path))


def architecture_from_config(
    config: Mapping[str, object], *, name: str, file: str, source: str, prefix: str = ""
) -> Architecture:
    """Turn the keys of a Hugging Face config into an architecture.

    Args:
        config: Keys and values as parsed from JSON (or TOML); untrusted.
        name: Name of the architecture.
        file: File that messages blame.
        source: Where the architecture says it comes from.
        prefix: Put before keys in messages, where the config is part of a larger file ("config.").

    Returns:
        The architecture.

    Raises:
        InputError: As `read_hf_config`.
    """
    text = config.get("text_config")
    if isinstance(text, Mapping):
        outer = {key: config[key] for key in _WRAPPER_KEYS if key in config}
        wrapped = "gemma3_text" if config.get("model_type") == "gemma3" else ""
        keys = _Keys({"model_type": wrapped, **outer, **text}, file, f"{prefix}text_config.", nested=True)
    else:
        keys = _Keys(config, file, prefix, nested=False)
    hidden = keys.count("hidden_size")
    if keys.count("word_embed_proj_dim", null=hidden) != hidden:
        rule = f"only embeddings as wide as the layers ({hidden}) are supported"
        raise keys.error("word_embed_proj_dim", rule, keys.get("word_embed_proj_dim"))
    return Architecture(
        name=name,
        hidden=hidden,
        vocab=keys.count("vocab_size"),
        tied=keys.flag("tie_word_embeddings"),
        blocks=_blocks(keys, hidden),
        max_context=_max_context(keys),
        final_norm=2 if keys.family.norm_bias else 1,
        learned_positions=_learned_positions(keys),
        dtype=_dtype(keys),
        model_type=keys.model_type,
        mtp_layers=keys.count("num_nextn_predict_layers", least=0, most=_LAYER_LIMIT, null=0),
        source=source,
    )


class _Keys:
    """The keys of one config, read by their common names; every read checks and blames the key as spelled."""

    def __init__(self, values: Mapping[str, object], file: str, prefix: str, *, nested: bool) -> None:
        self._values, self._file, self._prefix = values, file, prefix
        model_type, key = values.get("model_type"), f"{prefix}model_type"
        if not isinstance(model_type, str) or not model_type:
            raise InputError("must name a model type", file=file, key=key, value=model_type)
        if model_type not in FAMILIES:
            raise UnknownNameError("model type", model_type[:_NAME_LIMIT], MODEL_TYPES, file=file, key=key)
        self.model_type = model_type
        self.family: Family = FAMILIES[model_type]
        self._defaults = {**self.family.defaults, **(self.family.nested if nested else {})}
        for key, value in self.family.fixed.items():
            given = self.get(key, value)
            if given is not None and given != value:
                raise self.error(key, f"only {value!r} is supported for {model_type}", given)

    def error(self, key: str, rule: str, value: object = None) -> InputError:
        return InputError(rule, file=self._file, key=f"{self._prefix}{self._spelled(key)}", value=value)

    def has(self, key: str) -> bool:
        """Whether the config itself gives the key, null included."""
        return any(name in self._values for name in self._spellings(key))

    def get(self, key: str, default: object = None) -> object:
        """The value as it stands; the class default, else `default`, where the config has no such key."""
        if self.has(key):
            return self._values[self._spelled(key)]
        return self._defaults.get(key, default)

    def count(self, key: str, *, least: int = 1, most: int = _WIDTH_LIMIT, null: int | None = None) -> int:
        """A whole number in [least, most]; `null` stands for null and for a key that nothing gives."""
        value = self.get(key)
        if value is None:
            if null is not None:
                return null
            value = self._defaults.get(key)
        rule = f"must be a whole number from {least} to {most}"
        if value is None:
            raise self.error(key, f"is missing; it {rule}")
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.error(key, rule, value)
        return value

    def flag(self, key: str) -> bool:
        """True or false; null and absence without a class default are false."""
        value = self.get(key)
        if value is None:
            value = self._defaults.get(key, False)
        if not isinstance(value, bool):
            raise self.error(key, "must be true or false", value)
        return value

    def bias(self, rule: Bias) -> bool:
        return self.flag(rule) if isinstance(rule, str) else rule

    def table(self, key: str) -> Mapping[str, object]:
        """An object; null and absence are an empty one."""
        value = self.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.error(key, "must be an object", value)
        return value

    def entries(self, key: str) -> list[object] | None:
        """A list, or None for null and absence."""
        value = self.get(key)
        if value is not None and not isinstance(value, list):
            raise self.error(key, "must be a list", value)
        return value

    def _spellings(self, key: str) -> tuple[str, ...]:
        return self.family.spellings.get(key) or COMMON_SPELLINGS.get(key) or (key,)

    def _spelled(self, key: str) -> str:
        names = self._spellings(key)
        given = [name for name in names if name in self._values]
        return next((name for name in given if self._values[name] is not None), (given or names)[0])


def _blocks(keys: _Keys, hidden: int) -> tuple[tuple[Block, int], ...]:
    family, layers = keys.family, keys.count("num_hidden_layers", most=_LAYER_LIMIT)
    attention = None
    if not family.attention_free:
        attention = _latent_attention(keys) if family.mla else _grouped_attention(keys, hidden)
    routed = _routed(keys, layers)
    if family.hybrid:
        kinds = Counter(hybrid_layers(family.hybrid, keys, hidden, attention, routed))
    else:
        assert attention is not None
        kinds = Counter(
            Layer(replace(attention, window=window), None, "routed" if experts else "dense")
            for window, experts in zip(_windows(keys, layers), routed, strict=True)
        )
    return tuple((_block(keys, hidden, kind), count) for kind, count in kinds.items())


def _block(keys: _Keys, hidden: int, layer: Layer) -> Block:
    family = keys.family
    return Block(
        attention=layer.attention,
        feed_forward=(
            NO_FEED_FORWARD if layer.feed_forward == "none"
            else _feed_forward(keys, hidden, layer.feed_forward == "routed")
        ),
        norms=family.norms,
        norm_bias=family.norm_bias,
        state=layer.state,
        cross_decoder=layer.cross_decoder,
    )  # fmt: skip


def _grouped_attention(keys: _Keys, hidden: int) -> Attention:
    heads = keys.count("num_attention_heads")
    kv_heads = keys.count("num_key_value_heads", null=heads)
    if heads % kv_heads:
        raise keys.error("num_key_value_heads", f"must divide num_attention_heads ({heads})", kv_heads)
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
        qk_norm=keys.family.qk_norm,
        sinks=keys.family.sinks,
        gated=keys.family.gated_attention,
        q_lora_rank=keys.count("q_lora_rank") if keys.family.factored_query else 0,
    )


def _latent_attention(keys: _Keys) -> Attention:
    """MLA: `head_dim` and `num_key_value_heads` of such a config describe neither cache nor weights."""
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
    )


def _feed_forward(keys: _Keys, hidden: int, routed: bool) -> FeedForward:
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
    )


def _routed(keys: _Keys, layers: int) -> list[bool]:
    """Per layer, whether its tokens go to experts."""
    if not keys.family.moe:
        return [False] * layers
    first = keys.count("first_k_dense_replace", least=0, most=layers, null=0)
    step = keys.count("decoder_sparse_step", most=_LAYER_LIMIT, null=1)
    dense, listed = (_layer_numbers(keys, key, layers) for key in ("mlp_only_layers", "moe_layers_enum"))
    routed = set(listed or range(step - 1, layers, step)).difference(range(first), dense)
    return [layer in routed for layer in range(layers)]


def _layer_numbers(keys: _Keys, key: str, layers: int) -> list[int]:
    """Layer numbers of a list, or of a string with commas between them (Step-3)."""
    given = keys.get(key)
    if key == "moe_layers_enum" and isinstance(given, str):
        parts = [part.strip() for part in given.split(",", layers)]
        entries: list[object] = [int(part) if part.isdecimal() and len(part) <= 5 else part for part in parts]
    else:
        entries = keys.entries(key) or []
    numbers: list[int] = []
    for layer in entries:
        if isinstance(layer, bool) or not isinstance(layer, int) or not 0 <= layer < layers:
            raise keys.error(key, f"must hold layer numbers from 0 to {layers - 1}", layer)
        numbers.append(layer)
    return numbers


def _windows(keys: _Keys, layers: int) -> list[int | None]:
    """Per layer, the window of its attention; None: it sees the whole context."""
    family = keys.family
    window = keys.count("sliding_window", most=_CONTEXT_LIMIT, null=0) if family.window else 0
    if not window or (family.window_switch and not keys.flag("use_sliding_window")):
        return [None] * layers
    if family.window == "all":
        return [window] * layers
    types = keys.entries("layer_types")
    if types is not None:
        if len(types) != layers:
            raise keys.error("layer_types", f"must have one entry per layer ({layers})", len(types))
        for kind in types:
            if kind not in _LAYER_TYPES:
                raise keys.error("layer_types", f"must hold only {', '.join(_LAYER_TYPES)}", kind)
        return [window if kind == "sliding_attention" else None for kind in types]
    if family.window == "late":
        full = keys.count("max_window_layers", least=0, most=_LAYER_LIMIT)
        return [window if layer >= full else None for layer in range(layers)]
    period = keys.count("sliding_window_pattern", most=_LAYER_LIMIT)
    return [window if (layer + 1) % period else None for layer in range(layers)]


def _learned_positions(keys: _Keys) -> int:
    extra = keys.family.extra_positions
    return 0 if extra is None else keys.count("max_position_embeddings", most=_CONTEXT_LIMIT) + extra


def _max_context(keys: _Keys) -> int:
    """The stated context, or what YaRN stretches the original one to where that is longer."""
    stated = keys.count("max_position_embeddings", most=_CONTEXT_LIMIT)
    rope = keys.table("rope_parameters")
    original = rope.get("original_max_position_embeddings")
    if "yarn" not in (rope.get("rope_type"), rope.get("type")) or original is None:
        return stated
    stretched = _positive(keys, rope, "factor") * _positive(keys, rope, "original_max_position_embeddings")
    return max(stated, int(stretched))


def _positive(keys: _Keys, rope: Mapping[str, object], key: str) -> float:
    value = rope.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _CONTEXT_LIMIT:
        raise keys.error("rope_parameters", f"{key} must be a number in (0, {_CONTEXT_LIMIT}]", value)
    return value


def _dtype(keys: _Keys) -> str:
    if keys.table("quantization_config").get("quant_method") in _FP8_METHODS:
        return "fp8"
    value = keys.get("dtype")
    if value is None:
        return "bf16"
    name = value.removeprefix("torch.") if isinstance(value, str) else ""
    if name not in _DTYPES:
        raise keys.error("dtype", f"must be one of {', '.join(_DTYPES)}", value)
    return _DTYPES[name]


def bounded_bytes(path: Path) -> bytes:
    """The content of a regular file of at most 1 MiB.

    Raises:
        InputError: The path leads to no such file, or it cannot be read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError("must be a regular file", file=path)
        with path.open("rb") as stream:
            data = stream.read(_SIZE_LIMIT_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read ({error})", file=path) from error
    if len(data) > _SIZE_LIMIT_BYTES:
        raise InputError(f"must be at most {_SIZE_LIMIT_BYTES} bytes", file=path)
    return data


def _json_object(path: Path) -> Mapping[str, object]:
    try:
        config = json.loads(bounded_bytes(path).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not valid JSON ({error})", file=path) from error
    if not isinstance(config, dict):
        raise InputError("must hold a JSON object", file=path, value=type(config).__name__)
    return config


def _name_of(path: Path) -> str:
    """The name by place: a hub cache folder, the folder of a config.json, or the file's own name."""
    for part in reversed(path.absolute().parts):
        if part.startswith("models--"):
            return part.rpartition("--")[2]
    return path.absolute().parent.name if path.name == "config.json" else path.stem
