"""What do the best designs of a joint search cost a load? Plans of `capacity`, one for each drafter
and placement.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from app.answers.explanations import capacity_plan
from app.answers.joint.rows import unplaced_rows
from costmodel.answers.capacity import plan
from costmodel.answers.estimate import Setting
from costmodel.optimizers.joint.evaluation import budgeted
from costmodel.optimizers.joint.search import Design, joint_search
from costmodel.optimizers.joint.space import JointQuestion
from hardware_profiles.errors import InfeasibleError

Json = dict[str, Any]


def joint_plans(question: JointQuestion) -> tuple[list[Json], list[Setting]]:
    """Rows of `capacity` for the best designs, then marked ones of placements that cannot run; and
    their settings.

    Args:
        question: whose rate is to be served.

    Raises:
        NoDesignError: nothing fits, or nothing meets the limits.
    """
    optimum = joint_search(question)
    rows = [_row(question, design) for design in optimum.ranked]
    marked = [
        {**row, "tp": None, "method": ""} for row in unplaced_rows(question, optimum.unplaced)
    ]
    return [*rows, *marked], [design.node.setting for design in optimum.ranked]


def _row(question: JointQuestion, design: Design) -> Json:
    placement, where = design.node.placement, design.configuration.deployment
    formats = design.node.setting.deployment.precision
    row: Json = {
        "model": where.model,
        "device": where.device,
        "engine": where.engine,
        "tp": placement.layout.tensor,
        "method": design.configuration.method,
        "layout": str(placement.layout),
        "dtype": formats.label,
        "kv_dtype": formats.kv,
        "batch_cap": design.scheduler.max_requests,
        "token_budget": design.scheduler.token_budget,
    }
    try:
        found = plan(
            budgeted(design.node.setting, design.scheduler.token_budget),
            [design.acceptance],
            question.load,
            question.slo,
            generator=np.random.default_rng(question.seed),
            utilisation=question.utilisation,
            most_batch=design.batch,
            token_budget=design.scheduler.token_budget,
        )
    except InfeasibleError as error:
        return row | {"feasible": False, "reason": str(error)}
    if found.devices > question.most_devices:
        return row | {
            "feasible": False,
            "reason": f"needs {found.devices} devices, more than --devices",
        }
    return row | {"feasible": True, "reason": None} | capacity_plan(found)
