"""What do trees cost on a device, level by level and node by node, and which one is fastest there?

Seconds come from the cost model: a verify pass of every number of nodes, draft passes as wide as a
level's parents, and the engine's share. Engines that replay captured graphs run the next larger
captured number of rows. Leaves out the search (`priced_tree`), and everything that is not a static
tree (`costmodel.optimizers.search`).
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cache

import numpy as np

from costmodel.answers.estimate import Setting, step_cost
from costmodel.answers.steps.step import total_cost, verify_passes
from costmodel.drafters.pass_costs import draft_pass, tree_stage
from costmodel.drafters.passes import tree_passes
from costmodel.laws.acceptance import geometric
from costmodel.optimizers.trees.priced_tree import TreePrice
from hardware_profiles.errors import InputError


def tree_price(
    setting: Setting, *, batch: int, context: int, nodes: int, captured_rows: Sequence[int] = ()
) -> TreePrice:
    """Seconds of the steps of every tree of at most `nodes` nodes at one batch and context.

    Args:
        setting: target, device, drafter and engine, on one tensor-parallel group.
        batch: requests, at least 1.
        context: cached tokens per request.
        nodes: most nodes, root included, at least 2.
        captured_rows: query tokens of a whole batch for which the engine has captured graphs,
            increasing; a verify pass takes the time of the next larger one, and beyond the last its
            own. Empty: passes are as large as they are.

    Raises:
        InputError: numbers out of range, a plan over several groups, or a drafter that drafts no
            trees.
    """
    if batch < 1 or nodes < 2 or any(rows < 1 for rows in captured_rows):
        raise InputError(
            "needs a batch of 1, 2 nodes and captured rows of 1 or more", key="batch", value=batch
        )
    if setting.plan is not None:
        raise InputError("trees are priced on one tensor-parallel group", key="plan")
    parts = setting.deployment, setting.drafter
    sizes = np.array([_rows(batch * n, captured_rows) / batch for n in range(1, nodes + 1)])
    verify = verify_passes(
        *parts,
        batch=batch,
        draft_tokens=sizes - 1.0,
        context=context,
        speculates=np.ones(nodes, dtype=np.bool_),
    )
    step = total_cost(
        [],
        verify,
        setting.drafter,
        setting.overhead,
        speculates=np.ones(nodes, dtype=np.bool_),
        requests=batch,
    )
    plain = float(
        step_cost(setting, geometric(0.0, 0), batch=float(batch), context=float(context)).total_s
    )

    stage = tree_stage(setting.drafter)

    @cache
    def pass_s(rows: float, verified: float, sets: float) -> float:
        """Seconds of a draft pass, of which trees of all shapes run the same few."""
        assert stage is not None
        cost = draft_pass(
            *parts,
            stage,
            batch=float(batch),
            query_tokens=rows,
            context=float(context),
            verified=verified,
            sets=sets,
        )
        return float(cost.total_s)

    def draft_s(widths: Sequence[int]) -> float:
        if stage is None:
            return 0.0
        passes = tree_passes(stage.draft, widths, reread_tokens=float(len(widths)))
        return float(
            sum(
                run.often * pass_s(float(run.rows), float(run.verified), run.sets) for run in passes
            )
        )

    return TreePrice(
        plain_s=plain,
        verify_s=np.asarray(step.total_s, dtype=np.float64),
        draft_s=draft_s,
        accepted_s=setting.overhead.accepted_s * batch,
        requests=batch,
    )


def _rows(rows: int, captured: Sequence[int]) -> int:
    """Rows that a pass of so many runs."""
    place = bisect_left(captured, rows)
    return captured[place] if place < len(captured) else rows
