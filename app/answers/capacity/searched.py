"""What do the best layouts, formats, drafters and scheduler limits cost a load?"""

from typing import Any

import numpy as np

from app.answers.capacity.drafts import PLAIN, ComparedDrafts
from app.answers.capacity.rows import Plan, plan_row
from app.answers.capacity.simulated import asked_traffic, seen_by_plan, simulated_plan
from app.answers.placements import (
    MarkedPlacement,
    listed_placements,
    marked_placements,
    one_deployment,
    placed,
)
from app.questions.capacity import CapacityQuestion
from app.questions.field import stated_words
from app.questions.groups import DraftingOptions, FormatOptions, values_in
from costmodel.answers.capacity import plan
from costmodel.answers.estimate import Setting
from costmodel.answers.workload import Limits, Load
from costmodel.optimizers.drafters.default_drafters import default_drafters
from costmodel.optimizers.joint.evaluation import budgeted
from costmodel.optimizers.joint.search import Design, joint_search
from costmodel.optimizers.joint.space import JointQuestion
from costmodel.optimizers.layouts import usual_layouts
from costmodel.optimizers.recommend import ComparedDrafters, compare
from hardware_profiles.errors import InfeasibleError, InputError
from hardware_profiles.loader import load_device

LARGEST_REPLICA = 8  # devices of the layouts that are tried where none is named


def searched_plans(
    question: CapacityQuestion, devices: str, drafts: ComparedDrafts, load: Load, limits: Limits
) -> tuple[list[Plan], list[Setting]]:
    """Plans of the best designs, one for each drafter and placement, then the placements that cannot
    run; and the settings of the former.

    Args:
        question: what was asked.
        devices: kinds of devices, with commas between.
        drafts: of the drafter that was named; where none was, those that are usual for the model
            compete.
        load: requests to serve.
        limits: on means.

    Raises:
        NothingAllowedError: nothing fits, or nothing meets the limits.
        InputError: several models or engines, or a layout beside the search.
    """
    joint = _joint_question(question, devices, drafts, load, limits)
    optimum = joint_search(joint)
    plans = [_plan(question, joint, design) for design in optimum.ranked]
    settings = [design.contender.setting for design in optimum.ranked]
    return [*plans, *marked_placements(optimum.unmet)], settings


def _joint_question(
    question: CapacityQuestion, devices: str, drafts: ComparedDrafts, load: Load, limits: Limits
) -> JointQuestion:
    for name, usual in (("tp", (1,)), ("pp", 1), ("ep", 1), ("dp", 1)):
        if (value := getattr(question, name)) != usual:
            raise InputError(
                "is searched for; leave it out, or --search named",
                key=f"--{name}",
                value=",".join(stated_words(value)),
            )
    options = {
        **values_in(FormatOptions, question),
        **values_in(DraftingOptions, question),
        "model": question.model,
        "device": devices,
        "method": drafts.method,
    }
    base = one_deployment(options)
    compared = ComparedDrafters(question=base, sources=[], contenders=[])
    if drafts.method != PLAIN:
        named = drafts.source
        compared = compare(
            base,
            default_drafters(base)[1] if named is None else [named],
            draft_tokens=drafts.stated_lengths,
            shapes=drafts.shapes,
            seed=question.seed,
        )
    layouts = usual_layouts(question.model, min(question.most_devices, LARGEST_REPLICA))
    placements = listed_placements(options, layouts)
    priced = all(
        load_device(kind, base.deployment.overrides).price_usd_per_hour is not None
        for kind in {placement.device for placement in placements}
    )
    return JointQuestion(
        compared=compared,
        placements=placements,
        most_devices=question.most_devices,
        load=load,
        rate_stated=True,
        slo=limits,
        maximise="tokens-per-dollar" if priced else "tokens-per-joule",
        utilisation=question.utilisation,
        seed=question.seed,
    )


def _plan(asked: CapacityQuestion, question: JointQuestion, design: Design) -> Plan:
    """The plan of a design, or its mark where it misses the limits or needs too many devices."""
    where, token_budget = design.configuration.deployment, design.scheduler.token_budget
    names: dict[str, Any] = {
        "model": where.model,
        "device": where.device,
        "engine": where.engine,
        "method": design.configuration.method,
        **placed(design),
    }
    traffic = asked_traffic(asked, question.load, question.slo)
    setting = budgeted(design.contender.setting, token_budget)
    confirmed = None
    try:
        if question.slo.highest_percentile is not None:
            confirmed = simulated_plan(
                design.configuration,
                setting,
                [design.acceptance],
                traffic,
                most_batch=design.batch,
                token_budget=token_budget,
            )
        planned = (
            confirmed.plan
            if confirmed is not None
            else plan(
                setting,
                [design.acceptance],
                question.load,
                question.slo,
                generator=np.random.default_rng(question.seed),
                utilisation=question.utilisation,
                most_batch=design.batch,
                token_budget=token_budget,
            )
        )
    except (InfeasibleError, InputError) as error:
        return MarkedPlacement(**names, reason=str(error))
    if planned.devices > question.most_devices:
        reason = f"needs {planned.devices} devices, more than --devices"
        return MarkedPlacement(**names, reason=reason)
    seen = (
        seen_by_plan(
            design.configuration,
            planned,
            traffic,
            {"max_requests": design.scheduler.max_requests, "token_budget": token_budget},
        )
        if confirmed is None
        else confirmed.times
    )
    return plan_row(planned, seen, limited=question.slo.limited, **names)
