"""What does a pass cost when requests share the beginning of their context?

The shared prefix's keys and values are read once for all requests, as one product with many query
rows; each request's own suffix is attended to separately; and the two partial results are joined by
their softmax sums. Leaves out several prefixes at once and how requests come to share one.
"""

from dataclasses import replace

import numpy as np

from costmodel.architectures.attention import Attention
from costmodel.passes import kernels
from costmodel.passes.calibrated import Logits, calibrated_pass
from costmodel.passes.deployment import Deployment
from costmodel.passes.kernels import Timing
from costmodel.passes.ops import Array, Number, Work
from costmodel.passes.totals import Operation, Operations, PassCost
from hardware_profiles.errors import InputError

STATISTIC_BYTES = 4.0  # one logarithm of a softmax sum, per head and query


def prefix_work(
    deployment: Deployment, attention: Attention, *, queries: Number, prefix: Number
) -> Work:
    """FLOPs and bytes of all requests' queries over their shared prefix, nothing masked.

    Args:
        deployment: gives number formats and the tensor group.
        attention: the layer.
        queries: query tokens of all requests.
        prefix: its cached tokens.

    Returns:
        4·heads·head_dim·queries·prefix FLOPs; the prefix once, queries and outputs.
    """
    p, n = deployment.precision, deployment.tensor_parallel
    q, c = (np.asarray(x, dtype=np.float64) for x in (queries, prefix))
    heads, kv_heads = attention.heads / n, max(1.0, attention.kv_heads / n)
    flops = 4.0 * q * c * heads * attention.head_dim
    moved = c * 2.0 * kv_heads * attention.head_dim * p.kv_bytes
    return Work(flops, moved + 2.0 * q * heads * attention.head_dim * p.residual_bytes)


def combination_work(deployment: Deployment, attention: Attention, queries: Number) -> Work:
    """FLOPs and bytes of joining two partial results: two vectors and sums read per head and query,
    one written.

    Args:
        deployment: whose devices share the heads.
        attention: of the layer.
        queries: query tokens of all requests.
    """
    values = np.asarray(queries, dtype=np.float64) * attention.heads / deployment.tensor_parallel
    vectors = 3.0 * attention.head_dim * deployment.precision.residual_bytes
    return Work(
        values * (3.0 * attention.head_dim + 6.0), values * (vectors + 2.0 * STATISTIC_BYTES)
    )


def shared_attention(
    deployment: Deployment,
    attention: Attention,
    *,
    batch: Number,
    query_tokens: Number,
    prefix: Number,
) -> tuple[Operation, Operation]:
    """Attention over the shared prefix, and the joining with the rest, of one layer.

    Args:
        deployment: model, device and how they run.
        attention: the layer; grouped heads without a window.
        batch: requests.
        query_tokens: new tokens per request.
        prefix: its cached tokens.

    Returns:
        The `prefix` product and the `combine` step.

    Raises:
        InputError: latent attention or a window.

    Reference: Juravsky et al., "Hydragen" (arXiv:2402.05099), section 3.
    """
    if attention.is_mla or attention.window is not None:
        raise InputError(
            "needs attention with cached heads and no window", key="prefix", value=prefix
        )
    d, dtype, n = deployment.device, deployment.precision.attention, deployment.tensor_parallel
    queries = np.asarray(batch, dtype=np.float64) * np.asarray(query_tokens, dtype=np.float64)
    work = prefix_work(deployment, attention, queries=queries, prefix=prefix)
    joining = combination_work(deployment, attention, queries)
    if deployment.fidelity == "datasheet":
        return (
            Operation("prefix", kernels.roofline(d, work, dtype), work),
            Operation("combine", kernels.roofline(d, joining, dtype), joining),
        )
    timing = kernels.split_attention(
        d,
        work,
        requests=1.0,
        query_tokens=np.maximum(queries, 1.0),
        context=prefix,
        heads=attention.heads / n,
        kv_heads=max(1.0, attention.kv_heads / n),
        dtype=dtype,
        head_dim=attention.head_dim,
    )
    c = d.constants
    moved = joining.bytes / (d.bandwidth_bytes_per_s * c.elementwise.bandwidth_efficiency)
    launch = np.asarray(c.elementwise.kernel_s)
    combine = Timing(launch + moved, np.zeros(()), moved, launch)
    return Operation("prefix", timing, work), Operation("combine", combine, joining)


def shared_prefix_cost(
    deployment: Deployment,
    *,
    batch: Number,
    query_tokens: Number,
    prefix: Number,
    unique: Number,
    logits: Logits = "all",
) -> PassCost:
    """Cost of a pass of requests that share one prefix, over `unique` cached tokens of their own.

    Args:
        deployment: model, device and how they run.
        batch: requests, >= 1.
        query_tokens: new tokens per request, > 0.
        prefix: cached tokens of the prefix, >= 0.
        unique: cached tokens of each request after it, >= 0.
        logits: rows that reach the output head.

    Raises:
        InputError: latent attention or windows, or an argument out of range.

    >>> from costmodel.architectures.library import load_model
    >>> from costmodel.passes.precision import Precision
    >>> from hardware_profiles.loader import load_device
    >>> d = Deployment(architecture=load_model("llama-2-7b"), device=load_device("a100-sxm-40"), precision=Precision())
    >>> separate = calibrated_pass(d, batch=64, query_tokens=1, context=16_384 + 64)
    >>> shared = shared_prefix_cost(d, batch=64, query_tokens=1, prefix=16_384, unique=64)
    >>> bool(separate.total_s > 10 * shared.total_s)
    True
    """
    if not np.all(np.asarray(batch) >= 1.0) or np.any(np.asarray(prefix) < 0):
        raise InputError("needs at least one request and a length >= 0", key="prefix", value=prefix)
    own = calibrated_pass(
        deployment, batch=batch, query_tokens=query_tokens, context=unique, logits=logits
    )
    added: list[Operation] = []
    for block, count in deployment.architecture.blocks:
        if block.attention.heads:
            pair = shared_attention(
                deployment, block.attention, batch=batch, query_tokens=query_tokens, prefix=prefix
            )
            added += [operation._replace(calls=count) for operation in pair]
    return _with(own, added)


def _with(cost: PassCost, added: list[Operation]) -> PassCost:
    seconds = dict(cost.seconds)
    totals: list[Array] = [cost.flops, cost.bytes, cost.compute_s, cost.memory_s, cost.launch_s]
    for op in added:
        seconds[op.name] = seconds.get(op.name, np.zeros(())) + op.calls * op.timing.seconds
        parts = (
            op.work.flops,
            op.work.bytes,
            op.timing.compute_s,
            op.timing.memory_s,
            op.timing.launch_s,
        )
        totals = [total + op.calls * part for total, part in zip(totals, parts, strict=True)]
    flops, moved, compute, memory, launch = totals
    return replace(
        cost,
        seconds=seconds,
        flops=flops,
        bytes=moved,
        compute_s=compute,
        memory_s=memory,
        launch_s=launch,
        operations=Operations(cost.operations, added),
    )
