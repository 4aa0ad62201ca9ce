"""What does a step cost in which no draft is verified token by token: a span, several samples, a
routed step?

The records are `Method.advance`. Leaves out masked blocks (`refine_step`) and how many tokens a
step brings (`costmodel.laws.own_pace`).
"""

from dataclasses import replace

import numpy as np

from costmodel.answers.steps.step import StepCost, total_cost
from costmodel.drafters.drafter import Drafter
from costmodel.drafters.pass_costs import WeightedPass, chain_draft, draft_pass
from costmodel.drafters.stage import layer_count
from costmodel.engines.record.overhead import Overhead
from costmodel.method import Routing, Samples, Spans
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.ops import Number
from hardware_profiles.errors import InputError


def advance_step(
    d: Deployment,
    drafter: Drafter,
    overhead: Overhead,
    *,
    tokens_per_step: float,
    batch: Number,
    context: Number,
) -> StepCost:
    """A step of a method that sets its own pace.

    Args:
        d: target, device and how they run.
        drafter: of a method with `advance`; it holds the draft model of routed steps.
        overhead: the engine's share of a step.
        tokens_per_step: of every request; of routed steps and spans their length.
        batch: requests.
        context: cached tokens per request.

    Raises:
        InputError: a method that advances in no way of its own.
    """
    advance = drafter.method.advance
    if advance is None:
        raise InputError("advances token by token", key="method", value=drafter.method.slug)
    if isinstance(advance, Routing):
        return _routed(d, drafter, overhead, advance, tokens_per_step, batch, context)
    if isinstance(advance, Spans):
        passes = _span(d, advance, tokens_per_step, batch, context)
    else:
        passes = _samples(d, advance, batch, context)
    return total_cost([], passes, drafter, overhead, speculates=np.asarray(False), requests=batch)


def _span(
    d: Deployment, spans: Spans, tokens: float, batch: Number, context: Number
) -> list[WeightedPass]:
    """One pass of most layers over one row, and one of the others, with the output head, per
    token.
    """
    target, read = d.architecture, np.asarray(context, dtype=np.float64)
    local = layer_count(spans.layers, target, "advance.layers")
    few, most = target.with_layers(local), target.with_layers(target.layers - local)
    near = read if spans.context_tokens is None else np.minimum(read, float(spans.context_tokens))
    held = read / tokens if spans.merges_cache else read
    return [
        (
            1.0,
            pass_cost(
                replace(d, architecture=most),
                batch=batch,
                query_tokens=1,
                context=held,
                logits="none",
            ),
        ),
        (
            tokens,
            pass_cost(replace(d, architecture=few), batch=batch, query_tokens=1, context=near),
        ),
    ]


def _samples(d: Deployment, samples: Samples, batch: Number, context: Number) -> list[WeightedPass]:
    """One pass over a row of every sequence, which read the request's cache once, and now and then
    one that scores.
    """
    passes: list[WeightedPass] = [
        (1.0, pass_cost(d, batch=batch, query_tokens=samples.rows, context=context))
    ]
    if samples.judged_tokens:
        requests = np.asarray(batch, dtype=np.float64) * samples.rows
        scored = pass_cost(
            d, batch=requests, query_tokens=samples.judged_tokens, context=context, logits="last"
        )
        passes.append((1.0 / samples.judged_tokens, scored))
    return passes


def _routed(
    d: Deployment,
    drafter: Drafter,
    overhead: Overhead,
    routing: Routing,
    tokens: float,
    batch: Number,
    context: Number,
) -> StepCost:
    """Drafted tokens, a pass of the judge over them, and the share of steps that the target reads
    up to and writes.
    """
    again = 1.0 - routing.accepted_ratio
    draft = chain_draft(d, drafter, batch=batch, context=context, draft_tokens=np.asarray(tokens))
    if routing.judge == "draft":
        judged = draft_pass(
            d, drafter, drafter.stages[0], batch=batch, query_tokens=tokens, context=context
        )
        draft.append((1.0, judged))
    verify: list[WeightedPass] = []
    if routing.judge == "target":
        verify.append((1.0, pass_cost(d, batch=batch, query_tokens=tokens, context=context)))
    if again:
        # accepted steps since the target last wrote one, and no more than there is to read
        unread = 1.0 + np.minimum(tokens * routing.accepted_ratio / again, context)
        verify.append(
            (again, pass_cost(d, batch=batch, query_tokens=unread, context=context, logits="last"))
        )
        verify.append(
            (
                again * max(tokens - 1.0, 0.0),
                pass_cost(d, batch=batch, query_tokens=1, context=context),
            )
        )
    cost = total_cost(
        draft, verify, drafter, overhead, speculates=np.asarray(False), requests=batch
    )
    iterations = tokens * (1.0 + again)  # each an engine's step of its own
    waits = cost.overhead_s * (iterations - 1.0)
    return replace(cost, overhead_s=cost.overhead_s + waits, launch_s=cost.launch_s + waits)
