"""What --pp, --ep, --dp and --cp add to an answer of `predict`.

Leaves out intervals: those of the answer hold for one tensor group.
"""

from typing import Any

from costmodel.answers.estimate import Setting
from costmodel.answers.steps.planned_step import planned_step
from costmodel.laws.acceptance import Acceptance
from costmodel.parallel.plan import ParallelPlan


def planned_answer(
    setting: Setting, acceptance: Acceptance, plan: ParallelPlan, *, batch: int, context: int
) -> dict[str, Any]:
    """What an answer says of a plan.

    Args:
        setting: target, device, drafter and engine.
        acceptance: what the configuration emits per step.
        plan: how the target is spread.
        batch: requests of the whole plan.
        context: cached tokens per request.

    Raises:
        InputError: a plan that does not divide the model.
    """
    result = planned_step(setting, acceptance, plan, batch=batch, context=context)
    sizes = {
        "tp": plan.tensor,
        "pp": plan.pipeline,
        "ep": plan.expert,
        "dp": plan.data,
        "cp": plan.context,
    }
    return {
        **sizes,
        "devices": plan.devices,
        "step_s": float(result.step_s),
        "tokens_per_s": float(result.tokens_per_s),
        "tokens_per_s_per_device": float(result.tokens_per_s_per_device),
        "speedup": float(result.speedup),
        "bytes_per_device": float(result.footprint.total_bytes),
        "breakdown_s": {
            "draft": float(result.draft_s),
            "verify": {name: float(seconds) for name, seconds in result.verify.items()},
            "overhead": float(result.overhead_s),
        },
    }
