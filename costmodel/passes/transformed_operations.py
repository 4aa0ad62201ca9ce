"""Which operations do transforms, quantised formats and norms of queries and keys add to a pass?

Narrowing activations before products, unpacking weights, choosing and expanding what attention
reads, compressing what it stored. Leaves out what becomes smaller by itself because fewer bytes are
read (`forward`). No kernel of these was measured here: launches and bandwidth are those of the
device's elementwise and attention kernels.
"""

from collections.abc import Iterator

import numpy as np

from costmodel.architectures.attention import Attention
from costmodel.passes import kernels, ops
from costmodel.passes.deployment import Deployment
from costmodel.passes.kernels import Timing
from costmodel.passes.ops import Array, Number, Work
from costmodel.passes.totals import Operation


def narrowing(d: Deployment, values: Number, launches: int) -> Operation:
    """Activations quantised before matrix products: read in 16 bits, written quantised, one launch
    per vector.

    Args:
        d: the deployment.
        values: activations that products read, each vector once, of one device.
        launches: different vectors.
    """
    p = d.precision
    moved = np.asarray(values) * (p.residual_bytes + p.activation_bytes)
    return _small(d, "quantise", moved, launches)


def head_norms(d: Deployment, attention: Attention, rows: Number) -> Operation:
    """Norms of queries and keys in kernels of their own: both are read and written in 16 bits.

    Args:
        d: the deployment.
        attention: the layer.
        rows: tokens.
    """
    keys, queries = _key_widths(d, attention)
    moved = 2.0 * np.asarray(rows, dtype=np.float64) * (keys + queries) * d.precision.residual_bytes
    return _small(d, "head_norms", moved, d.head_norm_kernels)


def unpacking(d: Deployment, weights: Number, launches: int) -> Operation:
    """Weights unpacked to their format before products read them: the slower of traffic and
    processors.

    Args:
        d: a deployment whose weights are unpacked.
        weights: unpacked in this operation, on one device.
        launches: kernels that do it.
    """
    p, t = d.precision, d.precision.weight_transform
    assert t is not None and t.unpack_bytes_per_s is not None
    unpacked_bytes = np.asarray(weights, dtype=np.float64) * p.read_weight_bytes
    stored_bytes = np.asarray(weights, dtype=np.float64) * p.weight_bytes
    plain = _small(d, "unpack", unpacked_bytes + stored_bytes, launches)
    if d.fidelity == "datasheet":
        return plain
    work_s = unpacked_bytes / (t.unpack_bytes_per_s * d.device.processors)
    memory, launch = plain.timing.memory_s, plain.timing.launch_s
    return plain._replace(
        timing=Timing(launch + np.maximum(work_s, memory), work_s, memory, launch)
    )


def selected_tokens(d: Deployment, context: Array) -> Array:
    """Cached tokens that attention reads per request.

    Args:
        d: whose sparse attention, if any, selects them.
        context: cached tokens per request.
    """
    sparse = d.sparse_attention
    if sparse is None:
        return context
    return np.minimum(context, np.maximum(sparse.token_ratio * context, float(sparse.least_tokens)))


def selection(d: Deployment, attention: Attention, b: Array, n: Array, context: Array) -> Operation:
    """Scoring the cached tokens by labels or keys, and choosing among them.

    Args:
        d: a deployment with sparse attention.
        attention: the layer.
        b: requests.
        n: new tokens per request.
        context: cached tokens per request that could be read.
    """
    p, sparse = d.precision, d.sparse_attention
    assert sparse is not None
    width = p.kv_bytes if sparse.label_bits is None else sparse.label_bits / 8.0
    kv_width, query_width = _key_widths(d, attention)
    work = Work(
        2.0 * b * n * context * query_width * sparse.label_ratio,
        b * context * kv_width * sparse.label_ratio * width,
    )
    return _reading(d, attention, "select", work, sparse.kernels)


def prompt_selection(d: Deployment, attention: Attention, b: Array, n: Array) -> Operation:
    """Choosing which pairs of a prompt's tokens are computed: its queries and keys are read once.

    Args:
        d: a deployment whose prompts attend to a part.
        attention: the layer.
        b: prompts.
        n: tokens of each.
    """
    assert d.sparse_attention is not None
    kv_width, query_width = _key_widths(d, attention)
    moved = b * n * (kv_width + query_width) * d.precision.residual_bytes
    return _small(d, "select", moved, d.sparse_attention.prompt_kernels)


def stored_logits(d: Deployment, stored_bytes: Number) -> Operation:
    """A value per entry of the vocabulary that lasts from pass to pass: read and written once.

    Args:
        d: the deployment.
        stored_bytes: of all tokens that have such values, on one device.
    """
    return _small(d, "stored_logits", 2.0 * np.asarray(stored_bytes, dtype=np.float64), 1)


def choosing(d: Deployment, rows: Number, hidden: int, launches: int) -> Operation:
    """Choosing the parts of a feed-forward layer that tokens use: their vectors are read once.

    Args:
        d: the deployment.
        rows: tokens.
        hidden: width of their vectors.
        launches: kernels that do it.
    """
    return _small(
        d,
        "select",
        np.asarray(rows, dtype=np.float64) * hidden * d.precision.residual_bytes,
        launches,
    )


def indexing(d: Deployment, attention: Attention, b: Array, n: Array, context: Array) -> Operation:
    """Scoring all cached tokens by the keys of a model's own indexer, and choosing among them: two
    kernels.

    Args:
        d: the deployment.
        attention: a layer with an indexer, which every device of a group runs whole.
        b: requests.
        n: new tokens per request.
        context: cached tokens per request before them.
    """
    work = Work(
        2.0
        * b
        * n
        * ops.attention_context(n, context, None)
        * attention.index_heads
        * attention.index_dim,
        b * (context + n) * attention.index_bytes_per_token,
    )
    return _reading(d, attention, "index", work, 2)


def cache_operations(
    d: Deployment, attention: Attention, b: Array, n: Array, context: Array
) -> Iterator[Operation]:
    """Multiplying out low-rank keys and values that are read, and compressing the new ones.

    Args:
        d: a deployment with a cache transform.
        attention: the layer.
        b: requests.
        n: new tokens per request.
        context: cached tokens per request that are read.
    """
    p, t = d.precision, d.precision.cache_transform
    assert t is not None
    width, _ = _key_widths(d, attention)
    sides = 1.0 if attention.is_mla else 2.0
    if t.expands:
        rows = np.maximum(b * np.maximum(context - t.dense_tokens, 0.0), 1.0)
        work = Work(
            2.0 * rows * (t.key_ratio + t.value_ratio) * attention.kv_width * width, np.zeros(())
        )
        timing = kernels.roofline(d.device, work, p.activations)
        if d.fidelity == "calibrated":
            timing = kernels.gemm(d.device, work, rows, p.activations, outputs=2.0 * width)
        yield Operation("attention", timing, work, "expand")
    if t.kernels and attention.mask != "source":  # what was made once is compressed with the prompt
        yield _small(
            d, "compress", b * n * sides * width * (p.dense_kv_bytes + p.kv_bytes), t.kernels
        )


def dense_bytes(d: Deployment, attention: Attention, b: Array, read: Array) -> Array:
    """Bytes that attention reads beyond compressed ones because the latest tokens are stored as
    they were.
    """
    p, t = d.precision, d.precision.cache_transform
    assert t is not None
    width, _ = _key_widths(d, attention)
    sides = 1.0 if attention.is_mla else 2.0
    latest = np.minimum(read, float(t.dense_tokens))
    return np.asarray(b * latest * sides * width * (p.dense_kv_bytes - p.kv_bytes))


def _key_widths(d: Deployment, attention: Attention) -> tuple[float, float]:
    """Length of the keys, and of the queries, that one device holds."""
    share = d.tensor_parallel
    if attention.is_mla:
        return float(attention.kv_width), attention.heads * attention.kv_width / share
    heads = max(1.0, attention.kv_heads / share)
    return heads * attention.head_dim, attention.query_width / share


def _small(d: Deployment, role: str, moved: Array, launches: int) -> Operation:
    """An elementwise kernel or several: launches and traffic."""
    work = Work(np.zeros(()), moved)
    if d.fidelity == "datasheet":
        return Operation(
            "elementwise", kernels.roofline(d.device, work, d.precision.activations), work, role
        )
    c = d.device.constants
    memory = moved / (d.device.bandwidth_bytes_per_s * c.elementwise.bandwidth_efficiency)
    launch = np.asarray(launches * c.elementwise.kernel_s)
    return Operation(
        "elementwise", Timing(launch + memory, np.zeros(()), memory, launch), work, role
    )


def _reading(
    d: Deployment, attention: Attention, role: str, work: Work, launches: int
) -> Operation:
    """A kernel that reads part of the cache: launches and the larger of both roofs."""
    name, dtype = "mla" if attention.is_mla else "attention", d.precision.activations
    timing = kernels.roofline(d.device, work, dtype)
    if d.fidelity == "calibrated":
        c = d.device.constants
        compute = work.flops / (d.device.peak(dtype) * c.attention.compute_efficiency)
        memory = work.bytes / (d.device.bandwidth_bytes_per_s * c.attention.bandwidth_efficiency)
        launch = np.asarray(launches * c.elementwise.kernel_s)
        timing = Timing(launch + np.maximum(compute, memory), compute, memory, launch)
    return Operation(name, timing, work, role)
