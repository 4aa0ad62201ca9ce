"""How do several transforms go together on one deployment?

Transforms of different kinds are independent and commute. Of one kind: pruning and masks multiply
and commute; pruning comes before quantising, and both before a lossless code that products cannot
read; only one transform may quantise, code, select tokens or parts of layers, summarise text or
schedule layers. What deals out or fuses layers makes another model, of which the others then hold.
Anything else is refused. Transforms that change nothing leave the deployment as it was. Leaves out
what a pass then costs (`forward`).
"""

from collections.abc import Iterable
from dataclasses import replace

from costmodel.architectures.rearranged import dealt_out, fused
from costmodel.passes.forward import Deployment
from costmodel.transforms.declared import (
    CacheTransform,
    ContextTransform,
    EncoderSplit,
    FusedFeedForward,
    LayerSchedule,
    SparseAttention,
    SparseFeedForward,
    Transform,
    WeightTransform,
)
from hardware_profiles.errors import InputError


def apply(deployment: Deployment, transforms: Iterable[Transform]) -> Deployment:
    """The deployment with transforms applied, in the order given.

    Args:
        deployment: model, device and how they run; may carry transforms already, which come first.
        transforms: what to apply.

    Raises:
        InputError: transforms that exclude each other or come in the wrong order, or one that the
            model, its number formats or the device does not allow.

    >>> from costmodel.passes.precision import Precision
    >>> from costmodel.architectures.library import load_model
    >>> from hardware_profiles.loader import load_device
    >>> d = Deployment(architecture=load_model("llama-3.1-8b"), device=load_device("h100-sxm"), precision=Precision())
    >>> apply(d, [WeightTransform(name="2:4", kept_ratio=0.5, index_bits=2)]).precision.weight_bytes
    1.125
    """
    result = deployment
    for transform in transforms:
        if not transform.is_identity:
            result = _applied(result, transform)
    return result


def without_transforms(deployment: Deployment) -> Deployment:
    """The deployment as it was before any transform, but for layers that were dealt out or
    fused.
    """
    plain, stored = (
        deployment.precision.untransformed,
        (
            deployment.sparse_attention,
            deployment.schedule,
            deployment.text,
            deployment.sparse_feed_forward,
        ),
    )
    if all(transform is None for transform in stored) and plain == deployment.precision:
        return deployment
    return replace(
        deployment,
        precision=plain,
        sparse_attention=None,
        schedule=None,
        text=None,
        sparse_feed_forward=None,
    )


def _applied(d: Deployment, transform: Transform) -> Deployment:
    changed = d
    match transform:
        case WeightTransform():
            changed = replace(
                d, precision=replace(d.precision, weight_transform=_weights(d, transform))
            )
        case CacheTransform():
            changed = replace(
                d, precision=replace(d.precision, cache_transform=_cache(d, transform))
            )
        case SparseAttention():
            _require(
                d.sparse_attention is None,
                d.sparse_attention,
                transform,
                "attention is sparse only once",
            )
            changed = replace(
                d,
                sparse_attention=transform,
                precision=replace(d.precision, label_bytes=transform.label_bytes),
            )
        case LayerSchedule():
            _require(d.schedule is None, d.schedule, transform, "layers follow one schedule")
            cache_ratio = d.precision.held_cache_ratio * (
                1.0 if transform.keeps_cache else transform.mean_share
            )
            formats = replace(
                d.precision, held_layers_ratio=transform.unique_ratio, held_cache_ratio=cache_ratio
            )
            changed = replace(d, schedule=transform, precision=formats)
        case ContextTransform():
            _require(d.text is None, d.text, transform, "a text is summarised only once")
            if d.architecture.encoder is not None:
                raise InputError(
                    "texts are read by the model's own encoder",
                    key=transform.name,
                    value=d.architecture.called,
                )
            cache_ratio = d.precision.held_cache_ratio * transform.kept_ratio
            changed = replace(
                d, text=transform, precision=replace(d.precision, held_cache_ratio=cache_ratio)
            )
        case SparseFeedForward():
            _require(
                d.sparse_feed_forward is None,
                d.sparse_feed_forward,
                transform,
                "parts are chosen only once",
            )
            changed = replace(d, sparse_feed_forward=transform)
        case EncoderSplit():
            if d.text is not None:
                raise InputError(
                    "texts that are summarised reach no encoder",
                    key=transform.name,
                    value=d.text.name,
                )
            changed = replace(d, architecture=dealt_out(d.architecture, transform.encoder_ratio))
        case FusedFeedForward():
            ratios = {
                key: getattr(transform, key)
                for key in ("attention_ratio", "fused_ratio", "width_ratio")
            }
            changed = replace(d, architecture=fused(d.architecture, **ratios))
    return changed


def _weights(d: Deployment, new: WeightTransform) -> WeightTransform:
    if new.formats and d.precision.weights not in new.formats:
        rule = f"is for weights in {', '.join(new.formats)}"
        raise InputError(rule, key=new.name, value=d.precision.weights)
    if new.skips_zeros and d.device.kind == "cpu":
        raise InputError("needs matrix units that skip zeros", key=new.name, value=d.device.name)
    old = d.precision.weight_transform
    if old is None:
        return new
    _require(old.bits is None or new.bits is None, old, new, "weights are rounded once")
    coded = old.coded_ratio < 1.0 or old.unpack_bytes_per_s is not None
    codes = new.coded_ratio < 1.0 or new.unpack_bytes_per_s is not None
    _require(not coded, old, new, "a lossless code comes last")
    _require(
        not (codes and old.skips_zeros),
        old,
        new,
        "unpacked weights are dense: their zeros are not skipped",
    )
    _require(
        not (old.skips_zeros and new.skips_zeros), old, new, "zeros are skipped in one pattern"
    )
    return WeightTransform(
        name=f"{old.name}+{new.name}",
        kept_ratio=old.kept_ratio * new.kept_ratio,
        index_bits=old.index_bits + new.index_bits,
        bits=new.bits if old.bits is None else old.bits,
        skips_zeros=old.skips_zeros or new.skips_zeros,
        coded_ratio=new.coded_ratio,
        unpack_bytes_per_s=new.unpack_bytes_per_s,
        embedding=old.embedding and new.embedding,
    )


def _cache(d: Deployment, new: CacheTransform) -> CacheTransform:
    latent = any(block.attention.is_mla for block, _ in d.architecture.blocks)
    if latent and (new.key_ratio != new.value_ratio or new.expands):
        rule = "keys and values of latent attention are one vector, already a low-rank product"
        raise InputError(rule, key=new.name, value=d.architecture.called)
    old = d.precision.cache_transform
    if old is None:
        return new
    quantised, quantises = old.bits is not None, new.bits is not None
    _require(not (quantised and quantises), old, new, "a cache is quantised once")
    _require(
        not (quantised and new.drops_values),
        old,
        new,
        "what is dropped goes before the rest is quantised",
    )
    _require(not (old.expands and new.expands), old, new, "a cache is a low-rank product once")
    if old.dense_tokens != new.dense_tokens:
        _require(
            not (old.drops_values and new.drops_values),
            old,
            new,
            "leave different tokens as they were",
        )
    return CacheTransform(
        name=f"{old.name}+{new.name}",
        key_ratio=old.key_ratio * new.key_ratio,
        value_ratio=old.value_ratio * new.value_ratio,
        mask_bits=old.mask_bits + new.mask_bits,
        bits=new.bits if quantises else old.bits,
        scale_bits=old.scale_bits + new.scale_bits,
        rank_ratio=old.rank_ratio + new.rank_ratio,
        outlier_ratio=old.outlier_ratio + new.outlier_ratio,
        dense_tokens=max(old.dense_tokens, new.dense_tokens),
        expands=old.expands or new.expands,
        kernels=old.kernels + new.kernels,
    )


def _require(holds: bool, old: Transform | None, new: Transform, rule: str) -> None:
    if not holds:
        raise InputError(rule, key=new.name, value=f"after {old.name if old else 'nothing'}")
