"""What do answers say of an estimate: its numbers with intervals, its phases, and what it rests on?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import numpy as np

from app.answers.answer import Column, Row
from costmodel.answers.energy import step_draw, usd_per_million
from costmodel.answers.estimate import Estimate, Intervals, Setting, needed_bytes
from costmodel.answers.uncertainty import dominant_terms, term_source
from costmodel.engines.record.overhead import Overhead
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.drafters.sources import Source
from hardware_profiles.profile import Device

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Phases(Row):
    """Seconds of a step's phases."""

    draft: Annotated[float, Column("Draft passes.", unit="s")]
    verify: Annotated[float, Column("The target's pass over the drafts.", unit="s")]
    overhead: Annotated[float, Column("Host and scheduler.", unit="s")]
    hidden: Annotated[float | None, Column("What overlaps with other phases.", unit="s")] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownAcceptance(Row):
    """Where acceptance is known from."""

    kind: Annotated[str, Column("How it is known, such as `recorded` or `published`.")]
    source: Annotated[str, Column("What to look up.")]
    borrowed: Annotated[bool, Column("Whether it is known of another model.")]
    label: Annotated[str, Column("The same in words.")]
    model: Annotated[str | None, Column("Target on which it is known.")] = None
    drafter: Annotated[str | None, Column("Drafter that was recorded.")] = None
    rates: Annotated[
        Sequence[float] | None, Column("Share of drafts whose first d tokens are all accepted.")
    ] = None
    known_draft_tokens: Annotated[int | None, Column("Longest draft of which it is known.")] = None
    remark: Annotated[str | None, Column("What has to be said beside it.")] = None
    interval_covers: Annotated[str, Column("What intervals of its numbers cover.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class UncertainTerm(Row):
    """A term of an interval."""

    term: Annotated[str, Column("Its name.")]
    ratio: Annotated[float, Column("Its half width, of the step.", unit="ratio")]
    kind: Annotated[str, Column("`measured`, `assumed` or `datasheet`.")]
    source: Annotated[str, Column("Where it comes from.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceOrigin(Row):
    """What the constants of a device rest on."""

    name: Annotated[str, Column("Device.")]
    calibrated: Annotated[bool, Column("Whether they were fitted on this device.")]
    constants_from: Annotated[str | None, Column("Device on which they were fitted.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class OverheadOrigin(Row):
    """What the overhead of an engine rests on."""

    engine: Annotated[str, Column("Serving engine.")]
    versions: Annotated[str, Column("Versions that were measured.")]
    source: Annotated[str, Column("Where it comes from.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProvenanceRow(Row):
    """Where the numbers of an estimate come from."""

    acceptance: Annotated[KnownAcceptance, Column("Where acceptance is known from.")]
    device: Annotated[DeviceOrigin, Column("What the device's constants rest on.")]
    fidelity: Annotated[str, Column("`measured`, `calibrated` or `datasheet`.")]
    overhead: Annotated[OverheadOrigin, Column("What the engine's overhead rests on.")]
    drafter: Annotated[str, Column("The drafter's architecture.")]
    dominant_uncertainty: Annotated[
        Sequence[UncertainTerm], Column("The widest terms of the interval.")
    ]


class PointEstimate(TypedDict):
    """The estimates of a point with their intervals, which several kinds of rows have."""

    step_s: float
    step_s_interval: Interval
    tokens_per_step_interval: Interval
    tokens_per_s: float
    tokens_per_s_interval: Interval
    speedup: float
    speedup_interval: Interval


def point(result: Estimate, spread: Intervals) -> PointEstimate:
    """Estimates of one point with their intervals."""
    return PointEstimate(
        step_s=float(result.step_s),
        step_s_interval=pair(spread.step_s),
        tokens_per_step_interval=pair(spread.tokens_per_step),
        tokens_per_s=float(result.tokens_per_s),
        tokens_per_s_interval=pair(spread.tokens_per_s),
        speedup=float(result.speedup),
        speedup_interval=pair(spread.speedup),
    )


class Cost(TypedDict):
    """What the tokens of a point cost, which several kinds of rows have."""

    memory_bytes: float
    joules_per_token: float
    usd_per_million_tokens: float | None


def cost(setting: Setting, result: Estimate, *, batch: int, context: int) -> Cost:
    """Memory, energy and price of an estimate of one point.

    Args:
        setting: that was estimated.
        result: the estimate.
        batch: requests.
        context: cached tokens per request.

    Returns:
        Bytes that each device needs, joules of all devices per token, and the price of a million
        tokens; None where the device has no price.
    """
    needed = needed_bytes(setting, result.acceptance, batch=batch, context=context)
    rate, price = float(result.tokens_per_s), setting.device.price_usd_per_hour
    watts = step_draw(setting, result.step).watts * setting.devices
    return Cost(
        memory_bytes=float(needed),
        joules_per_token=watts / rate,
        usd_per_million_tokens=usd_per_million(
            None if price is None else price * setting.devices, rate
        ),
    )


def phases(result: Estimate) -> Phases:
    """Seconds of a step's phases."""
    step = result.step
    return Phases(
        draft=float(step.draft_s),
        verify=float(step.verify_s),
        overhead=float(step.overhead_s),
        hidden=float(step.hidden_s) if np.any(step.hidden_s) else None,
    )


def acceptance(source: Source, used: Iterable[Acceptance] = ()) -> KnownAcceptance:
    """Where the acceptance of a drafter is known from.

    Args:
        source: the drafter.
        used: configurations whose acceptance comes from it; the `remark` says what has to be said
            beside the longest of them.
    """
    levels = max((configuration.levels for configuration in used), default=0)
    recorded = None if source.trace is None else source.trace.provenance
    return KnownAcceptance(
        kind=source.kind,
        source=source.reference,
        borrowed=source.borrowed,
        label=f"acceptance {source.label}",
        model=(source.model or None) if recorded is None else recorded.model,
        drafter=None if recorded is None else recorded.drafter,
        rates=None if source.rates is None else list(source.rates.by_depth),
        known_draft_tokens=None if source.rates is None else source.rates.measured,
        remark=source.remark_at(levels) or None,
        interval_covers=source.interval_covers(levels),
    )


def provenance(setting: Setting, result: Estimate, source: Source) -> ProvenanceRow:
    """Where the numbers of an estimate come from, and which terms make it uncertain."""
    used = setting.overhead if result.acceptance.draft_tokens else setting.plain_overhead
    device = setting.device
    return ProvenanceRow(
        acceptance=acceptance(source, [result.acceptance]),
        device=DeviceOrigin(
            name=device.name, calibrated=device.calibrated, constants_from=device.constants_from
        ),
        fidelity=setting.deployment.fidelity,
        overhead=OverheadOrigin(engine=used.engine, versions=used.versions, source=used.source),
        drafter=setting.drafter.name,
        dominant_uncertainty=uncertain_terms(setting, result),
    )


def uncertain_terms(setting: Setting, result: Estimate) -> list[UncertainTerm]:
    """The two widest terms of an estimate's interval, each with where it comes from."""
    used: Overhead = setting.overhead if result.acceptance.draft_tokens else setting.plain_overhead
    device: Device = setting.device
    terms = dominant_terms(result.step, device.constants.residual_ratio, used)[:2]
    rows = []
    for name, ratio in terms:
        about = term_source(name, device, used)
        rows.append(UncertainTerm(term=name, ratio=ratio, kind=about.kind, source=about.source))
    return rows


def pair(bounds: tuple[Any, Any]) -> Interval:
    """The bounds of an interval of one number, which estimates hold as arrays."""
    low, high = (float(np.asarray(bound).reshape(-1)[0]) for bound in bounds)
    return low, high
