"""What is known of a run but its batch, context and draft, and what a step costs on one
tensor-parallel group?

Leaves out groups that a plan spreads further (`planned_step`) and speeds (`estimate`).
"""

from dataclasses import dataclass, replace

import numpy as np

from costmodel.answers.steps.advance_step import AdvanceQuestion, advance_step
from costmodel.answers.steps.dynamic_step import dynamic_step
from costmodel.answers.steps.refine_step import refine_step
from costmodel.answers.steps.step import StepCost, chain_step, idle_step, tree_step
from costmodel.architectures.architecture import Architecture
from costmodel.drafters.drafter import Drafter
from costmodel.engines import none
from costmodel.engines.record.engine import Engine
from costmodel.engines.record.overhead import Overhead
from costmodel.laws.acceptance import Acceptance
from costmodel.parallel.plan import ParallelPlan
from costmodel.passes.forward import Deployment
from costmodel.passes.ops import Number
from hardware_profiles.profile import Device


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Everything about a run but its batch, context and draft.

    Args:
        deployment: target, device and how they run.
        drafter: who drafts.
        overhead: the engine's share of a speculative step.
        plain_overhead: the engine's share of a plain step.
        engine: how memory is divided; without one, weights, cache and passes may use all of it.
        plan: how the target is spread over more than one tensor-parallel group; None: it is not.
        against: whose plain decoding speeds are compared with; None: the target's own.
        keeps_drafter: the drafter stays loaded where nothing is drafted, as under a schedule.
    """

    deployment: Deployment
    drafter: Drafter
    overhead: Overhead
    plain_overhead: Overhead
    engine: Engine = none.ENGINE
    plan: ParallelPlan | None = None
    against: "Setting | None" = None
    keeps_drafter: bool = False

    @property
    def target(self) -> Architecture:
        """The model that verifies."""
        return self.deployment.architecture

    @property
    def device(self) -> Device:
        """One device of the group."""
        return self.deployment.device

    def holds_drafter(self, acceptance: Acceptance) -> bool:
        """Whether the drafter takes memory where a configuration runs."""
        return self.keeps_drafter or acceptance.draft_tokens > 0

    @property
    def devices(self) -> int:
        """Devices of one replica."""
        return self.deployment.tensor_parallel if self.plan is None else self.plan.devices

    @property
    def parallel_prompts(self) -> int:
        """Prompts that a replica processes at the same time: one in every stage of every data
        copy.
        """
        return 1 if self.plan is None else self.plan.data * self.plan.pipeline


def group_step_cost(
    setting: Setting, acceptance: Acceptance, *, batch: Number, context: Number
) -> StepCost:
    """Cost of the steps of a configuration on one tensor-parallel group; a chain of no tokens is
    plain decoding.

    Args:
        setting: target, device, drafter and engine.
        acceptance: the configuration.
        batch: requests; broadcasts with `context`.
        context: cached tokens per request.
    """
    cost = _passes_cost(setting, acceptance, batch=batch, context=context)
    accepted_s = setting.overhead.accepted_s
    if not accepted_s or not acceptance.draft_tokens:
        return cost
    kept_s = accepted_s * np.asarray(batch, dtype=np.float64) * (acceptance.tokens_per_step - 1.0)
    return replace(cost, overhead_s=cost.overhead_s + kept_s, launch_s=cost.launch_s + kept_s)


def _passes_cost(
    setting: Setting, acceptance: Acceptance, *, batch: Number, context: Number
) -> StepCost:
    """The same without what accepted tokens cost the engine."""
    parts = setting.deployment, setting.drafter, setting.overhead
    if setting.keeps_drafter and not acceptance.draft_tokens:
        return idle_step(
            setting.deployment,
            setting.drafter,
            setting.plain_overhead,
            setting.engine.idle_drafter,
            batch=batch,
            context=context,
        )
    if setting.drafter.method.refine is not None and acceptance.draft_tokens:
        return refine_step(
            *parts, tokens_per_step=acceptance.tokens_per_step, batch=batch, context=context
        )
    advance = setting.drafter.method.advance
    if advance is not None and acceptance.draft_tokens:
        question = AdvanceQuestion(
            deployment=setting.deployment,
            drafter=setting.drafter,
            overhead=setting.overhead,
            tokens_per_step=acceptance.tokens_per_step,
            batch=batch,
            context=context,
        )
        return advance_step(advance, question)
    if acceptance.lengths is not None:
        return dynamic_step(*parts, acceptance.lengths, batch=batch, context=context)
    if acceptance.tree is not None:
        return tree_step(*parts, acceptance.tree, batch=batch, context=context)
    shared = (
        setting.drafter.method.batch
    )  # the whole draft is paid for even where only a part is verified
    return chain_step(
        setting.deployment,
        setting.drafter,
        setting.overhead if acceptance.draft_tokens else setting.plain_overhead,
        batch=batch,
        context=context,
        draft_tokens=acceptance.proposed_tokens,
        proposal_ratio=acceptance.proposal_ratio if acceptance.draft_tokens else 1.0,
        drafted_tokens=acceptance.draft_tokens
        if shared.drafts_during_verify or shared.parts > 1
        else None,
        foreseen_ratio=acceptance.foreseen_ratio,
    )
