"""What does a step cost whose draft differs from request to request: a tree chosen anew, or a chain
that ends early?

Drafting goes on until the request with most passes is done; the verify pass has the rows of all
requests. Leaves out drafts that are all alike (`costmodel.answers.steps.step`) and what a step
emits (`costmodel.laws.drafting`).
"""

import numpy as np

from costmodel.answers.steps.step import StepCost, total_cost, verify_passes
from costmodel.drafters.drafter import Drafter
from costmodel.drafters.pass_costs import WeightedPass, draft_pass, tree_draft
from costmodel.engines.record.overhead import Overhead
from costmodel.laws.draft_lengths import DraftLengths
from costmodel.passes import kernels
from costmodel.passes.forward import Deployment, Operation, PassCost
from costmodel.passes.ops import Array, Number, Work
from costmodel.passes.totals import Tally


def dynamic_step(
    deployment: Deployment,
    drafter: Drafter,
    overhead: Overhead,
    drafts: DraftLengths,
    *,
    batch: Number,
    context: Number,
) -> StepCost:
    """A step in which every request drafts as much as its own text asks for.

    Args:
        deployment: target, device and how they run.
        drafter: who drafts.
        overhead: the engine's share.
        drafts: how many tokens and passes a request's step has.
        batch: requests, > 0.
        context: cached tokens per request, >= 0.

    Returns:
        The expected cost. The verify pass is averaged over two numbers of rows that match mean,
        variance and skewness of the batch's. Pass p of the drafter runs if any request takes part
        in it, for those that do.
    """
    speculates = np.asarray(drafts.mean_tokens > 0.0)
    verify: list[WeightedPass] = [
        (weight * often, cost)
        for weight, tokens in drafts.batch_means(batch)
        for often, cost in verify_passes(
            deployment,
            drafter,
            batch=batch,
            draft_tokens=np.asarray(tokens),
            context=context,
            speculates=speculates,
        )
    ]
    draft = _draft_passes(deployment, drafter, drafts, batch=batch, context=context)
    if drafts.ranked and deployment.fidelity == "calibrated":
        draft.append((1.0, _ranking(deployment, np.asarray(batch, dtype=np.float64))))
    return total_cost(draft, verify, drafter, overhead, speculates=speculates, requests=batch)


def _draft_passes(
    deployment: Deployment,
    drafter: Drafter,
    drafts: DraftLengths,
    *,
    batch: Number,
    context: Number,
) -> list[WeightedPass]:
    if not drafter.stages or not drafts.rows.size:
        return []
    if not drafter.drafts_level_by_level:
        return tree_draft(
            deployment,
            drafter,
            drafts.rows.tolist(),
            batch=batch,
            context=context,
            reread_tokens=drafts.mean_passes,
        )
    stage, requests = drafter.stages[0], np.asarray(batch, dtype=np.float64)
    passes: list[WeightedPass] = []
    for place, (runs, reached) in enumerate(
        zip(drafts.batch_runs(batch), drafts.reached.tolist(), strict=True)
    ):
        if reached == 0.0:
            break
        verified = 1.0 + drafts.mean_passes if place == 0 and stage.draft.rereads else 0.0
        rows = verified or float(drafts.rows[place])
        taking = requests * reached / runs  # at least one request, as the pass runs
        cost = draft_pass(
            deployment,
            drafter,
            stage,
            batch=taking,
            query_tokens=rows,
            context=context,
            verified=verified,
        )
        passes.append((runs, cost))
    return passes


def _ranking(deployment: Deployment, requests: Array) -> PassCost:
    """Choosing the candidates to verify. ASSUMED: sorting a request's candidates costs what
    sampling one row does.
    """
    tally = Tally()
    tally.add(
        Operation(
            "sampler",
            kernels.sampler(deployment.device, requests),
            Work(np.zeros(()), np.zeros(())),
        )
    )
    return tally.cost()
