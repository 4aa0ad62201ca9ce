"""On which device is a token cheapest at a batch and context within limits?

The same drafters on every device, on the fewest devices that hold the question: more of them never
make a token cheaper, as a step gains less than they cost. Leaves out load
(`costmodel.answers.capacity`) and layouts other than tensor groups.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.answers.energy import usd_per_million
from costmodel.answers.estimate import Setting
from costmodel.answers.fit import fits
from costmodel.answers.settings import build_setting
from costmodel.answers.workload import Limits
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.pricing import evaluate
from hardware_profiles.errors import InputError

SIZES = (1, 2, 4, 8)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceChoice:
    """How to run on one kind of device.

    Args:
        device: by name.
        tensor_parallel: devices that share every layer.
        contender: drafter, with its setting there; None where nothing is allowed.
        acceptance: what it drafts; None where nothing is allowed.
        tokens_per_s: of the whole batch; 0 where nothing is allowed.
        usd_per_million: dollars per million tokens; None where no price is known or nothing is
            allowed.
        reason: why nothing is allowed; empty where something is.
    """

    device: str
    tensor_parallel: int
    contender: Contender | None = None
    acceptance: Acceptance | None = None
    tokens_per_s: float = 0.0
    usd_per_million: float | None = None
    reason: str = ""


def device_choices(
    contenders: Sequence[Contender],
    devices: Sequence[str],
    *,
    batch: int,
    context: int,
    limits: Limits,
    sizes: Sequence[int] = SIZES,
    setting_of: Callable[[DecodingConfiguration], Setting] = build_setting,
) -> list[DeviceChoice]:
    """Every device with the smallest tensor group that is allowed, cheapest token first; then those
    that cannot.

    Args:
        contenders: drafters with what of each is compared, on any device.
        devices: names.
        batch: requests.
        context: cached tokens per request.
        limits: latency limits.
        sizes: tensor groups to try, increasing.
        setting_of: makes the setting of a configuration; one that remembers saves most of the time.
    """
    choices = []
    for device in devices:
        tried = (
            _on(contenders, device, size, (batch, context, limits), setting_of) for size in sizes
        )
        choices.append(_first_allowed(tried))
    return sorted(choices, key=lambda choice: (bool(choice.reason), _price(choice)))


def _price(choice: DeviceChoice) -> tuple[float, float]:
    """By price; where none is known, by devices' work."""
    price = np.inf if choice.usd_per_million is None else choice.usd_per_million
    return price, -choice.tokens_per_s / choice.tensor_parallel


def _first_allowed(tried: Iterable[DeviceChoice]) -> DeviceChoice:
    """The first that is allowed; where none is, the last."""
    last = None
    for last in tried:
        if not last.reason:
            break
    if last is None:
        raise InputError("must name at least one tensor group", key="sizes")
    return last


def _on(
    contenders: Sequence[Contender],
    device: str,
    size: int,
    at: tuple[int, int, Limits],
    setting_of: Callable[[DecodingConfiguration], Setting],
) -> DeviceChoice:
    """The fastest of the drafters on a tensor group; why they cannot stand there."""
    placed = []
    for contender in contenders:
        where = contender.configuration.deployment
        kept = where.overrides if device == where.device else ()
        deployment = replace(where, device=device, tensor_parallel=size, overrides=kept)
        configuration = replace(contender.configuration, deployment=deployment)
        try:
            placed.append(
                replace(contender, configuration=configuration, setting=setting_of(configuration))
            )
        except InputError as error:  # a format that the device lacks, heads that do not divide
            return DeviceChoice(device=device, tensor_parallel=size, reason=error.message)
    return _fastest(placed, device, size, at)


def _fastest(
    contenders: Sequence[Contender], device: str, size: int, at: tuple[int, int, Limits]
) -> DeviceChoice:
    batch, context, limits = at
    b, c = np.array([float(batch)]), np.array([float(context)])
    first = contenders[0]
    if not np.any(fits(first.setting, first.candidates[0], batch=b, context=c)):
        return DeviceChoice(device=device, tensor_parallel=size, reason="does not fit")
    rates = [
        evaluate(contender, batch=b, context=c, limits=limits).value[:, 0]
        for contender in contenders
    ]
    contender, of = max(zip(contenders, rates, strict=True), key=lambda pair: float(pair[1].max()))
    best = int(np.argmax(of))
    if not np.isfinite(of[best]):
        return DeviceChoice(device=device, tensor_parallel=size, reason="misses a limit")
    rate, price = float(of[best]), contender.setting.device.price_usd_per_hour
    usd = usd_per_million(None if price is None else price * size, rate)
    return DeviceChoice(
        device=device,
        tensor_parallel=size,
        contender=contender,
        acceptance=contender.candidates[best],
        tokens_per_s=rate,
        usd_per_million=usd,
    )
