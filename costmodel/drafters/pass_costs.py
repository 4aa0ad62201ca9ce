"""What does a draft cost: every pass of every stage, under its own transforms, context and sharing
of devices?

Nested stages repeat an inner step: the inner stage drafts a few tokens, the outer one verifies them
in one pass. Leaves out the target's verify pass and the engine (`costmodel.answers.steps.step`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from costmodel.architectures.attention import Projection
from costmodel.drafters.drafter import Drafter
from costmodel.drafters.formats import draft_precision
from costmodel.drafters.passes import DraftPass, chain_passes, tree_passes
from costmodel.drafters.stage import DIVIDED, Stage
from costmodel.passes import kernels, ops
from costmodel.passes.forward import Deployment, Operation, PassCost, pass_cost, with_launches
from costmodel.passes.ops import Array, Number
from costmodel.passes.totals import Operations, Tally
from costmodel.passes.transform import apply, without_transforms
from hardware_profiles.errors import InputError

WeightedPass = tuple[Array | float, PassCost]  # how often a pass runs in a step, and its cost


def chain_draft(
    d: Deployment, drafter: Drafter, *, batch: Number, context: Number, draft_tokens: Array
) -> list[WeightedPass]:
    """Draft passes of a step that drafts a chain of K tokens per request.

    Args:
        d: target, device and how they run.
        drafter: who drafts.
        batch: requests.
        context: cached tokens per request.
        draft_tokens: K >= 0; broadcasts with batch and context.
    """
    return _stage_chain(d, drafter, 0, batch=batch, context=context, draft_tokens=draft_tokens)


def idle_draft(
    d: Deployment, drafter: Drafter, *, batch: Number, context: Number
) -> list[WeightedPass]:
    """Passes that keep the caches of a drafter in step where nothing is drafted: one over the token
    of every request, of each stage with a cache of its own.

    Args:
        d: target, device and how they run.
        drafter: who would draft.
        batch: requests.
        context: cached tokens per request.
    """
    return [
        (
            1.0,
            draft_pass(
                d, drafter, stage, batch=batch, query_tokens=1.0, context=context, verified=1.0
            ),
        )
        for stage in drafter.stages
        if stage.kv_values_per_token and not drafter.method.batch.own_device
    ]


def _stage_chain(
    d: Deployment,
    drafter: Drafter,
    level: int,
    *,
    batch: Number,
    context: Number,
    draft_tokens: Array,
) -> list[WeightedPass]:
    if level >= len(drafter.stages):
        return []
    stage = drafter.stages[level]
    if level + 1 == len(drafter.stages):
        passes = chain_passes(stage.draft, draft_tokens)
        if stage.follows_target and passes:
            passes.append(
                DraftPass(np.asarray(draft_tokens > 0, dtype=np.float64), draft_tokens + 1.0)
            )
        return _costs(d, drafter, stage, passes, batch=batch, context=context)
    inner = drafter.stages[level + 1].draft
    steps = draft_tokens / emitted_by(inner.acceptance, inner.tokens)
    own = DraftPass(steps, inner.tokens + 1.0, 1.0)
    inner_passes = _stage_chain(
        d,
        drafter,
        level + 1,
        batch=batch,
        context=context,
        draft_tokens=np.asarray(float(inner.tokens)),
    )
    return [
        *_costs(d, drafter, stage, [own], batch=batch, context=context),
        *((steps * w, cost) for w, cost in inner_passes),
    ]


def emitted_by(acceptance: float, tokens: int) -> float:
    """Tokens that an inner step emits: 1 + a + ... + a^K.

    Args:
        acceptance: a of a draft token, in [0, 1].
        tokens: draft tokens K, >= 0.
    """
    return sum(acceptance**depth for depth in range(tokens + 1))


def tree_draft(
    d: Deployment,
    drafter: Drafter,
    widths: Sequence[float],
    *,
    batch: Number,
    context: Number,
    reread_tokens: float,
) -> list[WeightedPass]:
    """Draft passes of a step that drafts a tree.

    Args:
        d: target, device and how they run.
        drafter: who drafts.
        widths: nodes with children at each level, the root's first; may be means.
        batch: requests.
        context: cached tokens per request.
        reread_tokens: tokens of the last verify pass that a drafter which rereads takes besides.

    Raises:
        InputError: nested stages, which draft chains alone.
    """
    if (stage := tree_stage(drafter)) is None:
        return []
    passes = tree_passes(stage.draft, widths, reread_tokens=reread_tokens)
    return _costs(d, drafter, stage, passes, batch=batch, context=context)


def tree_stage(drafter: Drafter) -> Stage | None:
    """The stage that drafts trees; None of a drafter that runs nothing.

    Args:
        drafter: who drafts.

    Raises:
        InputError: nested stages, which draft chains alone.
    """
    if len(drafter.stages) > 1:
        raise InputError(
            "nested stages draft chains, not trees", key="tree", value=drafter.method.slug
        )
    return drafter.stages[0] if drafter.stages else None


def prompt_draft_s(
    d: Deployment, drafter: Drafter, *, batch: Number, prompt_tokens: Number
) -> Array:
    """Seconds in which the stages that keep a cache of their own read prompts.

    Args:
        d: the target and its device.
        drafter: whose stages read.
        batch: requests b.
        prompt_tokens: per request.

    Returns:
        Seconds, as the arguments broadcast; 0 for a drafter on a device of its own.
    """
    seconds = np.zeros(np.broadcast_shapes(np.shape(batch), np.shape(prompt_tokens)))
    if drafter.method.batch.own_device:
        return seconds
    for stage in drafter.stages:
        if stage.kv_values_per_token:
            rows = np.maximum(np.asarray(prompt_tokens) * stage.draft.context_ratio, 1.0)
            read = draft_pass(
                d, drafter, stage, batch=batch, query_tokens=rows, context=0.0, prompt=True
            )
            seconds = seconds + read.total_s
    return seconds


def _costs(
    d: Deployment,
    drafter: Drafter,
    stage: Stage,
    passes: Iterable[DraftPass],
    *,
    batch: Number,
    context: Number,
) -> list[WeightedPass]:
    return [
        (
            draft_run.often,
            draft_pass(
                d,
                drafter,
                stage,
                batch=batch,
                query_tokens=draft_run.rows,
                context=context,
                verified=draft_run.verified,
                sets=draft_run.sets,
            ),
        )
        for draft_run in passes
    ]


def draft_pass(
    d: Deployment,
    drafter: Drafter,
    stage: Stage,
    *,
    batch: Number,
    query_tokens: Number,
    context: Number,
    verified: Number = 0.0,
    sets: float = 1.0,
    prompt: bool = False,
) -> PassCost:
    """One pass of a stage over `query_tokens` tokens per request.

    The draft runs in number formats of its own (`drafters.formats`), on the same devices where its
    heads divide among them. A stage by the target itself runs on the target's weights and cache as
    they are stored; another network only under the transforms that reach it. A part of the cache
    that drafts are confined to lies on the device. Of tokens that are read because the target has
    verified them, and of a prompt, only the last is asked for what comes next.

    Args:
        d: target, device and how they run.
        drafter: who drafts.
        stage: the stage that runs.
        batch: requests.
        query_tokens: tokens per request.
        context: cached tokens per request.
        verified: tokens among them whose features the target computed in its last pass; 0: none,
            the drafter reads what it made itself. Of a prompt it is all of them.
        sets: how often the stage's further matrices apply.
        prompt: the tokens are a prompt, which a draft model with an encoder reads there.
    """
    draft, tokens = stage.draft, np.asarray(query_tokens, dtype=np.float64)
    known = tokens if prompt else np.asarray(verified, dtype=np.float64)
    requests = np.asarray(batch, dtype=np.float64) * max(drafter.method.batch.branches, 1)
    read = np.asarray(context, dtype=np.float64) * draft.context_ratio
    if draft.context_tokens is not None:
        read = np.minimum(read, float(draft.context_tokens))
    if draft.by == "target":
        own = replace(d, schedule=None)
    else:
        plain = without_transforms(d)
        formats = draft_precision(plain, drafter, stage)
        own = apply(replace(plain, precision=formats), drafter.transforms)
    own = apply(own, draft.transforms)
    if stage.architecture is None:
        zero = np.zeros(())
        cost = PassCost(
            seconds={}, flops=zero, bytes=zero, compute_s=zero, memory_s=zero, launch_s=zero
        )
    else:
        alone = drafter.method.batch.own_device
        own = replace(
            own,
            architecture=stage.architecture,
            tensor_parallel=1 if alone else stage.devices(d.tensor_parallel),
            host_weights_ratio=d.host_weights_ratio if draft.by == "target" else 0.0,
            adapters=d.adapters if draft.by == "target" else None,
            host_cache_ratio=d.host_cache_ratio
            if draft.by == "target" and draft.context_tokens is None
            else 0.0,
        )
        encodes = prompt and stage.architecture.encoder is not None
        cost = pass_cost(
            own,
            batch=requests,
            query_tokens=tokens,
            context=read,
            logits=tokens - np.maximum(known - 1.0, 0.0),
            prefill=encodes,
        )
    cost = _with_projections(own, stage.projections, cost, requests * tokens, sets)
    if np.any(known > 0):
        cost = _with_projections(own, stage.features, cost, requests * known, 1.0)
    return with_launches(own, cost, layers=0.0) if stage.architecture is None else cost


def _with_projections(
    d: Deployment, projections: tuple[Projection, ...], cost: PassCost, rows: Array, sets: float
) -> PassCost:
    if not projections:
        return cost
    tally = Tally()
    for role, whole, inputs in projections:
        p = d.precision.of("head") if role == "head" else d.precision
        outputs = whole / d.tensor_parallel if role in DIVIDED else float(whole)
        work = ops.gemm(
            rows, outputs, inputs, weight_bytes=p.weight_bytes, activation_bytes=p.activation_bytes
        )
        if d.fidelity != "datasheet":
            timing = kernels.gemm(d.device, work, rows, p.activations)
        else:
            timing = kernels.roofline(d.device, work, p.activations)
        sizes: dict[str, Number] = {"rows": rows, "outputs": outputs, "inputs": inputs}
        tally.add(Operation("gemm", timing, work, role, calls=sets, sizes=sizes))
    extra = tally.cost()
    return PassCost(
        seconds={
            **cost.seconds,
            "gemm": cost.seconds.get("gemm", np.zeros(())) + extra.seconds["gemm"],
        },
        flops=cost.flops + extra.flops,
        bytes=cost.bytes + extra.bytes,
        compute_s=cost.compute_s + extra.compute_s,
        memory_s=cost.memory_s + extra.memory_s,
        launch_s=cost.launch_s + extra.launch_s,
        operations=Operations(cost.operations, extra.operations),
    )
