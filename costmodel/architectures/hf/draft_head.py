"""Is a config that of a draft head, and of which kind?

Heads that draft for a target (EAGLE, Medusa, multi-token prediction, DFlash) are published with
configs of their own: by their authors, by engines' trainers and in the speculators format. Their
price follows from the target, and from the attention and width that their config states; this says
what a file is, and leaves out their weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_SPECULATORS: Mapping[str, str] = {
    "eagle": "EAGLE",
    "eagle3": "EAGLE-3",
    "dflash": "DFlash",
    "dspark": "DSpark",
    "mtp": "multi-token prediction",
    "peagle": "P-EAGLE",
    "independent": "draft model",
}
_KEYS: Mapping[str, str] = {
    "medusa_num_heads": "Medusa",
    "n_predict": "MLP speculator",
    "dflash_config": "DFlash",
    "dspark_config": "DSpark",
    "draft_vocab_size": "EAGLE-3",
}
_CLASSES: Mapping[str, str] = {
    "eagle3": "EAGLE-3",
    "eagle": "EAGLE",
    "medusa": "Medusa",
    "mtp": "multi-token prediction",
}
_COUNT_LIMIT = 10_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftHead:
    """A draft head as its config states it.

    Attributes:
        kind: What it is called in the field.
        reason: The key that says so.
        layers: Decoder layers, or Medusa's heads; None: not stated.
        draft_vocab: Tokens that it can propose; None: all of the target's.
        target_hidden: Length of the target's residual vector; None: not stated.
        heads: Query heads of a decoder layer; None: not stated.
        kv_heads: Key/value heads, as many as query heads where the file names none.
        head_dim: Length of a query head.
        width: Inner width of the dense feed-forward; None: not stated.
        certain: A key says what it is; False: it only looks like one.
    """

    kind: str
    reason: str
    layers: int | None = None
    draft_vocab: int | None = None
    target_hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    width: int | None = None
    certain: bool = True


def draft_head(config: Mapping[str, object]) -> DraftHead | None:
    """The draft head that a config describes; None where it describes a model.

    Args:
        config: keys and values as parsed from JSON; untrusted.

    Example:
        >>> draft_head({"speculators_model_type": "eagle3", "draft_vocab_size": 32000}).kind
        'EAGLE-3'
    """
    inner = config.get("transformer_layer_config")
    layer = inner if isinstance(inner, Mapping) else config
    layers = _count(layer.get("num_hidden_layers"))
    kind, reason = _named(config)
    heads = _count(config.get(reason)) if reason in ("medusa_num_heads", "n_predict") else layers
    if not kind and layers != 1:
        return None
    return DraftHead(
        kind=kind or "EAGLE",
        reason=reason or "num_hidden_layers",
        layers=heads,
        draft_vocab=_count(config.get("draft_vocab_size")),
        target_hidden=_count(config.get("target_hidden_size")),
        certain=bool(kind),
        width=_count(layer.get("intermediate_size")),
        **_attention(layer),
    )


def _attention(layer: Mapping[str, object]) -> dict[str, int]:
    """Heads of a decoder layer's attention; empty where it is not stated, or latent."""
    heads, hidden = _count(layer.get("num_attention_heads")), _count(layer.get("hidden_size"))
    if heads is None or hidden is None or layer.get("kv_lora_rank"):
        return {}
    kv_heads = _count(layer.get("num_key_value_heads")) or heads
    head_dim = _count(layer.get("head_dim")) or hidden // heads
    if heads % kv_heads or not head_dim:
        return {}
    return {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}


def _named(config: Mapping[str, object]) -> tuple[str, str]:
    """The kind of head that a key names, and that key; empty where none does."""
    named = config.get("speculators_model_type")
    if isinstance(named, str):
        return _SPECULATORS.get(named, named[:40]), "speculators_model_type"
    architectures = config.get("architectures")
    names = (
        " ".join(str(name) for name in architectures).casefold()
        if isinstance(architectures, list)
        else ""
    )
    by_class = next((kind for part, kind in _CLASSES.items() if part in names), "")
    by_key = next((key for key in _KEYS if config.get(key) is not None), "")
    if by_key in ("draft_vocab_size", "") and by_class:
        return by_class, "architectures"
    if not by_key and config.get("model_type") == "eagle":
        return "EAGLE", "model_type"
    return _KEYS.get(by_key, ""), by_key


def _count(value: object) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and isinstance(value, int) and 0 < value <= _COUNT_LIMIT else None
