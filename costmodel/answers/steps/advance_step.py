"""What does a step cost in which no draft is verified token by token: a span, several samples, a
routed step?

The records are `Method.advance`; another kind of them registers its cost here. Leaves out masked
blocks (`refine_step`) and how many tokens a step brings (`costmodel.laws.own_pace`).
"""

from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np

from costmodel.answers.steps.step import StepCost, total_cost
from costmodel.drafters.drafter import Drafter
from costmodel.drafters.pass_costs import WeightedPass, chain_draft, draft_pass
from costmodel.drafters.stage import layer_count
from costmodel.engines.record.overhead import Overhead
from costmodel.pace import Advance, Routing, Samples, Spans
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.ops import Number
from hardware_profiles.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class AdvanceQuestion:
    """Where and how a step runs.

    Args:
        deployment: target, device and how they run.
        drafter: of a method with `advance`; it holds the networks that write first.
        overhead: the engine's share of a step.
        tokens_per_step: of every request; of routed steps and spans their length.
        batch: requests.
        context: cached tokens per request.
    """

    deployment: Deployment
    drafter: Drafter
    overhead: Overhead
    tokens_per_step: float
    batch: Number
    context: Number

    def cost(
        self, passes: list[WeightedPass], *, draft: list[WeightedPass] | None = None
    ) -> StepCost:
        """A step of these passes."""
        return total_cost(
            draft or [],
            passes,
            self.drafter,
            self.overhead,
            speculates=np.asarray(False),
            requests=self.batch,
        )


@singledispatch
def advance_step(advance: Advance | None, question: AdvanceQuestion) -> StepCost:
    """A step of a method that sets its own pace; every kind registers its own.

    Args:
        advance: the kind, of `question.drafter.method`.
        question: where and how it runs.

    Raises:
        InputError: a method that advances in no way of its own.
    """
    raise InputError("advances token by token", key="method", value=question.drafter.method.slug)


@advance_step.register
def _span(advance: Spans, question: AdvanceQuestion) -> StepCost:
    """One pass of most layers over one row, and one of the others, with the output head, per
    token.
    """
    d, target = question.deployment, question.deployment.architecture
    read = np.asarray(question.context, dtype=np.float64)
    local = layer_count(advance.layers, target, "advance.layers")
    few, most = target.with_layers(local), target.with_layers(target.layers - local)
    limit = advance.context_tokens
    near = read if limit is None else np.minimum(read, float(limit))
    held = read / question.tokens_per_step if advance.merges_cache else read
    whole = pass_cost(
        replace(d, architecture=most),
        batch=question.batch,
        query_tokens=1,
        context=held,
        logits="none",
    )
    own = pass_cost(
        replace(d, architecture=few), batch=question.batch, query_tokens=1, context=near
    )
    return question.cost([(1.0, whole), (question.tokens_per_step, own)])


@advance_step.register
def _samples(advance: Samples, question: AdvanceQuestion) -> StepCost:
    """One pass over a row of every sequence, which read the request's cache once, and now and then
    one that scores.
    """
    d, context = question.deployment, question.context
    passes: list[WeightedPass] = [
        (1.0, pass_cost(d, batch=question.batch, query_tokens=advance.rows, context=context))
    ]
    if advance.judged_tokens:
        requests = np.asarray(question.batch, dtype=np.float64) * advance.rows
        scored = pass_cost(
            d, batch=requests, query_tokens=advance.judged_tokens, context=context, logits="last"
        )
        passes.append((1.0 / advance.judged_tokens, scored))
    return question.cost(passes)


@advance_step.register
def _routed(advance: Routing, question: AdvanceQuestion) -> StepCost:
    """Drafted tokens, a pass of the judge over them, and the share of steps that the target reads
    up to and writes.
    """
    d, drafter, tokens = question.deployment, question.drafter, question.tokens_per_step
    batch, context = question.batch, question.context
    again = 1.0 - advance.accepted_ratio
    draft = chain_draft(d, drafter, batch=batch, context=context, draft_tokens=np.asarray(tokens))
    if advance.judge == "draft":
        judged = draft_pass(
            d, drafter, drafter.stages[0], query_tokens=tokens, batch=batch, context=context
        )
        draft.append((1.0, judged))
    verify: list[WeightedPass] = []
    if advance.judge == "target":
        verify.append((1.0, pass_cost(d, query_tokens=tokens, batch=batch, context=context)))
    if again:
        # accepted steps since the target last wrote one, and no more than there is to read
        unread = 1.0 + np.minimum(tokens * advance.accepted_ratio / again, context)
        verify.append(
            (again, pass_cost(d, query_tokens=unread, logits="last", batch=batch, context=context))
        )
        written = pass_cost(d, query_tokens=1, batch=batch, context=context)
        verify.append((again * max(tokens - 1.0, 0.0), written))
    cost = question.cost(verify, draft=draft)
    iterations = tokens * (1.0 + again)  # each an engine's step of its own
    waits = cost.overhead_s * (iterations - 1.0)
    return replace(cost, overhead_s=cost.overhead_s + waits, launch_s=cost.launch_s + waits)
