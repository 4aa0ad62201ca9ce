"""Where does a step's time go, and what would change it?

Splits a step by operation and by roof, takes elasticities of its time and speedup by finite
differences on the model, and says in one sentence what bounds it. Leaves out what a change would
cost, and changes of the draft itself.

An operation's time is homogeneous of degree one in the inverse rates and the fixed times of its
device, so that its elasticities to them sum to one: the share of a roof is the elasticity to it,
whatever the form of the kernel model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from costmodel.answers.estimate import Estimate, Setting, estimate
from costmodel.answers.sensitivity import (
    Elasticity,
    VarianceShare,
    elasticities,
    scaled,
    variance_shares,
)
from costmodel.answers.steps.step import StepCost
from costmodel.drafters.pass_costs import WeightedPass
from costmodel.laws.acceptance import Acceptance

Roof = Literal["bandwidth", "compute", "link", "launch", "overhead"]
Phase = Literal["draft", "verify", "engine"]
ROOFS: tuple[Roof, ...] = ("bandwidth", "compute", "link", "launch", "overhead")
_RATES: tuple[tuple[Roof, str], ...] = (
    ("bandwidth", "bandwidth"),
    ("compute", "peak"),
    ("link", "link"),
)
_STEP = 1e-4  # of a logarithm, for derivatives with respect to rates
_WEIGHTS = ("gemm", "head", "moe")
_CACHE = ("attention", "mla")


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationShare:
    """One kind of operation in a step, all its calls together, on one device.

    Args:
        phase: whose pass it runs in; `engine` for what runs between passes.
        operation: gemm, attention, mla, moe, elementwise, allreduce, head, sampler or overhead.
        role: the projection of a matrix product, else empty.
        calls: how often it runs in a step, on average.
        seconds: of the step.
        by_roof_s: the same seconds by what they wait for; they sum to `seconds`.
        flops: arithmetic of a step.
        bytes: memory traffic of a step.
        bandwidth_ratio: share of the device's bandwidth that it reaches.
        compute_ratio: share of the device's peak that it reaches.
    """

    phase: Phase
    operation: str
    role: str
    calls: float
    seconds: float
    by_roof_s: Mapping[Roof, float]
    flops: float
    bytes: float
    bandwidth_ratio: float
    compute_ratio: float

    @property
    def name(self) -> str:
        """In words, such as `verify gemm gate_up`."""
        return " ".join(part for part in (self.phase, self.operation, self.role) if part)

    @property
    def bound(self) -> Roof:
        """The roof that most of its time waits for."""
        return max(ROOFS, key=lambda roof: self.by_roof_s[roof])

    @property
    def intensity(self) -> float | None:
        """Arithmetic intensity, FLOPs per byte; None where nothing is read."""
        return self.flops / self.bytes if self.bytes else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Where the time of one step goes.

    Args:
        step_s: seconds of the step.
        speedup: against plain decoding.
        operations: largest first; their seconds sum to the step.
        by_roof_s: the step by what it waits for; sums to the step.
        elasticities: what would move it.
        variance: what its interval comes from, largest first.
        sentence: what bounds it and what to change.
    """

    step_s: float
    speedup: float
    operations: Sequence[OperationShare]
    by_roof_s: Mapping[Roof, float]
    elasticities: Sequence[Elasticity]
    variance: Sequence[VarianceShare]
    sentence: str


def explain(
    setting: Setting,
    acceptance: Acceptance,
    *,
    batch: float,
    context: float,
    generator: np.random.Generator,
) -> Explanation:
    """Explain where the time of one configuration's step goes.

    Example:
        >>> from costmodel.laws.acceptance import geometric
        >>> from costmodel.answers.settings import build_setting
        >>> from costmodel.configuration import DecodingConfiguration, DeploymentNames
        >>> where = DeploymentNames(model="llama-3.1-8b", engine="none")
        >>> setting = build_setting(DecodingConfiguration(method="eagle-3", deployment=where))
        >>> explained = explain(setting, geometric(0.7, 3), batch=1, context=1024, generator=np.random.default_rng(0))
        >>> explained.operations[0].name, explained.operations[0].bound
        ('verify gemm gate_up', 'bandwidth')

    Args:
        setting: target, device, drafter and engine.
        acceptance: the configuration.
        batch: requests, > 0.
        context: cached tokens per request, >= 0.
        generator: source of randomness, for the shares of the interval.

    Raises:
        InputError: a batch or context outside its range.
    """
    result = estimate(setting, acceptance, batch=batch, context=context)
    operations = operation_shares(setting, acceptance, result.step, batch=batch, context=context)
    by_roof = {roof: sum(operation.by_roof_s[roof] for operation in operations) for roof in ROOFS}
    moved = elasticities(setting, acceptance, batch=batch, context=context)
    return Explanation(
        step_s=float(result.step_s),
        speedup=float(result.speedup),
        operations=operations,
        by_roof_s=by_roof,
        elasticities=moved,
        variance=variance_shares(setting, result, generator=generator),
        sentence=_sentence(result, operations, by_roof, setting),
    )


def operation_shares(
    setting: Setting, acceptance: Acceptance, step: StepCost, *, batch: float, context: float
) -> list[OperationShare]:
    """Every operation of a step and the engine's share, largest first.

    Args:
        setting: target, device, drafter and engine.
        acceptance: the configuration.
        step: its step at this very point.
        batch: requests.
        context: cached tokens per request.
    """
    base = _sums(step)
    slopes: dict[Roof, dict[_Key, float]] = {}
    for roof, lever in _RATES:
        less, more = (
            _sums(
                estimate(
                    scaled(setting, lever, factor), acceptance, batch=batch, context=context
                ).step
            )
            for factor in (np.exp(-_STEP), np.exp(_STEP))
        )
        slopes[roof] = {key: (less[key][1] - more[key][1]) / (2.0 * _STEP) for key in base}
    device, dtype = setting.device, setting.deployment.precision.activations
    shares = []
    for key, (calls, seconds, flops, moved) in base.items():
        rates = max(seconds, 1e-300)
        shares.append(
            OperationShare(
                phase=key[0],
                operation=key[1],
                role=key[2],
                calls=calls,
                seconds=seconds,
                by_roof_s=_roofs(seconds, {roof: slope[key] for roof, slope in slopes.items()}),
                flops=flops,
                bytes=moved,
                bandwidth_ratio=moved / rates / device.bandwidth_bytes_per_s,
                compute_ratio=flops / rates / device.peak(dtype),
            )
        )
    overhead = float(step.overhead_s)
    if overhead > 0.0:
        only = {roof: overhead if roof == "overhead" else 0.0 for roof in ROOFS}
        shares.append(
            OperationShare(
                phase="engine",
                operation="overhead",
                role="",
                calls=1.0,
                seconds=overhead,
                by_roof_s=only,
                flops=0.0,
                bytes=0.0,
                bandwidth_ratio=0.0,
                compute_ratio=0.0,
            )
        )
    return sorted(shares, key=lambda share: -share.seconds)


_Key = tuple[Phase, str, str]


def _sums(step: StepCost) -> dict[_Key, tuple[float, float, float, float]]:
    """Calls, seconds, FLOPs and bytes of every kind of operation in a step at one point.

    Where passes run at the same time, all of them are shortened alike, so that the step's seconds
    are met.
    """
    busy_s = float(step.draft_s + step.verify_s)
    alone = 1.0 - float(step.hidden_s) / busy_s if busy_s else 1.0
    sums: dict[_Key, tuple[float, float, float, float]] = {}
    phases: tuple[tuple[Phase, tuple[WeightedPass, ...]], ...] = (
        ("draft", step.draft_passes),
        ("verify", step.verify_passes),
    )
    for phase, passes in phases:
        for weight, cost in passes:
            for operation in cost.operations:
                times, work = float(weight) * operation.calls, operation.work
                key = (phase, operation.name, operation.role if operation.name == "gemm" else "")
                calls, seconds, flops, moved = sums.get(key, (0.0, 0.0, 0.0, 0.0))
                sums[key] = (
                    calls + times,
                    seconds + alone * times * float(operation.timing.seconds),
                    flops + times * float(work.flops),
                    moved + times * float(work.bytes),
                )
    return {key: value for key, value in sums.items() if value[1] > 0.0}


def _roofs(seconds: float, slopes: Mapping[Roof, float]) -> dict[Roof, float]:
    """Seconds by roof from derivatives; what no rate explains is fixed time."""
    by_roof = {roof: min(max(slope, 0.0), seconds) for roof, slope in slopes.items()}
    total = sum(by_roof.values())
    if total > (1.0 - 1e-6) * seconds:  # nothing fixed but the error of the derivative
        by_roof = {roof: value * seconds / total for roof, value in by_roof.items()}
        total = seconds
    return {roof: by_roof.get(roof, 0.0) for roof in ROOFS} | {"launch": seconds - total}


def _sentence(
    result: Estimate,
    operations: Sequence[OperationShare],
    by_roof: Mapping[Roof, float],
    setting: Setting,
) -> str:
    """What bounds the step and what to change, in plain words."""
    roof = max(ROOFS, key=lambda candidate: by_roof[candidate])
    largest = max(operations, key=lambda share: share.by_roof_s[roof])
    total = float(result.step_s)
    share, part = by_roof[roof] / total, largest.by_roof_s[roof] / total
    most = (
        ""
        if roof == "overhead"
        else f", the largest part in {largest.name} ({100 * part:.0f} % of the step)"
    )
    # rate x1.1 divides its share of the time by 1.1; fixed times are cut by a tenth for the same
    # factor
    gain = share * (1.0 - 1.0 / 1.1)
    faster = {
        "bandwidth": "A tenth more bandwidth",
        "compute": "A tenth more peak",
        "link": "A link a tenth faster",
        "launch": "Launches a tenth quicker",
        "overhead": "An engine a tenth quicker between passes",
    }[roof]
    return (
        f"{_WAITS[roof]} {100 * share:.0f} % of the step{most}. {faster} would give"
        f" {100 * gain / (1 - gain):.1f} % more tokens/s;"
        f" {_advice(roof, operations, setting, result)}."
    )


_WAITS = {
    "bandwidth": "Reading memory takes",
    "compute": "Arithmetic takes",
    "link": "Moving data between devices takes",
    "launch": "Launches and other fixed times take",
    "overhead": "The engine's own work between passes takes",
}


def _advice(
    roof: Roof, operations: Sequence[OperationShare], setting: Setting, result: Estimate
) -> str:
    if roof == "bandwidth":
        reads = {
            group: sum(o.by_roof_s[roof] for o in operations if o.operation in group)
            for group in (_WEIGHTS, _CACHE)
        }
        if reads[_WEIGHTS] >= reads[_CACHE]:
            return (
                "so would fewer bits per weight; more requests or draft tokens ride on the same"
                " reads"
            )
        return (
            "so would fewer bits per cached value or a shorter context; draft tokens ride on the"
            " same reads"
        )
    if roof == "compute":
        fewer = "draft fewer tokens at this batch, or " if result.acceptance.draft_tokens else ""
        return f"{fewer}compute in fewer bits"
    if roof == "link":
        return "use a smaller --tp or faster links"
    if roof == "launch":
        fixed = {
            phase: sum(o.by_roof_s[roof] for o in operations if o.phase == phase)
            for phase in ("draft", "verify")
        }
        passes = "fewer draft passes or " if fixed["draft"] > fixed["verify"] else ""
        return (
            f"no faster memory or arithmetic will help: use {passes}fused kernels, or let more"
            " requests share them"
        )
    held = f"{setting.overhead.engine}'s" if setting.overhead.engine != "none" else "the engine's"
    return (
        f"no faster device will help: cut {held} work per step, or let more requests or accepted"
        " tokens share it"
    )
