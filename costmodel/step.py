"""What does a decoding step cost: draft passes, one verify pass, the engine's overhead?

Chains of K tokens and static trees, for every drafter kind; a step in which the drafter proposes nothing costs
a plain pass. Leaves out how many tokens the step emits (see `traces.replay`) and overlapped schedules.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from costmodel import kernels, ops
from costmodel.drafter import Drafter
from costmodel.forward import Deployment, Operation, PassCost, pass_cost
from costmodel.ops import Array, Mask, Number
from costmodel.overheads import Overhead
from traces.tree import Tree

WeightedPass = tuple[Array | float, PassCost]  # how often a pass runs in a step, and its cost


@dataclass(frozen=True, kw_only=True, slots=True)
class StepCost:
    """Seconds of a step; arrays broadcast over batch, context and draft tokens.

    Args:
        draft: seconds of the draft passes by operation.
        verify: seconds of the target's pass by operation.
        overhead_s: the engine's share.
        compute_s: of all passes, arithmetic alone.
        memory_s: of all passes, traffic alone.
        launch_s: launches of all passes, and the overhead.
        draft_passes: the draft passes that the sums are made of, with how often each runs.
        verify_passes: the target's passes, weighted likewise.
    """

    draft: Mapping[str, Array]
    verify: Mapping[str, Array]
    overhead_s: Array
    compute_s: Array
    memory_s: Array
    launch_s: Array
    draft_passes: tuple[WeightedPass, ...] = ()
    verify_passes: tuple[WeightedPass, ...] = ()

    @property
    def draft_s(self) -> Array:
        """Seconds of the draft passes."""
        return np.asarray(sum(self.draft.values(), start=np.zeros(())))

    @property
    def verify_s(self) -> Array:
        """Seconds of the target's pass."""
        return np.asarray(sum(self.verify.values(), start=np.zeros(())))

    @property
    def total_s(self) -> Array:
        """Seconds of the step."""
        return self.draft_s + self.verify_s + self.overhead_s

    @property
    def limit(self) -> Array:
        """What bounds the step: `bandwidth`, `compute` or `launch`."""
        parts = np.stack(np.broadcast_arrays(self.memory_s, self.compute_s, self.launch_s))
        return np.asarray(np.array(["bandwidth", "compute", "launch"])[np.argmax(parts, axis=0)])


def chain_step(
    deployment: Deployment,
    drafter: Drafter,
    overhead: Overhead,
    *,
    batch: Number,
    context: Number,
    draft_tokens: Number,
    proposal_ratio: Number = 1.0,
) -> StepCost:
    """A step that drafts a chain of K tokens per request and verifies K + 1.

    Args:
        deployment: target, device and how they run.
        drafter: who drafts.
        overhead: the engine's share.
        batch: requests b.
        context: cached tokens per request.
        draft_tokens: K >= 0; 0 is plain decoding. May be a mean where proposals vary in length.
        proposal_ratio: share of (request, step) pairs in which the drafter proposes at all; the others take one
            token. Requests propose independently of each other.

    Returns:
        The expected cost: the verify pass is averaged over two batch compositions that match mean, variance and
        skew of the number of proposing requests (exact for one request).
    """
    k = np.asarray(draft_tokens, dtype=np.float64)
    verify: list[WeightedPass] = [
        (weight, pass_cost(deployment, batch=batch, query_tokens=1.0 + k * share, context=context))
        for weight, share in _compositions(np.asarray(batch, dtype=np.float64), proposal_ratio)
    ]
    draft = _draft_passes(deployment, drafter, batch=batch, context=context, draft_tokens=k)
    tokens = np.asarray(np.asarray(batch, dtype=np.float64) * (1.0 + k * np.asarray(proposal_ratio)))
    return _total(draft, verify, overhead, speculates=k > 0, tokens=tokens)


def tree_step(
    deployment: Deployment,
    drafter: Drafter,
    overhead: Overhead,
    tree: Tree,
    *,
    batch: Number,
    context: Number,
) -> StepCost:
    """A step that drafts a static tree level by level and verifies all of it at once.

    A drafter that runs a pass per level expands every node with children of the level before; the root counts
    among the verified tokens.

    Args:
        deployment: target, device and how they run.
        drafter: who drafts.
        overhead: the engine's share.
        tree: the static tree.
        batch: requests.
        context: cached tokens per request.
    """
    verify: list[WeightedPass] = [
        (1.0, pass_cost(deployment, batch=batch, query_tokens=float(tree.nodes), context=context))
    ]
    draft: list[WeightedPass] = []
    widths = expansion_widths(tree)
    if drafter.passes == "once" and widths:
        draft = [(1.0, draft_pass(deployment, drafter, batch=batch, query_tokens=1.0, context=context))]
    elif drafter.passes == "per_token":
        for level, width in enumerate(widths):
            rows = float(tree.depth) if level == 0 and drafter.rereads else float(width)
            draft.append((1.0, draft_pass(deployment, drafter, batch=batch, query_tokens=rows, context=context)))
    tokens = np.asarray(np.asarray(batch, dtype=np.float64) * tree.nodes)
    return _total(draft, verify, overhead, speculates=np.asarray(tree.nodes > 1), tokens=tokens)


def expansion_widths(tree: Tree) -> list[int]:
    """Nodes with children at each level, root first: the query tokens of each draft pass."""
    depth = [0] * tree.nodes
    for node, parent in enumerate(tree.parents):
        if parent >= 0:
            depth[node] = depth[parent] + 1
    parents = {parent for parent in tree.parents if parent >= 0}
    widths = [0] * max((depth[p] + 1 for p in parents), default=0)
    for parent in parents:
        widths[depth[parent]] += 1
    return widths


def draft_pass(
    deployment: Deployment, drafter: Drafter, *, batch: Number, query_tokens: Number, context: Number
) -> PassCost:
    """One pass of a drafter over `query_tokens` tokens per request.

    The draft runs with the target's precision and all of its own layers, on the same devices where its heads divide
    among them.
    """
    tokens = np.asarray(query_tokens, dtype=np.float64)
    if drafter.architecture is None:
        cost = _empty()
    else:
        heads = drafter.architecture.blocks[0][0].attention.heads
        parallel = deployment.tensor_parallel if heads % deployment.tensor_parallel == 0 else 1
        own = replace(deployment, architecture=drafter.architecture, tensor_parallel=parallel, schedule=None)
        cost = pass_cost(own, batch=batch, query_tokens=tokens, context=context, logits="all")
    return _with_projections(deployment, drafter, cost, np.asarray(batch) * tokens)


def _draft_passes(
    d: Deployment, drafter: Drafter, *, batch: Number, context: Number, draft_tokens: Array
) -> list[WeightedPass]:
    if drafter.passes == "none" or not np.any(draft_tokens > 0):
        return []
    speculates = (draft_tokens > 0).astype(np.float64)
    single = draft_pass(d, drafter, batch=batch, query_tokens=1.0, context=context)
    if drafter.passes == "once":
        return [(speculates, single)]
    first = single
    if drafter.rereads:
        first = draft_pass(d, drafter, batch=batch, query_tokens=1.0 + draft_tokens, context=context)
    return [(speculates, first), (np.maximum(draft_tokens - 1.0, 0.0), single)]


def _with_projections(d: Deployment, drafter: Drafter, cost: PassCost, rows: Array) -> PassCost:
    p, seconds = d.precision, dict(cost.seconds)
    operations = list(cost.operations)
    flops, moved, compute, memory, launch = (
        cost.flops,
        cost.bytes,
        cost.compute_s,
        cost.memory_s,
        cost.launch_s,
    )
    for role, outputs, inputs in drafter.projections:
        work = ops.gemm(rows, outputs, inputs, weight_bytes=p.weight_bytes, activation_bytes=p.activation_bytes)
        if d.fidelity != "datasheet":
            timing = kernels.gemm(d.device, work, rows, p.activations)
        else:
            timing = kernels.roofline(d.device, work, p.activations)
        sizes: dict[str, Number] = {"rows": rows, "outputs": outputs, "inputs": inputs}
        operations.append(Operation("gemm", timing, work, role, sizes=sizes))
        seconds["gemm"] = seconds.get("gemm", np.zeros(())) + timing.seconds
        flops, moved = flops + work.flops, moved + work.bytes
        compute, memory, launch = (
            compute + timing.compute_s,
            memory + timing.memory_s,
            launch + timing.launch_s,
        )
    return PassCost(
        seconds=seconds, flops=flops, bytes=moved, compute_s=compute, memory_s=memory, launch_s=launch,
        operations=tuple(operations),
    )  # fmt: skip


def _empty() -> PassCost:
    zero = np.zeros(())
    return PassCost(seconds={}, flops=zero, bytes=zero, compute_s=zero, memory_s=zero, launch_s=zero)


def _compositions(batch: Array, proposal_ratio: Number) -> list[tuple[Array, Array]]:
    """Two (weight, share of requests that propose) pairs with the moments of Binomial(b, m)/b."""
    m = np.asarray(proposal_ratio, dtype=np.float64)
    if np.all(m >= 1.0):
        return [(np.ones(()), np.ones(()))]
    b = np.maximum(batch, 1.0)
    deviation = np.sqrt(np.maximum(m * (1.0 - m) / b, 1e-30))
    half_skew = (1.0 - 2.0 * m) / (2.0 * b * deviation)
    root = np.sqrt(1.0 + half_skew**2)
    high = np.clip(m + deviation * (half_skew + root), 0.0, 1.0)
    low = np.clip(m + deviation * (half_skew - root), 0.0, 1.0)
    weight = (1.0 - half_skew / root) / 2.0
    return [(weight, high), (1.0 - weight, low)]


def _total(
    draft: list[WeightedPass],
    verify: list[WeightedPass],
    overhead: Overhead,
    *,
    speculates: Mask,
    tokens: Array,
) -> StepCost:
    passes = [*draft, *verify]
    zero = np.zeros(())
    verify_seconds = _weighted(verify)
    draws_on_drafter = np.where(speculates, overhead.draft_s, 0.0)
    lookup = np.where(speculates, overhead.verify_ratio, 0.0) * sum(verify_seconds.values(), start=zero)
    extra = overhead.step_s + overhead.token_s * tokens + draws_on_drafter + lookup
    return StepCost(
        draft=_weighted(draft),
        verify=verify_seconds,
        overhead_s=np.asarray(extra),
        compute_s=np.asarray(sum((w * c.compute_s for w, c in passes), start=zero)),
        memory_s=np.asarray(sum((w * c.memory_s for w, c in passes), start=zero)),
        launch_s=np.asarray(sum((w * c.launch_s for w, c in passes), start=zero) + extra),
        draft_passes=tuple(draft),
        verify_passes=tuple(verify),
    )


def _weighted(passes: list[WeightedPass]) -> dict[str, Array]:
    seconds: dict[str, Array] = {}
    for weight, cost in passes:
        for name, value in cost.seconds.items():
            seconds[name] = seconds.get(name, np.zeros(())) + weight * value
    return seconds
