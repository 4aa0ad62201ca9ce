"""How much power does a device draw while it decodes, and how many joules and dollars does a token
cost?

A board power model: idle, a share while passes run, and shares for memory and arithmetic up to the
board's limit. Leaves out hosts, switches and cooling, clock changes under a power cap, and the
energy of each operation.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from costmodel.answers.estimate import Setting
from costmodel.answers.steps.step import StepCost
from costmodel.drafters.pass_costs import WeightedPass
from costmodel.passes.forward import PassCost, pass_cost
from costmodel.passes.ops import Array, Number
from hardware_profiles.profile import Device
from hardware_profiles.units import HOUR_S, MEGA


@dataclass(frozen=True, kw_only=True, slots=True)
class PowerModel:
    """Draw of a kind of device as shares of its board limit.

    Args:
        idle_ratio: with a model loaded and nothing running.
        running_ratio: added while passes run.
        memory_ratio: added at full datasheet bandwidth.
        compute_ratio: added at the full datasheet peak.
        spread_ratio: half-width of the 80 % interval of the draw.
        source: where the numbers come from; ASSUMED where none was at hand.
    """

    idle_ratio: float
    running_ratio: float
    memory_ratio: float
    compute_ratio: float
    spread_ratio: float
    source: str


POWER: dict[Literal["gpu", "cpu"], PowerModel] = {
    "gpu": PowerModel(
        idle_ratio=0.17,
        running_ratio=0.15,
        memory_ratio=0.66,
        compute_ratio=1.06,
        spread_ratio=0.2,
        source=(
            "least squares on the powers that Splitwise measured (Patel et al. 2024,"
            " arXiv:2311.18677; its simulator's data) for Llama-2-70B on A100 80 GB, 2 to 8"
            " devices: mean draw of decoding at batch 1, peak draw of prompts to 1024 tokens;"
            " residuals to 0.07. The idle level is the least draw in that data. ASSUMED to hold for"
            " every GPU as shares of its limit; the spread is ASSUMED"
        ),
    ),
    "cpu": PowerModel(
        idle_ratio=0.35,
        running_ratio=0.25,
        memory_ratio=0.2,
        compute_ratio=0.2,
        spread_ratio=0.3,
        source=(
            "ASSUMED: a server socket idles at about a third of its limit and nears it under vector"
            " load"
        ),
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    """Power of one device over a stretch of work.

    Args:
        seconds: how long.
        watts: mean draw, between idle and the board's limit.
    """

    seconds: float
    watts: float

    @property
    def joules(self) -> float:
        """Energy of the stretch."""
        return self.seconds * self.watts


def power_model(device: Device) -> PowerModel:
    """The power model of a device's kind; accelerators of other makes draw as GPUs do."""
    return POWER["cpu" if device.kind == "cpu" else "gpu"]


def idle_w(device: Device) -> float:
    """Draw with a model loaded and nothing running, W."""
    return power_model(device).idle_ratio * device.power_w


def board_power_w(device: Device, *, running: Number, memory: Number, compute: Number) -> Array:
    """Mean draw of one device, W; arguments broadcast.

    Args:
        device: profile.
        running: share of the time in which passes run, 0 to 1.
        memory: bytes moved over what the datasheet bandwidth would move, >= 0.
        compute: FLOPs done over what the datasheet peak would do, >= 0.

    >>> from hardware_profiles.loader import load_device
    >>> h100 = load_device("h100-sxm")
    >>> float(board_power_w(h100, running=0.0, memory=0.0, compute=0.0)) == idle_w(h100)
    True
    """
    m = power_model(device)
    shares = (np.asarray(x, dtype=np.float64) for x in (running, memory, compute))
    ratio = m.idle_ratio + sum(
        w * x
        for w, x in zip((m.running_ratio, m.memory_ratio, m.compute_ratio), shares, strict=True)
    )
    return np.asarray(device.power_w * np.clip(ratio, m.idle_ratio, 1.0))


def step_draw(setting: Setting, step: StepCost) -> Draw:
    """Power of one device over a decode step at one point; between passes it waits for the engine.

    Args:
        setting: target, device, drafter and engine.
        step: a step at one point.
    """
    return Draw(seconds=float(step.total_s), watts=float(step_watts(setting, step)))


def step_watts(setting: Setting, step: StepCost) -> Array:
    """Mean draw of one device over decode steps, W, at every point of the steps.

    Args:
        setting: target, device, drafter and engine.
        step: steps at any number of points.
    """
    return _watts(setting, [*step.draft_passes, *step.verify_passes], step.total_s)


def prefill_draw(setting: Setting, *, prompt_tokens: float) -> Draw:
    """Power of one device over the prompt of one request, processed alone, the engine's share
    included.
    """
    cost = pass_cost(
        setting.deployment,
        batch=1.0,
        query_tokens=prompt_tokens,
        context=0.0,
        logits="last",
        prefill=True,
    )
    seconds = cost.total_s + setting.plain_overhead.step_s
    return Draw(seconds=float(seconds), watts=float(_watts(setting, [(1.0, cost)], seconds)))


def _watts(setting: Setting, passes: Iterable[WeightedPass], seconds: Array) -> Array:
    device, run = setting.device, list(passes)
    peak = device.peak(setting.deployment.precision.activations)

    def total(of: str) -> Array:
        return np.asarray(
            sum((weight * _value(cost, of) for weight, cost in run), start=np.zeros(()))
        )

    return board_power_w(
        device,
        running=np.minimum(total("seconds") / seconds, 1.0),
        memory=total("bytes") / (seconds * device.bandwidth_bytes_per_s),
        compute=total("flops") / (seconds * peak),
    )


def _value(cost: PassCost, of: str) -> Array:
    return {"seconds": cost.total_s, "bytes": cost.bytes, "flops": cost.flops}[of]


def usd_per_million(usd_per_hour: float | None, tokens_per_s: float) -> float | None:
    """Price of a million tokens; None where the hourly price is unknown.

    >>> usd_per_million(3.6, 1000.0)
    1.0
    """
    if usd_per_hour is None or tokens_per_s <= 0.0:
        return None
    return usd_per_hour / HOUR_S / tokens_per_s * MEGA
