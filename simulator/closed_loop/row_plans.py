"""How was the model of a row of a table of serving runs spread: over which devices, by which
workers?

Widths of attention (tensor group times attention's data copies) and of experts (tensor times expert
group) are stated side by side, for one kind of worker or, under `prefill_` and `decode_`, for two.
Leaves out launches (`simulator.closed_loop.launches`) and speculation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from costmodel.architectures.architecture import Architecture
from costmodel.parallel.plan import NODE_DEVICES, ParallelPlan, weight_bytes
from costmodel.parallel.pools import ServingPlan, Workers
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InputError
from hardware_profiles.profile import Device
from simulator.closed_loop.columns import SIDES, WIDTHS
from simulator.closed_loop.launch_settings import read_launch
from simulator.closed_loop.worker_counts import Launched, launched_plan

MODES = ("agg", "disagg")
# of a device's memory: engines give weights and cache 0.85 to 0.9 of it by default
_MOST_WEIGHTS = 0.9


def plan_of_row(
    row: Mapping[str, Any],
    architecture: Architecture,
    device: Device,
    precision: Precision,
    *,
    engine: str,
) -> ServingPlan:
    """The plan that a row's columns state, or that which the launch it names has for them.

    Args:
        row: by column (`simulator.closed_loop.columns`).
        architecture: its model.
        device: one of its devices.
        precision: number formats; a width that cannot hold the model is no other one miswritten.
        engine: its name.

    Raises:
        InputError: an unknown mode, workers that are not counted, or widths that do not go
            together; names the column.
    """
    mode = row["mode"] or "agg"
    if mode not in MODES:
        raise InputError(f"must be one of {', '.join(MODES)}", key="mode", value=mode)
    if mode == "agg":
        return ServingPlan(decode=Workers(plan=_worker(row, "", architecture, device, precision)))
    uncounted = [f"{side}_num_workers" for side in SIDES if not row[f"{side}_num_workers"]]
    if uncounted:
        plan = _launched(row, architecture.name, device.name, engine, precision.label)
        if plan is None:
            raise InputError("the row does not say", key=uncounted[0])
        sides = [
            replace(workers, plan=_with_calls(workers.plan))
            for workers in (plan.prefill, plan.decode)
            if workers
        ]
        return ServingPlan(prefill=sides[0], decode=sides[1])
    for side in SIDES:
        if not any(row[f"{side}_{name}"] for name in WIDTHS):
            raise InputError("the row does not say", key=f"{side}_tp_size")
    prefill, decode = (
        Workers(
            count=row[f"{side}_num_workers"],
            plan=_worker(row, f"{side}_", architecture, device, precision),
        )
        for side in SIDES
    )
    return ServingPlan(prefill=prefill, decode=decode)


def _launched(
    row: Mapping[str, Any], model: str, device: str, engine: str, weights: str
) -> ServingPlan | None:
    """The plan that the row's launch has for workers which nobody counted."""
    if not row["concurrency"] or not row["launch"]:
        return None
    launch = read_launch(row["launch"])
    if launch.scripts != "inferencex":
        return None
    widths = []
    for side in SIDES:
        tensor, _, copies, moe_tensor, moe_expert = (row[f"{side}_{name}"] or 1 for name in WIDTHS)
        widths.append(max(tensor * copies, moe_tensor * moe_expert))
    return launched_plan(
        Launched(
            model=model,
            device=device,
            engine=engine,
            weights=weights,
            prompt_tokens=row["isl"],
            output_tokens=row["osl"],
            users=row["concurrency"],
            prefill_devices=widths[0],
            decode_devices=widths[1],
            launch=launch,
        )
    )


def users_of_row(row: Mapping[str, Any], plan: ServingPlan) -> int | None:
    """Requests in flight: as stated, or as many as the workers that decode hold; None where neither
    is said.

    Args:
        row: by column.
        plan: of the row. The batch of a side is that of one copy of attention.

    Where servers do not serve prompts apart and a concurrency is more batches than one server
    states devices, it counts several servers, and the load of one is its batch.
    """
    users: int | None = row["concurrency"]
    batch = row["batch_size"]
    if users and batch and plan.prefill is None and users % batch == 0:
        devices = math.prod(row[name] or 1 for name in WIDTHS[:3])
        return int(batch) if users // batch > devices else users
    if users or plan.prefill is None or not row["decode_batch_size"]:
        return users or None
    return int(row["decode_batch_size"]) * plan.decode.count * plan.decode.plan.data


def _worker(
    row: Mapping[str, Any],
    side: str,
    architecture: Architecture,
    device: Device,
    precision: Precision,
) -> ParallelPlan:
    """The plan of one worker. Where attention has copies, experts are kept whole on all its
    devices.

    Where copies do not fit in memory and a tensor group does, attention was not copied, whatever
    the row says. Experts that a tensor group keeps whole are priced as split ones: every device has every token,
    and reads as much.
    """
    tensor, stages, copies, moe_tensor, moe_expert = (row[side + name] or 1 for name in WIDTHS)
    experts = moe_tensor * moe_expert
    if not row[side + "tp_size"] and not row[side + "attention_dp_size"]:
        tensor = experts
    single = _single_width(tensor * copies, moe_tensor, moe_expert, device)
    if single and _fits(architecture, precision, device, ParallelPlan(tensor=single)):
        tensor, copies = (tensor, single // tensor) if copies > 1 else (single, 1)
    elif experts > 1 and architecture.is_moe and experts != tensor * copies:
        copies = _copies(tensor, copies, moe_tensor, moe_expert, side)
    whole = tensor * copies if copies > 1 and architecture.is_moe else 1
    plan = _with_calls(ParallelPlan(tensor=tensor, pipeline=stages, data=copies, expert=whole))
    split = ParallelPlan(tensor=tensor * copies, pipeline=stages)
    if copies > 1 and not _fits(architecture, precision, device, plan):
        return split if _fits(architecture, precision, device, split) else plan
    return plan


def _copies(tensor: int, copies: int, moe_tensor: int, moe_expert: int, side: str) -> int:
    """Copies of attention where experts and attention are stated on different numbers of devices.

    Experts of one worker lie on all its devices. Tables leave copies of attention out, whose
    experts then have more devices than attention states; or how wide a group splits an expert
    (`moe_tp_size` 1), which is what remains of the devices.

    Raises:
        InputError: widths that do not divide each other; names the column.
    """
    attention, experts = tensor * copies, moe_tensor * moe_expert
    if copies == 1 and experts % tensor == 0:
        return experts // tensor
    if moe_tensor == 1 and attention % experts == 0:
        return copies
    rule = f"must be the {attention} devices of attention, moe_tp_size times moe_ep_size"
    raise InputError(rule, key=f"{side}moe_ep_size", value=experts)


def _with_calls(plan: ParallelPlan) -> ParallelPlan:
    """The plan with tokens that go to experts and back in calls of NCCL.

    That is what engines do unless they are built with kernels of their own for it.
    """
    return replace(plan, backend="nccl") if plan.expert > 1 else plan


def _single_width(width: int, moe_tensor: int, moe_expert: int, device: Device) -> int | None:
    """The width that was multiplied by the experts' once more, if the one that is written exceeds a
    node.

    Tables that were ingested from launches with TP and EP state TP x EP as a width, and their ratio
    as `moe_tp_size`. An expert group within the tensor group divides it.
    """
    node = device.link_devices or NODE_DEVICES
    multiplied = (
        width > node
        and moe_expert > 1
        and moe_tensor * moe_expert == width
        and moe_tensor % moe_expert == 0
    )
    return moe_tensor if multiplied else None


def _fits(
    architecture: Architecture, precision: Precision, device: Device, plan: ParallelPlan
) -> bool:
    """Whether a plan's weights leave a device room to serve; workers that do not could not start."""
    return weight_bytes(architecture, precision, plan) < _MOST_WEIGHTS * device.memory_bytes
