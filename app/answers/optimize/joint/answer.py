"""`optimize --search full`: layouts, formats, devices, batch caps and token budgets beside drafters
and drafts, and how sure the best of them is.
"""

import math
from typing import Any, TypeVar

from app.answers.answer import Answer
from app.answers.deployables import file_paths, first_deployable
from app.answers.optimize.choices import candidate
from app.answers.optimize.joint.confirmed import ConfirmedSearch, Finalist, confirmed_search
from app.answers.optimize.joint.question import joint_question
from app.answers.optimize.joint.rows import (
    AskedLimits,
    AskedObjective,
    JointAnswer,
    SearchCounts,
)
from app.answers.optimize.joint.simulated import DesignRun, Traffic
from app.answers.optimize.rows import DesignRow, FinalistRow, SimulatedDesign
from app.answers.placements import marked_placements, placed
from app.answers.progress import counting
from app.exporters.registry import ENGINES
from app.questions.field import inputs_of
from app.questions.optimize import OptimizeQuestion
from app.questions.places import is_object
from costmodel.answers.estimate import estimate
from costmodel.optimizers.joint.objective import UNITS
from costmodel.optimizers.joint.space import JointQuestion

_Design = TypeVar("_Design", bound=DesignRow)


def answer(question: OptimizeQuestion) -> Answer:
    """Search, simulate and compare designs; engines get files where the best does what is asked.

    Raises:
        NothingAllowedError: nothing fits, or nothing carries the load.
        InputError: options that contradict each other, or a value out of range.
    """
    joint, traffic = joint_question(question)
    with counting(question.quiet) as report:
        search = confirmed_search(joint, traffic, simulate=question.simulate, report=report)
    winner, optimum, comparison = search.finalists[0], search.optimum, search.comparison
    met = winner.meets(joint.slo)
    best = [winner.design.configuration]
    entries = [first_deployable(best, engine) for engine in ENGINES] if met else []
    folder = None if question.out is None or is_object(question.out) else question.out
    finalists = _finalists(search)
    return JointAnswer(
        inputs=_inputs(question, joint, traffic),
        limits=AskedLimits(
            ttft_s=joint.slo.ttft_s,
            tpot_s=joint.slo.tpot_s,
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
        unmet=marked_placements(optimum.unmet),
        search=SearchCounts(
            designs=optimum.considered,
            evaluated=optimum.evaluated,
            nodes=optimum.nodes,
            pruned_nodes=optimum.pruned,
            simulations=search.simulations,
        ),
        exports={} if folder is None else file_paths(entries, folder),
        entries=entries,
        folder=folder,
    )


def _inputs(question: OptimizeQuestion, joint: JointQuestion, traffic: Traffic) -> dict[str, Any]:
    """What was asked, with the model of traces and the lengths that are usual."""
    return inputs_of(
        question,
        model=joint.question.deployment.model,
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
            )
        )
    return rows


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
        context=joint.load.decode_context,
    )
    drafter = joint.compared.names[design.contender.source] if design.contender.drafts else ""
    return kind(
        **candidate(design, drafter),
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
        meets_limits=finalist.meets(joint.slo),
        carries_load=design.carries,
        predicted_objective=_finite(design.value),
        objective=_finite(finalist.value),
        usd_per_hour=None if price is None else price * design.devices,
        simulated=None if finalist.run is None else _simulated(finalist.run),
        not_simulated=finalist.reason or None,
        calibrated=device.calibrated,
        configuration=design.configuration.to_json(),
        **more,
    )


def _simulated(run: DesignRun) -> SimulatedDesign:
    return SimulatedDesign(
        objective_ratio=sum(run.ratios) / len(run.ratios),
        seeds=len(run.ratios),
        tokens_per_s_per_replica=run.tokens_per_s,
        tpot_s=run.tpot_s,
        ttft_s=run.ttft_s,
        good_ratio=run.good_ratio,
        sustained=run.sustained,
        meets_limits=run.meets,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
