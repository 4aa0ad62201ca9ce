"""How long do steps of many configurations take, at once?

Chains that differ in their length alone are one evaluation over batch, context and length; all
others are evaluated one by one. Leaves out what bounds a step and what its parts take (`estimate`).
"""

from collections.abc import Iterator, Sequence

import numpy as np

from costmodel.answers.estimate import step_cost
from costmodel.answers.steps.planned_step import planned_chain_seconds
from costmodel.answers.steps.setting import Setting
from costmodel.answers.steps.step import StepCost, chain_step
from costmodel.laws.acceptance import Acceptance
from costmodel.passes.ops import Array, Number


def step_seconds(
    setting: Setting,
    configurations: Sequence[Acceptance],
    *,
    batch: Number,
    context: Number,
    plain: StepCost | None = None,
) -> Array:
    """Seconds of a step of every configuration at every point, shape [configurations, *points].

    Example:
        >>> from costmodel.answers.settings import build_setting
        >>> from costmodel.configuration import DecodingConfiguration, DeploymentNames
        >>> from costmodel.laws.acceptance import geometric
        >>> names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none")
        >>> setting = build_setting(DecodingConfiguration(method="eagle-3", deployment=names))
        >>> chains = [geometric(0.7, draft_tokens) for draft_tokens in (0, 1, 3)]
        >>> step_seconds(setting, chains, batch=np.array([1, 64]), context=1024).shape
        (3, 2)

    Args:
        setting: target, device, drafter and engine.
        configurations: what is run.
        batch: requests, > 0; broadcasts with `context`.
        context: cached tokens per request, >= 0.
        plain: cost of a plain step at the same points, where it is known already.
    """
    points = np.broadcast_shapes(np.shape(batch), np.shape(context))
    seconds = np.empty((len(configurations), *points))
    for group in _alike(setting, configurations):
        first = configurations[group[0]]
        if plain is not None and first.draft_tokens == 0:
            seconds[group] = plain.total_s
            continue
        if len(group) == 1:
            seconds[group] = step_cost(setting, first, batch=batch, context=context).total_s
            continue
        if setting.plan is not None:
            chains = [configurations[i] for i in group]
            seconds[group] = planned_chain_seconds(
                setting, chains, setting.plan, batch=batch, context=context
            )
            continue
        lengths, tokens = (
            np.array(values).reshape(-1, *(1 for _ in points))
            for values in (
                [configurations[i].proposed_tokens for i in group],
                [configurations[i].tokens_per_step for i in group],
            )
        )
        step = chain_step(
            setting.deployment,
            setting.drafter,
            setting.overhead,
            batch=batch,
            context=context,
            draft_tokens=lengths,
            proposal_ratio=first.proposal_ratio,
        )
        accepted_s = (
            setting.overhead.accepted_s * np.asarray(batch, dtype=np.float64) * (tokens - 1.0)
        )
        seconds[group] = step.total_s + accepted_s
    return seconds


def _alike(setting: Setting, configurations: Sequence[Acceptance]) -> Iterator[list[int]]:
    """Places of configurations that one evaluation answers for, in groups."""
    method = setting.drafter.method
    alone = method.refine is not None or method.advance is not None
    alone = alone or method.batch.drafts_during_verify or method.batch.parts > 1
    chains: dict[float, list[int]] = {}
    for place, configuration in enumerate(configurations):
        varies = (
            configuration.tree is not None
            or configuration.lengths is not None
            or configuration.shape is not None
        )
        if alone or varies or configuration.draft_tokens == 0:
            yield [place]
        else:
            chains.setdefault(configuration.proposal_ratio, []).append(place)
    yield from chains.values()
