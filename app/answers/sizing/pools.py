"""How many workers for prompts and how many that decode keep limits under a load?

Workers of both pools are spread alike and simulated as one service: prompts on workers of their own,
whose cache then travels to the decoding worker with the fewest requests. The first token comes from
the pool of prompts, so each pool has a limit of its own and is sized by it: times to first token
size the one, times per output token the other. Both share the time of a whole request: where it is
limited, there are more workers for prompts as long as that saves more of the others. Leaves out
caches that travel while their prompt is still computed.

Reference: Zhong et al. 2024, "DistServe" (arXiv:2401.09670), section 4.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from app.answers.sizing.replicas import (
    DOUBLINGS,
    SimulatedTimes,
    Sizing,
    fewest,
    simulated_times,
)
from costmodel.answers.capacity import CapacityPlan
from hardware_profiles.errors import InfeasibleError, InputError

MOST_WORKERS = 1024  # of both pools, that are simulated
REQUESTS_OF_WORKER = 50  # at least, of which the pools reach their steady state


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PooledPlan:
    """Workers of two pools that simulation confirms.

    Attributes:
        by_rate: the plan of one pool for the rate alone, whose replicas a worker is like.
        prompts: workers that compute prompts.
        decoding: workers that decode.
        utilisation_ratio: time of the busier pool's workers that the load takes by the cost model.
        times: of the service in simulation.
        simulations: that were run to size the pools.
    """

    by_rate: CapacityPlan
    prompts: int
    decoding: int
    utilisation_ratio: float
    times: SimulatedTimes
    simulations: int

    @property
    def workers(self) -> int:
        """Of both pools."""
        return self.prompts + self.decoding


def pooled_plan(sizing: Sizing) -> PooledPlan:
    """The fewest workers of two pools, with the best of several drafts.

    Args:
        sizing: what is sized; a worker is like one of its replicas.

    Raises:
        InputError: data copies, or nothing that can be simulated.
        InfeasibleError: memory holds no request, or no number of workers keeps the limits.
    """
    if sizing.setting.plan is not None and sizing.setting.plan.data > 1:
        raise InputError("prompts have workers of their own where no data copies share a replica")
    refused: list[InfeasibleError] = []
    served: list[PooledPlan] = []
    for draft in sizing.drafts:
        try:
            served.append(_sized(sizing, sizing.by_rate(draft)))
        except InfeasibleError as error:
            refused.append(error)
    if not served:
        raise refused[0]
    return min(served, key=lambda option: (option.workers, option.times.held.tpot_s))


def _sized(sizing: Sizing, by_rate: CapacityPlan) -> PooledPlan:
    """Both pools of one draft, each as small as its own limit lets it be beside the other."""
    prepared = sizing.prepared(by_rate.acceptance, disaggregation={"prefill_replicas": 1})
    seen: dict[tuple[int, int], SimulatedTimes] = {}

    def run(prompts: int, decoding: int) -> SimulatedTimes:
        if prompts + decoding > MOST_WORKERS:
            raise InfeasibleError(f"SLO: pools of up to {MOST_WORKERS:,} workers miss the limits")
        if (prompts, decoding) not in seen:
            seen[prompts, decoding] = simulated_times(
                prepared,
                sizing.load,
                sizing,
                workers=(prompts, decoding),
                least_requests=REQUESTS_OF_WORKER * (prompts + decoding),
            )
        return seen[prompts, decoding]

    busy_prompts, busy_decoding = _busy(by_rate, sizing)
    least = [
        max(math.ceil(busy / sizing.utilisation - 1e-9), 1)
        for busy in (busy_prompts, busy_decoding)
    ]
    ample = least[1] * 2  # decoding workers beside which first tokens wait for prompts alone
    first = replace(sizing.limits, tpot_s=None, e2e_s=None)
    prompts = fewest(lambda n: run(n, ample).keeps(first), least[0], least[0] << DOUBLINGS)

    def beside(prompts: int) -> int | None:
        return fewest(
            lambda n: run(prompts, n).keeps(sizing.limits), least[1], least[1] << DOUBLINGS
        )

    if prompts is not None and sizing.limits.e2e_s is not None:
        prompts = _traded(prompts, beside)
    decoding = None if prompts is None else beside(prompts)
    if prompts is None or decoding is None:
        raise InfeasibleError(f"SLO: {sizing.limits.words}: no pools keep it")
    times = run(prompts, decoding)
    return PooledPlan(
        by_rate=by_rate,
        prompts=prompts,
        decoding=decoding,
        utilisation_ratio=max(busy_prompts / prompts, busy_decoding / decoding),
        times=times,
        simulations=len(seen),
    )


def _traded(least: int, beside: Callable[[int], int | None]) -> int | None:
    """Workers for prompts with which both pools are smallest; None where no number keeps the limits.

    Args:
        least: of them, by the time to the first token.
        beside: decoding workers that keep all limits beside so many.
    """
    prompts = fewest(lambda n: beside(n) is not None, least, least << DOUBLINGS)
    if prompts is None:
        return None
    decoding = beside(prompts)
    while decoding is not None and (fewer := beside(prompts + 1)) is not None:
        if fewer + 1 >= decoding:
            break
        prompts, decoding = prompts + 1, fewer
    return prompts


def _busy(by_rate: CapacityPlan, sizing: Sizing) -> tuple[float, float]:
    """Workers that the load keeps busy in either pool, by the cost model: a prompt alone, and the
    cheapest batch of steps.
    """
    curve, load = by_rate.curve, sizing.load
    steps = load.output_tokens / by_rate.acceptance.tokens_per_step
    prompt_s = float(np.mean(curve.prompts.alone_s)) / by_rate.setting.parallel_prompts
    decode_s = float(np.min(steps * curve.step_s / curve.batch))
    return load.requests_per_s * prompt_s, load.requests_per_s * decode_s
