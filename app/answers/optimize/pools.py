"""What do designs of a search do where prompts have workers of their own?

Both pools are sized together by simulation, as `capacity --disaggregate` sizes them, and compete
with the replicas that do both. Leaves out steady traffic, to which no pool can be sized.
"""

from dataclasses import dataclass, replace

from app.answers.optimize.simulated import DesignRun
from app.answers.sizing.pools import PooledPlan, pooled_plan
from app.answers.sizing.replicas import Sizing
from app.answers.sizing.traffic import Traffic
from costmodel.answers.workload import RequestTimes
from costmodel.optimizers.joint.evaluation import budgeted
from costmodel.optimizers.joint.objective import objective_value
from costmodel.optimizers.joint.search import Design
from costmodel.optimizers.joint.space import JointQuestion
from hardware_profiles.errors import InfeasibleError, InputError


@dataclass(frozen=True, kw_only=True)
class Pooled:
    """A design whose prompts have workers of their own.

    Args:
        plan: workers of both pools.
        design: of which every worker counts as a replica.
        run: what simulation says of it.
        one_pool: the design of replicas that do both, whose errors are drawn for it.
    """

    plan: PooledPlan
    design: Design
    run: DesignRun
    one_pool: Design


def require_pools(question: JointQuestion, *, simulate: bool) -> None:
    """That pools can be sized for what is asked.

    Raises:
        InputError: no rate is stated, nothing is simulated, or joules are asked about.
    """
    key = "--disaggregate"
    if not question.rate_stated:
        raise InputError("sizes pools for a --rate, or --requests; state one", key=key)
    if not simulate:
        raise InputError("sizes pools by simulation; leave out --no-simulate", key=key)
    if question.maximise == "tokens-per-joule":
        raise InputError("what pools draw is not known; maximise something else", key=key)


def pooled(question: JointQuestion, traffic: Traffic, design: Design) -> Pooled:
    """A design with its prompts on workers of their own, as few of both as keep the limits.

    Args:
        question: what is asked, at a stated rate.
        traffic: whose lengths are simulated; arrivals know nothing of each other.
        design: of a search.

    Raises:
        InputError: data copies, or nothing that can be simulated.
        InfeasibleError: no pools keep the limits, or they take too many devices.
    """
    rate, slo = question.load.requests_per_s, question.slo
    layout, setting = design.contender.placement.layout, design.contender.setting
    plan = pooled_plan(
        Sizing(
            configuration=design.configuration,
            setting=budgeted(setting, design.scheduler.token_budget),
            drafts=[design.acceptance],
            load=question.load,
            traffic=traffic,
            limits=slo,
            seed=question.seed,
            utilisation=question.utilisation,
            most_batch=design.batch,
            token_budget=design.scheduler.token_budget,
        )
    )
    devices = plan.workers * layout.devices
    if devices > question.most_devices:
        raise InfeasibleError(f"needs {devices} devices, more than --devices")
    value = objective_value(
        question.maximise,
        setting.device,
        requests_per_s=rate,
        output_tokens=question.load.output_tokens,
        devices=devices,
        watts=0.0,
    )
    times = plan.times
    enough = slo.share_ratio is None or times.good_ratio >= slo.share_ratio
    workers = replace(
        design,
        replicas=plan.workers,
        requests_per_s=rate / plan.utilisation_ratio,
        tpot_s=times.mean.tpot_s,
        ttft_s=times.mean.ttft_s,
        e2e_s=times.mean.e2e_s,
        value=float(value),
        meets=times.keeps_limits and enough,
        carries=True,
    )
    run = DesignRun(
        ratios=(times.good_ratio if question.maximise == "goodput" else 1.0,),
        tokens_per_s=rate * question.load.output_tokens / plan.workers,
        tpot_s=times.mean.tpot_s,
        tpots_s=(times.mean.tpot_s,),
        ttft_s=times.mean.ttft_s,
        e2e_s=times.mean.e2e_s,
        good_ratio=times.good_ratio,
        sustained=times.sustained,
        meets=workers.meets,
        excess_ratios=RequestTimes(
            ttft_s=times.held.ttft_s / times.mean.ttft_s,
            tpot_s=times.held.tpot_s / times.mean.tpot_s if times.mean.tpot_s else 1.0,
            e2e_s=times.held.e2e_s / times.mean.e2e_s,
        ),
    )
    return Pooled(plan=plan, design=workers, run=run, one_pool=design)
