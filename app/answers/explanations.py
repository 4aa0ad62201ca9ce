"""What do answers say of an explained step, and of the point at which drafting pays?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from app.answers.answer import Column, Row
from costmodel.answers.breakeven import BreakEven
from costmodel.answers.estimate import Setting
from costmodel.answers.explain import Explanation, OperationShare, Roof
from costmodel.answers.sensitivity import Elasticity, VarianceShare

Json = dict[str, Any]

_DOMINANT_TERMS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationRow(Row):
    """One kind of operation in a step, all its calls together, on one device."""

    phase: Annotated[str, Column("Whose pass it runs in; `engine` between passes.")]
    operation: Annotated[str, Column("Kind, such as `gemm` or `attention`.")]
    role: Annotated[str | None, Column("Projection of a matrix product.")]
    name: Annotated[str, Column("Phase, kind and role in words.")]
    calls: Annotated[float, Column("Calls in a step, on average.")]
    seconds: Annotated[float, Column("Time of all its calls.", unit="s")]
    by_roof_s: Annotated[Mapping[Roof, float], Column("That time by what it waits for.")]
    bound: Annotated[Roof, Column("What most of that time waits for.")]
    flops: Annotated[float, Column("Arithmetic of a step.")]
    bytes: Annotated[float, Column("Memory traffic of a step.", unit="bytes")]
    intensity_flops_per_byte: Annotated[
        float | None, Column("Operations per byte moved; None where nothing is read.")
    ]
    bandwidth_ratio: Annotated[float, Column("Of the device's bandwidth.", unit="ratio")]
    compute_ratio: Annotated[float, Column("Of the device's peak.", unit="ratio")]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedStep(Row):
    """Where the time of one step goes, and what would move it."""

    sentence: Annotated[str, Column("What bounds the step and what to change.")]
    by_roof_s: Annotated[Mapping[Roof, float], Column("Its time by what it waits for.")]
    operations: Annotated[Sequence[OperationRow], Column("Its operations, largest first.")]
    elasticities: Annotated[Sequence[Elasticity], Column("What would move it.")]
    variance: Annotated[
        Sequence[VarianceShare], Column("What its interval comes from, largest first.")
    ]
    dominant_variance: Annotated[Sequence[str], Column("The first terms of the same.")]


def explained_step(explanation: Explanation) -> ExplainedStep:
    """The `explain` of a prediction."""
    return ExplainedStep(
        sentence=explanation.sentence,
        by_roof_s=explanation.by_roof_s,
        operations=[_operation(share) for share in explanation.operations],
        elasticities=explanation.elasticities,
        variance=explanation.variance,
        dominant_variance=[share.term for share in explanation.variance[:_DOMINANT_TERMS]],
    )


def _operation(share: OperationShare) -> OperationRow:
    return OperationRow(
        phase=share.phase,
        operation=share.operation,
        role=share.role or None,
        name=share.name,
        calls=share.calls,
        seconds=share.seconds,
        by_roof_s=share.by_roof_s,
        bound=share.bound,
        flops=share.flops,
        bytes=share.bytes,
        intensity_flops_per_byte=share.intensity,
        bandwidth_ratio=share.bandwidth_ratio,
        compute_ratio=share.compute_ratio,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Roofs:
    """The roofs of a device: what a step cannot exceed.

    Attributes:
        device: its name.
        dtype: format in which it computes.
        peak_flops_per_s: in that format.
        bandwidth_bytes_per_s: of its memory.
    """

    device: str
    dtype: str
    peak_flops_per_s: float
    bandwidth_bytes_per_s: float


def roofs_of(setting: Setting) -> Roofs:
    """The roofs of a setting's device, at the format of its activations."""
    dtype = setting.deployment.precision.activations
    return Roofs(
        device=setting.device.name,
        dtype=dtype,
        peak_flops_per_s=setting.device.peak(dtype),
        bandwidth_bytes_per_s=setting.device.bandwidth_bytes_per_s,
    )


def break_even(point: BreakEven) -> Json:
    """One point of `breakeven`; ratios are to a plain pass of the target."""
    low, high = point.least_rate_bounds
    entry: Json = {
        "batch": point.batch,
        "context": point.context,
        "draft_tokens": point.acceptance.draft_tokens,
        "verdict": point.verdict,
        "least_tokens_per_step": point.least_tokens_per_step,
        "least_tokens_per_step_interval": list(point.least_tokens_bounds),
        "most_tokens_per_step": point.most_tokens_per_step,
        "least_acceptance": point.least_rate,
        "least_acceptance_interval": None
        if point.least_rate is None
        else [low, 1.0 if high is None else high],
        "draft_s": point.draft_s,
        "draft_ratio": point.draft_s / point.pass_s,
        "target_pass_s": point.pass_s,
    }
    if point.greatest_draft_s is not None:
        greatest = point.greatest_draft_s
        entry |= {
            "tokens_per_step": point.acceptance.tokens_per_step,
            "speedup": point.speedup,
            "speedup_interval": _pair(point.speedup_bounds),
            "pays": point.speedup is not None and point.speedup > 1.0,
            "greatest_draft_s": greatest,
            "greatest_draft_s_interval": _pair(point.greatest_draft_bounds),
            "greatest_draft_ratio": greatest / point.pass_s,
            "greatest_draft_verdict": "never" if greatest < 0.0 else "up to",
        }
    return entry


def _pair(bounds: tuple[float, float] | None) -> list[float] | None:
    return None if bounds is None else list(bounds)
