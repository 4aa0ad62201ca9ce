"""How much memory does a configuration need on each device?

Weights, drafter, KV cache, recurrent states and the activations of a pass, to the byte. Leaves out
what an engine gives its cache (`costmodel.engines.record.memory`), whether it fits there
(`costmodel.answers.fit`) and prefix sharing.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from costmodel.architectures.architecture import Architecture
from costmodel.passes.ops import Array, Number
from costmodel.passes.precision import Precision
from costmodel.passes.state_update import Rollback, held_states

PAGE_TOKENS = 16  # paged caches round every request up to a page


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Footprint:
    """Bytes that a configuration needs on each device, arrays over batch and context.

    Args:
        weights_bytes: of target and drafter.
        cache_bytes: keys, values and states of all requests.
        pass_bytes: activations of a verify pass.
    """

    weights_bytes: float
    cache_bytes: Array
    pass_bytes: Array

    @property
    def total_bytes(self) -> Array:
        """All of it."""
        return np.asarray(self.weights_bytes + self.cache_bytes + self.pass_bytes)


class WeightValues(NamedTuple):
    """Values of a model's or drafter's weights by the parts that have formats of their own.

    Attributes:
        matrices: of attention and dense layers.
        experts: of experts.
        head: of the output head.
        embedding: of the token embedding.
    """

    matrices: float = 0.0
    experts: float = 0.0
    head: float = 0.0
    embedding: float = 0.0

    def stored_bytes(self, precision: Precision) -> float:
        """Bytes of all of them in memory."""
        return (
            self.matrices * precision.weight_bytes
            + self.experts * precision.of("experts").weight_bytes
            + self.head * precision.of("head").weight_bytes
            + self.embedding * precision.embedding_bytes
        )

    def of_layers(self, ratio: float, layers: "WeightValues") -> "WeightValues":
        """The same with a share of the layers' values alone.

        Args:
            ratio: share in [0, 1].
            layers: values of all layers.
        """
        less = 1.0 - ratio
        return self._replace(
            matrices=self.matrices - less * layers.matrices,
            experts=self.experts - less * layers.experts,
        )


NO_WEIGHTS = WeightValues()


def layer_values(architecture: Architecture) -> WeightValues:
    """Values of the layers, embedding and output head left out."""
    hidden = architecture.hidden
    layers = sum(count * block.parameters(hidden) for block, count in architecture.blocks)
    routed = architecture.routed_parameters
    return WeightValues(matrices=layers - routed, experts=routed)


def weight_values(architecture: Architecture) -> WeightValues:
    """Values of all weights by part; a head that is the embedding counts as the embedding."""
    embedding = architecture.embedding_parameters
    head = 0 if architecture.tied else architecture.head_parameters
    routed = architecture.routed_parameters
    return WeightValues(
        matrices=architecture.parameters - embedding - head - routed,
        experts=routed,
        head=head,
        embedding=embedding,
    )


def weight_bytes(
    architecture: Architecture, precision: Precision, tensor_parallel: int = 1
) -> float:
    """Bytes of the weights on each device, the sum over the parts of the model.

    Args:
        architecture: the model.
        precision: number formats.
        tensor_parallel: devices that share the weights.
    """
    values = weight_values(architecture)
    if precision.held_layers_ratio < 1.0:
        values = values.of_layers(precision.held_layers_ratio, layer_values(architecture))
    return values.stored_bytes(precision) / tensor_parallel


def layer_weight_bytes(
    architecture: Architecture, precision: Precision, tensor_parallel: int = 1
) -> float:
    """Bytes of the layers' weights on each device, embedding and output head left out.

    Args:
        architecture: of the model.
        precision: of its weights.
        tensor_parallel: devices that share every layer.
    """
    return (
        layer_values(architecture).stored_bytes(precision)
        * precision.held_layers_ratio
        / tensor_parallel
    )


def kv_bytes(
    architecture: Architecture,
    precision: Precision,
    *,
    batch: Number,
    context: Number,
    tensor_parallel: int = 1,
    page_tokens: int = PAGE_TOKENS,
    states: Number = 1,
) -> Array:
    """Bytes that `batch` requests of `context` tokens keep on each device: paged KV cache and
    recurrent states.

    Layers with a sliding window keep at most the window; key/value heads are replicated where there
    are fewer than devices. Every request is rounded up to pages of `page_tokens`. Layers without
    attention keep `states` states per request, whatever the context, and cross-attention to an
    input of fixed length its keys and values; those to a text that an encoder read are as wide as a
    decoder's own, and its tokens are part of the context. Arguments broadcast.

    Args:
        architecture: of the model.
        precision: of its cache.
        batch: requests b.
        context: tokens per request.
        tensor_parallel: devices that share every layer.
        page_tokens: tokens of a page; 1: no pages.
        states: recurrent states per request, 1 without verification.
    """
    tokens = np.ceil(np.asarray(context, dtype=np.float64) / page_tokens) * page_tokens
    bytes_per_value = precision.kv_bytes * precision.held_cache_ratio + precision.label_bytes
    transform = precision.cache_transform
    latest = float(transform.dense_tokens) if transform is not None else 0.0
    total = np.zeros(np.broadcast_shapes(np.shape(batch), np.shape(context)))
    for block, count in architecture.blocks:
        a, cross = block.attention, block.cross
        kept = (
            tokens
            if a.window is None
            else np.minimum(tokens, np.ceil(a.window / page_tokens) * page_tokens)
        )
        share = 1.0 if a.is_mla else 1.0 / min(tensor_parallel, a.kv_heads)
        value_bytes = kept * bytes_per_value
        if latest:
            value_bytes = value_bytes + np.minimum(kept, latest) * (
                precision.dense_kv_bytes - precision.kv_bytes
            )
        total = total + count * (
            a.kv_values_per_token * share * value_bytes + a.index_bytes_per_token * kept
        )
        if cross is not None and architecture.source_positions:
            total = (
                total
                + count
                * 2
                * cross.kv_width
                * share
                * bytes_per_value
                * architecture.source_positions
            )
    if architecture.is_recurrent:
        state = state_bytes(architecture, precision, tensor_parallel)
        total = total + state * np.asarray(states, dtype=np.float64)
    return np.asarray(total * np.asarray(batch, dtype=np.float64))


def state_bytes(
    architecture: Architecture, precision: Precision, tensor_parallel: int = 1
) -> float:
    """Bytes of one request's recurrent states on each device, convolution windows included; 0 where
    all attend.

    Args:
        architecture: of the model.
        precision: states have its residual vectors' format.
        tensor_parallel: devices that share every layer.
    """
    whole_bytes = sum(
        count * block.state.state_bytes(precision.residual_bytes)
        for block, count in architecture.blocks
        if block.state is not None
    )
    return whole_bytes / tensor_parallel


def activation_bytes(
    architecture: Architecture,
    precision: Precision,
    *,
    tokens: Number,
    logit_rows: Number | None = None,
) -> Array:
    """Peak activations of a pass of `tokens` tokens: the widest layer, and logits in 32 bits.

    Args:
        architecture: the model.
        precision: number formats.
        tokens: of the pass.
        logit_rows: tokens that reach the output head; None: all.
    """
    widest = max(
        block.feed_forward.width
        * max(block.feed_forward.experts_per_token, 1)
        * (2 if block.feed_forward.gated else 1)
        for block, _ in architecture.blocks
    )
    per_token = (4 * architecture.hidden + widest) * precision.residual_bytes
    logits = (
        np.asarray(tokens if logit_rows is None else logit_rows, dtype=np.float64)
        * 4.0
        * architecture.vocab
    )
    return np.asarray(np.asarray(tokens, dtype=np.float64) * per_token + logits)


def footprint(
    architecture: Architecture,
    precision: Precision,
    *,
    batch: Number,
    context: Number,
    tensor_parallel: int = 1,
    query_tokens: Number = 1,
    drafter_bytes: float = 0.0,
    drafter_kv_bytes_per_token: float = 0.0,
    rollback: Rollback = "copies",
    page_tokens: int = PAGE_TOKENS,
) -> Footprint:
    """Bytes on each device: weights, drafter, KV of context and tree, states, activations of a
    verify pass.

    Args:
        architecture: the target.
        precision: number formats.
        batch: requests.
        context: tokens per request at the longest.
        tensor_parallel: devices that share the model.
        query_tokens: tokens per request in a verify pass; their keys and values are written before
            some are kept.
        drafter_bytes: weights of the drafter on each device.
        drafter_kv_bytes_per_token: cached bytes of the drafter per token, on each device.
        rollback: what recurrent layers keep while tokens are verified: a state of each, or one to
            replay from.
        page_tokens: of a page of the cache, to which every request is rounded up.
    """
    b = np.asarray(batch, dtype=np.float64)
    tokens = np.asarray(context, dtype=np.float64) + np.asarray(query_tokens, dtype=np.float64)
    cache = kv_bytes(
        architecture,
        precision,
        batch=b,
        context=tokens,
        tensor_parallel=tensor_parallel,
        page_tokens=page_tokens,
        states=held_states(query_tokens, rollback),
    )
    return Footprint(
        weights_bytes=weight_bytes(architecture, precision, tensor_parallel) + drafter_bytes,
        cache_bytes=np.asarray(cache + b * tokens * drafter_kv_bytes_per_token),
        pass_bytes=np.asarray(
            activation_bytes(architecture, precision, tokens=b * query_tokens) / tensor_parallel
        ),
    )
