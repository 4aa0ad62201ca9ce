"""Explanations and break-evens as the JSON objects that the command line promises."""

from typing import Any

from costmodel.answers.breakeven import BreakEven
from costmodel.answers.estimate import Setting
from costmodel.answers.explain import Explanation, OperationShare

Json = dict[str, Any]


def explanation(explained: Explanation) -> Json:
    """The `explain` object of a prediction: operations, roofs, elasticities, the interval, a
    sentence.
    """
    terms = [
        {"term": v.term, "step_ratio": v.step_ratio, "speedup_ratio": v.speedup_ratio}
        for v in explained.variance
    ]
    return {
        "sentence": explained.sentence,
        "by_roof_s": dict(explained.by_roof_s),
        "operations": [_operation(share) for share in explained.operations],
        "elasticities": [
            {"lever": e.lever, "step": e.step, "speedup": e.speedup, "tokens_per_s": e.tokens_per_s}
            for e in explained.elasticities
        ],
        "variance": terms,
        "dominant_variance": [term["term"] for term in terms[:2]],
    }


def _operation(share: OperationShare) -> Json:
    return {
        "phase": share.phase,
        "operation": share.operation,
        "role": share.role or None,
        "name": share.name,
        "calls": share.calls,
        "seconds": share.seconds,
        "by_roof_s": dict(share.by_roof_s),
        "bound": share.bound,
        "flops": share.flops,
        "bytes": share.bytes,
        "intensity_flops_per_byte": share.intensity,
        "bandwidth_ratio": share.bandwidth_ratio,
        "compute_ratio": share.compute_ratio,
    }


def roofs_of(setting: Setting) -> Json:
    """The roofs of a setting's device, for the chart: name, bandwidth and the peak of the format it
    computes in.
    """
    dtype = setting.deployment.precision.activations
    return {
        "device": setting.device.name,
        "dtype": dtype,
        "peak_flops_per_s": setting.device.peak(dtype),
        "bandwidth_bytes_per_s": setting.device.bandwidth_bytes_per_s,
    }


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
