"""What do c users see who keep an engine busy: time to first token, time per output token,
throughput?

The front door for closed loops: a deployment under an engine's defaults, timed in the engine's own
kernels and run by the simulator. Leaves out the network, what streaming costs, open-loop arrivals
and prefix sharing.

Reference: Agrawal et al. 2024, "Sarathi-Serve" (arXiv:2403.02310), section 4, for iterations that
mix prompts and decodes; Kwon et al. 2023, "PagedAttention" (arXiv:2309.06180), section 4.5, for
preemption by recomputation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.answers.estimate import Setting
from costmodel.answers.fit import cache_tokens
from costmodel.answers.steps.step import StepCost
from costmodel.answers.uncertainty import DRAWS, draw_steps, interval
from costmodel.drafters.drafter import build_drafter
from costmodel.engines.record.engine import Engine
from costmodel.method_library import load_method
from costmodel.parallel.plan import ParallelPlan
from costmodel.passes.deployment import Deployment
from hardware_profiles.errors import InfeasibleError
from simulator.closed_loop.drafting import Drafting
from simulator.closed_loop.left_out import Serving, left_out_ratio
from simulator.closed_loop.users import Users
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions
from simulator.results.metrics import SimulationResult
from simulator.timing.cost_timer import CostModelTimer, TableSize
from simulator.timing.engine_passes import EnginePasses

# What a front end needs to receive and queue a prompt, ASSUMED. Engines tokenise in one thread (vLLM
# issue 25301; SGLang's tokenizer manager), at the rate of `Users.tokenise_s`.
INTAKE_S = 1e-3
_HOST = "host"
# tables of this size serve nearly every closed loop, so that loops of one deployment share them
_USUAL_SIZE = TableSize(rows=1 << 14, requests=512, context_tokens=1 << 14, query_tokens=1)
_SIGMA_80 = 1.2816  # standard normal quantile at 0.9


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Served:
    """What the users see, means over all requests.

    Args:
        ttft_s: time to first token.
        ttft_median_s: median of it over all requests: what they wait once the first burst is over.
        tpot_s: time per output token after the first; of one token alone, nan.
        in_flight: mean requests that are sent and not answered.
        cache_tokens: tokens that the cache holds.
        seconds: of the run by operation, the engine's overhead and exposed host time included.
        ttft_seconds: mean seconds to the first token: `intake` of a prompt, its `queue` for an
            iteration, `cold` kernels of the first burst, and `prefill` with everything after it;
            none is negative, and together they are `ttft_s`.
        result: everything else that the simulation tells.
    """

    ttft_s: float
    ttft_median_s: float
    tpot_s: float
    in_flight: float
    cache_tokens: int
    seconds: Mapping[str, float]
    ttft_seconds: Mapping[str, float]
    result: SimulationResult

    @property
    def requests_per_s(self) -> float:
        """Finished requests over the time of the run."""
        return self.result.request.size / self.result.clock_s


def timer_for(
    deployment: Deployment,
    engine: Engine,
    plan: ParallelPlan | None = None,
    *,
    cuts: bool = False,
    drafting: Drafting | None = None,
) -> CostModelTimer:
    """Times the iterations of decoding in an engine's own kernels; closed loops of a deployment can
    share it.

    Args:
        deployment: model, device and how they run.
        engine: with its defaults on the device.
        plan: how the model is spread; None: one tensor-parallel group, as the deployment says.
        cuts: requests are sampled by top-k or top-p.
        drafting: of every request; None: plain decoding.
    """
    method = load_method("plain-decoding") if drafting is None else drafting.method
    setting = Setting(
        deployment=deployment,
        drafter=build_drafter(method, deployment.architecture),
        overhead=engine.overhead(method.drafted_by),
        plain_overhead=engine.overhead("none"),
        engine=engine,
    )
    return CostModelTimer(
        setting, plan, passes=EnginePasses(deployment, engine, plan, cuts=cuts), least=_USUAL_SIZE
    )


def scheduler_for(
    deployment: Deployment, engine: Engine, users: Users, plan: ParallelPlan | None = None
) -> SchedulerOptions:
    """The scheduler and the cache of an engine that serves these users.

    Data copies run in lock step: each has the engine's limits, and together they are one replica.

    Where prompts stay whole, the budget of an iteration holds the longest of them beside everybody
    who decodes: an engine that was launched for these requests has room for them.

    Args:
        deployment: model, device and how they run.
        engine: with its defaults on the device.
        users: and their requests.
        plan: how the model is spread; None: one tensor-parallel group, as the deployment says.

    Raises:
        InfeasibleError: not even one request fits.
    """
    usual = replace(engine.scheduling, prefix_cache=False)  # users share no prompts
    if not usual.chunked_prefill:
        most = users.prompt_tokens + min(users.users, usual.max_requests)
        usual = replace(usual, token_budget=max(usual.token_budget, most))
    if plan is not None:
        usual = usual.of_copies(plan.data)
    tokens = cache_tokens(deployment, engine, context=users.context_tokens, plan=plan)
    return SchedulerOptions(
        **asdict(usual),
        block_tokens=engine.memory.block_tokens,
        kv_blocks=int(tokens // engine.memory.block_tokens),
        intake_s=INTAKE_S,
        intake_token_s=users.tokenise_s,
    )


def serve(
    deployment: Deployment,
    engine: Engine,
    users: Users,
    *,
    timer: CostModelTimer | None = None,
    plan: ParallelPlan | None = None,
    drafting: Drafting | None = None,
) -> Served:
    """Simulate a closed loop and report what its users see.

    Args:
        deployment: model, device and how they run.
        engine: with its defaults on the device.
        users: and their requests.
        timer: of `timer_for`; None makes one.
        plan: how the model is spread; None: one tensor-parallel group, as the deployment says.
        drafting: of every request; None: plain decoding.

    Raises:
        InfeasibleError: one request does not fit.

    >>> from costmodel.architectures.library import load_model
    >>> from costmodel.engine_library import load_engine
    >>> from costmodel.passes.precision import Precision
    >>> from hardware_profiles.loader import load_device
    >>> h100 = load_device("h100-sxm")
    >>> d = Deployment(architecture=load_model("llama-3.1-8b"), device=h100, precision=Precision())
    >>> served = serve(d, load_engine("vllm").on(h100), Users(users=8, prompt_tokens=1024, output_tokens=128))
    >>> bool(0.02 < served.ttft_s < 0.3), bool(0.005 < served.tpot_s < 0.012)
    (True, True)
    """
    timer = timer or timer_for(deployment, engine, plan, drafting=drafting)
    options = scheduler_for(deployment, engine, users, plan)
    result = simulate(
        Scenario(
            workload=users.workload(),
            scheduler=options,
            timer=timer,
            speculation=None if drafting is None else drafting.options(timer.setting),
            series=False,
        )
    )
    if not result.finished.all():
        raise _no_room(deployment, users)
    return seen_by_users(
        result,
        timer,
        users,
        cache_tokens=options.kv_blocks * options.block_tokens,
        cold_s=engine.host.cold_s(deployment.device.name, users.users) if users.cold else 0.0,
    )


def seen_by_users(
    result: SimulationResult,
    timer: CostModelTimer,
    users: Users,
    *,
    cache_tokens: int,
    cold_s: float = 0.0,
    weights: NDArray[np.float64] | None = None,
    separate_prompts: bool = False,
) -> Served:
    """What a finished simulation of a closed loop means to its users.

    Args:
        result: of the simulation.
        timer: of its iterations; with workers for prompts, of those that decode, to whose
            operations all are billed.
        users: and their requests.
        cache_tokens: tokens that the cache holds where requests decode.
        cold_s: seconds that each request of the first burst waits beside what was simulated.
        weights: of requests by their order in the workload; None: all count alike.
        separate_prompts: prompts have workers of their own; what the front end needs for a request
            then passes while its cache travels, not before its prompt queues.
    """
    weights = np.ones(result.request.size) if weights is None else weights[result.request]
    longer = result.output_tokens > 1
    cold = np.where(result.request < users.users, cold_s, 0.0)
    ttft_s = result.ttft_s + cold
    return Served(
        ttft_s=float(np.average(ttft_s, weights=weights)),
        ttft_median_s=_weighted_median(ttft_s, weights),
        tpot_s=(
            float(np.average(result.tpot_s[longer], weights=weights[longer]))
            if longer.any()
            else float("nan")
        ),
        in_flight=float(result.e2e_s.sum() / result.clock_s),
        cache_tokens=cache_tokens,
        seconds=_seconds(timer, result),
        ttft_seconds=_ttft_seconds(
            result, weights, users.tokenise_s, cold, separate_prompts=separate_prompts
        ),
        result=result,
    )


def served_interval(
    served: Served, timer: CostModelTimer, *, generator: np.random.Generator, draws: int = DRAWS
) -> tuple[tuple[float, float], tuple[float, float]]:
    """80 % intervals of (TTFT, TPOT): the run's seconds by operation under drawn errors, and what
    is left out.

    Both scale with the time of the run; that the schedule itself would change counts among what is
    left out.

    Args:
        served: of a closed loop.
        timer: of its iterations.
        generator: source of the draws.
        draws: how many.

    Returns:
        (low, high) in seconds of the time to first token, then of the time per output token.
    """
    setting = timer.setting
    passes = {
        name: np.asarray(value)
        for name, value in served.seconds.items()
        if name not in ("overhead", _HOST)
    }
    fixed = np.asarray(served.seconds["overhead"] + served.seconds[_HOST])
    zero = np.zeros(())
    run = StepCost(
        draft={}, verify=passes, overhead_s=fixed, compute_s=zero, memory_s=zero, launch_s=zero
    )
    drawn = draw_steps(
        run,
        run,
        setting.device.constants.residual_ratio,
        setting.plain_overhead,
        generator=generator,
        draws=draws,
    )
    scale = drawn.plain_s[:, 0] / sum(served.seconds.values())
    bounds = []
    serving: Serving = "disaggregated" if served.result.replicas > 1 else "aggregated"
    for value, quantity in ((served.ttft_s, "ttft"), (served.tpot_s, "tpot")):
        ratio = left_out_ratio(quantity, setting.engine.name, serving)
        sigma = np.log1p(ratio) / _SIGMA_80
        low, high = interval(value * scale * np.exp(sigma * generator.standard_normal(draws)))
        bounds.append((float(low), float(high)))
    return bounds[0], bounds[1]


def _seconds(timer: CostModelTimer, result: SimulationResult) -> dict[str, float]:
    """Seconds of a run by operation; attention is what remains of them, draft passes included."""
    assert timer.passes is not None
    spent = timer.passes.spent_s(result.iterations_by_rows, result.iterations_by_sampled)
    overhead = timer.setting.plain_overhead
    sampled = int(result.iterations_by_sampled @ np.arange(result.iterations_by_sampled.size))
    spent[_HOST] = result.exposed_host_s
    host = timer.passes.host
    step_s, request_s = (
        (host.idle_s, host.idle_request_s)
        if timer.passes.overlapped
        else (overhead.step_s, overhead.request_s)
    )
    spent["overhead"] = result.iterations * step_s + sampled * request_s
    spent[timer.passes.attention] = max(result.busy_s - sum(spent.values()), 0.0)
    return spent


def _ttft_seconds(
    result: SimulationResult,
    weights: NDArray[np.float64],
    tokenise_s: float,
    cold_s: NDArray[np.float64],
    *,
    separate_prompts: bool,
) -> dict[str, float]:
    """Mean seconds to the first token by what passes meanwhile."""
    intake_s, waited_s = INTAKE_S + tokenise_s * result.input_tokens, result.queue_s
    if separate_prompts:
        # the only token of an answer travels nowhere
        intake_s = np.where(result.output_tokens > 1, intake_s, 0.0)
    else:
        waited_s = waited_s - intake_s
    intake, queue, cold = (
        float(np.average(wait_s, weights=weights))
        for wait_s in (intake_s, np.maximum(waited_s, 0.0), cold_s)
    )
    prefill = float(np.average(result.ttft_s, weights=weights)) - intake - queue
    return {"intake": intake, "queue": queue, "cold": cold, "prefill": prefill}


def _weighted_median(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    order = np.argsort(values)
    share = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(share, 0.5 * share[-1])])


def _no_room(deployment: Deployment, users: Users) -> InfeasibleError:
    return InfeasibleError(
        f"{deployment.architecture.called} in {deployment.precision.label} leaves no room for a"
        f" request of {users.context_tokens} tokens on {deployment.tensor_parallel} x"
        f" {deployment.device.name}"
    )
