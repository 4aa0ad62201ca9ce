"""How sure are we of a step time, a speedup or a rate?

Draws errors of the cost model (from each operation's residuals) and of the acceptance (bootstrap over recorded
requests) together. Leaves out errors that no residual shows: another engine version, throttling, other traffic.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from costmodel.ops import Array
from costmodel.overheads import Overhead
from costmodel.step import StepCost

COVERAGE = 0.8
_HALF_WIDTH_SIGMA = 1.2815515655446004  # standard normal quantile at 0.9
SHARED_RATIO = 0.5  # share of an operation's log-error variance common to all passes on a device; ASSUMED
DRAWS = 400

# operations of a pass that share a residual in the device profile
_RESIDUAL = {
    "gemm": "gemm",
    "head": "gemm",
    "attention": "attention",
    "mla": "mla",
    "moe": "moe",
    "elementwise": "elementwise",
    "sampler": "sampler",
    "allreduce": "allreduce",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class StepDraws:
    """Seconds of plain and speculative steps under drawn model errors, shape [draws, points]."""

    plain_s: Array
    step_s: Array


def interval(samples: Array, coverage: float = COVERAGE) -> tuple[Array, Array]:
    """Central interval of `samples` along the first axis: (lower, upper)."""
    tail = (1.0 - coverage) / 2.0
    low, high = np.quantile(samples, [tail, 1.0 - tail], axis=0)
    return low, high


def draw_steps(
    plain: StepCost,
    step: StepCost,
    residual_ratio: Mapping[str, float],
    overhead: Overhead,
    *,
    generator: np.random.Generator,
    draws: int = DRAWS,
) -> StepDraws:
    """Step times under errors of the cost model; what two passes share cancels in their ratio.

    An operation's log-error is normal with the profile's residual as 80 % half-width. Part of its variance
    (`SHARED_RATIO`) is common to the target's and drafter's passes of both steps, the rest is drawn per pass.

    Args:
        plain: a plain step at the same points.
        step: the speculative step.
        residual_ratio: half-width of the 80 % interval by operation.
        overhead: the engine's share, with its own spread.
        generator: source of randomness.
        draws: number of draws.

    Returns:
        Draws for every point of the broadcast of both steps.
    """
    shape = np.broadcast_shapes(plain.total_s.shape, step.total_s.shape)
    points = int(np.prod(shape)) if shape else 1
    common = {name: generator.standard_normal((draws, 1)) for name in sorted(set(_RESIDUAL.values()))}

    def passes(seconds: Mapping[str, Array]) -> Array:
        total = np.zeros((draws, points))
        own = {name: generator.standard_normal((draws, points)) for name in common}
        for operation, value in seconds.items():
            name = _RESIDUAL[operation]
            sigma = np.log1p(residual_ratio.get(name, 0.1)) / _HALF_WIDTH_SIGMA
            z = np.sqrt(SHARED_RATIO) * common[name] + np.sqrt(1.0 - SHARED_RATIO) * own[name]
            total = total + np.broadcast_to(value, shape).reshape(1, points) * np.exp(sigma * z)
        return total

    host = np.exp(np.log1p(overhead.spread_ratio) / _HALF_WIDTH_SIGMA * generator.standard_normal((draws, 1)))

    def fixed(cost: StepCost) -> Array:
        return np.asarray(np.broadcast_to(cost.overhead_s, shape).reshape(1, points) * host)

    return StepDraws(
        plain_s=passes(plain.verify) + fixed(plain),
        step_s=passes(step.verify) + passes(step.draft) + fixed(step),
    )


def dominant_terms(step: StepCost, residual_ratio: Mapping[str, float], overhead: Overhead) -> list[tuple[str, float]]:
    """Terms of a step by the uncertainty they bring: (name, half-width as a share of the step), largest first.

    Args:
        step: a step at one point.
        residual_ratio: half-width by operation.
        overhead: the engine's share.
    """
    total = float(np.mean(step.total_s))
    spread: dict[str, float] = {"overhead": float(np.mean(step.overhead_s)) * overhead.spread_ratio / total}
    for phase, seconds in (("draft", step.draft), ("verify", step.verify)):
        for operation, value in seconds.items():
            ratio = residual_ratio.get(_RESIDUAL[operation], 0.1)
            spread[f"{phase} {operation}"] = float(np.mean(value)) * ratio / total
    return sorted(spread.items(), key=lambda item: -item[1])


def paired(samples: Array, count: int, generator: np.random.Generator) -> npt.NDArray[np.float64]:
    """`count` rows of `samples` (along the first axis), drawn with replacement, to pair with other draws."""
    return np.asarray(samples[generator.integers(0, len(samples), size=count)], dtype=np.float64)
