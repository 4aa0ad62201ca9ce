"""How busy were the devices of a simulated service, and what did its tokens cost in joules and
dollars?

Counts of the run times the cost model's bytes and FLOPs, at the mean iteration. Leaves out swapped
and transferred cache, and how use changed over time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.answers.energy import board_power_w, usd_per_million
from costmodel.answers.estimate import Setting
from costmodel.answers.steps.step import chain_step
from costmodel.passes.forward import PassCost, pass_cost
from simulator.results.metrics import SimulationResult

_PROMPT_SIZES = 64  # quantiles that stand for all prompts


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """What a simulation used; ratios are means over its time and over all devices.

    Args:
        devices: of all replicas together.
        bandwidth_ratio: bytes moved over what the datasheet's bandwidth would have moved.
        compute_ratio: FLOPs done over what the datasheet's peak would have done.
        watts: mean draw of one device.
        joules: energy of all devices over the run.
        joules_per_token: the same per output token of finished requests; None where there is none.
        usd_per_million_tokens: price of a million of them; None where the device's price is
            unknown.
    """

    devices: int
    bandwidth_ratio: float
    compute_ratio: float
    watts: float
    joules: float
    joules_per_token: float | None
    usd_per_million_tokens: float | None


def resources(result: SimulationResult, setting: Setting) -> Resources | None:
    """Use of devices over a simulation; None where nothing ran.

    Args:
        result: of a simulation that the cost model timed.
        setting: target, device, drafter and engine that it was timed with.
    """
    if not result.iterations or result.clock_s <= 0.0:
        return None
    device, deployment = setting.device, setting.deployment
    replicas = result.replicas
    moved, done = _work(result, setting)
    span = result.clock_s * replicas
    bandwidth = moved / (span * device.bandwidth_bytes_per_s)
    compute = done / (span * device.peak(deployment.precision.activations))
    running = min(result.busy_s / span, 1.0)
    watts = float(board_power_w(device, running=running, memory=bandwidth, compute=compute))
    devices = replicas * deployment.tensor_parallel
    joules = watts * devices * result.clock_s
    tokens = float(result.output_tokens[result.finished].sum())
    hourly = None if device.price_usd_per_hour is None else device.price_usd_per_hour * devices
    return Resources(
        devices=devices,
        bandwidth_ratio=bandwidth,
        compute_ratio=compute,
        watts=watts,
        joules=joules,
        joules_per_token=joules / tokens if tokens else None,
        usd_per_million_tokens=usd_per_million(hourly, tokens / result.clock_s),
    )


def _work(result: SimulationResult, setting: Setting) -> tuple[float, float]:
    """Bytes and FLOPs of one device of every replica, all replicas together."""
    d, counts, passes = setting.deployment, result.counters, float(result.iterations)
    steps, drafted = float(counts["steps"]), float(counts["drafted"])
    computed = float(counts["prompt_tokens_computed"])
    started = float(np.isfinite(result.first_token_s).sum())
    work, encodes = _Sum(), d.architecture.encoder is not None
    rows = steps + drafted + (started if encodes else computed)  # an encoder's rows are its own
    work.add(
        pass_cost(d, batch=max(rows / passes, 1e-9), query_tokens=1.0, context=0.0, logits="none"),
        passes,
    )
    sampled = max((steps + drafted + started) / passes, 1e-9)
    work.add(pass_cost(d, batch=sampled, query_tokens=1.0, context=0.0), passes)
    work.add(pass_cost(d, batch=sampled, query_tokens=1.0, context=0.0, logits="none"), -passes)
    if steps:
        batch, queries, context = steps / passes, 1.0 + drafted / steps, _mean_context(result)
        work.add(
            pass_cost(d, batch=batch, query_tokens=queries, context=context, logits="none"), passes
        )
        work.add(
            pass_cost(d, batch=batch, query_tokens=queries, context=0.0, logits="none"), -passes
        )
    if computed:
        _add_prompts(work, result, setting, computed)
    if drafted:
        step = chain_step(
            d,
            setting.drafter,
            setting.overhead,
            batch=steps / passes,
            context=_mean_context(result),
            draft_tokens=drafted / steps,
        )
        for often, cost in step.draft_passes:
            work.add(cost, float(often) * passes)
    return work.bytes, work.flops


class _Sum:
    """Bytes and FLOPs that add up."""

    def __init__(self) -> None:
        self.bytes = 0.0
        self.flops = 0.0

    def add(self, cost: PassCost, times: float) -> None:
        self.bytes += times * float(np.sum(cost.bytes))
        self.flops += times * float(np.sum(cost.flops))


def _mean_context(result: SimulationResult) -> float:
    """Cached tokens of a decoding request, over all its steps."""
    ran = np.isfinite(result.last_token_s)
    later = result.output_tokens[ran] - 1.0
    if not later.sum():
        return 0.0
    return float((result.input_tokens[ran] + result.output_tokens[ran] / 2.0) @ later / later.sum())


def _add_prompts(work: _Sum, result: SimulationResult, setting: Setting, computed: float) -> None:
    """Attention within prompts: what whole prompts cost beyond as many tokens that see nothing."""
    d = setting.deployment
    prompts = result.input_tokens[np.isfinite(result.scheduled_s)].astype(np.float64)
    if not prompts.size:
        return
    sizes = np.quantile(prompts, (np.arange(_PROMPT_SIZES) + 0.5) / _PROMPT_SIZES)
    # of prompts that share blocks or were computed again, as many tokens count as were computed
    prompts_per_size = prompts.size / _PROMPT_SIZES * computed / float(prompts.sum())
    whole = pass_cost(d, batch=1.0, query_tokens=sizes, context=0.0, logits="none", prefill=True)
    if d.architecture.encoder is not None:
        work.add(whole, prompts_per_size)
        return
    alone = pass_cost(d, batch=sizes, query_tokens=1.0, context=0.0, logits="none")
    work.add(whole, prompts_per_size)
    work.add(alone, -prompts_per_size)
