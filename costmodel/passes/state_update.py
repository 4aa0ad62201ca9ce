"""What does the update of recurrent states need: decoding, verifying drafts, processing prompts?

FLOPs and bytes of the convolution and the recurrence. `rollback` names what is kept so that a draft
can be rejected: one state per verified token, or the inputs to replay. Leaves out the projections,
which are matrix products like any other (`state_layers`), and device times (`forward`).
"""

from typing import Literal

import numpy as np

from costmodel.architectures.state_layers import STATE_BYTES, StateLayer
from costmodel.passes.ops import Array, Number, Work

Rollback = Literal["copies", "replay"]

CHUNK_TOKENS = 64.0  # tokens of a prompt that chunked kernels turn into matrix products at once
KERNELS = 2  # the convolution and the update of the state
# per state value and token
_UPDATE_FLOPS = {"mamba": 7.0, "mamba2": 5.0, "delta": 7.0, "memory": 0.0}


def state_update(
    layer: StateLayer,
    requests: Number,
    query_tokens: Number,
    *,
    activation_bytes: float,
    rollback: Rollback = "copies",
    prefill: bool = False,
    share: float = 1.0,
) -> Work:
    """Convolution and state update of n new tokens per request; no term depends on the context.

    One token reads and writes the state once. With several, `copies` writes a state per token, so
    that any of them can be the last one kept; `replay` reads the state once, works the tokens out
    against each other (a masked product of n·(n+1)/2 pairs, which serves a tree as well as a chain)
    and writes the state once, from stored inputs of the tokens that were kept. A prompt needs no
    way back: one read and one write per pass, in chunks of `CHUNK_TOKENS` that are matrix products,
    except `mamba`, whose decay differs per state value and is scanned token by token.

    Args:
        layer: the layer.
        requests: batch b.
        query_tokens: new tokens per request n.
        activation_bytes: bytes of one activation.
        rollback: how rejected tokens are undone.
        prefill: the tokens belong to a prompt.
        share: of the layer that one device holds.

    Returns:
        FLOPs, and bytes of states, inputs and outputs.

    Reference:
        Gu, Dao, "Mamba" (arXiv:2312.00752), eq. 2; Dao, Gu, "Transformers are SSMs"
        (arXiv:2405.21060), §6; Yang, Kautz, Hatamizadeh, "Gated Delta Networks" (arXiv:2412.06464),
        eq. 10; Wu et al., "STree" (arXiv:2505.14969).
    """
    b, n = (np.asarray(x, dtype=np.float64) for x in (requests, query_tokens))
    state, window = layer.state_values * STATE_BYTES, layer.conv_values * activation_bytes
    inputs = n * (layer.input_values + layer.conv_width + 2.0 * layer.inner) * activation_bytes
    steps = n * _UPDATE_FLOPS[layer.kind] * layer.state_values
    convolution = n * 2.0 * layer.conv_width * layer.kernel
    if prefill:
        flops = steps if layer.kind == "mamba" else _paired(layer, n, np.minimum(n, CHUNK_TOKENS))
        moved = 2.0 * (state + window) + inputs
    elif rollback == "copies":
        flops, moved = steps, (1.0 + n) * (state + window) + inputs
    else:
        flops = np.where(n > 1.0, steps + _paired(layer, n, n), steps)
        moved = (
            2.0 * (state + window)
            + inputs
            + np.where(n > 1.0, 2.0 * n * layer.input_values * activation_bytes, 0)
        )
    return Work(np.asarray(b * (flops + convolution) * share), np.asarray(b * moved * share))


def _paired(layer: StateLayer, n: Array, chunk: Array) -> Array:
    """FLOPs of n tokens in chunks: pairs within a chunk as products, the state read and written
    once per token.
    """
    pairs = n * (chunk + 1.0) / 2.0
    within = 2.0 * pairs * (layer.key_width + layer.inner)
    if layer.kind == "delta":
        # the chunk's triangular system, solved once more over keys and values
        within = 2.0 * within
    return np.asarray(within + 4.0 * n * layer.state_values)


def held_states(query_tokens: Number, rollback: Rollback) -> Array:
    """States that a request holds while n tokens are verified: one each, or one that is replayed
    from.

    Args:
        query_tokens: n of the verify pass.
        rollback: how an engine returns to the last accepted token.
    """
    n = np.asarray(query_tokens, dtype=np.float64)
    return np.maximum(n, 1.0) if rollback == "copies" else np.ones_like(n)
