"""`optimize --search full`: layouts, formats, devices, batch caps and token budgets beside what is
drafted or committed, under a load.

The question becomes a joint search; its best designs are simulated and compared
(`app.answers.optimize.confirmed`) and become rows.
"""

import math
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from app.answers.deployables import engines_to_write, file_paths, first_deployable
from app.answers.optimize.candidates import asked_drafters, deployment_options, draft_axes
from app.answers.optimize.choices import candidate
from app.answers.optimize.confirmed import ConfirmedSearch, Finalist, confirmed_search
from app.answers.optimize.designs import AskedLimits, AskedObjective, Designs, SearchCounts
from app.answers.optimize.masked import DEFAULT_MODEL, MaskedPolicies, unplayed_rows
from app.answers.optimize.pools import require_pools
from app.answers.optimize.recommended import Recommended
from app.answers.optimize.rows import DesignRow, FinalistRow, SimulatedDesign
from app.answers.optimize.simulated import DesignRun
from app.answers.placements import (
    MarkedPlacement,
    listed_placements,
    marked_placements,
    one_deployment,
    placed,
)
from app.answers.progress import counting
from app.answers.sizing.traffic import Traffic
from app.questions.field import inputs_of
from app.questions.optimize import OptimizeQuestion
from app.questions.places import is_object
from app.questions.resolve.limits import asked_limits, refuse_percentiles
from costmodel.answers.estimate import estimate
from costmodel.answers.workload import Load, load_of_requests
from costmodel.configuration import DecodingConfiguration
from costmodel.optimizers.joint.evaluation import node_load
from costmodel.optimizers.joint.objective import UNITS, objective_named
from costmodel.optimizers.joint.search import Design
from costmodel.optimizers.joint.space import PROMPTS, TOKEN_BUDGETS, JointQuestion
from costmodel.optimizers.layouts import BATCHES, Layout, layout_named, layout_of, usual_layouts
from costmodel.optimizers.recommend import compare
from hardware_profiles.errors import InputError
from simulator.scenario.arrivals import drawn_lengths
from traces.importers.formats import read_requests_any

PROMPT_TOKENS, OUTPUT_TOKENS = "1024", "uniform:128:384"
_LOAD_REQUESTS = 2000  # drawn to say what lengths a law has
_Design = TypeVar("_Design", bound=DesignRow)


def search_load(question: OptimizeQuestion, masked: MaskedPolicies | None = None) -> Recommended:
    """Search, simulate and compare designs; engines get files where the best does what is asked.

    Args:
        question: what is asked.
        masked: policies of masked blocks, which compete in the place of drafts.

    Raises:
        NothingAllowedError: nothing fits, or nothing carries the load.
        InputError: options that contradict each other, or a value out of range.
    """
    joint, traffic = _joint_question(question, masked)
    with counting(question.quiet) as report:
        search = confirmed_search(
            joint,
            traffic,
            simulate=question.simulate,
            disaggregate=question.disaggregate,
            report=report,
        )
    winner, optimum, comparison = search.finalists[0], search.optimum, search.comparison
    entries = []
    if masked is None and winner.pooled is None and winner.meets(joint.slo):
        best = [winner.design.configuration]
        engines = engines_to_write(question.engines, question.engine)
        entries = [first_deployable(best, engine) for engine in engines]
    folder = None if question.out is None or is_object(question.out) else question.out
    finalists = _finalists(search)
    inputs = _inputs(question, joint, traffic)
    ranking = Designs(
        inputs=inputs,
        limits=AskedLimits(
            ttft_s=joint.slo.ttft_s,
            tpot_s=joint.slo.tpot_s,
            e2e_s=joint.slo.e2e_s,
            good_share=joint.slo.share_ratio,
            meaning=joint.slo.words or None,
        ),
        load_per_s=joint.load.requests_per_s if joint.rate_stated else None,
        carried_per_s=_carried(joint, winner),
        objective=AskedObjective(
            maximise=joint.maximise,
            unit=UNITS[joint.maximise],
            traffic="rate" if joint.rate_stated else "steady",
        ),
        choices=finalists[:1],
        alternatives=finalists[1:],
        expected_regret=comparison.expected_regret,
        expected_regret_ratio=comparison.regret_ratio,
        front=[_row(DesignRow, joint, finalist) for finalist in search.front],
        search=SearchCounts(
            designs=optimum.considered,
            evaluated=optimum.evaluated,
            nodes=optimum.nodes,
            pruned_nodes=optimum.pruned,
            simulations=search.simulations,
        ),
        exports={} if folder is None else file_paths(entries, folder),
        quality=None if masked is None else masked.quality,
    )
    unplayed = [] if masked is None else unplayed_rows(joint.compared)
    return Recommended(
        inputs=inputs,
        ranking=ranking,
        unmet=[*marked_placements(optimum.unmet), *_poolless(joint, search), *unplayed],
        limits=joint.slo,
        entries=entries,
        folder=folder,
    )


def _joint_question(
    question: OptimizeQuestion, masked: MaskedPolicies | None
) -> tuple[JointQuestion, Traffic]:
    """What a joint search is asked, and the requests that designs are simulated with.

    Raises:
        InputError: several models or engines, or values out of range.
    """
    if not question.simulate:
        refuse_percentiles(
            question,
            "percentiles come from simulations; leave out --no-simulate",
        )
    load, traffic = _load_and_traffic(question)
    options = deployment_options(question)
    if masked is not None:
        options["model"] = question.model or DEFAULT_MODEL
    axes = draft_axes(question, None if masked is None else masked.policies)
    base, sources = asked_drafters(question, one_deployment(options), axes, masked)
    compared = compare(base, sources, seed=question.seed, **axes)
    joint = JointQuestion(
        compared=compared,
        placements=listed_placements(options, _layouts(question, compared.question)),
        most_devices=question.devices,
        batch_caps=question.batch_caps or BATCHES,
        token_budgets=question.token_budgets or TOKEN_BUDGETS,
        load=load,
        rate_stated=question.rate is not None or question.requests is not None,
        slo=asked_limits(question, good_share=question.good_share),
        maximise=objective_named(question.maximise),
        seed=question.seed,
        floor=None if masked is None else masked.floor,
    )
    if question.disaggregate:
        require_pools(joint, simulate=question.simulate)
    return joint, traffic


def _load_and_traffic(question: OptimizeQuestion) -> tuple[Load, Traffic]:
    """The load, and the requests that simulations serve.

    Raises:
        InputError: lengths beside a file that has its own, or forms that are none.
    """
    if question.requests is not None and (question.prompt_tokens or question.output_tokens):
        raise InputError(
            "--requests has its own lengths; leave out --prompt-tokens and --output-tokens"
        )
    traffic = Traffic(
        requests=question.requests,
        prompt_tokens=question.prompt_tokens or PROMPT_TOKENS,
        output_tokens=question.output_tokens or OUTPUT_TOKENS,
    )
    if question.requests is not None:
        recorded = read_requests_any(question.requests, None)
        load = load_of_requests(recorded, requests_per_s=question.rate, prompts=PROMPTS)
        return load, replace(traffic, count=min(traffic.count, recorded.requests))
    drawn = drawn_lengths(
        traffic.prompt_tokens, traffic.output_tokens, _LOAD_REQUESTS, np.random.default_rng(0)
    )
    return load_of_requests(drawn, requests_per_s=question.rate or 1.0, prompts=PROMPTS), traffic


def _layouts(question: OptimizeQuestion, base: DecodingConfiguration) -> list[Layout]:
    """The layouts that are named, else that of --tp and its like, else the usual ones."""
    if question.layouts:
        return [layout_named(text.strip()) for text in question.layouts.split(",")]
    stated = layout_of(base)
    return (
        [stated] if stated != Layout() else usual_layouts(base.deployment.model, question.devices)
    )


def _inputs(question: OptimizeQuestion, joint: JointQuestion, traffic: Traffic) -> dict[str, Any]:
    """What was asked, with the model of traces and the lengths that are usual."""
    return inputs_of(
        question,
        model=joint.question.deployment.model,
        quality_floor=joint.floor,
        prompt_tokens=traffic.prompt_tokens,
        output_tokens=traffic.output_tokens,
        trace=[str(path) for path in question.trace or ()],
        drafter=question.drafter or [],
        set=question.overrides or [],
    )


def _carried(joint: JointQuestion, winner: Finalist) -> float | None:
    """Requests per second of the stated rate that the winner carries; None where none is stated."""
    if not joint.rate_stated:
        return None
    return min(joint.load.requests_per_s, joint.utilisation * winner.design.requests_per_s)


def _finalists(search: ConfirmedSearch) -> list[FinalistRow]:
    """Rows of the finalists, best first, with what comparing them says."""
    comparison = search.comparison
    rows = []
    for place, finalist in enumerate(search.finalists):
        low, high = comparison.intervals[place]
        lost = float(comparison.beaten_probability[place])
        rows.append(
            _row(
                FinalistRow,
                search.question,
                finalist,
                objective_interval=(low, high),
                best_probability=float(comparison.best_probability[place]),
                loses_to_winner_probability=None if math.isnan(lost) else lost,
                ties=place < search.tied,
                as_fast=place < search.tied and finalist.is_as_fast_as(search.finalists[0]),
            )
        )
    return rows


def _poolless(joint: JointQuestion, search: ConfirmedSearch) -> list[MarkedPlacement]:
    """Designs without workers of their own for prompts, and why they have none."""
    return [
        MarkedPlacement(
            model=joint.question.deployment.model,
            device=design.contender.placement.device,
            engine=joint.question.deployment.engine,
            **placed(design),
            misses="limits" if reason.startswith("SLO") else None,
            reason=f"pools of {_drafter(joint, design) or 'plain decoding'}: {reason}",
        )
        for design, reason in search.refused
    ]


def _drafter(joint: JointQuestion, design: Design) -> str:
    """What drafts, by name; empty of plain decoding."""
    return joint.compared.names[design.contender.source] if design.contender.drafts else ""


def _row(kind: type[_Design], joint: JointQuestion, finalist: Finalist, **more: Any) -> _Design:
    """A design as a row.

    Args:
        kind: of the row.
        joint: what was asked.
        finalist: the design with its simulations.
        more: attributes that the kind has beyond those of a design.
    """
    design = finalist.design
    layout = design.contender.placement.layout
    device = design.contender.setting.device
    price, output_tokens = device.price_usd_per_hour, joint.load.output_tokens
    steady = estimate(
        design.contender.setting,
        design.acceptance,
        batch=float(design.batch),
        context=node_load(design.contender, joint.load).decode_context,
    )
    played = design.acceptance.played
    pools = None if finalist.pooled is None else finalist.pooled.plan
    return kind(
        **candidate(design, _drafter(joint, design)),
        **placed(design),
        dp=layout.data,
        ep=layout.expert,
        pp=layout.pipeline,
        replicas=design.replicas,
        devices=design.devices,
        requests_per_s=design.requests_per_s,
        tokens_per_s=design.requests_per_s * output_tokens,
        tokens_per_s_per_user=1.0 / design.tpot_s,
        tokens_per_s_per_device=design.tokens_per_s_per_device(output_tokens),
        tpot_s=design.tpot_s,
        speedup=float(steady.speedup),
        ttft_s=design.ttft_s,
        e2e_s=design.e2e_s,
        meets_limits=finalist.meets(joint.slo),
        carries_load=design.carries,
        predicted_objective=_finite(design.value),
        objective=_finite(finalist.value),
        usd_per_hour=None if price is None else price * design.devices,
        simulated=None if finalist.run is None else _simulated(finalist.run),
        not_simulated=finalist.reason or None,
        calibrated=device.calibrated,
        configuration=design.configuration.to_json(),
        agreement=design.acceptance.agreement,
        agreement_interval=None if played is None else played.agreement_bounds,
        prompt_workers=None if pools is None else pools.prompts,
        decode_workers=None if pools is None else pools.decoding,
        **more,
    )


def _simulated(run: DesignRun) -> SimulatedDesign:
    return SimulatedDesign(
        objective_ratio=sum(run.ratios) / len(run.ratios),
        seeds=len(run.ratios),
        tokens_per_s_per_replica=run.tokens_per_s,
        tpot_s=run.tpot_s,
        ttft_s=run.ttft_s,
        e2e_s=run.e2e_s,
        good_ratio=run.good_ratio,
        sustained=run.sustained,
        meets_limits=run.meets,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
