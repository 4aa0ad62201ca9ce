"""What do users see whose prompts are computed by workers of their own?

Prompts queue for workers that compute nothing else, their cache travels, and other workers decode:
both kinds are the engines of `simulator.closed_loop.serve`, each with its own plan, limits and
cache. Leaves out caches that travel while their prompt is still computed.

Reference: Zhong et al. 2024, "DistServe" (arXiv:2401.09670), section 3; Patel et al. 2024,
"Splitwise" (arXiv:2311.18677), section 4.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.engines.record.engine import Engine
from costmodel.parallel.plan import ParallelPlan
from costmodel.parallel.pools import ServingPlan, transfer_seconds
from costmodel.passes.deployment import Deployment
from hardware_profiles.errors import InfeasibleError, InputError
from simulator.closed_loop.drafting import Drafting
from simulator.closed_loop.serve import (
    INTAKE_S,
    Served,
    scheduler_for,
    seen_by_users,
    timer_for,
)
from simulator.closed_loop.users import Users
from simulator.engine import simulate
from simulator.loop.options import Disaggregation, Scenario, SchedulerOptions
from simulator.timing.cost_timer import CostModelTimer

Timers = dict[ParallelPlan, CostModelTimer]
# Users meet the same queues again and again, so that a service of thousands is known from a part of
# its run: the first burst, the last requests, beside which the batch empties, and some between
# them, whose latest stand for the rest. Against whole runs of 4096 to 8192 users: TTFT within 3 %,
# TPOT within .2 %.
_MOST_REQUESTS = 16384
_LEAST_PER_USER = 4
# A first burst passes the front end and the router of an unwarmed service one request after another.
# InferenceX's runs with workers apart, TensorRT-LLM under Dynamo: ten times mean less median of the
# time to first token, above a simulation without it, is 0.1 to 0.3 s with 4 to 32 users and 2.3 to
# 2.9 s with 256, with one worker for prompts or four.
_ROUTED_S = 0.016


def serve_pools(
    deployment: Deployment,
    engine: Engine,
    users: Users,
    plan: ServingPlan,
    *,
    prompts: Engine | None = None,
    timers: Timers | None = None,
    cuts: bool = False,
    drafting: Drafting | None = None,
) -> tuple[Served, CostModelTimer]:
    """Simulate a closed loop of users before a service of several workers.

    A front end in several threads tokenises prompts and hands them to the worker with the fewest
    requests; the decoding worker answers once it has the cache and takes the request in.

    Args:
        deployment: model, device and number formats; its tensor-parallel degree is replaced by the
            plans'.
        engine: of the workers that decode, with its settings on the device.
        users: and their requests.
        plan: of the service, with workers for prompts.
        prompts: the same engine as workers for prompts are set; None: as those that decode.
        timers: by plan, of runs before this one that differ in users alone; more are added.
        cuts: requests are sampled by top-k or top-p.
        drafting: of every request; None: plain decoding.

    Returns:
        What the users see, and the timer of the workers that decode.

    Raises:
        InputError: a plan that does not divide the model.
        InfeasibleError: one request does not fit.
    """
    assert plan.prefill is not None
    timers = {} if timers is None else timers
    decode = plan.decode
    part = _part(users)
    timer = plan_timer(timers, deployment, engine, decode.plan, cuts=cuts, drafting=drafting)
    scheduler = _limits(deployment, engine, users, decode.plan)
    latency_s, token_s = transfer_seconds(
        deployment.architecture,
        deployment.precision,
        deployment.device,
        plan,
        tokens=users.prompt_tokens,
    )
    apart = Disaggregation(
        prefill_replicas=plan.prefill.count,
        prefill_timer=plan_timer(
            timers, deployment, engine, plan.prefill.plan, cuts=cuts, drafting=drafting
        ),
        prefill_scheduler=_limits(
            deployment, prompts or engine, replace(users, output_tokens=1), plan.prefill.plan
        ),
        transfer_token_s=token_s + users.tokenise_s,
        transfer_latency_s=latency_s + INTAKE_S,
        delivers="decode",
    )
    result = simulate(
        Scenario(
            workload=part.workload(),
            scheduler=scheduler,
            timer=timer,
            speculation=None if drafting is None else drafting.options(timer.setting),
            series=False,
            replicas=decode.count,
            router="least-loaded",
            disaggregation=apart,
        )
    )
    if not result.finished.all():
        raise InfeasibleError(f"a request of {users.context_tokens} tokens does not fit {decode}")
    cold_s = 0.0
    if users.cold:
        cold_s = engine.host.cold_s(deployment.device.name, users.users)
        cold_s += _ROUTED_S * users.users / 2
    return seen_by_users(
        result,
        timer,
        users,
        cache_tokens=decode.count * scheduler.kv_blocks * scheduler.block_tokens,
        cold_s=cold_s,
        weights=_weights(part, users),
        separate_prompts=True,
    ), timer


def plan_timer(
    timers: Timers,
    deployment: Deployment,
    engine: Engine,
    plan: ParallelPlan,
    *,
    cuts: bool = False,
    drafting: Drafting | None = None,
) -> CostModelTimer:
    """The timer of a plan; one tensor group within a node needs no plan.

    Args:
        timers: by plan, of the same deployment and engine; the timer is added where it is missing.
        deployment: model, device and number formats.
        engine: whose kernels run.
        plan: of one worker.
        cuts: requests are sampled by top-k or top-p.
        drafting: of every request; None: plain decoding.

    Raises:
        InputError: a plan that does not divide the model.
    """
    if plan not in timers:
        plan.check(deployment.architecture)
        own = replace(deployment, tensor_parallel=plan.tensor)
        alone = plan == ParallelPlan(tensor=plan.tensor) and plan.tensor <= plan.node_of(
            deployment.device
        )
        timers[plan] = timer_for(own, engine, None if alone else plan, cuts=cuts, drafting=drafting)
    return timers[plan]


def _part(users: Users) -> Users:
    """As many of the requests as are simulated."""
    most = max(_LEAST_PER_USER, _MOST_REQUESTS // users.users)
    return replace(users, requests_per_user=min(users.requests_per_user, most))


def _weights(part: Users, whole: Users) -> NDArray[np.float64]:
    """What each simulated request stands for: itself, and a user's last but one also for those left
    out.
    """
    weights = np.ones(part.requests)
    settled = slice(part.requests - 2 * part.users, part.requests - part.users)
    weights[settled] += whole.requests_per_user - part.requests_per_user
    return weights


def _limits(
    deployment: Deployment, engine: Engine, users: Users, plan: ParallelPlan
) -> SchedulerOptions:
    """Limits of a worker; its prompts are received by the service."""
    if engine.scheduler is None:
        raise InputError(
            "must be an engine whose scheduler is known", key="engine", value=engine.name
        )
    own = replace(deployment, tensor_parallel=plan.tensor)
    return replace(scheduler_for(own, engine, users, plan), intake_s=0.0, intake_token_s=0.0)
