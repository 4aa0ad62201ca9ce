"""How long do a setting's draft passes take, for every number of draft tokens, requests and cached
tokens at once?

Leaves out the passes that verify, and looking the tables up (`simulator.timing.cost_timer`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.answers.estimate import Setting
from costmodel.answers.steps.dynamic_step import dynamic_step
from costmodel.answers.steps.step import chain_step, idle_step, tree_step
from costmodel.drafters.pass_costs import prompt_draft_s
from costmodel.laws.draft_lengths import DraftLengths
from simulator.loop.state import Real
from traces.kinds.tree import Tree


def draft_grid(
    setting: Setting,
    queries: Real,
    requests: Real,
    context: Real,
    tree: Tree | None,
    levels: tuple[float, ...] = (),
) -> NDArray[np.float64]:
    """Seconds of the draft passes of steps with K = `queries` - 1 draft tokens; at K = 0 of a drafter
    that stays loaded, what an engine does with it.

    Args:
        setting: target, drafter and device.
        queries: 1 + K, [n].
        requests: that draft together, [b].
        context: cached tokens of one of them, [c].
        tree: the tree that is drafted; None: chains.
        levels: mean tokens that a request reads in each pass of a tree that every step picks anew;
            K then counts passes. Empty: no such tree.

    Returns:
        float64[n, b, c], seconds.
    """
    shape = (queries.size, requests.size, context.size)
    b, c = requests[None, :, None], context[None, None, :]
    d, drafter, own = setting.deployment, setting.drafter, setting.overhead
    drafting_s: Real
    if tree is not None:
        drafting_s = tree_step(d, drafter, own, tree, batch=b, context=c).draft_s
    elif levels:
        rows = np.array(levels)
        drafting_s = np.stack(
            [
                np.broadcast_to(
                    _dynamic_draft_s(setting, rows[: max(int(query) - 1, 0)], b[0], c[0]), shape[1:]
                )
                for query in queries
            ]
        )
    else:
        # branches are counted among the requests that draft
        alone = replace(drafter.method.batch, branches=0, fan_out=0, on_miss="plain")
        drafter = replace(drafter, method=replace(drafter.method, batch=alone))
        k = queries[:, None, None] - 1.0
        drafting_s = chain_step(d, drafter, own, batch=b, context=c, draft_tokens=k).draft_s
    seconds = np.array(np.broadcast_to(drafting_s, shape))
    seconds[queries == 1.0] = _idle_s(setting, b[0], c[0])
    return seconds


def _idle_s(setting: Setting, batch: Real, context: Real) -> Real | float:
    """What an engine does with a drafter that stays loaded, in a step that drafts nothing."""
    if not setting.keeps_drafter:
        return 0.0
    idle, sizes = setting.engine.idle_drafter, {"batch": batch, "context": context}
    step = idle_step(setting.deployment, setting.drafter, setting.plain_overhead, idle, **sizes)
    return np.asarray(step.draft_s + idle.step_s)


def _dynamic_draft_s(setting: Setting, rows: Real, batch: Real, context: Real) -> Real:
    """Seconds in which a batch drafts trees whose longest takes as many passes as there are
    `rows`.
    """
    if not rows.size:
        return np.zeros(())
    once = np.eye(rows.size + 1)[rows.size]
    lengths = DraftLengths(tokens=once, passes=once, rows=rows, ranked=True)
    cost = dynamic_step(
        setting.deployment, setting.drafter, setting.overhead, lengths, batch=batch, context=context
    )
    return np.asarray(cost.draft_s)


def draft_rows(setting: Setting, rows: Real) -> Real:
    """Seconds in which a drafter with a cache of its own reads prompt tokens.

    Args:
        setting: target, drafter and device.
        rows: tokens 1, 2, ..., [rows].

    Returns:
        float64[1 + rows], from 0 tokens on; [2] zeros for a drafter without a cache.
    """
    if not setting.drafter.kv_values_per_token:
        return np.zeros(2)
    cost = prompt_draft_s(setting.deployment, setting.drafter, batch=1.0, prompt_tokens=rows)
    return np.concatenate([[0.0], np.broadcast_to(cost, rows.shape)])
