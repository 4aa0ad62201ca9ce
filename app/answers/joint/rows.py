"""What does a joint search say as one object?

Rows of designs by name, with what is predicted, simulated and unsure of each. Leaves out tables and
pages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from app.answers.joint.answer import Finalist, JointAnswer
from costmodel.draft_shape import shape_of
from costmodel.optimizers.drafters.named_drafters import names_of
from costmodel.optimizers.joint.objective import UNITS
from costmodel.optimizers.joint.search import Unplaced
from costmodel.optimizers.joint.space import JointQuestion

Json = dict[str, Any]


def joint_object(
    answer: JointAnswer, inputs: Mapping[str, Any], exports: Mapping[str, Any]
) -> Json:
    """The answer of `optimize --search full`.

    Args:
        answer: what was found.
        inputs: what was asked.
        exports: paths of files by engine.
    """
    question, optimum, comparison = answer.question, answer.optimum, answer.comparison
    rows = []
    for place, finalist in enumerate(answer.finalists):
        low, high = comparison.intervals[place]
        beaten = float(comparison.beaten_probability[place])
        rows.append(
            design_row(question, finalist)
            | {
                "objective_interval": [low, high],
                "best_probability": float(comparison.best_probability[place]),
                "loses_to_winner_probability": None if math.isnan(beaten) else beaten,
            }
        )
    return {
        "inputs": dict(inputs),
        "limits": {
            "ttft_s": question.slo.ttft_s,
            "tpot_s": question.slo.tpot_s,
            "good_share": question.slo.share_ratio,
            "meaning": question.slo.words or None,
        },
        "load_per_s": question.load.requests_per_s if question.rate_stated else None,
        "carried_per_s": _carried(answer),
        "objective": {
            "maximise": question.maximise,
            "unit": UNITS[question.maximise],
            "traffic": "rate" if question.rate_stated else "steady",
        },
        "choices": rows[:1],
        "alternatives": rows[1:],
        "expected_regret": comparison.expected_regret,
        "expected_regret_ratio": comparison.regret_ratio,
        "front": [design_row(question, each) for each in answer.front],
        "unmet": unplaced_rows(question, optimum.unplaced),
        "search": {
            "designs": optimum.considered,
            "evaluated": optimum.evaluated,
            "nodes": optimum.nodes,
            "pruned_nodes": optimum.pruned,
            "simulations": answer.simulations,
        },
        "schedules": [],
        "exports": dict(exports),
    }


def _carried(answer: JointAnswer) -> float | None:
    """Requests per second of the stated rate that the winner carries; None where none is stated."""
    question, design = answer.question, answer.finalists[0].design
    if not question.rate_stated:
        return None
    return min(question.load.requests_per_s, question.utilisation * design.requests_per_s)


def design_row(question: JointQuestion, finalist: Finalist) -> Json:
    """One design: what it is, what is predicted of it, and what was simulated."""
    design = finalist.design
    placement, a, output = design.node.placement, design.acceptance, question.load.output_tokens
    where, source = design.configuration.deployment, design.node.source
    device = design.node.setting.device
    price = device.price_usd_per_hour
    names = names_of(question.sources)
    run = finalist.run
    return {
        "model": where.model,
        "device": where.device,
        "engine": where.engine,
        "feasible": True,
        "layout": str(placement.layout),
        "tp": placement.layout.tensor,
        "dp": placement.layout.data,
        "ep": placement.layout.expert,
        "pp": placement.layout.pipeline,
        "dtype": design.node.setting.deployment.precision.label,
        "kv_dtype": design.node.setting.deployment.precision.kv,
        "drafter": "" if source is None else names[source],
        "method": design.configuration.method,
        "topology": design.configuration.topology,
        "draft": str(shape_of(a)),
        "draft_tokens": a.draft_tokens,
        "tokens_per_step": a.tokens_per_step,
        "batch": design.batch,
        "batch_cap": design.scheduler.max_requests,
        "context": round(question.load.decode_context),
        "token_budget": design.scheduler.token_budget,
        "replicas": design.replicas,
        "devices": design.devices,
        "requests_per_s": design.requests_per_s,
        "tokens_per_s": design.requests_per_s * output,
        "tokens_per_s_per_user": 1.0 / design.tpot_s,
        "tokens_per_s_per_device": design.tokens_per_s_per_device(output),
        "tpot_s": design.tpot_s,
        "ttft_s": design.ttft_s,
        "meets_limits": finalist.meets(question.slo),
        "carries_load": design.carries,
        "predicted_objective": _known(design.value),
        "objective": _known(finalist.value),
        "usd_per_hour": None if price is None else price * design.devices,
        "simulated": None
        if run is None
        else {
            "objective_ratio": sum(run.ratios) / len(run.ratios),
            "seeds": len(run.ratios),
            "tokens_per_s_per_replica": run.tokens_per_s,
            "tpot_s": run.tpot_s,
            "ttft_s": run.ttft_s,
            "good_ratio": run.good_ratio,
            "sustained": run.sustained,
            "meets_limits": run.meets,
        },
        "not_simulated": finalist.reason or None,
        "calibrated": device.calibrated,
        "configuration": design.configuration.to_json(),
    }


def unplaced_rows(question: JointQuestion, unplaced: list[Unplaced]) -> list[Json]:
    """Marked rows of placements that cannot run."""
    where = question.question.deployment
    return [
        {
            "model": where.model,
            "device": each.placement.device,
            "engine": where.engine,
            "layout": str(each.placement.layout),
            "dtype": each.placement.weights,
            "kv_dtype": each.placement.cache,
            "feasible": False,
            "reason": each.reason,
        }
        for each in unplaced
    ]


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
