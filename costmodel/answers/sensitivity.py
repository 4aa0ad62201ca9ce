"""What would move a step's time or a speedup, and what is its interval made of?

Elasticities by finite differences on the cost model, and shares of variance by drawing one source
of error at a time. Leaves out interactions: two changes together may do more or less than their
product.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from costmodel.answers.estimate import Estimate, Setting, estimate
from costmodel.answers.uncertainty import draw_steps, paired
from costmodel.laws.acceptance import Acceptance
from hardware_profiles.errors import InputError
from hardware_profiles.fitted.constants import CONSTANT_NAMES
from hardware_profiles.fitted.residuals import Residuals

LEVERS = (
    "bandwidth",
    "peak",
    "link",
    "launch",
    "overhead",
    "batch",
    "context",
    "acceptance",
    "draft_cost",
)
_SMOOTH = 1e-4  # half step of a logarithm, for what enters the model smoothly
_COARSE = 0.1  # for batch and context, which enter through tiles and waves
_VARIANCE_DRAWS = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class Elasticity:
    """Relative change of three answers per relative change of a lever: 0.6 means +1 % gives +0.6 %.

    Args:
        lever: one of `LEVERS`; `launch` is all fixed times of the device, `overhead` those of the
            engine, `acceptance` the accepted draft tokens per step, `draft_cost` the seconds of the
            draft passes.
        step: of the step's time.
        speedup: of the speedup against plain decoding.
        tokens_per_s: of the rate of the batch.
    """

    lever: str
    step: float
    speedup: float
    tokens_per_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class VarianceShare:
    """Share of the variance of two answers that one source of error brings; each answer's shares
    sum to 1.

    Args:
        term: an operation's residual, `overhead` or `acceptance`.
        step_ratio: of the step's time (in logarithms).
        speedup_ratio: of the speedup; 0 for every term where there is no draft.
    """

    term: str
    step_ratio: float
    speedup_ratio: float


def scaled(setting: Setting, lever: str, factor: float) -> Setting:
    """The setting with one kind of number of its device or engine multiplied.

    Args:
        setting: to change.
        lever: bandwidth, peak, link, launch (every fixed time of the device) or overhead (of the
            engine).
        factor: > 0.

    Raises:
        InputError: another lever.
    """
    device = setting.device
    match lever:
        case "bandwidth":
            device = replace(device, bandwidth_bytes_per_s=device.bandwidth_bytes_per_s * factor)
        case "peak":
            device = replace(
                device, peak_flops_per_s={k: v * factor for k, v in device.peak_flops_per_s.items()}
            )
        case "link":
            device = replace(device, link_bytes_per_s=device.link_bytes_per_s * factor)
        case "launch":
            c = device.constants
            times = {
                name: c.number(name) * factor for name in CONSTANT_NAMES if name.endswith("_s")
            }
            device = replace(device, constants=c.changed(times))
        case "overhead":
            slower = [
                replace(
                    o,
                    step_s=o.step_s * factor,
                    draft_s=o.draft_s * factor,
                    request_s=o.request_s * factor,
                    accepted_s=o.accepted_s * factor,
                )
                for o in (setting.overhead, setting.plain_overhead)
            ]
            return replace(setting, overhead=slower[0], plain_overhead=slower[1])
        case _:
            raise InputError(
                "must be bandwidth, peak, link, launch or overhead", key="lever", value=lever
            )
    return replace(setting, deployment=replace(setting.deployment, device=device))


def elasticities(
    setting: Setting, acceptance: Acceptance, *, batch: float, context: float
) -> list[Elasticity]:
    """Elasticities of a configuration at one point, for every lever that means something there.

    Args:
        setting: target, device, drafter and engine.
        acceptance: the configuration.
        batch: requests.
        context: cached tokens per request; 0 has no relative change.
    """

    def hardware(lever: str) -> Callable[[float], tuple[float, float, float]]:
        return lambda factor: _answers(scaled(setting, lever, factor), acceptance, batch, context)

    movers: dict[str, tuple[Callable[[float], tuple[float, float, float]], float]] = {
        "bandwidth": (hardware("bandwidth"), _SMOOTH),
        "peak": (hardware("peak"), _SMOOTH),
        "launch": (hardware("launch"), _SMOOTH),
        "batch": (lambda f: _answers(setting, acceptance, batch * f, context), _COARSE),
    }
    if setting.deployment.tensor_parallel > 1:
        movers["link"] = (hardware("link"), _SMOOTH)
    if setting.overhead.engine != "none":
        movers["overhead"] = (hardware("overhead"), _SMOOTH)
    if context > 0:
        movers["context"] = (lambda f: _answers(setting, acceptance, batch, context * f), _COARSE)
    if acceptance.draft_tokens:
        movers["acceptance"] = (
            lambda f: _answers(setting, acceptance, batch, context, accepted=f),
            _SMOOTH,
        )
        movers["draft_cost"] = (
            lambda f: _answers(setting, acceptance, batch, context, draft=f),
            _SMOOTH,
        )
    by_lever = []
    for lever in LEVERS:
        if lever in movers:
            at, step = movers[lever]
            less, more = np.log(at(float(np.exp(-step)))), np.log(at(float(np.exp(step))))
            slopes = (more - less) / (2.0 * step)
            by_lever.append(
                Elasticity(
                    lever=lever,
                    step=float(slopes[0]),
                    speedup=float(slopes[1]),
                    tokens_per_s=float(slopes[2]),
                )
            )
    return by_lever


def _answers(
    setting: Setting,
    a: Acceptance,
    batch: float,
    context: float,
    *,
    accepted: float = 1.0,
    draft: float = 1.0,
) -> tuple[float, float, float]:
    """Step seconds, speedup and tokens per second with accepted tokens and draft seconds
    multiplied.
    """
    result = estimate(setting, a, batch=batch, context=context)
    step = float(result.step_s) + (draft - 1.0) * float(result.step.draft_s)
    tokens = 1.0 + accepted * (a.tokens_per_step - 1.0)
    return step, tokens * float(result.plain.total_s) / step, batch * tokens / step


def variance_shares(
    setting: Setting, result: Estimate, *, generator: np.random.Generator
) -> list[VarianceShare]:
    """What the interval of a step and of a speedup comes from, the largest share of the speedup (or
    step) first.

    Args:
        setting: target, device, drafter and engine.
        result: an estimate at one point.
        generator: source of randomness.
    """
    residuals = setting.device.constants.residuals
    silent, sure = (
        Residuals(dict.fromkeys(residuals, 0.0)),
        replace(setting.overhead, spread_ratio=0.0),
    )
    drafts = result.acceptance.draft_tokens > 0
    variances: dict[str, tuple[float, float]] = {}
    for term in (*residuals, "overhead"):
        alone = silent if term == "overhead" else residuals.only(term)
        engine = setting.overhead if term == "overhead" else sure
        drawn = draw_steps(
            result.plain, result.step, alone, engine, generator=generator, draws=_VARIANCE_DRAWS
        )
        step, plain = np.log(drawn.step_s[:, 0]), np.log(drawn.plain_s[:, 0])
        variances[term] = float(np.var(step)), float(np.var(plain - step)) if drafts else 0.0
    samples = result.acceptance.samples
    if samples.size and drafts:
        variances["acceptance"] = (
            0.0,
            float(np.var(np.log(paired(samples, _VARIANCE_DRAWS, generator)))),
        )
    totals = [sum(value[i] for value in variances.values()) or 1.0 for i in (0, 1)]
    shares = [
        VarianceShare(term=term, step_ratio=step / totals[0], speedup_ratio=speedup / totals[1])
        for term, (step, speedup) in variances.items()
        if step > 1e-12 or speedup > 1e-12
    ]
    return sorted(shares, key=lambda s: -(s.speedup_ratio if drafts else s.step_ratio))
