"""How many devices serve a load within its latency limits, at which batch, power and price?

One replica is a batch of requests in a steady state: each takes its prompt's time and its share of the decode steps.
The batch is the one of highest rate that memory and limits allow; replicas run at a stated share of that rate.
Leaves out percentiles, bursts, routing and disaggregated prefill (see the simulator): limits hold for means. Under a
plan every device is taken to draw what one of a tensor-parallel group would that held all experts itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.answers.energy import Draw, idle_w, prefill_draw, step_draw, usd_per_million
from costmodel.answers.estimate import Setting, estimate
from costmodel.answers.fit import Room, require_room, room
from costmodel.answers.replicas import Curve, Prompts, replica_curve, waiting_s
from costmodel.answers.uncertainty import DRAWS, draw_steps, interval, paired
from costmodel.answers.workload import Load, Slo
from costmodel.laws.acceptance import Acceptance
from costmodel.passes.ops import Array
from hardware_profiles.errors import InfeasibleError, InputError
from hardware_profiles.units import MILLI

MOST_BATCH = 1024  # requests in flight per scheduler (vLLM's default limit)
UTILISATION = 0.8  # share of a replica's highest rate that is planned with; ASSUMED, arrivals are never even


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Plan:
    """What a load needs on one kind of device with one configuration.

    Args:
        setting: target, device, drafter and engine.
        acceptance: the configuration.
        room: memory of a device.
        curve: one replica at every batch that fits.
        batch: requests in flight at a replica's highest rate within the limits.
        binds: what keeps the batch from growing: `tpot`, `ttft`, `memory`, `engine`, or `throughput` where more
            requests would not be served any faster.
        replicas: replicas needed.
        replicas_bounds: 80 % interval, from the errors of the cost model and the acceptance.
        utilisation_ratio: of a replica's highest rate that the load uses.
        mean_batch: requests in flight at the load itself.
        tpot_s: at the load itself.
        ttft_s: at the load itself, waiting included.
        watts: of all devices, mean.
        joules_per_token: all energy over output tokens, prompts and idling included.
        decode_joules_per_token: of decode steps alone.
        prefill_joules_per_token: of a prompt's pass alone, per prompt token.
        usd_per_hour: of all devices; None where the price is unknown.
        usd_per_million_tokens: of output tokens; None where the price is unknown.
    """

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
    slo: Slo,
    *,
    generator: np.random.Generator,
    utilisation: float = UTILISATION,
    most_batch: int | None = None,
    token_budget: int | None = None,
) -> Plan:
    """The fewest replicas for a load, with the best of several configurations.

    Example:
        >>> from costmodel.laws.acceptance import geometric
        >>> from costmodel.answers.settings import build_setting
        >>> from costmodel.configuration import DecodingConfiguration, DeploymentNames
        >>> from costmodel.answers.workload import load_of_means
        >>> setting = build_setting(DecodingConfiguration(deployment=DeploymentNames(model="llama-3.1-8b")))
        >>> load = load_of_means(requests_per_s=10, prompt_tokens=1000, output_tokens=200)
        >>> found = plan(setting, [geometric(0, 0)], load, Slo(tpot_s=0.015), generator=np.random.default_rng(0))
        >>> found.binds, bool(found.tpot_s < 0.015)
        ('tpot', True)

    Args:
        setting: target, device, drafter and engine.
        acceptances: configurations to choose among, at least one.
        load: requests to serve.
        slo: limits on means.
        generator: source of randomness for the interval.
        utilisation: share of a replica's highest rate to plan with, above 0 and below 1.
        most_batch: most requests in flight of a replica; None: 1,024 of every scheduler.
        token_budget: most query tokens of an iteration, into which prompts are split; None: prompts stay whole.

    Raises:
        InputError: a utilisation outside (0, 1).
        InfeasibleError: memory holds no request, or no batch meets the limits; the message says which.
    """
    if not 0.0 < utilisation < 1.0:
        raise InputError("must lie between 0 and 1, both excluded", key="utilisation", value=utilisation)
    most = most_batch or _most_batch(setting)
    refused: list[InfeasibleError] = []
    best: tuple[float, Acceptance, Room, Curve, int] | None = None
    for acceptance in acceptances:
        try:
            space, curve, at = _best_batch(setting, acceptance, load, slo, utilisation, most, token_budget)
        except InfeasibleError as error:
            refused.append(error)
            continue
        if best is None or curve.requests_per_s[at] > best[0]:
            best = float(curve.requests_per_s[at]), acceptance, space, curve, at
    if best is None:
        raise refused[0]
    return _plan(setting, best, load, slo, generator, utilisation, most)


def _best_batch(
    setting: Setting, a: Acceptance, load: Load, slo: Slo, utilisation: float, most: int, token_budget: int | None
) -> tuple[Room, Curve, int]:
    """Memory, curve and the index of the batch of highest rate within the limits."""
    space = room(setting, a, context=load.longest_context)
    require_room(setting, space)
    curve = replica_curve(
        setting, a, load, largest=min(space.largest_batch, most), utilisation=utilisation, token_budget=token_budget
    )
    meets = np.ones(curve.batch.shape, dtype=np.bool_)
    for name, limit, values in (("TTFT", slo.ttft_s, curve.ttft_s), ("TPOT", slo.tpot_s, curve.tpot_s)):
        if limit is None:
            continue
        least = int(np.argmin(values))
        if values[least] > limit:
            raise InfeasibleError(
                f"SLO: a mean {name} of {limit / MILLI:g} ms cannot be met by {setting.target.name} on "
                f"{setting.devices} x {setting.device.name}; the least is {values[least] / MILLI:.3g} ms, at batch "
                f"{curve.batch[least]:.0f}"
            )
        meets &= values <= limit
    if not meets.any():
        raise InfeasibleError(f"SLO: no batch meets both limits on {setting.device.name}, only either of them")
    return space, curve, int(np.argmax(np.where(meets, curve.requests_per_s, 0.0)))


def _plan(
    setting: Setting,
    best: tuple[float, Acceptance, Room, Curve, int],
    load: Load,
    slo: Slo,
    generator: np.random.Generator,
    utilisation: float,
    most: int,
) -> Plan:
    rate, a, space, curve, at = best
    replicas = max(1, math.ceil(load.requests_per_s / (utilisation * rate) - 1e-9))
    share = load.requests_per_s / replicas  # requests per second of one replica
    mean = _mean_batch(curve, share)
    here = max(mean, 1.0)
    step, prompt = _at(curve, curve.step_s, here), _at(curve, curve.prompts.mean_s, here)
    steps = load.output_tokens / a.tokens_per_step
    decode, prefill = _draws(setting, a, load, here)
    decoding, prefilling = share * steps * step / here, share * prompt / setting.parallel_prompts  # shares of the time
    busy = decoding + prefilling
    devices, device = setting.devices, setting.device
    watts = decoding * decode.watts + prefilling * prefill.watts + max(1.0 - busy, 0.0) * idle_w(device)
    watts *= replicas * devices / max(busy, 1.0)
    hourly = None if device.price_usd_per_hour is None else device.price_usd_per_hour * replicas * devices
    return Plan(
        setting=setting,
        acceptance=a,
        room=space,
        curve=curve,
        batch=int(curve.batch[at]),
        binds=_binds(curve, at, slo, space, most),
        replicas=replicas,
        replicas_bounds=_replica_bounds(setting, a, load, curve, at, utilisation, generator),
        utilisation_ratio=share / rate,
        mean_batch=mean,
        tpot_s=_at(curve, curve.tpot_s, here),
        ttft_s=float(
            waiting_s(
                curve.batch[at], share / rate, arrivals=np.asarray(share / setting.parallel_prompts),
                step=np.asarray(step), prompts=_prompts_at(curve, here),
                stay=np.asarray(here / setting.parallel_prompts * prompt + steps * step),
            )
        ),
        watts=watts,
        joules_per_token=watts / load.tokens_per_s,
        decode_joules_per_token=devices * decode.joules / (here * a.tokens_per_step),
        prefill_joules_per_token=devices / setting.parallel_prompts * prefill.joules / load.mean_prompt_tokens,
        usd_per_hour=hourly,
        usd_per_million_tokens=usd_per_million(hourly, load.tokens_per_s),
    )  # fmt: skip


def _most_batch(setting: Setting) -> int:
    """Most requests in flight of a replica: every data copy has a scheduler of its own."""
    return MOST_BATCH * (1 if setting.plan is None else setting.plan.data)


def _at(curve: Curve, values: Array, batch: float) -> float:
    return float(np.interp(batch, curve.batch, values))


def _prompts_at(curve: Curve, batch: float) -> Prompts:
    p = curve.prompts
    here = (np.asarray(_at(curve, values, batch)) for values in (p.mean_s, p.square, p.iterations))
    return replace(p, **dict(zip(("mean_s", "square", "iterations"), here, strict=True)))


def _mean_batch(curve: Curve, requests_per_s: float) -> float:
    """Requests in flight at a rate: the least batch that finishes as many, below 1 where a replica often idles."""
    enough = np.flatnonzero(curve.requests_per_s >= requests_per_s)
    at = int(enough[0]) if enough.size else len(curve.batch) - 1
    high = float(curve.requests_per_s[at])
    here = float(curve.batch[at])
    if at == 0:
        return requests_per_s / high * here
    low, before = float(curve.requests_per_s[at - 1]), float(curve.batch[at - 1])
    return before + (here - before) * min((requests_per_s - low) / (high - low), 1.0)


def _draws(setting: Setting, a: Acceptance, load: Load, batch: float) -> tuple[Draw, Draw]:
    result = estimate(setting, a, batch=batch, context=load.decode_context)
    return step_draw(setting, result.step), prefill_draw(setting, prompt_tokens=load.mean_prompt_tokens)


def _binds(curve: Curve, at: int, slo: Slo, space: Room, most: int) -> str:
    """What keeps the chosen batch from growing by one."""
    if at + 1 == len(curve.batch):
        return "memory" if space.largest_batch <= most else "engine"
    for name, limit, values in (("tpot", slo.tpot_s, curve.tpot_s), ("ttft", slo.ttft_s, curve.ttft_s)):
        if limit is not None and values[at + 1] > limit:
            return name
    return "throughput"


def _replica_bounds(
    setting: Setting,
    a: Acceptance,
    load: Load,
    curve: Curve,
    at: int,
    utilisation: float,
    generator: np.random.Generator,
) -> tuple[int, int]:
    """Replicas under drawn errors of the model and of the acceptance, at the chosen batch."""
    result = estimate(setting, a, batch=curve.batch[at], context=load.decode_context)
    drawn = draw_steps(
        result.plain, result.step, setting.device.constants.residual_ratio, setting.overhead,
        generator=generator, draws=DRAWS,
    )  # fmt: skip
    error = drawn.step_s[:, 0] / float(result.step_s)
    tokens = paired(a.samples, DRAWS, generator) if a.samples.size else np.full(DRAWS, a.tokens_per_step)
    each = (
        curve.prompts.mean_s[at] / setting.parallel_prompts
        + load.output_tokens / tokens * curve.step_s[at] / curve.batch[at]
    )
    low, high = interval(np.ceil(load.requests_per_s * error * each / utilisation - 1e-9))
    return math.floor(low), math.ceil(high)
