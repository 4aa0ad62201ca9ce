"""Explanations, break-evens and plans as the JSON objects that the command line promises."""

from collections.abc import Mapping, Sequence
from typing import Any

from costmodel.breakeven import BreakEven, PayingBatches
from costmodel.capacity import Plan
from costmodel.energy import power_model
from costmodel.estimate import Setting
from costmodel.explain import Explanation, OperationShare
from costmodel.fragmentation import Reserve
from hardware_profiles.profile import Device

Json = dict[str, Any]


def explanation(told: Explanation) -> Json:
    """The `explain` object of a prediction: operations, roofs, elasticities, the interval, a sentence."""
    terms = [{"term": v.term, "step_ratio": v.step_ratio, "speedup_ratio": v.speedup_ratio} for v in told.variance]
    return {
        "sentence": told.sentence,
        "by_roof_s": dict(told.by_roof_s),
        "operations": [_operation(share) for share in told.operations],
        "elasticities": [
            {"lever": e.lever, "step": e.step, "speedup": e.speedup, "tokens_per_s": e.tokens_per_s}
            for e in told.elasticities
        ],
        "variance": terms,
        "dominant_variance": [term["term"] for term in terms[:2]],
    }


def _operation(share: OperationShare) -> Json:
    return {
        "phase": share.phase, "operation": share.operation, "role": share.role or None, "name": share.name,
        "calls": share.calls, "seconds": share.seconds, "by_roof_s": dict(share.by_roof_s), "bound": share.bound,
        "flops": share.flops, "bytes": share.bytes, "intensity_flops_per_byte": share.intensity,
        "bandwidth_ratio": share.bandwidth_ratio, "compute_ratio": share.compute_ratio,
    }  # fmt: skip


def roofs_of(setting: Setting) -> Json:
    """The roofs of a setting's device, for the chart: name, bandwidth and the peak of the format it computes in."""
    dtype = setting.deployment.precision.activations
    return {
        "device": setting.device.name, "dtype": dtype, "peak_flops_per_s": setting.device.peak(dtype),
        "bandwidth_bytes_per_s": setting.device.bandwidth_bytes_per_s,
    }  # fmt: skip


def break_even(found: BreakEven) -> Json:
    """One point of `breakeven`; ratios are to a plain pass of the target."""
    low, high = found.least_rate_bounds
    entry: Json = {
        "batch": found.batch, "context": found.context, "draft_tokens": found.acceptance.draft_tokens,
        "verdict": found.verdict,
        "least_tokens_per_step": found.least_tokens_per_step,
        "least_tokens_per_step_interval": list(found.least_tokens_bounds),
        "most_tokens_per_step": found.most_tokens_per_step,
        "least_acceptance": found.least_rate,
        "least_acceptance_interval": None if found.least_rate is None else [low, 1.0 if high is None else high],
        "draft_s": found.draft_s, "draft_ratio": found.draft_s / found.pass_s, "target_pass_s": found.pass_s,
    }  # fmt: skip
    if found.greatest_draft_s is not None:
        greatest = found.greatest_draft_s
        entry |= {
            "tokens_per_step": found.acceptance.tokens_per_step,
            "speedup": found.speedup, "speedup_interval": _pair(found.speedup_bounds),
            "pays": found.speedup is not None and found.speedup > 1.0,
            "greatest_draft_s": greatest, "greatest_draft_s_interval": _pair(found.greatest_draft_bounds),
            "greatest_draft_ratio": greatest / found.pass_s,
            "greatest_draft_verdict": "never" if greatest < 0.0 else "up to",
        }  # fmt: skip
    return entry


def paying_batches(found: PayingBatches, draft_tokens: int) -> Json:
    """One context of `breakeven`: at which batches the method pays."""
    return {
        "context": found.context, "draft_tokens": draft_tokens, "verdict": found.verdict,
        "largest_batch": found.largest, "ranges": [list(pair) for pair in found.ranges],
        "last_batch": found.last or 0, "last_batch_interval": list(found.last_bounds),
    }  # fmt: skip


def capacity_plan(found: Plan, *, method: str) -> Json:
    """One row of `capacity`."""
    space, acceptance = found.room, found.acceptance
    spread = power_model(found.setting.device).spread_ratio
    return {
        "device": found.setting.device.name, "tp": found.setting.deployment.tensor_parallel, "method": method,
        "draft_tokens": acceptance.draft_tokens, "tokens_per_step": acceptance.tokens_per_step,
        "feasible": True, "reason": None,
        "batch": found.batch, "binds": found.binds,
        "replicas": found.replicas, "replicas_interval": list(found.replicas_bounds), "devices": found.devices,
        "requests_per_s_per_replica": float(found.curve.requests_per_s[found.batch - 1]),
        "utilisation_ratio": found.utilisation_ratio, "headroom_ratio": 1.0 - found.utilisation_ratio,
        "mean_batch": found.mean_batch, "ttft_s": found.ttft_s, "tpot_s": found.tpot_s,
        "watts": found.watts, "watts_interval": [found.watts * (1 - spread), found.watts * (1 + spread)],
        "joules_per_token": found.joules_per_token,
        "joules_per_token_interval": [found.joules_per_token * (1 - spread), found.joules_per_token * (1 + spread)],
        "decode_joules_per_token": found.decode_joules_per_token,
        "prefill_joules_per_token": found.prefill_joules_per_token,
        "calibrated": found.setting.device.calibrated, "constants_from": found.setting.device.constants_from,
        "usd_per_hour": found.usd_per_hour, "usd_per_million_tokens": found.usd_per_million_tokens,
        "memory": {
            "usable_bytes": space.usable_bytes, "weight_bytes": space.weight_bytes,
            "drafter_bytes": space.drafter_bytes, "reserve_bytes": space.reserve_bytes,
            "request_bytes": space.request_bytes, "block_waste_bytes": space.waste_bytes,
            "drafter_request_bytes": space.drafter_request_bytes, "largest_batch": space.largest_batch,
        },
    }  # fmt: skip


def refused_plan(*, device: str, tp: int, method: str, reason: str) -> Json:
    """A row of `capacity` that cannot be."""
    return {"device": device, "tp": tp, "method": method, "feasible": False, "reason": reason}


def assumptions(kept: Reserve, devices: Sequence[Device]) -> Json:
    """What a plan rests on beside the cost model: memory that engines keep, and the power models by kind."""
    power: Mapping[str, str] = {device.kind: power_model(device).source for device in devices}
    return {"memory": kept.source, "power": dict(power)}


def _pair(bounds: tuple[float, float] | None) -> list[float] | None:
    return None if bounds is None else list(bounds)
