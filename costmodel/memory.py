"""Does it fit, and how large a batch fits?

Weights, drafter, KV cache and recurrent states of one device against its memory. Leaves out what engines keep
beside (`fragmentation`) and prefix sharing.
"""

import numpy as np

from costmodel.architecture import Architecture
from costmodel.ops import Array, Number
from costmodel.precision import Precision
from costmodel.state_update import Rollback, held_states
from hardware_profiles.errors import InfeasibleError
from hardware_profiles.profile import Device
from hardware_profiles.units import GIB

USABLE_RATIO = 0.9  # share of the memory that engines plan with (vLLM's default gpu_memory_utilization)
PAGE_TOKENS = 16  # paged caches round every request up to a page


def weight_bytes(architecture: Architecture, precision: Precision, tensor_parallel: int = 1) -> float:
    """Bytes of the weights on each device; the embedding is kept in 16 bits or wider.

    Args:
        architecture: the model.
        precision: number formats.
        tensor_parallel: devices that share the weights.
    """
    embedding = architecture.embedding_parameters
    other = float(architecture.parameters - embedding)
    if precision.held_layers_ratio < 1.0:
        layers = sum(count * block.parameters(architecture.hidden) for block, count in architecture.blocks)
        other -= (1.0 - precision.held_layers_ratio) * layers
    return (embedding * precision.embedding_bytes + other * precision.weight_bytes) / tensor_parallel


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
    """Bytes that `batch` requests of `context` tokens keep on each device: paged KV cache and recurrent states.

    Layers with a sliding window keep at most the window; key/value heads are replicated where there are fewer
    than devices. Every request is rounded up to pages of `page_tokens`. Layers without attention keep `states`
    states per request, whatever the context. Arguments broadcast.
    """
    tokens = np.ceil(np.asarray(context, dtype=np.float64) / page_tokens) * page_tokens
    each = precision.kv_bytes * precision.held_cache_ratio + precision.label_bytes
    transform = precision.cache_transform
    latest = float(transform.dense_tokens) if transform is not None else 0.0
    total = np.zeros(np.broadcast_shapes(np.shape(batch), np.shape(context)))
    for block, count in architecture.blocks:
        a = block.attention
        kept = tokens if a.window is None else np.minimum(tokens, np.ceil(a.window / page_tokens) * page_tokens)
        share = 1.0 if a.is_mla else 1.0 / min(tensor_parallel, a.kv_heads)
        held = kept * each
        if latest:
            held = held + np.minimum(kept, latest) * (precision.dense_kv_bytes - precision.kv_bytes)
        total = total + count * a.kv_values_per_token * share * held
    if architecture.is_recurrent:
        state = state_bytes(architecture, precision, tensor_parallel)
        total = total + state * np.asarray(states, dtype=np.float64)
    return np.asarray(total * np.asarray(batch, dtype=np.float64))


def state_bytes(architecture: Architecture, precision: Precision, tensor_parallel: int = 1) -> float:
    """Bytes of one request's recurrent states on each device, convolution windows included; 0 where all attend."""
    each = sum(
        count * block.state.state_bytes(precision.residual_bytes)
        for block, count in architecture.blocks
        if block.state is not None
    )
    return each / tensor_parallel


def activation_bytes(
    architecture: Architecture, precision: Precision, *, tokens: Number, logit_rows: Number | None = None
) -> Array:
    """Peak activations of a pass of `tokens` tokens: the widest layer, and logits in 32 bits.

    Args:
        architecture: the model.
        precision: number formats.
        tokens: of the pass.
        logit_rows: tokens that reach the output head; None: all.
    """
    widest = max(
        block.feed_forward.width * max(block.feed_forward.experts_per_token, 1) * (2 if block.feed_forward.gated else 1)
        for block, _ in architecture.blocks
    )
    per_token = (4 * architecture.hidden + widest) * precision.residual_bytes
    logits = np.asarray(tokens if logit_rows is None else logit_rows, dtype=np.float64) * 4.0 * architecture.vocab
    return np.asarray(np.asarray(tokens, dtype=np.float64) * per_token + logits)


def memory_bytes(
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
) -> Array:
    """Bytes on each device: weights, drafter, KV of context and tree, states, activations of a verify pass.

    Args:
        architecture: the target.
        precision: number formats.
        batch: requests.
        context: tokens per request at the longest.
        tensor_parallel: devices that share the model.
        query_tokens: tokens per request in a verify pass; their keys and values are written before some are kept.
        drafter_bytes: weights of the drafter on each device.
        drafter_kv_bytes_per_token: cached bytes of the drafter per token, on each device.
        rollback: what recurrent layers keep while tokens are verified: a state of each, or one to replay from.
    """
    b = np.asarray(batch, dtype=np.float64)
    held = np.asarray(context, dtype=np.float64) + np.asarray(query_tokens, dtype=np.float64)
    cache = kv_bytes(
        architecture, precision, batch=b, context=held, tensor_parallel=tensor_parallel,
        states=held_states(query_tokens, rollback),
    )  # fmt: skip
    working = activation_bytes(architecture, precision, tokens=b * query_tokens) / tensor_parallel
    fixed = weight_bytes(architecture, precision, tensor_parallel) + drafter_bytes
    return np.asarray(fixed + cache + b * held * drafter_kv_bytes_per_token + working)


def require_fit(device: Device, needed: Array, what: str) -> None:
    """Check that `needed` bytes fit into the usable memory of a device.

    Raises:
        InfeasibleError: naming what was asked, what it needs and what there is.
    """
    usable = USABLE_RATIO * device.memory_bytes
    worst = float(np.max(needed))
    if worst > usable:
        raise InfeasibleError(
            f"{what} needs {worst / GIB:.1f} GiB on each {device.name}, which has {usable / GIB:.1f} GiB usable "
            f"({USABLE_RATIO:.0%} of its memory); use a smaller batch or context, fewer bits, or a larger --tp"
        )
