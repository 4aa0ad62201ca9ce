"""What fits into a device's memory, and how large a batch?

One account for every answer: an engine gives its cache what its record says (`Engine.cache_bytes`),
and requests fill it. `fits` counts blocks exactly; `room` takes half a block lost per request, as
on average. Leaves out prefix sharing, swapping and preemption.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.answers.estimate import Setting, footprint_of
from costmodel.drafters.drafter import Drafter
from costmodel.drafters.formats import drafter_bytes, drafter_kv_bytes_per_token
from costmodel.engines.record.engine import Engine
from costmodel.laws.acceptance import Acceptance
from costmodel.parallel import plan as planned
from costmodel.parallel.plan import ParallelPlan
from costmodel.passes.adapters import adapter_bytes
from costmodel.passes.deployment import Deployment
from costmodel.passes.memory import Footprint, kv_bytes, layer_weight_bytes, weight_bytes
from costmodel.passes.ops import Array, Mask, Number
from hardware_profiles.errors import InfeasibleError
from hardware_profiles.units import GIB


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """The memory of one device of a replica, and the batch that it holds.

    Args:
        usable_bytes: for weights and cache.
        weight_bytes: of the target.
        drafter_bytes: weights of the drafter.
        reserve_bytes: the rest of the memory: driver, buffers of the largest pass, and what the
            engine leaves alone.
        request_bytes: cache of one request of the target, half a block included.
        waste_bytes: the half block, within `request_bytes`.
        drafter_request_bytes: cache of one request of the drafter.
        pass_bytes: activations that one request adds to a verify pass.
        largest_batch: requests that fit, as many on every data copy; 0 where not even one does.
    """

    usable_bytes: float
    weight_bytes: float
    drafter_bytes: float
    reserve_bytes: float
    request_bytes: float
    waste_bytes: float
    drafter_request_bytes: float
    pass_bytes: float
    largest_batch: int


def left_bytes(setting: Setting, needed: Footprint) -> Array:
    """Bytes of its cache that an engine has left on each device; below 0 where a configuration does
    not fit.

    Args:
        setting: target, device, drafter and engine.
        needed: by the configuration, on the fullest device.
    """
    d = setting.deployment
    cache_bytes = setting.engine.cache_bytes(
        d.device,
        d.architecture,
        d.precision,
        weights_bytes=needed.weights_bytes,
        pass_bytes=needed.pass_bytes,
        tensor_parallel=d.tensor_parallel,
        devices=setting.devices,
    )
    return np.asarray(cache_bytes - needed.cache_bytes)


def fits(setting: Setting, acceptance: Acceptance, *, batch: Number, context: Number) -> Mask:
    """Where a configuration fits, in the broadcast shape of batch and context.

    Args:
        setting: target, device, drafter and engine.
        acceptance: the configuration; without draft tokens the drafter takes nothing.
        batch: requests.
        context: cached tokens per request.

    >>> from costmodel.answers.settings import build_setting
    >>> from costmodel.configuration import DecodingConfiguration, DeploymentNames
    >>> from costmodel.laws.acceptance import geometric
    >>> setting = build_setting(DecodingConfiguration(deployment=DeploymentNames(model="llama-3.1-8b")))
    >>> fits(setting, geometric(0, 0), batch=np.array([1, 64, 512]), context=4096).tolist()
    [True, True, False]
    """
    return np.asarray(
        left_bytes(setting, footprint_of(setting, acceptance, batch=batch, context=context)) >= 0.0
    )


def require_fit(setting: Setting, needed: Footprint, what: str) -> None:
    """Check that what a configuration needs fits.

    Args:
        setting: target, device, drafter and engine.
        needed: by the configuration, on the fullest device.
        what: the configuration, for the message.

    Raises:
        InfeasibleError: names the configuration, the memory it needs and the memory there is.
    """
    left = left_bytes(setting, needed)
    if np.all(left >= 0.0):
        return
    needed_bytes = np.broadcast_to(needed.weights_bytes + needed.cache_bytes, left.shape).flat[
        int(np.argmin(left))
    ]
    usable = max(float(needed_bytes + np.min(left)), 0.0)
    engine = "" if setting.engine.name == "none" else f" under {setting.engine.name}"
    raise InfeasibleError(
        f"{what} needs {needed_bytes / GIB:.1f} GiB of weights and cache on each {setting.device.name},"
        f" which has {usable / GIB:.1f} GiB usable for them{engine}"
    )


def room(setting: Setting, acceptance: Acceptance, *, context: float) -> Room:
    """How a device's memory is shared out, and the largest batch.

    Args:
        setting: target, device, drafter and engine.
        acceptance: the configuration; without draft tokens the drafter takes nothing.
        context: mean of the longest context that each request reaches, in tokens.

    >>> from costmodel.laws.acceptance import geometric
    >>> from costmodel.answers.settings import build_setting
    >>> from costmodel.configuration import DecodingConfiguration, DeploymentNames
    >>> where = DeploymentNames(model="llama-3.1-8b")
    >>> setting = build_setting(DecodingConfiguration(method="eagle-3", deployment=where))
    >>> off, on = (room(setting, geometric(0.7, k), context=4096) for k in (0, 3))
    >>> on.largest_batch < off.largest_batch
    True
    """
    return rooms([setting], acceptance, context=context)[0]


def rooms(settings: Sequence[Setting], acceptance: Acceptance, *, context: float) -> list[Room]:
    """The same of settings that differ in nothing but how much of the memory their engines give the
    cache.

    Args:
        settings: at least one.
        acceptance: as of `room`.
        context: as of `room`.
    """
    setting = settings[0]
    block, copies = (
        setting.engine.memory.block_tokens,
        1 if setting.plan is None else setting.plan.data,
    )
    pair = footprint_of(
        setting, acceptance, batch=np.array([1, 2]) * copies, context=context, block_tokens=1
    )
    full = footprint_of(
        setting, acceptance, batch=copies, context=context + block / 2.0, block_tokens=1
    )
    cache, working = (np.broadcast_to(size, 2) for size in (pair.cache_bytes, pair.pass_bytes))
    one, exact = (
        replace(pair, cache_bytes=cache[0], pass_bytes=working[0]),
        float(cache[1] - cache[0]),
    )
    waste = float(full.cache_bytes - one.cache_bytes) if block > 1 else 0.0
    return [_room(setting, acceptance, context, one, exact, waste) for setting in settings]


def _room(
    setting: Setting,
    acceptance: Acceptance,
    context: float,
    one: Footprint,
    exact: float,
    waste: float,
) -> Room:
    """Room by what one request needs, what a further one adds to the cache, and the half block that
    each wastes.
    """
    d, engine = setting.deployment, setting.engine
    copies = 1 if setting.plan is None else setting.plan.data
    used = 1.0 if setting.holds_drafter(acceptance) else 0.0
    drafter_weights = used * drafter_bytes(d, setting.drafter, d.tensor_parallel)
    drafter = drafter_kv_bytes_per_token(d, setting.drafter, d.tensor_parallel)
    drafted = (
        used
        * drafter
        * (context - min(d.shared_prefix_tokens, context) + 1.0 + acceptance.draft_tokens)
    )
    shared = float(one.cache_bytes) - exact  # held once for all requests
    available = _given(setting, one.weights_bytes) - shared
    buffers = engine.buffer_bytes(setting.target, d.precision, d.tensor_parallel)
    new = float(one.pass_bytes)
    per_request = exact + waste or new  # what caches nothing still needs its pass
    batch = available / per_request
    if batch * new > buffers:  # the buffers serve verify passes as well, up to their size
        slope = engine.memory.activations_ratio
        batch = (available + slope * buffers) / (per_request + slope * new)
    return Room(
        usable_bytes=one.weights_bytes + available,
        weight_bytes=one.weights_bytes - drafter_weights,
        drafter_bytes=drafter_weights,
        reserve_bytes=setting.device.memory_bytes - one.weights_bytes - available,
        request_bytes=per_request - drafted,
        waste_bytes=waste,
        drafter_request_bytes=drafted,
        pass_bytes=new,
        largest_batch=copies * max(0, int(np.floor(batch + 1e-9))),
    )


def require_room(setting: Setting, space: Room) -> None:
    """Check that at least one request fits.

    Raises:
        InfeasibleError: naming what takes the memory.
    """
    if space.largest_batch < 1:
        fixed = space.weight_bytes + space.drafter_bytes
        raise InfeasibleError(
            f"memory: {setting.target.called} takes {fixed / GIB:.1f} GiB of weights and"
            f" {(space.request_bytes + space.drafter_request_bytes) / GIB:.2f} GiB per request on"
            f" each {setting.device.name}, which has {max(space.usable_bytes, 0.0) / GIB:.1f} GiB"
            " usable for both"
        )


def cache_tokens(
    deployment: Deployment,
    engine: Engine,
    *,
    context: int,
    drafter: Drafter | None = None,
    plan: ParallelPlan | None = None,
) -> float:
    """Tokens that an engine's cache holds, all devices of the group together.

    Args:
        deployment: model, device and how they run; weights on the host take no room. A prefix that
            requests share counts once where they are counted, not here.
        engine: whose share of the memory counts.
        context: tokens of a request at its end; layers with a window keep less of it.
        drafter: whose weights and cache lie beside the target's.
        plan: how the target is spread; None: one tensor-parallel group, as the deployment says.
            Every data copy holds requests of its own.

    Raises:
        InfeasibleError: not even one request fits.
    """
    d = deployment
    share, form, copies = d.tensor_parallel if plan is None else plan.tensor, d.precision, 1
    if plan is None:
        weights = float(weight_bytes(d.architecture, form, share))
        weights -= d.host_weights_ratio * layer_weight_bytes(d.architecture, form, share)
        if d.adapters is not None:
            weights += adapter_bytes(d.architecture, d.adapters, share)
        one = float(kv_bytes(d.architecture, form, batch=1, context=context, tensor_parallel=share))
    else:
        weights, copies = planned.weight_bytes(d.architecture, form, plan), plan.data
        one = float(planned.kv_bytes(d.architecture, form, plan, batch=1, context=context))
    if drafter is not None:
        weights += drafter_bytes(d, drafter, share)
        one += context * drafter_kv_bytes_per_token(d, drafter, share)
    devices = share if plan is None else plan.devices
    free = float(
        engine.cache_bytes(
            d.device,
            d.architecture,
            form,
            weights_bytes=weights,
            tensor_parallel=share,
            devices=devices,
        )
    )
    if free < one:
        raise InfeasibleError(
            f"{d.architecture.called} in {form.label} leaves no room for a request of {context}"
            f" tokens on {devices} x {d.device.name}"
        )
    return free / one * copies * context


def _given(setting: Setting, weights_bytes: float) -> float:
    d = setting.deployment
    return float(
        setting.engine.cache_bytes(
            d.device,
            d.architecture,
            d.precision,
            weights_bytes=weights_bytes,
            tensor_parallel=d.tensor_parallel,
            devices=setting.devices,
        )
    )
