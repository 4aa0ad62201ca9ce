"""What does a decoding step cost: draft passes, verify passes, the engine's overhead?

Chains of K tokens and static trees, for every drafter; a step in which the drafter proposes nothing
costs a plain pass. The method's shape, verifier and batching say what the verify pass computes and
what runs at the same time. Leaves out how many tokens the step emits (`costmodel.laws`) and what
the draft passes are (`costmodel.drafters`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from costmodel.drafters.drafter import Drafter
from costmodel.drafters.pass_costs import WeightedPass, chain_draft, idle_draft, tree_draft
from costmodel.drafters.stage import layer_count
from costmodel.engines.record.idle_drafter import IdleDrafter
from costmodel.engines.record.overhead import Overhead
from costmodel.laws.batching import OUTCOME_PASSES, concurrent_drafts, hidden_s
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.ops import Array, Mask, Number
from traces.kinds.tree import Tree


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
        hidden_s: seconds of draft and verify passes that run at the same time, counted once.
        draft_passes: the draft passes that the sums are made of, with how often each runs.
        verify_passes: the target's passes, with how often each runs.
    """

    draft: Mapping[str, Array]
    verify: Mapping[str, Array]
    overhead_s: Array
    compute_s: Array
    memory_s: Array
    launch_s: Array
    hidden_s: Array | float = 0.0
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
        return np.asarray(self.draft_s + self.verify_s - self.hidden_s + self.overhead_s)

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
    drafted_tokens: Number | None = None,
    foreseen_ratio: float = 1.0,
) -> StepCost:
    """A step that drafts a chain of K tokens per request and verifies K + 1.

    Args:
        deployment: target, device and how they run.
        drafter: who drafts.
        overhead: the engine's share.
        batch: requests b.
        context: cached tokens per request.
        draft_tokens: K >= 0; 0 is plain decoding. May be a mean where proposals vary in length.
        proposal_ratio: share of (request, step) pairs in which the drafter proposes at all; the
            others take one token. Requests propose independently of each other.
        drafted_tokens: tokens that are drafted where that is not what is verified; None: K.
        foreseen_ratio: share of (request, step) pairs whose draft was made ahead; where steps wait
            for a draft, the others' comes before the verify pass.

    Returns:
        The expected cost: the verify pass is averaged over two batch compositions that match mean,
            variance and
        skew of the number of proposing requests (exact for one request).
    """
    k = np.asarray(draft_tokens, dtype=np.float64)
    drafted = k if drafted_tokens is None else np.asarray(drafted_tokens, dtype=np.float64)
    verified = verified_tokens(drafter, k)
    speculates = drafted > 0
    verify: list[WeightedPass] = [
        (weight * share, cost)
        for weight, proposing in _compositions(np.asarray(batch, dtype=np.float64), proposal_ratio)
        for share, cost in verify_passes(
            deployment,
            drafter,
            batch=batch,
            draft_tokens=verified * proposing,
            context=context,
            speculates=speculates,
        )
    ]
    shared, requests = drafter.method.batch, np.asarray(batch, dtype=np.float64)
    draft, late = [], list[WeightedPass]()
    if shared.fan_out:  # drafts of a request's outcomes read its cache once
        count = concurrent_drafts(shared, k)
        reading = np.where(speculates, drafted + OUTCOME_PASSES, 0.0)
        draft = chain_draft(
            deployment,
            drafter,
            batch=requests * count,
            context=np.asarray(context) / count,
            draft_tokens=reading,
        )
    else:
        draft = chain_draft(deployment, drafter, batch=batch, context=context, draft_tokens=drafted)
    if shared.on_miss == "wait" and foreseen_ratio < 1.0:
        waits = 1.0 - foreseen_ratio**requests  # a step waits if any of its requests does
        missing = requests * (1.0 - foreseen_ratio) / waits
        late = [
            (waits * often, cost)
            for often, cost in chain_draft(
                deployment, drafter, batch=missing, context=context, draft_tokens=drafted
            )
        ]
    return total_cost(
        draft, verify, drafter, overhead, speculates=speculates, requests=batch, late=late
    )


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

    A drafter that runs a pass per level expands every node with children of the level before; the
    root counts among the verified tokens.

    Args:
        deployment: target, device and how they run.
        drafter: who drafts.
        overhead: the engine's share.
        tree: the static tree.
        batch: requests.
        context: cached tokens per request.
    """
    speculates = np.asarray(tree.nodes > 1)
    verify = verify_passes(
        deployment,
        drafter,
        batch=batch,
        draft_tokens=np.asarray(tree.nodes - 1.0),
        context=context,
        speculates=speculates,
    )
    draft = tree_draft(
        deployment,
        drafter,
        expansion_widths(tree),
        batch=batch,
        context=context,
        reread_tokens=tree.depth - 1.0,
    )
    return total_cost(draft, verify, drafter, overhead, speculates=speculates, requests=batch)


def idle_step(
    deployment: Deployment,
    drafter: Drafter,
    overhead: Overhead,
    idle: IdleDrafter,
    *,
    batch: Number,
    context: Number,
) -> StepCost:
    """A plain step beside a drafter that stays loaded.

    Args:
        deployment: target, device and how they run.
        drafter: who would draft.
        overhead: the engine's share of a plain step.
        idle: what the engine does with the drafter.
        batch: requests.
        context: cached tokens per request.
    """
    own = idle_draft(deployment, drafter, batch=batch, context=context) if idle.follows else []
    return total_cost(
        own,
        [(1.0, pass_cost(deployment, batch=batch, query_tokens=1.0, context=context))],
        drafter,
        replace(overhead, step_s=overhead.step_s + idle.step_s),
        speculates=np.zeros((), dtype=np.bool_),
        requests=batch,
    )


def verified_tokens(drafter: Drafter, draft_tokens: Array) -> Array:
    """Draft tokens per request that the batch's budget lets the target verify, of K that were
    drafted.
    """
    b = drafter.method.batch
    if b.slots == "alike" or b.budget_per_request is None:
        return draft_tokens
    return np.minimum(draft_tokens, b.budget_per_request)


def riding_tokens(drafter: Drafter, draft_tokens: Array) -> Array:
    """Query tokens per request that ride on the verify pass of a step that drafts."""
    return np.asarray(np.where(draft_tokens > 0, float(drafter.method.shape.riding), 0.0))


def verify_passes(
    deployment: Deployment,
    drafter: Drafter,
    *,
    batch: Number,
    draft_tokens: Array,
    context: Number,
    speculates: Mask,
) -> list[WeightedPass]:
    """The target's passes of a step, with how often each runs.

    Args:
        deployment: target, device and how they run.
        drafter: who drafts; its method says which rows ride on the pass, which layers are left to
            run, and in how many parts.
        batch: requests.
        draft_tokens: draft tokens per request that are verified, >= 0; may be a mean. Of guesses
            side by side those of one.
        context: cached tokens per request.
        speculates: where anything is drafted at all; elsewhere the step is plain.
    """
    m = drafter.method
    on = np.asarray(speculates, dtype=np.float64)
    parts = m.batch.parts if np.all(on > 0) else 1
    rows = 1.0 + m.shape.guesses * draft_tokens + riding_tokens(drafter, on)
    if m.verify.pruned_after < 1.0 and np.any(on > 0):
        passes = _pruned_passes(
            deployment,
            drafter,
            batch=batch,
            rows=rows,
            draft_tokens=draft_tokens,
            context=context,
            often=on,
        )
    elif drafter.exit_layers is None or not m.verify.remaining_layers:
        return [
            (
                float(parts),
                pass_cost(deployment, batch=batch, query_tokens=rows / parts, context=context),
            )
        ]
    else:
        target = deployment.architecture
        first, rest = (
            replace(deployment, architecture=target.with_layers(layers))
            for layers in (drafter.exit_layers, target.layers - drafter.exit_layers)
        )
        passes = [
            (on * parts, pass_cost(rest, batch=batch, query_tokens=rows / parts, context=context)),
            # of the last draft token, which no draft pass has read
            (on, pass_cost(first, batch=batch, query_tokens=1.0, context=context, logits="none")),
        ]
    if not np.all(on > 0):
        passes.append(
            (1.0 - on, pass_cost(deployment, batch=batch, query_tokens=rows, context=context))
        )
    return passes


def _pruned_passes(
    deployment: Deployment,
    drafter: Drafter,
    *,
    batch: Number,
    rows: Array,
    draft_tokens: Array,
    context: Number,
    often: Array,
) -> list[WeightedPass]:
    """The first layers over all rows, the others over those that are left, as often as anything is
    drafted.
    """
    m, target = drafter.method, deployment.architecture
    early = layer_count(m.verify.pruned_after, target, "verify.pruned_after")
    first, rest = (
        replace(deployment, architecture=target.with_layers(layers))
        for layers in (early, target.layers - early)
    )
    left = rows - draft_tokens * (1.0 - m.verify.pruned_ratio)
    return [
        (often, pass_cost(first, batch=batch, query_tokens=rows, context=context, logits="none")),
        (often, pass_cost(rest, batch=batch, query_tokens=left, context=context)),
    ]


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


def total_cost(
    draft: list[WeightedPass],
    verify: list[WeightedPass],
    drafter: Drafter,
    overhead: Overhead,
    *,
    speculates: Mask,
    requests: Number,
    late: list[WeightedPass] | None = None,
) -> StepCost:
    """The step that draft and verify passes make, with the engine's and the drafter's work on the
    host.

    Args:
        draft: draft passes, with how often each runs.
        verify: the target's passes, with how often each runs.
        drafter: who drafts.
        overhead: the engine's share.
        speculates: where anything is drafted.
        requests: that the step serves.
        late: draft passes that the verify pass waits for, though others run beside it.
    """
    ahead, draft = draft, [*draft, *(late or [])]
    passes = [*draft, *verify]
    zero = np.zeros(())
    draft_seconds, verify_seconds = _weighted(draft), _weighted(verify)
    verify_s = np.asarray(sum(verify_seconds.values(), start=zero))
    own = overhead.draft_s + sum(stage.draft.host_s for stage in drafter.stages)
    lookup = np.where(speculates, overhead.verify_ratio, 0.0) * verify_s
    requests_s = overhead.request_s * np.asarray(requests, dtype=np.float64)
    extra = overhead.step_s + requests_s + np.where(speculates, own, 0.0) + lookup
    ahead_s = np.asarray(sum(_weighted(ahead).values(), start=zero))
    shared = drafter.method.batch
    # what is drafted during verification goes on while the engine does its share
    beside_s = verify_s + extra if shared.drafts_during_verify else verify_s
    return StepCost(
        draft=draft_seconds,
        verify=verify_seconds,
        overhead_s=np.asarray(extra),
        compute_s=np.asarray(sum((w * c.compute_s for w, c in passes), start=zero)),
        memory_s=np.asarray(sum((w * c.memory_s for w, c in passes), start=zero)),
        launch_s=np.asarray(sum((w * c.launch_s for w, c in passes), start=zero) + extra),
        hidden_s=hidden_s(shared, ahead_s, beside_s),
        draft_passes=tuple(draft),
        verify_passes=tuple(verify),
    )


def _weighted(passes: list[WeightedPass]) -> dict[str, Array]:
    seconds: dict[str, Array] = {}
    for weight, cost in passes:
        for name, value in cost.seconds.items():
            seconds[name] = seconds.get(name, np.zeros(())) + weight * value
    return seconds
