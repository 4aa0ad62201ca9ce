"""How many FLOPs and bytes does each operation of a pass need?

Counts only, independent of any device; `kernels` turns them into seconds. All arguments broadcast.
Leaves out cache reuse between operations: every operand is read from memory once per operation.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.architectures.attention import AttentionMask
from hardware_profiles.errors import InputError

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Number = float | int | Array

NOTHING: Array = np.zeros(())
LEAST_ROWS = 8.0  # of a grouped product's tile, in kernels that choose it by the load of an expert
# in kernels that go by the tokens: to a token an expert, and beyond
FEW_ROWS, MANY_ROWS = (16.0, 64.0)
# How much more often some experts of a layer are chosen than others: a token chooses the i-th most
# popular one with a probability in proportion to i^-0.8. NVIDIA/TensorRT-LLM, pull request 19148:
# the default of the benchmark of its expert layers, which is to match observed traces
EXPERT_SKEW = 0.8


class Work(NamedTuple):
    """FLOPs and bytes of one operation, arrays that broadcast; `written_bytes` where writes
    differ.

    Attributes:
        flops: a multiply-add counts two.
        bytes: read and written, weights included.
        written_bytes: of outputs, a part of `bytes`; 0 where they take no other time than reads.
    """

    flops: Array
    bytes: Array
    written_bytes: Array = NOTHING


def gemm(
    rows: Number, outputs: Number, inputs: Number, *, weight_bytes: float, activation_bytes: float
) -> Work:
    """Matrix product of `rows` tokens with a weight of shape (outputs, inputs).

    Args:
        rows: tokens M, >= 0.
        outputs: N.
        inputs: K (the inner dimension).
        weight_bytes: bytes of one weight.
        activation_bytes: bytes of one activation.

    Returns:
        2MNK FLOPs; weight, input and output bytes, of which output bytes are written.
    """
    m, n, k = (np.asarray(x, dtype=np.float64) for x in (rows, outputs, inputs))
    moved = weight_bytes * n * k + activation_bytes * m * (n + k)
    return Work(2.0 * m * n * k, moved, activation_bytes * m * n)


def attention_context(
    query_tokens: Number, context: Number, window: int | None, block_tokens: int = 1
) -> Array:
    """Cached positions that one query token reads on average, with its share of the new tokens.

    With n new tokens in blocks of B that see each other both ways: c + (n + min(n, B))/2; causal is
    B = 1. A window cuts every token's own number, so that parts of a prompt add up to the whole.

    Example:
        >>> float(attention_context(6, 0, 4))  # (1 + 2 + 3 + 4 + 4 + 4) / 6
        3.0

    Args:
        query_tokens: new tokens per request n, >= 1.
        context: cached tokens per request before them, >= 0.
        window: sliding window in tokens, or None.
        block_tokens: B; 0: all of the new tokens.
    """
    n = np.asarray(query_tokens, dtype=np.float64)
    own = np.minimum(n, float(block_tokens)) if block_tokens > 1 else 1.0 if block_tokens else n
    return mean_reach(n, context, own, None if window is None else float(window))


def mean_reach(new: Number, context: Number, together: Number, most: float | None) -> Array:
    """Mean over n / B blocks of new tokens of min(c + B i, most), where block i = 1, 2, .. ends.

    Args:
        new: n, new tokens.
        context: c, cached tokens before them.
        together: B, tokens of a block.
        most: that a block reaches; None: no limit.
    """
    n, c, block = (np.asarray(x, dtype=np.float64) for x in (new, context, together))
    if most is None:
        return np.asarray(c + (n + block) / 2.0)
    blocks = n / block
    below = np.clip(np.floor((most - c) / block + 1e-9), 0.0, blocks)  # that the limit lets whole
    return np.asarray(most - below / blocks * (most - c - block * (below + 1.0) / 2.0))


def attention(
    requests: Number,
    query_tokens: Number,
    context: Number,
    *,
    heads: Number,
    kv_heads: Number,
    head_dim: Number,
    window: int | None,
    kv_bytes: float,
    activation_bytes: float,
    mask: AttentionMask = "causal",
    block_tokens: int = 1,
) -> Work:
    """Attention of n new tokens per request over its cache; keys and values are read once per
    request.

    Args:
        requests: batch b.
        query_tokens: n.
        context: cached tokens per request.
        heads: query heads (of one device).
        kv_heads: key/value heads (of one device).
        head_dim: width of a head.
        window: sliding window in tokens, or None.
        kv_bytes: bytes of one cached value.
        activation_bytes: bytes of one activation.
        mask: what a query sees; under `source` the new tokens have no keys and values of their own.
            A text that is read `both_ways` in several parts takes as many products in all as at
            once: n + 2c pairs per new token.
        block_tokens: under `causal`, new tokens that see each other both ways; 0: all of them.

    Returns:
        FLOPs of the score and value products of the pairs that the mask lets through, bytes of the
        cache and of queries and outputs; written are the new keys and values.
    """
    b, n, c = (np.asarray(x, dtype=np.float64) for x in (requests, query_tokens, context))
    own = 0.0 if mask == "source" else n
    read = c + own if window is None else np.minimum(c + own, window + own - 1.0)
    seen = attention_context(n, c, window, block_tokens)
    pairs = seen if mask == "causal" else c if mask == "source" else n + 2.0 * c
    flops = 4.0 * b * n * heads * head_dim * pairs
    token_bytes = 2.0 * kv_heads * head_dim * kv_bytes
    moved = b * (read * token_bytes + 2.0 * n * heads * head_dim * activation_bytes)
    return Work(flops, moved, b * own * token_bytes)


def latent_attention(
    requests: Number,
    query_tokens: Number,
    context: Number,
    *,
    heads: Number,
    latent: int,
    rope: int,
    kv_bytes: float,
    activation_bytes: float,
    chosen: int = 0,
) -> Work:
    """Absorbed multi-head latent attention: b·ctx·(latent+rope) values, 2·T·h·ctx·(2·latent+rope)
    FLOPs.

    With `chosen` tokens per query, ctx is at most that many, and no more than n times as many are
    read per request.

    Args:
        requests: batch b.
        query_tokens: new tokens per request n.
        context: cached tokens per request.
        heads: query heads of one device.
        latent: width of the latent vector.
        rope: width of the rotated part of a key.
        kv_bytes: of a cached value.
        activation_bytes: of a value of queries and outputs.
        chosen: tokens that an indexer chooses per query; 0: all are read.

    Reference: DeepSeek-V2 (arXiv:2405.04434), section 2.1.2 and appendix C; DeepSeek-V3.2
    (arXiv:2512.02556), 2.1.
    """
    b, n, c = (np.asarray(x, dtype=np.float64) for x in (requests, query_tokens, context))
    flops = 2.0 * b * n * heads * attention_context(n, c, chosen or None) * (2.0 * latent + rope)
    read = np.minimum(c + n, n * chosen) if chosen else c + n
    moved = b * (
        read * (latent + rope) * kv_bytes + n * heads * (2.0 * latent + rope) * activation_bytes
    )
    return Work(flops, moved)


def expanded_latent_attention(
    requests: Number,
    query_tokens: Number,
    context: Number,
    *,
    heads: Number,
    latent: int,
    rope: int,
    nope: int,
    value: int,
    activation_bytes: float,
) -> Work:
    """Latent attention of a prompt, whose keys and values are made from the latent vectors first.

    Every head has keys of nope + rope and values of its own width, as in ordinary attention:
    2·T·h·ctx·(nope + rope + value) FLOPs, for DeepSeek-V3 320 a pair and head where the absorbed
    form takes 1,088. Latent vectors that were cached before are expanded anew; those of the new
    tokens by the layer's own products, which are counted there.

    Args:
        requests: batch b.
        query_tokens: new tokens per request n.
        context: cached tokens per request.
        heads: query heads of one device.
        latent: width of the latent vector.
        rope: width of the rotated part of a key.
        nope: width of the other part.
        value: width of a value.
        activation_bytes: of a value of queries, keys, values and outputs.

    Reference: DeepSeek-V2 (arXiv:2405.04434), section 2.1.2.
    """
    b, n, c = (np.asarray(x, dtype=np.float64) for x in (requests, query_tokens, context))
    pairs = b * n * heads * attention_context(n, c, None)
    expanded = b * c * heads * latent * (nope + value)
    flops = 2.0 * (pairs * (nope + rope + value) + expanded)
    widths = n * (2.0 * nope + 2.0 * rope + 2.0 * value) + c * (nope + rope + value)
    return Work(flops, b * heads * widths * activation_bytes)


def distinct_experts(
    tokens: Number, experts: int, experts_per_token: int, *, skew: float = EXPERT_SKEW
) -> Array:
    """Experts that at least one of `tokens` independently routed tokens visits: the sum of
    1 - (1 - π)^T over all experts, of which some are chosen more often than others.

    Raises no error: `tokens` may be fractional, so that correlated tokens count as fewer.

    Args:
        tokens: T, >= 0.
        experts: E.
        experts_per_token: k, at most E.
        skew: exponent of the ranks by which experts are chosen, >= 0; 0: all alike, as routers with
            random weights and benchmarks that draw evenly choose them.

    >>> [round(float(distinct_experts(t, 128, 4))) for t in (1, 16, 64, 1024)]
    [4, 40, 88, 128]
    """
    missed, count = _missed_experts(experts, experts_per_token, skew)
    t = np.asarray(tokens, dtype=np.float64)
    return np.asarray((1.0 - missed ** t[..., np.newaxis]) @ count)


@lru_cache(maxsize=256)
def _missed_experts(experts: int, experts_per_token: int, skew: float) -> tuple[Array, Array]:
    """Probability that a token does not choose an expert, and how many experts share it.

    Ranks are joined in groups of up to an eighth of their rank, which moves sums by less than a
    thousandth.
    """
    weight = np.arange(1.0, experts + 1.0) ** -skew
    chosen = np.minimum(weight * (experts_per_token / weight.sum()), 1.0)
    while abs(left := experts_per_token - chosen.sum()) > 1e-9:  # nobody chooses an expert twice
        free = chosen < 1.0
        if not free.any():
            break
        chosen[free] = np.minimum(chosen[free] * (1.0 + left / chosen[free].sum()), 1.0)
    edges = [0]
    while edges[-1] < experts:
        edges.append(min(experts, edges[-1] + max(1, edges[-1] // 8)))
    count = np.diff(edges).astype(np.float64)
    mean = np.add.reduceat(chosen, edges[:-1]) / count
    return np.clip(1.0 - mean, 0.0, 1.0), count


def independent_tokens(requests: Number, query_tokens: Number, correlation: float) -> Array:
    """Tokens that choose experts as if independent: b·(1 + (n-1)(1-correlation)).

    Args:
        requests: batch b.
        query_tokens: tokens per request n.
        correlation: of the expert choices of one request's tokens, 0 (independent) to 1
            (identical).
    """
    b, n = (np.asarray(x, dtype=np.float64) for x in (requests, query_tokens))
    return np.asarray(b * (1.0 + (n - 1.0) * (1.0 - correlation)))


def experts(
    rows: Number,
    visited: Number,
    *,
    hidden: Number,
    width: Number,
    matrices: Number,
    experts_per_token: Number,
    weight_bytes: float,
    activation_bytes: float,
    experts: int | None = None,
    few_rows: float = FEW_ROWS,
    many_rows: float = FEW_ROWS,
    padded_rows: Number | None = None,
) -> Work:
    """Expert layers: the weights of the visited experts once, rows per expert padded to tiles.

    Loads of experts differ: an expert with r rows on average pads half a tile on average, and no
    less than to one tile. Kernels that choose their tiles by the load of an expert pad as little as
    their smallest tile. Those that go by the number of tokens alone take larger ones once there are
    more tokens than experts, however few rows each of them has.

    Args:
        rows: tokens T.
        visited: distinct experts D.
        hidden: model width.
        width: width of one expert (of one device).
        matrices: 3 gated, 2 plain.
        experts_per_token: k.
        weight_bytes: bytes of one weight.
        activation_bytes: bytes of one activation.
        experts: experts of the layer E; None keeps small tiles.
        few_rows: rows of a tile.
        many_rows: the same once there are more tokens than experts.
        padded_rows: rows of all experts after padding, where the load of each is known.
    """
    t, d = (np.asarray(x, dtype=np.float64) for x in (rows, visited))
    if padded_rows is None:
        tile = few_rows if experts is None else np.where(t > experts, many_rows, few_rows)
        per_expert = t * experts_per_token / np.maximum(d, 1e-9)
        padded = np.maximum(per_expert + (tile - 1.0) / 2.0, tile) * d
    else:
        padded = np.asarray(padded_rows, dtype=np.float64)
    flops = 2.0 * padded * matrices * hidden * width
    moved = d * matrices * hidden * width * weight_bytes
    return Work(flops, moved + 2.0 * t * experts_per_token * (hidden + width) * activation_bytes)


def elementwise(rows: Number, hidden: int, width: float, *, activation_bytes: float) -> Work:
    """Norms, residual adds, rotary embedding and activation of one layer.

    Two norms with residual read and write four rows of the model width each; the gate reads two and
    writes one row of the feed-forward width.

    Args:
        rows: tokens of the pass.
        hidden: width of the model.
        width: of the feed-forward layer, that of all experts of a token.
        activation_bytes: of a value.
    """
    t = np.asarray(rows, dtype=np.float64)
    return Work(
        t * (10.0 * hidden + 4.0 * width), t * (8.0 * hidden + 3.0 * width) * activation_bytes
    )


def checked_sizes(
    batch: Number, query_tokens: Number, context: Number
) -> tuple[Array, Array, Array]:
    """Batch, new tokens and cached tokens of a pass as arrays.

    Args:
        batch: requests b, > 0.
        query_tokens: n, > 0.
        context: cached tokens, >= 0.

    Raises:
        InputError: a negative or non-finite number, or no request or no new token.
    """
    values = []
    for key, value, least in (
        ("batch", batch, 0.0),
        ("query_tokens", query_tokens, 0.0),
        ("context", context, -1.0),
    ):
        array = np.asarray(value, dtype=np.float64)
        if not np.all(np.isfinite(array)) or np.any(array <= least) or np.any(array < 0.0):
            rule = "must be finite and > 0" if least == 0.0 else "must be finite and >= 0"
            raise InputError(rule, key=key, value=value)
        values.append(array)
    return values[0], values[1], values[2]
