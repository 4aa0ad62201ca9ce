"""`capacity`: devices, watts and dollars for a load within latency limits, with and without a
method.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.answers.answer import Answer
from app.answers.capacity.confirmed import sampled_fleet
from app.answers.capacity.drafts import PLAIN, ComparedDrafts, compared_drafts
from app.answers.capacity.hours import day_plan, peak
from app.answers.capacity.named import named_plans
from app.answers.capacity.rows import CapacityPlans, PlanAssumptions, best_plan, best_row
from app.answers.capacity.searched import searched_plans
from app.answers.capacity.service import in_pools
from app.answers.cells import LISTED, cells_of
from app.answers.estimates import acceptance
from app.questions.capacity import CapacityQuestion
from app.questions.field import inputs_of
from app.questions.resolve.accepted import numbers_words, undrafted
from app.questions.resolve.limits import asked_limits
from app.questions.resolve.profiles import HourRate, read_profile, recorded_profile
from costmodel.answers.energy import power_model
from costmodel.answers.estimate import Setting
from costmodel.answers.workload import (
    Limits,
    Load,
    Population,
    load_of_means,
    load_of_requests,
)
from costmodel.drafters.checkpoint import lacking_layers
from costmodel.optimizers.joint.space import PROMPTS
from hardware_profiles.errors import InputError
from traces.importers.formats import read_requests_any


def answer(question: CapacityQuestion) -> Answer:
    """Replicas for a load: of every cell, number of tensor devices and method that are named, or of
    the best designs of a search.

    Raises:
        InputError: options that contradict each other, or no cell that can run.
        NothingAllowedError: a search has found nothing that fits, or that meets the limits.
    """
    question = undrafted(question)
    load, profile = _load(question)
    limits = asked_limits(question)
    if not 0.0 < question.utilisation < 1.0:
        raise InputError(
            "must lie between 0 and 1, both excluded",
            key="--utilisation",
            value=question.utilisation,
        )
    devices = ",".join(question.device or ["h100-sxm"])
    cells = cells_of({"model": question.model, "engine": question.engine, "device": devices})
    drafts = compared_drafts(question, cells[0]["model"])
    if question.search == "full":
        planned = searched_plans(question, devices, drafts, load, limits)
    else:
        planned = named_plans(question, cells, drafts, load, limits)
    if question.disaggregate:
        planned = [
            option
            for plan in planned
            for option in (plan, *([in_pools(plan.service, load)] if plan.service else []))
        ]
    rows = [plan.row for plan in planned]
    best, day, fleet = best_row(rows, ranked=question.search == "full"), None, None
    if best is not None:
        (service,) = [plan.service for plan in planned if plan.row is best and plan.service]
        day = day_plan(service, best, load, profile) if profile else None
        fleet = sampled_fleet(service, best, load)
    listed = {name: ",".join(dict.fromkeys(cell[name] for cell in cells)) for name in LISTED}
    return CapacityPlans(
        inputs=_inputs(question, drafts, load, limits) | listed,
        plans=rows,
        best=None if best is None else best_plan(best),
        day=day,
        fleet=fleet,
        assumptions=_assumptions(
            [plan.service.setting for plan in planned if plan.service is not None]
        ),
        acceptance=(
            acceptance(drafts.source, drafts.drafts)
            if drafts.source is not None and drafts.drafts
            else None
        ),
        remarks=[
            *_lacking(question, drafts, cells),
            *numbers_words(drafts.source if drafts.drafts else None, drafts.drafts),
            *_unpriced([plan.service.setting for plan in planned if plan.service is not None]),
        ],
    )


def _load(question: CapacityQuestion) -> tuple[Load, Sequence[HourRate]]:
    """The requests to serve, at the peak of a profile; and its hours, none where there is no profile.

    Raises:
        InputError: lengths beside a file that has its own, or neither; a rate beside a profile.
    """
    profile: Sequence[HourRate] = ()
    if question.users is not None:
        return _load_of_users(question, question.users), profile
    if question.think_time is not None:
        raise InputError("goes with --users, who think between requests", key="--think-time")
    if question.profile is not None:
        if question.rate is not None:
            raise InputError("has rates of its own; leave out --rate", key="--profile")
        profile = read_profile(question.profile)
    rate, prompt, output = question.rate, question.prompt, question.output
    if question.requests is not None:
        if prompt is not None or output is not None:
            raise InputError(
                "--requests has its own lengths; leave out --prompt-tokens and --output-tokens"
            )
        prompts = {"prompts": PROMPTS} if question.search == "full" else {}
        recorded = read_requests_any(question.requests)
        if rate is None and not profile:
            profile = recorded_profile(recorded)
        rate = peak(profile).requests_per_s if profile else rate
        return load_of_requests(recorded, requests_per_s=rate, **prompts), profile
    rate = peak(profile).requests_per_s if profile else rate
    if rate is None or prompt is None or output is None:
        raise InputError(
            "--rate or --users, --prompt-tokens and --output-tokens are needed, or --requests FILE"
        )
    load = load_of_means(requests_per_s=rate, prompt_tokens=prompt, output_tokens=output)
    return load, profile


def _load_of_users(question: CapacityQuestion, users: int) -> Load:
    """The load of people who wait for their answers, whose rate is left to the plans.

    Raises:
        InputError: a rate beside them, or what is planned for a rate alone.
    """
    alone = "goes without --users, whose rate follows from how fast they are answered"
    for option, stated in (
        ("--rate", question.rate is not None),
        ("--profile", question.profile is not None),
        ("--search", question.search == "full"),
        ("--disaggregate", question.disaggregate),
    ):
        if stated:
            raise InputError(alone, key=option)
    if question.requests is not None:
        recorded = read_requests_any(question.requests)
        load = load_of_requests(recorded, requests_per_s=1.0)
    elif question.prompt is None or question.output is None:
        raise InputError("--prompt-tokens and --output-tokens are needed beside it", key="--users")
    else:
        lengths = {"prompt_tokens": question.prompt, "output_tokens": question.output}
        load = load_of_means(requests_per_s=1.0, **lengths)
    return replace(load, population=Population(users=users, think_s=question.think_time or 0.0))


def _inputs(
    question: CapacityQuestion, drafts: ComparedDrafts, load: Load, limits: Limits
) -> dict[str, Any]:
    """What was asked, with the load's own numbers and the method's slug."""
    return inputs_of(
        question,
        rate=None if load.population is not None else load.requests_per_s,
        think_time=None if load.population is None else load.population.think_s,
        prompt_tokens=load.mean_prompt_tokens,
        output_tokens=load.output_tokens,
        limits=limits.words or None,
        method=drafts.method or PLAIN,
        drafter=question.drafter or [],
        draft_tokens=None if drafts.shapes else ",".join(map(str, drafts.lengths)),
        set=question.overrides or [],
    )


def _lacking(
    question: CapacityQuestion, drafts: ComparedDrafts, cells: Sequence[Mapping[str, str]]
) -> list[str]:
    """That the checkpoint of a model lacks what drafts."""
    brought = question.draft is not None or question.draft_bytes is not None
    words = dict.fromkeys(
        lacking_layers(drafts.method or PLAIN, cell["model"], brought=brought) for cell in cells
    )
    return [said for said in words if said]


def _unpriced(settings: Sequence[Setting]) -> list[str]:
    """What the price of adapters leaves out, once for every plan where it differs."""
    words = dict.fromkeys(setting.deployment.unpriced_adapters for setting in settings)
    return [f"{said}." for said in words if said]


def _assumptions(settings: Sequence[Setting]) -> PlanAssumptions:
    """How the engines of plans divide memory, and the power models of their devices."""
    memory = dict.fromkeys(setting.engine.memory.source for setting in settings)
    return PlanAssumptions(
        memory="; ".join(memory),
        power={setting.device.kind: power_model(setting.device).source for setting in settings},
    )
