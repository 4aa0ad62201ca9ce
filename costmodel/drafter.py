"""What runs to propose tokens: which weights, how many passes, on what shapes?

A drafter is data derived from a method and its target. Leaves out how well it guesses (that is the trace's).
"""

from dataclasses import dataclass, replace
from typing import Literal

from costmodel.architecture import Architecture, Projection
from costmodel.method import DrafterKind
from hardware_profiles.errors import InputError

Passes = Literal["per_token", "once", "none"]
EAGLE3_VOCAB = 32_000  # reduced draft vocabulary of the published Llama and Vicuna heads (arXiv:2503.01840)
EXIT_RATIO = 1 / 3  # share of the target's layers before the exit where none is stated


@dataclass(frozen=True, kw_only=True, slots=True)
class Drafter:
    """Weights and passes of a drafter.

    Args:
        kind: drafter kind.
        name: for tables.
        architecture: layers and head of one draft pass; None where no network runs.
        projections: matrices (name, outputs, inputs) that a pass applies beside the architecture's.
        passes: one pass per drafted token (and tree level), one for all of them, or none.
        resident_values: weights held beside the target's.
        kv_values_per_token: cached values held beside the target's.
        rereads: the first pass of a step runs over the tokens of the last verify pass (feature drafters).
    """

    kind: DrafterKind
    name: str
    architecture: Architecture | None = None
    projections: tuple[Projection, ...] = ()
    passes: Passes = "none"
    resident_values: int = 0
    kv_values_per_token: int = 0
    rereads: bool = False


def build_drafter(
    kind: DrafterKind,
    target: Architecture,
    *,
    draft: Architecture | None = None,
    exit_layer: int | None = None,
    heads: int = 4,
) -> Drafter:
    """The drafter of a kind for a target.

    Args:
        kind: drafter kind of a method.
        target: the model that verifies.
        draft: the draft model, for `draft_model` only.
        exit_layer: layers that an early-exit drafter runs; None takes a third of the target's.
        heads: Medusa heads.

    Raises:
        InputError: a draft model that is missing or whose vocabulary differs, an exit outside the target.
    """
    match kind:
        case "none" | "ngram":
            return Drafter(kind=kind, name=kind)
        case "draft_model":
            return _draft_model(target, draft)
        case "early_exit":
            return _early_exit(target, exit_layer)
        case "eagle3":
            return _feature_head(target)
        case "mtp":
            return _mtp(target)
        case "medusa":
            h = target.hidden
            matrices = tuple(m for _ in range(heads) for m in (("block", h, h), ("head", target.vocab, h)))
            values = heads * (h * h + target.vocab * h)
            return Drafter(
                kind=kind, name=f"{heads} heads", projections=matrices, passes="once", resident_values=values
            )


def custom_drafter(target: Architecture, *, passes: int, bytes_read: float, weight_bytes: float) -> Drafter:
    """An unpublished drafter given only by what a pass reads.

    Args:
        target: the model that verifies.
        passes: 1 for a drafter that proposes all tokens at once, more for one pass per token.
        bytes_read: weights that a pass reads, in bytes.
        weight_bytes: bytes of one weight.

    Raises:
        InputError: fewer than one pass, or no bytes.
    """
    if passes < 1 or not 0 < bytes_read < float("inf"):
        raise InputError(
            "--draft-passes must be >= 1 and --draft-bytes positive and finite", value=(passes, bytes_read)
        )
    values = round(bytes_read / weight_bytes)
    matrix = ("weights", max(1, values // target.hidden), target.hidden)
    return Drafter(
        kind="draft_model", name="custom", projections=(matrix,),
        passes="once" if passes == 1 else "per_token", resident_values=values,
    )  # fmt: skip


def _draft_model(target: Architecture, draft: Architecture | None) -> Drafter:
    if draft is None:
        raise InputError("this method drafts with a model of its own: name one", key="draft")
    if abs(draft.vocab - target.vocab) > 0.02 * target.vocab:
        raise InputError(
            f"must share the vocabulary of {target.name} ({target.vocab} tokens)",
            key="draft", value=f"{draft.name} with {draft.vocab}",
        )  # fmt: skip
    return Drafter(
        kind="draft_model", name=draft.name, architecture=draft, passes="per_token",
        resident_values=draft.parameters, kv_values_per_token=draft.kv_values_per_token,
    )  # fmt: skip


def _early_exit(target: Architecture, exit_layer: int | None) -> Drafter:
    layers = max(1, round(target.layers * EXIT_RATIO)) if exit_layer is None else exit_layer
    if not 1 <= layers < target.layers:
        raise InputError(f"must be in 1..{target.layers - 1} for {target.name}", key="exit_layer", value=layers)
    bridge = ("bridge", target.hidden, target.hidden)
    return Drafter(
        kind="early_exit", name=f"exit at {layers} of {target.layers}", architecture=target.with_layers(layers),
        projections=(bridge,), passes="per_token", resident_values=target.hidden**2,
    )  # fmt: skip


def _feature_head(target: Architecture) -> Drafter:
    """One dense layer whose queries, keys and values read two hidden vectors, fused features, a small head."""
    h = target.hidden
    head = _dense(target).with_layers(1)
    attention = head.blocks[0][0].attention
    extra: tuple[Projection, ...] = (
        ("fuse", h, 3 * h),
        ("qkv", attention.query_width + 2 * attention.kv_width, h),
    )
    vocab = min(EAGLE3_VOCAB, target.vocab)
    small = replace(head, name=f"EAGLE-3 head of {target.name}", vocab=vocab, tied=False)
    values = small.blocks[0][0].parameters(h) + vocab * h + sum(n * k for _, n, k in extra)
    return Drafter(
        kind="eagle3", name=small.name, architecture=small, projections=extra, passes="per_token",
        resident_values=values, kv_values_per_token=small.kv_values_per_token, rereads=True,
    )  # fmt: skip


def _mtp(target: Architecture) -> Drafter:
    h = target.hidden
    layer = target.with_layers(1)
    combine = ("combine", h, 2 * h)
    return Drafter(
        kind="mtp", name=f"MTP layer of {target.name}", architecture=layer, projections=(combine,),
        passes="per_token", resident_values=layer.blocks[0][0].parameters(h) + 2 * h * h,
        kv_values_per_token=layer.kv_values_per_token, rereads=True,
    )  # fmt: skip


def _dense(target: Architecture) -> Architecture:
    """The target with its experts replaced by one dense feed-forward of the width that a token visits."""
    block, count = target.with_layers(1).blocks[0]
    f = block.feed_forward
    if not f.is_moe:
        return target
    width = f.width * f.experts_per_token + f.shared_width
    dense = replace(f, width=width, experts=0, experts_per_token=0, shared_width=0)
    return replace(target, blocks=((replace(block, feed_forward=dense), count),))
