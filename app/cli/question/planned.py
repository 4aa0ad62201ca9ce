"""`predict` under a plan: the options --pp, --ep, --dp and --cp, and what they add to an answer.

Leaves out intervals: those of the answer hold for one tensor group.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from costmodel.answers.estimate import Setting
    from costmodel.laws.acceptance import Acceptance
    from costmodel.parallel.plan import ParallelPlan

Pipeline = Annotated[int, typer.Option("--pp", help="Pipeline stages of consecutive layers.")]
Expert = Annotated[
    int, typer.Option("--ep", help="Devices that share the routed experts, each whole.")
]
Data = Annotated[
    int, typer.Option("--dp", help="Copies of the other layers, each with its own requests.")
]
ContextGroup = Annotated[
    int, typer.Option("--cp", help="Devices that share the tokens of every request.")
]


def planned_answer(
    setting: "Setting", acceptance: "Acceptance", plan: "ParallelPlan", *, batch: int, context: int
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
    from costmodel.answers.steps.planned_step import planned_step

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
