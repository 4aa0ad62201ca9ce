"""What network does one stage of drafting run, and what does it hold?

Layers, head and further matrices of a `Draft`, built for one target. Leaves out how often it runs
(`passes`) and how well it guesses (that is the trace's).
"""

from dataclasses import dataclass, replace

from costmodel.architectures.architecture import Architecture
from costmodel.architectures.attention import Attention, Projection
from costmodel.architectures.hf.draft_head import DraftHead
from costmodel.method import Draft
from costmodel.passes.memory import NO_WEIGHTS, WeightValues, layer_values, weight_values
from hardware_profiles.errors import InputError

# padding by which the vocabularies of a draft model and its target may differ
VOCABULARY_GAP_RATIO = 0.02
# Projections that engines divide among the devices of a group. The others every device holds and
# runs whole, as the matrix that fuses features is a ReplicatedLinear in vLLM and a torch.nn.Linear
# in SGLang (`fc` of llama_eagle3.py of both).
DIVIDED = ("qkv", "head")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """One stage of drafting, built for a target.

    Args:
        draft: the record that it was built from.
        name: for tables.
        architecture: layers and output head of one pass; None where no layers run.
        projections: matrices (name, outputs, inputs) that a pass applies beside them; of one level
            for `heads`.
        features: the matrix that fuses features of the target, which runs once a step over the
            tokens that were verified; empty: there is none.
        resident: weights held beside the target's, by the parts that have formats of their own.
        published: format of the checkpoint that holds it: a draft model's own, or the target's
            where its prediction layers are part of it; None: a head in 16 bits.
        kv_values_per_token: cached values held beside the target's.
        follows_target: its cache is filled by a pass over whatever the target computes, apart from
            its drafts, as some engines run draft models.
    """

    draft: Draft
    name: str
    architecture: Architecture | None = None
    projections: tuple[Projection, ...] = ()
    features: tuple[Projection, ...] = ()
    resident: WeightValues = NO_WEIGHTS
    published: str | None = None
    kv_values_per_token: int = 0
    follows_target: bool = False

    @property
    def resident_values(self) -> int:
        """Weights held beside the target's."""
        return round(sum(self.resident))

    def held_kv_values(self, tensor_parallel: int) -> float:
        """Cached values of a token on each device of a group, as the target's cache is held: latent
        vectors are whole on every device, and heads are copied where they are fewer than devices.
        """
        if not self.kv_values_per_token or self.architecture is None:
            return 0.0
        devices = self.devices(tensor_parallel)
        return sum(
            count * a.kv_values_per_token * (1.0 if a.is_mla else 1.0 / min(devices, a.kv_heads))
            for a, count in ((block.attention, count) for block, count in self.architecture.blocks)
        )

    def devices(self, tensor_parallel: int) -> int:
        """Devices of a group among which its layers divide: all, or one where the heads of its
        attention do not.
        """
        if self.architecture is None:
            return tensor_parallel
        heads = self.architecture.blocks[0][0].attention.heads
        return tensor_parallel if heads % tensor_parallel == 0 else 1

    def held(self, tensor_parallel: int) -> WeightValues:
        """Weights that each device of a group holds beside the target's."""
        whole = max(self.draft.heads, 1) * _values(
            tuple(each for each in (*self.projections, *self.features) if each[0] not in DIVIDED)
        )
        devices = self.devices(tensor_parallel)
        divided = WeightValues(*(values / devices for values in self.resident))
        return divided._replace(matrices=divided.matrices + whole * (1.0 - 1.0 / devices))

    @property
    def shares_head(self) -> bool:
        """Whether its tokens come out of the target's output head."""
        return self.draft.by == "head" and self.draft.vocab is None


def build_stage(
    draft: Draft,
    target: Architecture,
    *,
    model: Architecture | None,
    head: DraftHead | None = None,
    exit_layer: int | None,
) -> Stage:
    """The network of one stage.

    Args:
        draft: the stage.
        target: the model that verifies.
        model: the draft model, for stages by `model`.
        head: what the config of a head states of its shapes, for stages by `head`.
        exit_layer: layers that a stage by `target` runs; None: those of the record.

    Raises:
        InputError: a draft model that is missing or whose vocabulary differs, layers outside the
            target, fields that the proposer has no use for.
    """
    match draft.by:
        case "lookup" | "rows":
            if draft.layers is not None or draft.matrices:
                raise InputError("has no layers and no matrices", key="draft", value=draft.by)
            return Stage(draft=draft, name=draft.by)
        case "model":
            return _model(draft, target, model)
        case "target":
            return _target(draft, target, exit_layer)
        case "head":
            return _head(draft, target, head)
        case "heads":
            return _heads(draft, target)


def _model(draft: Draft, target: Architecture, model: Architecture | None) -> Stage:
    if model is None:
        rule = (
            "must be named, since speculative decoding drafts with a model of its own; or name"
            " another --method"
        )
        raise InputError(rule, key="draft")
    if abs(model.vocab - target.vocab) > VOCABULARY_GAP_RATIO * target.vocab:
        raise InputError(
            f"must share the vocabulary of {target.called} ({target.vocab} tokens)",
            key="draft",
            value=f"{model.called} with {model.vocab}",
        )
    if draft.layers is not None:
        model = model.with_layers(layer_count(draft.layers, model, "draft"))
    matrices = _matrices(draft, model.hidden)
    return Stage(
        draft=draft,
        name=model.name,
        architecture=_with_vocab(draft, model),
        projections=matrices,
        resident=_with_matrices(weight_values(model), matrices),
        published=model.dtype,
        kv_values_per_token=model.kv_values_per_token if draft.own_cache else 0,
    )


def _target(draft: Draft, target: Architecture, exit_layer: int | None) -> Stage:
    name, runs = f"{target.called} itself", target
    stated = draft.layers if exit_layer is None else float(exit_layer)
    if stated is not None:
        layers = layer_count(stated, target, "exit_layer")
        runs = target.with_layers(layers)
        name = f"{'exit at' if draft.first_layers else 'runs'} {layers} of {target.layers}"
    matrices = _matrices(draft, target.hidden)
    return Stage(
        draft=draft,
        name=name,
        architecture=_with_vocab(draft, runs),
        projections=matrices,
        resident=_with_matrices(NO_WEIGHTS, matrices),
        kv_values_per_token=runs.kv_values_per_token if draft.own_cache else 0,
    )


def _head(draft: Draft, target: Architecture, head: DraftHead | None) -> Stage:
    """Layers on the target's features: dense ones or the target's own kind, fused inputs, a shared
    or smaller head.
    """
    h = target.hidden
    if draft.features > 1 and not draft.rereads:
        raise InputError(
            "needs a first pass over the tokens that were verified (`rereads`)",
            key="draft.features",
            value=draft.features,
        )
    layers = (_dense(target) if draft.dense_layers else target).with_layers(int(draft.layers or 1))
    if head is not None:
        layers = _as_stated(layers, head)
    block = layers.blocks[0][0]
    extra: list[Projection] = [("fuse", h, draft.inputs * h)] if draft.inputs > 1 else []
    if draft.attention_inputs > 1:
        width = block.attention.query_width + 2 * block.attention.kv_width
        extra.append(("qkv", width, (draft.attention_inputs - 1) * h))
    extra += _matrices(draft, h)
    features: tuple[Projection, ...] = (
        (("fuse", h, draft.features * h),) if draft.features > 1 else ()
    )
    runs = _with_vocab(draft, layers)
    own_head = runs.vocab * h if draft.vocab is not None else 0
    return Stage(
        draft=draft,
        name=f"head of {layers.layers} on {target.called}",
        architecture=runs,
        projections=tuple(extra),
        features=features,
        resident=_with_matrices(layer_values(layers), (*extra, *features))._replace(head=own_head),
        published=target.dtype if target.mtp_layers and not draft.dense_layers else None,
        kv_values_per_token=runs.kv_values_per_token if draft.own_cache else 0,
    )


def _heads(draft: Draft, target: Architecture) -> Stage:
    vocab = target.vocab if draft.vocab is None else min(draft.vocab, target.vocab)
    one = (*_matrices(draft, target.hidden), ("head", vocab, target.hidden))
    if draft.heads < 1:
        raise InputError("must be the number of heads", key="draft.heads", value=draft.heads)
    return Stage(
        draft=draft,
        name=f"{draft.heads} heads",
        projections=one,
        resident=WeightValues(
            matrices=draft.heads * _values(one[:-1]), head=draft.heads * _values(one[-1:])
        ),
    )


def layer_count(layers: float, model: Architecture, key: str) -> int:
    """Layers that a count or a share of a model's stands for.

    Args:
        layers: a count, or a share of the model's (below 1).
        model: whose layers they are.
        key: name for messages.

    Raises:
        InputError: none, or all of them.
    """
    count = max(1, round(model.layers * layers)) if 0.0 < layers < 1.0 else int(layers)
    if not 1 <= count < model.layers:
        raise InputError(
            f"must be in 1..{model.layers - 1} for {model.called}", key=key, value=count
        )
    return count


def _with_vocab(draft: Draft, runs: Architecture) -> Architecture:
    """The network with an output head of its own, where it has one."""
    return (
        runs
        if draft.vocab is None
        else replace(runs, vocab=min(draft.vocab, runs.vocab), tied=False)
    )


def _matrices(draft: Draft, hidden: int) -> tuple[Projection, ...]:
    return tuple(
        ("matrix", round(outputs * hidden), round(inputs * hidden))
        for outputs, inputs in draft.matrices
    )


def _with_matrices(values: WeightValues, matrices: tuple[Projection, ...]) -> WeightValues:
    return values._replace(matrices=values.matrices + _values(matrices))


def _values(projections: tuple[Projection, ...]) -> int:
    return sum(outputs * inputs for _, outputs, inputs in projections)


def _as_stated(layers: Architecture, head: DraftHead) -> Architecture:
    """Layers with the attention and the dense feed-forward that a head's own config states."""
    block = layers.blocks[0][0]
    if head.heads is not None and head.kv_heads is not None and head.head_dim is not None:
        own = Attention(heads=head.heads, kv_heads=head.kv_heads, head_dim=head.head_dim)
        block = replace(block, attention=own, state=None)
    if head.width is not None and not block.feed_forward.is_moe:
        block = replace(block, feed_forward=replace(block.feed_forward, width=head.width))
    return replace(layers, blocks=((block, layers.layers),))


def _dense(target: Architecture) -> Architecture:
    """The target with its experts replaced by one dense feed-forward of the width that a token
    visits.
    """
    block, count = target.with_layers(1).blocks[0]
    f = block.feed_forward
    if not f.is_moe:
        return target
    width = f.width * f.experts_per_token + f.shared_width
    dense = replace(f, width=width, experts=0, experts_per_token=0, shared_width=0)
    return replace(target, blocks=((replace(block, feed_forward=dense), count),))
