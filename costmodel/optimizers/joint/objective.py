"""What is maximised, and what must be known for it?

Leaves out latency limits, which say what is allowed (`costmodel.answers.workload.Limits`).
"""

from typing import Literal, get_args

import numpy as np

from costmodel.passes.ops import Array, Number
from hardware_profiles.errors import InputError
from hardware_profiles.profile import Device
from hardware_profiles.units import HOUR_S

Maximise = Literal["tokens", "goodput", "tokens-per-dollar", "tokens-per-joule"]
PER_COST: tuple[Maximise, ...] = ("tokens-per-dollar", "tokens-per-joule")
UNITS: dict[Maximise, str] = {
    "tokens": "output tokens/s",
    "goodput": "requests/s within the limits",
    "tokens-per-dollar": "output tokens/$",
    "tokens-per-joule": "output tokens/J",
}


def objective_named(name: str) -> Maximise:
    """The objective of that name.

    Raises:
        InputError: there is none.
    """
    objectives: dict[str, Maximise] = {objective: objective for objective in get_args(Maximise)}
    if name not in objectives:
        raise InputError(f"must be one of {', '.join(objectives)}", key="maximise", value=name)
    return objectives[name]


def refusal(maximise: Maximise, device: Device) -> str:
    """Why an objective cannot be known on a device; empty where it can."""
    if maximise == "tokens-per-dollar" and device.price_usd_per_hour is None:
        return f"the price of {device.name} is not known; state device.price_usd_per_hour=2.5"
    return ""


def objective_value(
    maximise: Maximise,
    device: Device,
    *,
    requests_per_s: Number,
    output_tokens: float,
    devices: Number,
    watts: Number,
) -> Array:
    """The objective of so many requests per second.

    Args:
        maximise: which objective.
        device: of one kind; its price counts for dollars.
        requests_per_s: that are served; broadcasts with the rest.
        output_tokens: mean per request.
        devices: that serve them.
        watts: mean draw of each device; counts for joules.
    """
    tokens = np.asarray(requests_per_s, dtype=np.float64) * output_tokens
    if maximise == "tokens":
        return np.asarray(tokens)
    if maximise == "goodput":
        return np.asarray(requests_per_s, dtype=np.float64)
    if maximise == "tokens-per-dollar":
        return np.asarray(
            tokens * HOUR_S / (np.asarray(devices) * (device.price_usd_per_hour or np.nan))
        )
    return np.asarray(tokens / (np.asarray(devices) * watts))
