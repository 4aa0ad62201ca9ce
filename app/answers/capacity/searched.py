"""What do the best layouts, formats, drafters and scheduler limits cost a load?"""

from dataclasses import replace
from typing import Any

from app.answers.capacity.drafts import PLAIN, ComparedDrafts
from app.answers.capacity.service import Planned, Service
from app.answers.cells import names_of
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
from costmodel.answers.workload import Limits, Load
from costmodel.optimizers.drafters.default_drafters import default_drafters
from costmodel.optimizers.joint.evaluation import budgeted
from costmodel.optimizers.joint.search import Design, joint_search
from costmodel.optimizers.joint.space import JointQuestion
from costmodel.optimizers.layouts import usual_layouts
from costmodel.optimizers.recommend import ComparedDrafters, compare
from costmodel.optimizers.unmet import NothingAllowedError
from hardware_profiles.errors import InfeasibleError, InputError
from hardware_profiles.loader import load_device

LARGEST_REPLICA = 8  # devices of the layouts that are tried where none is named


def searched_plans(
    question: CapacityQuestion, devices: str, drafts: ComparedDrafts, load: Load, limits: Limits
) -> list[Planned]:
    """Plans of the best designs, one for each drafter and placement, then the placements that cannot
    run.

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
    planned = [_plan(question, joint, design) for design in optimum.ranked]
    unmet = [Planned(row=row) for row in marked_placements(optimum.unmet)]
    named = {plan.row.device for plan in (*planned, *unmet)}
    for device in names_of(devices, "--device"):
        if device not in named:
            planned += _on_device(question, joint, device)
    return [*planned, *unmet]


def _on_device(question: CapacityQuestion, joint: JointQuestion, device: str) -> list[Planned]:
    """The best design on a device that loses to others everywhere, or why it has none."""
    own = [placement for placement in joint.placements if placement.device == device]
    alone = replace(joint, placements=own)
    try:
        return [_plan(question, alone, joint_search(alone).ranked[0])]
    except NothingAllowedError as error:
        where = joint.question.deployment
        row = MarkedPlacement(
            model=where.model,
            device=device,
            engine=where.engine,
            layout="",
            dtype=None,
            kv_dtype=None,
            misses="limits" if joint.slo.limited else "memory",
            reason=str(error),
        )
        return [Planned(row=row)]


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


def _plan(asked: CapacityQuestion, question: JointQuestion, design: Design) -> Planned:
    """The plan of a design, or its mark where it misses the limits or needs too many devices."""
    where, token_budget = design.configuration.deployment, design.scheduler.token_budget
    names: dict[str, Any] = {
        "model": where.model,
        "device": where.device,
        "engine": where.engine,
        "method": design.configuration.method,
        **placed(design),
    }
    service = Service(
        question=asked,
        limits=question.slo,
        configuration=design.configuration,
        setting=budgeted(design.contender.setting, token_budget),
        drafts=[design.acceptance],
        names=names,
        most_batch=design.batch,
        token_budget=token_budget,
    )
    try:
        row = service.planned(question.load)
    except (InfeasibleError, InputError) as error:
        return Planned(row=MarkedPlacement(**names, reason=str(error)))
    if row.devices > question.most_devices:
        reason = f"needs {row.devices} devices, more than --devices"
        return Planned(row=MarkedPlacement(**names, reason=reason))
    return Planned(row=row, service=service)
