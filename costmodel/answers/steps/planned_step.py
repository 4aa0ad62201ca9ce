"""How fast does a configuration decode when its target is spread by a plan?

Target passes under the plan, drafting within each data copy's tensor group, and the engine's
overhead; batches in flight fill the pipeline. Leaves out drafters that are themselves cut into
stages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.answers.steps.setting import Setting, group_step_cost
from costmodel.answers.steps.step import StepCost, chain_step
from costmodel.drafters.formats import drafter_bytes, drafter_kv_bytes_per_token
from costmodel.laws.acceptance import Acceptance, geometric
from costmodel.parallel.passes import plan_cost
from costmodel.parallel.pipeline import PipelineTime, round_time
from costmodel.parallel.plan import ParallelPlan, kv_bytes, weight_bytes
from costmodel.passes.forward import Logits, pass_cost
from costmodel.passes.memory import Footprint, activation_bytes
from costmodel.passes.ops import Array, Number


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PlannedStep:
    """A configuration under a plan; arrays have the broadcast shape of batch and context.

    Args:
        step_s: seconds in which every batch in flight makes one step.
        tokens_per_s: of the whole plan.
        tokens_per_s_per_device: the same over the plan's devices.
        speedup: against plain decoding under the same plan.
        verify: seconds of one batch's target pass by operation, communication included.
        draft_s: seconds of one batch's draft passes.
        overhead_s: the engine's share.
        footprint: what the fullest device holds.
    """

    step_s: Array
    tokens_per_s: Array
    tokens_per_s_per_device: Array
    speedup: Array
    verify: Mapping[str, Array]
    draft_s: Array
    overhead_s: Array
    footprint: Footprint


def planned_step_cost(
    setting: Setting,
    acceptance: Acceptance,
    plan: ParallelPlan,
    *,
    batch: Number,
    context: Number,
) -> StepCost:
    """The step of a configuration under a plan, in the form of one tensor group's.

    The target's operations are the plan's, communication included, stretched by what a filled
    pipeline waits; what bounds the step (`limit`) and how far its operations err are those of one
    tensor group.

    Args:
        setting: as in `planned_step`, like the rest.
        acceptance: what the configuration emits per step.
        plan: how the target is spread.
        batch: requests in flight in the whole plan, > 0.
        context: cached tokens per request.

    Raises:
        InputError: as in `planned_step`.
    """
    own = _tensor_group(setting, plan)
    alone = group_step_cost(own, acceptance, batch=_of_a_copy(batch, plan), context=context)
    return _stretched(own, alone, _query_tokens(acceptance), plan, batch, context)


def planned_chain_seconds(
    setting: Setting,
    chains: Sequence[Acceptance],
    plan: ParallelPlan,
    *,
    batch: Number,
    context: Number,
) -> Array:
    """Seconds of the steps of chains that differ in nothing but their lengths, as
    `planned_step_cost` has them.

    Args:
        setting: as in `planned_step`, like the rest.
        chains: of the same proposal ratio, each of at least one draft token.
        plan: how the target is spread.
        batch: requests in flight in the whole plan, > 0.
        context: cached tokens per request.

    Returns:
        Shape [chains, *points].
    """
    own = _tensor_group(setting, plan)
    points = (1,) * len(np.broadcast_shapes(np.shape(batch), np.shape(context)))
    lengths, tokens, emitted = np.array(
        [[chain.proposed_tokens, _query_tokens(chain), chain.tokens_per_step] for chain in chains]
    ).T.reshape(3, -1, *points)
    mine = _of_a_copy(batch, plan)
    alone = chain_step(
        own.deployment,
        own.drafter,
        own.overhead,
        batch=mine,
        context=context,
        draft_tokens=lengths,
        proposal_ratio=chains[0].proposal_ratio,
    )
    kept_s = own.overhead.accepted_s * mine * (emitted - 1.0)
    alone = replace(alone, overhead_s=alone.overhead_s + kept_s)
    return _stretched(own, alone, tokens, plan, batch, context).total_s


def _stretched(
    setting: Setting,
    alone: StepCost,
    tokens: Number,
    plan: ParallelPlan,
    batch: Number,
    context: Number,
) -> StepCost:
    """A tensor group's own step with the target's operations under the plan, and what a filled
    pipeline waits.
    """
    verify, latency_s, step_s = _round(setting, alone, tokens, plan, batch, context)
    stretch = step_s / latency_s
    return replace(
        alone,
        draft={name: np.asarray(seconds * stretch) for name, seconds in alone.draft.items()},
        verify={name: np.asarray(seconds * stretch) for name, seconds in verify.items()},
        overhead_s=np.asarray(alone.overhead_s * stretch),
        hidden_s=np.asarray(alone.hidden_s * stretch),
    )


def planned_pass_seconds(
    setting: Setting,
    plan: ParallelPlan,
    *,
    batch: Number,
    query_tokens: Number,
    context: Number = 0.0,
    logits: Logits,
    prefill: bool,
) -> Mapping[str, Array]:
    """Seconds by operation of a pass under a plan.

    Args:
        setting: target and device.
        plan: how the target is spread.
        batch: requests of every data copy.
        query_tokens: new tokens per request.
        context: cached tokens per request.
        logits: rows that reach the output head.
        prefill: use the prompt-processing form of attention.
    """
    requests = np.asarray(batch, dtype=np.float64) * plan.data
    return plan_cost(
        setting.deployment,
        plan,
        batch=requests,
        query_tokens=query_tokens,
        context=context,
        logits=logits,
        prefill=prefill,
    ).seconds


def planned_step(
    setting: Setting,
    acceptance: Acceptance,
    plan: ParallelPlan,
    *,
    batch: Number,
    context: Number,
) -> PlannedStep:
    """Step time, throughput and memory of one configuration under a plan.

    A plan of ones answers what `estimate.estimate` does. Requests are dealt out to the batches in
    flight, and those of a batch to the data copies; a batch that is out of the pipeline is drafted
    for before it enters again.

    Args:
        setting: target, device, drafter and engine; its tensor-parallel degree is replaced by the
            plan's.
        acceptance: what the configuration emits per step.
        plan: how the target is spread.
        batch: requests in flight in the whole plan, > 0.
        context: cached tokens per request.

    Raises:
        InputError: a plan that does not divide the model.
    """
    own, mine, plain = _tensor_group(setting, plan), _of_a_copy(batch, plan), geometric(0.0, 0)
    alone, alone_plain = (
        group_step_cost(own, configuration, batch=mine, context=context)
        for configuration in (acceptance, plain)
    )
    verify, _, step_s = _round(own, alone, _query_tokens(acceptance), plan, batch, context)
    _, _, plain_s = _round(own, alone_plain, _query_tokens(plain), plan, batch, context)
    rate = np.asarray(batch, dtype=np.float64) * acceptance.tokens_per_step / step_s
    return PlannedStep(
        step_s=step_s,
        tokens_per_s=rate,
        tokens_per_s_per_device=np.asarray(rate / plan.devices),
        speedup=np.asarray(acceptance.tokens_per_step * plain_s / step_s),
        verify=verify,
        draft_s=alone.draft_s,
        overhead_s=alone.overhead_s,
        footprint=planned_footprint(own, acceptance, plan, batch=batch, context=context),
    )


def _tensor_group(setting: Setting, plan: ParallelPlan) -> Setting:
    return replace(setting, deployment=replace(setting.deployment, tensor_parallel=plan.tensor))


def _of_a_copy(batch: Number, plan: ParallelPlan) -> Array:
    """Requests of one of the batches in flight on the fullest data copy."""
    one = np.asarray(batch, dtype=np.float64) / plan.pipeline
    return one if plan.data == 1 else np.ceil(one / plan.data)


def _round(
    setting: Setting,
    alone: StepCost,
    tokens: Number,
    plan: ParallelPlan,
    batch: Number,
    context: Number,
) -> tuple[Mapping[str, Array], Array, Array]:
    """The target's operations under the plan, and seconds: of a batch, of all in flight."""
    one = np.asarray(batch, dtype=np.float64) / plan.pipeline
    planned = plan_cost(setting.deployment, plan, batch=one, query_tokens=tokens, context=context)
    # Requests that propose at random cost more than their mean length: by as much as on one tensor
    # group.
    mine = _of_a_copy(batch, plan)
    mean_s = pass_cost(setting.deployment, batch=mine, query_tokens=tokens, context=context).total_s
    spread = alone.verify_s / mean_s
    latency = (
        planned.pipeline.latency_s * spread + alone.draft_s - alone.hidden_s + alone.overhead_s
    )
    interval = latency if plan.pipeline == 1 else planned.pipeline.interval_s * spread
    verify = {name: np.asarray(seconds * spread) for name, seconds in planned.seconds.items()}
    return verify, latency, round_time(PipelineTime(latency, interval), plan.pipeline)


def _query_tokens(acceptance: Acceptance) -> float:
    if acceptance.tree is not None:
        return float(acceptance.tree.nodes)
    if not acceptance.draft_tokens:
        return 1.0
    return 1.0 + acceptance.proposed_tokens * acceptance.proposal_ratio


def planned_footprint(
    setting: Setting,
    acceptance: Acceptance,
    plan: ParallelPlan,
    *,
    batch: Number,
    context: Number,
    block_tokens: int | None = None,
) -> Footprint:
    """Bytes on the fullest device: weights, cache with the draft's slots, drafter and activations.

    Args:
        setting: target, device, drafter and engine.
        acceptance: the configuration.
        plan: how the target is spread; the drafter is held by every tensor group.
        batch: requests of the whole plan.
        context: tokens per request at the longest.
        block_tokens: of a block of the cache; None: the engine's.
    """
    model, form, drafter = setting.target, setting.deployment.precision, setting.drafter
    block = block_tokens or setting.engine.memory.block_tokens
    mine = np.ceil(np.asarray(batch, dtype=np.float64) / plan.data)
    held = np.asarray(context, dtype=np.float64) + 1.0 + acceptance.draft_tokens
    weights, cache = (
        weight_bytes(model, form, plan),
        kv_bytes(model, form, plan, batch=batch, context=held, page_tokens=block),
    )
    if setting.holds_drafter(acceptance):
        weights += drafter_bytes(setting.deployment, drafter, plan.tensor)
        cache = cache + mine * held * drafter_kv_bytes_per_token(
            setting.deployment, drafter, plan.tensor
        )
    rows = mine * (1.0 + acceptance.draft_tokens) / plan.pipeline
    working = activation_bytes(model, form, tokens=rows) / plan.tensor
    return Footprint(
        weights_bytes=weights, cache_bytes=np.asarray(cache), pass_bytes=np.asarray(working)
    )
