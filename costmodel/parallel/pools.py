"""Which engines serve together: workers that are alike, and prompts on workers of their own?

One plan for a whole service: how each worker is spread, how many there are, and how long a cache
travels from a worker that computed a prompt to one that decodes. Leaves out queues between them
(the simulator).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from costmodel.architectures.architecture import Architecture
from costmodel.parallel.plan import Link, ParallelPlan, kv_bytes
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InputError
from hardware_profiles.profile import Device

_SIZES = {"tp": "tensor", "pp": "pipeline", "ep": "expert", "dp": "data", "cp": "context"}
_WRITTEN = re.compile(r"([1-9]\d{0,5})x((?:(?:tp|pp|ep|dp|cp)[1-9]\d{0,5})+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Workers:
    """Engines that are alike, each with its own copy of the model.

    Args:
        count: of them, >= 1.
        plan: how each is spread.

    Raises:
        InputError: no worker.
    """

    count: int = 1
    plan: ParallelPlan

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InputError("must be >= 1", key="workers", value=self.count)

    @property
    def devices(self) -> int:
        """Devices of all of them."""
        return self.count * self.plan.devices

    def __str__(self) -> str:
        sizes = {short: getattr(self.plan, name) for short, name in _SIZES.items()}
        named = "".join(f"{short}{size}" for short, size in sizes.items() if size > 1)
        return f"{self.count}x{named or 'tp1'}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingPlan:
    """How a service is spread: workers that decode, and workers that compute their prompts.

    Args:
        decode: workers that decode.
        prefill: workers that compute prompts alone; None: those that decode compute them too.
    """

    decode: Workers
    prefill: Workers | None = None

    @property
    def devices(self) -> int:
        """Devices of the service."""
        return self.decode.devices + (0 if self.prefill is None else self.prefill.devices)


def workers_of(written: str, *, key: str = "workers") -> Workers:
    """Workers written as a count and the sizes of a plan.

    Args:
        written: such as `2xtp4` or `1xdp8ep8`; sizes that are left out are 1.
        key: what it is the value of, for messages.

    Raises:
        InputError: another form, or sizes that do not go together.

    >>> str(workers_of("2xtp4")), workers_of("1xdp8ep8").devices
    ('2xtp4', 8)
    """
    match = _WRITTEN.fullmatch(written.strip().casefold())
    sizes = re.findall(r"([a-z]{2})(\d+)", match[2]) if match else []
    if match is None or len({short for short, _ in sizes}) < len(sizes):
        rule = "must be a number of workers and the sizes of their plan, such as 2xtp4 or 1xdp8ep8"
        raise InputError(rule, key=key, value=written)
    counts: dict[str, Any] = {_SIZES[short]: int(size) for short, size in sizes}
    return Workers(count=int(match[1]), plan=ParallelPlan(**counts))


def transfer_seconds(
    architecture: Architecture,
    precision: Precision,
    device: Device,
    plan: ServingPlan,
    *,
    tokens: int,
) -> tuple[float, float]:
    """Seconds by which the cache of a prompt arrives: of a transfer however small, and of each
    token.

    Every device of either side moves what it holds of one request over a link of its own, all at
    once; the side on which a device holds more sets the pace. Services that one link joins use it,
    others the network between nodes.

    Args:
        architecture: the model.
        precision: number formats.
        device: profile of each device.
        plan: with workers for prompts.
        tokens: of a request, on which the cache of layers with a window depends.

    Raises:
        InputError: no workers for prompts.
    """
    if plan.prefill is None:
        raise InputError("needs workers that compute prompts alone", key="prefill")
    sides = (plan.prefill.plan, plan.decode.plan)
    request_bytes = max(
        float(kv_bytes(architecture, precision, side, batch=1, context=tokens, page_tokens=1))
        for side in sides
    )
    link: Link = plan.decode.plan.link(device, plan.devices)
    return link.latency_s, request_bytes / tokens / link.bytes_per_s
