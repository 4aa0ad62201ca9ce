"""From how many tokens a pass does a masked decoder beat its autoregressive twin?

The twin is the same model, or the one that the setting names in its place, decoded one token a pass
with a KV cache. What a pass of a masked decoder costs depends on how many tokens it commits,
because passes that renew a cache are spread over fewer of them: the least pace is searched for.
Leaves out which batches pay at a given pace (`breakeven.paying_batches`).
"""

from dataclasses import dataclass

import numpy as np

from costmodel.answers.estimate import Setting, estimate
from costmodel.answers.steps.step import StepCost
from costmodel.answers.uncertainty import draw_steps, interval
from costmodel.laws.own_pace import own_pace
from costmodel.laws.refining import live_tokens

Bounds = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class NeededPace:
    """The break-even of a masked decoder at one batch and context.

    Args:
        tokens_per_pass: least at which it is as fast as its twin, 1 where any pace is enough; None:
            not even a pass that commits all of its blocks is.
        bounds: 80 % interval of it from the cost model, within 1 and `most`; None where no pace is
            enough.
        most: tokens that a pass commits at most.
        twin_tokens_per_s: of the whole batch, decoded token by token.
    """

    tokens_per_pass: float | None
    bounds: Bounds | None
    most: float
    twin_tokens_per_s: float


def needed_pace(
    setting: Setting, *, batch: int, context: int, generator: np.random.Generator
) -> NeededPace:
    """Least tokens per pass at which a masked decoder beats its twin.

    Args:
        setting: of a method that refines blocks.
        batch: requests, >= 1.
        context: cached tokens per request before the canvas.
        generator: source of randomness for the interval.

    Raises:
        InputError: a method that does not refine.

    Example:
        >>> from costmodel.answers.settings import build_setting
        >>> from costmodel.configuration import DecodingConfiguration, DeploymentNames
        >>> where = DeploymentNames(model="llada-8b", engine="none")
        >>> dual = build_setting(DecodingConfiguration(method="fast-dllm", deployment=where))
        >>> pace = needed_pace(dual, batch=1, context=512, generator=np.random.default_rng(0)).tokens_per_pass
        >>> 1.0 < pace < 4.0
        True
    """
    from scipy.optimize import brentq  # type: ignore[import-untyped]

    method, most = setting.drafter.method, live_tokens(setting.drafter.method)
    plain: StepCost | None = None

    def log_speedup(tokens: float) -> float:
        """Logarithm of the speedup at a pace."""
        nonlocal plain
        result = estimate(
            setting, own_pace(method, tokens), batch=batch, context=context, plain=plain
        )
        plain = result.plain
        return float(np.log(result.speedup))

    least: float | None = 1.0
    if log_speedup(1.0) < 0.0:
        least = (
            float(brentq(log_speedup, 1.0, most, xtol=1e-6)) if log_speedup(most) >= 0.0 else None
        )
    assert plain is not None
    twin = batch / float(plain.total_s)
    if least is None:
        return NeededPace(tokens_per_pass=None, bounds=None, most=most, twin_tokens_per_s=twin)
    result = estimate(setting, own_pace(method, least), batch=batch, context=context, plain=plain)
    drawn = draw_steps(
        result.plain,
        result.step,
        setting.device.constants.residual_ratio,
        setting.overhead,
        generator=generator,
    )
    low, high = (float(bound) for bound in interval(drawn.step_s[:, 0] / drawn.plain_s[:, 0]))
    bounds = min(max(low, 1.0), most), min(max(high, 1.0), most)
    return NeededPace(tokens_per_pass=least, bounds=bounds, most=most, twin_tokens_per_s=twin)
