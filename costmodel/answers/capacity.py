"""How many devices serve a load within its latency limits, at which batch, power and price?

One replica is a batch of requests in a steady state: each takes its prompt's time and its share of
the decode steps. There are as many replicas as keep the limits under their share of the load, none
of which is sent more than a stated share of the requests that it could finish. Leaves out
percentiles, bursts, routing and disaggregated prefill (see the simulator): limits hold for means.
Under a plan every device is taken to draw what one of a tensor-parallel group would that held all
experts itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.answers import loads
from costmodel.answers.energy import Draw, idle_w, prefill_draw, step_draw, usd_per_million
from costmodel.answers.estimate import Setting, estimate
from costmodel.answers.fit import Room, require_room, room
from costmodel.answers.loads import Curve
from costmodel.answers.replicas import replica_curve
from costmodel.answers.ties import preferred
from costmodel.answers.uncertainty import DRAWS, draw_steps, interval, paired
from costmodel.answers.workload import Limits, Load, mean_times
from costmodel.laws.acceptance import Acceptance
from costmodel.passes.ops import Array
from hardware_profiles.errors import InfeasibleError, InputError
from hardware_profiles.units import MILLI

MOST_BATCH = 1024  # requests in flight per scheduler (vLLM's default limit)
MOST_REPLICAS = 1 << 20  # under whose load nobody meets anybody
UTILISATION = (
    0.8  # share of a replica's highest rate that is planned with; ASSUMED, arrivals are never even
)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CapacityPlan:
    """What a load needs on one kind of device with one configuration.

    Args:
        load: that is served; of a population its rate is the one that results.
        setting: target, device, drafter and engine.
        acceptance: the configuration.
        room: memory of a device.
        curve: one replica at every batch that fits.
        batch: requests in flight under the highest load of a replica within the limits.
        binds: what keeps the batch from growing: `tpot`, `ttft`, `e2e`, `memory`, `engine`, or
            `throughput` where more requests would not be served any faster.
        replicas: replicas needed.
        replicas_bounds: 80 % interval, from the errors of the cost model and the acceptance.
        utilisation_ratio: share of the requests that a busy replica finishes which the load sends
            it.
        mean_batch: requests in flight at the load itself.
        tpot_s: at the load itself.
        ttft_s: at the load itself, waiting included.
        e2e_s: of a whole request, at the load itself.
        watts: of all devices, mean.
        joules_per_token: all energy over output tokens, prompts and idling included.
        decode_joules_per_token: of decode steps alone.
        prefill_joules_per_token: of a prompt's pass alone, per prompt token.
        usd_per_hour: of all devices; None where the price is unknown.
        usd_per_million_tokens: of output tokens; None where the price is unknown.
    """

    load: Load
    setting: Setting
    acceptance: Acceptance
    room: Room
    curve: Curve
    batch: int
    binds: str
    replicas: int
    replicas_bounds: tuple[int, int]
    utilisation_ratio: float
    mean_batch: float
    tpot_s: float
    ttft_s: float
    e2e_s: float
    watts: float
    joules_per_token: float
    decode_joules_per_token: float
    prefill_joules_per_token: float
    usd_per_hour: float | None
    usd_per_million_tokens: float | None

    @property
    def devices(self) -> int:
        """Devices of all replicas."""
        return self.replicas * self.setting.devices


def plan(
    setting: Setting,
    acceptances: Sequence[Acceptance],
    load: Load,
    slo: Limits,
    *,
    generator: np.random.Generator,
    utilisation: float = UTILISATION,
    most_batch: int | None = None,
    token_budget: int | None = None,
    least_replicas: int = 1,
) -> CapacityPlan:
    """The fewest replicas for a load; of several configurations that need them, with that of the
    lowest time per output token.

    Example:
        >>> from costmodel.laws.acceptance import geometric
        >>> from costmodel.answers.settings import build_setting
        >>> from costmodel.configuration import DecodingConfiguration, DeploymentNames
        >>> from costmodel.answers.workload import load_of_means
        >>> setting = build_setting(DecodingConfiguration(deployment=DeploymentNames(model="llama-3.1-8b")))
        >>> load = load_of_means(requests_per_s=10, prompt_tokens=1000, output_tokens=200)
        >>> found = plan(setting, [geometric(0, 0)], load, Limits(tpot_s=0.015), generator=np.random.default_rng(0))
        >>> found.binds, bool(found.tpot_s < 0.015)
        ('tpot', True)

    Args:
        setting: target, device, drafter and engine.
        acceptances: configurations to choose among, at least one.
        load: requests to serve.
        slo: limits on means.
        generator: source of randomness for the interval.
        utilisation: share of the requests that a busy replica finishes which one is sent at most,
            in (0, 1).
        most_batch: most requests in flight of a replica; None: 1,024 of every scheduler.
        token_budget: most query tokens of an iteration, into which prompts are split; None: the
            engine's default.
        least_replicas: that there are in any case, such as simulations of percentiles need.

    Raises:
        InputError: a utilisation outside (0, 1).
        InfeasibleError: memory holds no request, or no batch meets the limits; the message says
            which.
    """
    if not 0.0 < utilisation < 1.0:
        raise InputError(
            "must lie between 0 and 1, both excluded", key="utilisation", value=utilisation
        )
    if slo.share_ratio is not None or slo.highest_percentile is not None:
        raise InputError(
            "is known of simulations alone; limits hold for means here", key="good_share"
        )
    most = most_batch or _most_batch(setting)
    token_budget = token_budget or _token_budget(setting)
    refused: list[InfeasibleError] = []
    served: list[_Served] = []
    for acceptance in acceptances:
        try:
            served.append(_served(setting, acceptance, load, slo, utilisation, most, token_budget))
        except InfeasibleError as error:
            refused.append(error)
    if not served:
        raise refused[0]
    best = _preferred(served, load, least_replicas)
    return _plan(setting, best, load, slo, generator, utilisation, most)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Served:
    """One configuration that serves the load: its memory, its curve, the place of its batch, its
    replicas.
    """

    acceptance: Acceptance
    space: Room
    curve: Curve
    at: int
    replicas: int


def _preferred(served: Sequence[_Served], load: Load, least_replicas: int) -> _Served:
    """The configuration that needs the fewest replicas, and so the fewest dollars; of several that of
    the lowest time per output token at the load, then to the first token, then of the fewest drafts.
    """
    replicas = max(min(option.replicas for option in served), least_replicas)
    enough = [option for option in served if option.replicas <= replicas]
    shared = [
        option.curve.shared(load, np.array([float(replicas)]), option.curve.batch[-1:])[1]
        for option in enough
    ]
    (place,) = preferred(
        np.ones(len(enough), dtype=np.bool_),
        np.array([float(seen.tpot_s[0]) for seen in shared]),
        np.array([float(seen.ttft_s[0]) for seen in shared]),
        np.array([float(option.acceptance.draft_tokens) for option in enough]),
    )
    return replace(enough[place], replicas=replicas)


def _served(
    setting: Setting,
    a: Acceptance,
    load: Load,
    slo: Limits,
    utilisation: float,
    most: int,
    token_budget: int | None,
) -> _Served:
    """What a configuration needs for the load.

    Raises:
        InfeasibleError: memory holds no request, or no number of replicas keeps the limits.
    """
    space = room(setting, a, context=load.longest_context)
    require_room(setting, space)
    curve = replica_curve(
        setting, a, load, largest=min(space.largest_batch, most), token_budget=token_budget
    )
    replicas = float(
        loads.least_replicas(
            curve,
            load,
            curve.batch[-1:],
            slo,
            utilisation=utilisation,
            most=MOST_REPLICAS,
        )[0]
    )
    if not math.isfinite(replicas):
        raise InfeasibleError(_least(setting, curve, load, slo))
    seen = curve.under(curve.load_per_s, curve.batch[-1:])
    times = mean_times(ttft_s=seen.ttft_s, tpot_s=curve.tpot_s, output_tokens=load.output_tokens)
    within = slo.met(times) & np.isfinite(seen.ttft_s)
    at = int(np.argmax(np.where(within, curve.requests_per_s, 0.0)))
    return _Served(acceptance=a, space=space, curve=curve, at=at, replicas=int(replicas))


def _least(setting: Setting, curve: Curve, load: Load, slo: Limits) -> str:
    """Which limit not even a request on its own meets."""
    alone = mean_times(
        ttft_s=float(curve.received_s[0]),
        tpot_s=float(curve.tpot_s[0]),
        output_tokens=load.output_tokens,
    )
    for name, limit, least in (
        ("TTFT", slo.ttft_s, alone.ttft_s),
        ("TPOT", slo.tpot_s, alone.tpot_s),
        ("E2E", slo.e2e_s, alone.e2e_s),
    ):
        if limit is not None and least >= limit:
            return (
                f"SLO: a mean {name} of {limit / MILLI:g} ms cannot be met by {setting.target.called}"
                f" on {setting.devices} x {setting.device.name}; the least is {least / MILLI:.3g}"
                f" ms, at batch {curve.batch[0]:.0f}"
            )
    return (
        f"SLO: no number of replicas up to {MOST_REPLICAS:,} serves the load on"
        f" {setting.device.name}"
    )


def _plan(
    setting: Setting,
    best: _Served,
    load: Load,
    slo: Limits,
    generator: np.random.Generator,
    utilisation: float,
    most: int,
) -> CapacityPlan:
    a, space, curve, at, replicas = best.acceptance, best.space, best.curve, best.at, best.replicas
    places = curve.batch[-1:]
    shares, seen = curve.shared(load, np.array([float(replicas)]), places)
    share = float(shares[0])  # requests per second of one replica
    load = replace(load, requests_per_s=share * replicas)
    mean = float(seen.in_flight[0])
    here = max(mean, 1.0)
    step, prompt = _at(curve, curve.step_s, here), _at(curve, curve.prompts.mean_s, here)
    steps = load.output_tokens / a.tokens_per_step
    decode, prefill = _draws(setting, a, load, here)
    decoding, prefilling = (
        share * steps * step / here,
        share * prompt / setting.parallel_prompts,
    )  # shares of the time
    busy = decoding + prefilling
    devices, device = setting.devices, setting.device
    watts = (
        decoding * decode.watts + prefilling * prefill.watts + max(1.0 - busy, 0.0) * idle_w(device)
    )
    watts *= replicas * devices / max(busy, 1.0)
    hourly = (
        None
        if device.price_usd_per_hour is None
        else device.price_usd_per_hour * replicas * devices
    )
    return CapacityPlan(
        load=load,
        setting=setting,
        acceptance=a,
        room=space,
        curve=curve,
        batch=int(curve.batch[at]),
        binds=_binds(curve, at, load, slo, space, most),
        replicas=replicas,
        replicas_bounds=_replica_bounds(setting, load, best, utilisation, generator),
        utilisation_ratio=share / float(curve.highest_per_s(places)[0]),
        mean_batch=mean,
        tpot_s=float(seen.tpot_s[0]),
        ttft_s=float(seen.ttft_s[0]),
        e2e_s=float(seen.times(load.output_tokens).e2e_s[0]),
        watts=watts,
        joules_per_token=watts / load.tokens_per_s,
        decode_joules_per_token=devices * decode.joules / (here * a.tokens_per_step),
        prefill_joules_per_token=devices
        / setting.parallel_prompts
        * prefill.joules
        / load.mean_prompt_tokens,
        usd_per_hour=hourly,
        usd_per_million_tokens=usd_per_million(hourly, load.tokens_per_s),
    )


def _most_batch(setting: Setting) -> int:
    """Most requests in flight of a replica: every data copy has a scheduler of its own."""
    return MOST_BATCH * (1 if setting.plan is None else setting.plan.data)


def _token_budget(setting: Setting) -> int | None:
    """Most query tokens of an iteration of the engine's scheduler; None where it never splits a
    prompt.
    """
    scheduler = setting.engine.scheduler
    return scheduler.token_budget if scheduler is not None and scheduler.chunked_prefill else None


def _at(curve: Curve, values: Array, batch: float) -> float:
    return float(np.interp(batch, curve.batch, values))


def _draws(setting: Setting, a: Acceptance, load: Load, batch: float) -> tuple[Draw, Draw]:
    result = estimate(setting, a, batch=batch, context=load.decode_context)
    return step_draw(setting, result.step), prefill_draw(
        setting, prompt_tokens=load.mean_prompt_tokens
    )


def _binds(curve: Curve, at: int, load: Load, slo: Limits, space: Room, most: int) -> str:
    """What keeps the chosen batch from growing by one."""
    if at + 1 == len(curve.batch):
        return "memory" if space.largest_batch <= most else "engine"
    seen = curve.under(curve.load_per_s[at + 1 : at + 2], curve.batch[-1:])
    times = mean_times(
        ttft_s=float(seen.ttft_s[0]),
        tpot_s=float(curve.tpot_s[at + 1]),
        output_tokens=load.output_tokens,
    )
    for name, limit, seconds in (
        ("tpot", slo.tpot_s, times.tpot_s),
        ("ttft", slo.ttft_s, times.ttft_s),
        ("e2e", slo.e2e_s, times.e2e_s),
    ):
        if limit is not None and seconds > limit:
            return name
    return "throughput"


def _replica_bounds(
    setting: Setting, load: Load, best: _Served, utilisation: float, generator: np.random.Generator
) -> tuple[int, int]:
    """Replicas under drawn errors of the model and of the acceptance, which slow a replica at its
    largest load.
    """
    a, curve = best.acceptance, best.curve
    at = int(np.argmax(curve.requests_per_s))
    result = estimate(setting, a, batch=curve.batch[at], context=load.decode_context)
    drawn = draw_steps(
        result.plain,
        result.step,
        setting.device.constants.residual_ratio,
        setting.overhead,
        generator=generator,
        draws=DRAWS,
    )
    error = drawn.step_s[:, 0] / float(result.step_s)
    tokens = (
        paired(a.samples, DRAWS, generator) if a.samples.size else np.full(DRAWS, a.tokens_per_step)
    )
    request_s = (
        curve.prompts.mean_s[at] / setting.parallel_prompts
        + load.output_tokens / tokens * curve.step_s[at] / curve.batch[at]
    )
    carried = best.replicas  # of which the limits may take more than the rate alone
    alone = math.ceil(load.requests_per_s / (utilisation * curve.requests_per_s[at]) - 1e-9)
    slower = error * request_s * curve.requests_per_s[at]
    needed = np.where(
        alone < carried, carried, load.requests_per_s / (utilisation * curve.requests_per_s[at])
    )
    low, high = interval(np.ceil(needed * slower - 1e-9))
    return max(min(math.floor(low), carried), 1), max(math.ceil(high), carried)
