"""How sure are we of a step time, a speedup or a rate?

Draws errors of the cost model (from each operation's residuals) and of the acceptance (bootstrap
over recorded requests) together. Leaves out errors that no residual shows: another engine version,
throttling, other traffic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from costmodel.answers.steps.step import StepCost
from costmodel.drafters.pass_costs import WeightedPass
from costmodel.engines.record.overhead import Overhead
from costmodel.passes.kernels.regimes import log_bounds, place
from costmodel.passes.ops import Array
from hardware_profiles.fitted.residuals import Residuals
from hardware_profiles.profile import Device, NumberProvenance

COVERAGE = 0.8
HALF_WIDTH_SIGMA = 1.2815515655446004  # standard normal quantile at 0.9
SHARED_RATIO = (
    0.5  # share of an operation's log-error variance common to all passes on a device; ASSUMED
)
DRAWS = 400

# residual of each operation of a pass; others go by their own name, or stand in for want of one
_RESIDUAL = {"head": "gemm", "adapters": "gemm", "state": "elementwise"}
_UNKNOWN_RATIO = 0.1  # half width of an operation that the profile says nothing about


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


def interval_holding(
    point: npt.ArrayLike, samples: Array, coverage: float = COVERAGE
) -> tuple[Array, Array]:
    """Central interval of `samples` along the first axis, widened where `point` lies outside.

    The errors of an operation may all lie on one side of its point, where its kernel was always
    slower (or faster) than its form says. The middle of what is drawn lies off the point then, and
    the point of a ratio of two steps may lie beyond an end of the central interval.

    Args:
        point: the estimate, of the shape of one sample.
        samples: draws, along the first axis.
        coverage: of the central interval.
    """
    low, high = interval(samples, coverage)
    return np.minimum(low, point), np.maximum(high, point)


def draw_steps(
    plain: StepCost,
    step: StepCost,
    residual_ratio: Mapping[str, float],
    overhead: Overhead,
    *,
    generator: np.random.Generator,
    draws: int = DRAWS,
    alike: bool = False,
    shared: Mapping[str, Array] | None = None,
) -> StepDraws:
    """Step times under errors of the cost model; what two passes share cancels in their ratio.

    An operation's log-error is normal on either side of its point, with the ends of the profile's
    80 % interval in the regime at hand. Part of its variance (`SHARED_RATIO`) is common to the
    target's and drafter's passes of both steps, the rest is drawn per pass. Attention of a step
    other than the plain one takes the residual of `verify`.

    Args:
        plain: a plain step at the same points, or another speculative one.
        step: the speculative step.
        residual_ratio: half-width of the 80 % interval by operation; a `Residuals` has separate
            regimes.
        overhead: the engine's share, with its own spread.
        generator: source of randomness.
        draws: number of draws.
        alike: every point takes the same draws, those that it would take alone, so that its
            interval does not depend on which other points are predicted with it.
        shared: standard normal draws that steps of several settings have in common, shape [draws,
            1], by operation and for the engine's `host`; None: this call's own.

    Returns:
        Draws for every point of the broadcast of both steps.
    """
    shape = np.broadcast_shapes(plain.total_s.shape, step.total_s.shape)
    points = int(np.prod(shape)) if shape else 1
    residuals = (
        residual_ratio if isinstance(residual_ratio, Residuals) else Residuals(residual_ratio)
    )
    names = sorted(
        {
            _family(name)
            for cost in (plain, step)
            for part in (cost.verify, cost.draft)
            for name in part
        }
    )
    common = {name: generator.standard_normal((draws, 1)) for name in names} | dict(shared or {})

    def passes(
        seconds: Mapping[str, Array], runs: Sequence[WeightedPass], verifies: bool = False
    ) -> Array:
        total = np.zeros((draws, points))
        own = {name: generator.standard_normal((draws, 1 if alike else points)) for name in names}
        for operation, value in seconds.items():
            name = _family(operation)
            z = np.sqrt(SHARED_RATIO) * common[name] + np.sqrt(1.0 - SHARED_RATIO) * own[name]
            low, high = _mean_bounds(residuals, operation, runs, shape, verifies=verifies)
            error = np.where(z < 0.0, -low, high) * z / HALF_WIDTH_SIGMA
            total = total + np.broadcast_to(value, shape).reshape(1, points) * np.exp(error)
        return total

    host_z = generator.standard_normal((draws, 1)) if shared is None else shared["host"]
    host = np.exp(np.log1p(overhead.spread_ratio) / HALF_WIDTH_SIGMA * host_z)

    def fixed(cost: StepCost) -> Array:
        return np.asarray(np.broadcast_to(cost.overhead_s, shape).reshape(1, points) * host)

    def speculative(cost: StepCost, *, verifies: bool) -> Array:
        passed = passes(cost.verify, cost.verify_passes, verifies) + passes(
            cost.draft, cost.draft_passes
        )
        shown = np.broadcast_to(
            1.0 - cost.hidden_s / (cost.draft_s + cost.verify_s), shape
        ).reshape(1, points)
        return np.asarray(passed * shown + fixed(cost))

    drafted = bool(plain.draft) and plain is not step
    return StepDraws(
        plain_s=speculative(plain, verifies=True)
        if drafted
        else passes(plain.verify, plain.verify_passes) + fixed(plain),
        step_s=speculative(step, verifies=step is not plain),
    )


def _family(operation: str) -> str:
    """The operation whose residual another one shares."""
    return _RESIDUAL.get(operation, operation)


def _mean_bounds(
    residuals: Residuals,
    operation: str,
    runs: Sequence[WeightedPass],
    shape: tuple[int, ...],
    *,
    verifies: bool,
) -> tuple[Array, Array]:
    """Ends of the interval of an operation's log-error by point, shape [1, points]: means over its
    calls, by time.
    """
    name = _family(operation)
    if verifies and name == "attention" and "verify" in residuals:
        name = "verify"
    if name not in residuals:
        half = np.full((1, 1), np.log1p(_UNKNOWN_RATIO))
        return -half, half
    calls = [
        (weight, operation_cost)
        for weight, cost in runs
        for operation_cost in cost.operations
        if operation_cost.name == operation
    ]
    if not calls or name not in residuals.regimes:
        half = np.full((1, 1), np.log1p(residuals[name]))
        return -half, half
    sums = np.zeros((3, *shape))
    for weight, call in calls:
        where = place(call.timing, call.sizes)
        share = np.broadcast_to(weight * call.calls * call.timing.seconds, shape)
        for row, value in enumerate((np.ones(()), *log_bounds(residuals, name, where))):
            sums[row] += share * value
    low, high = (sums[row] / np.maximum(sums[0], 1e-300) for row in (1, 2))
    return low.reshape(1, -1), high.reshape(1, -1)


def dominant_terms(
    step: StepCost, residual_ratio: Mapping[str, float], overhead: Overhead
) -> list[tuple[str, float]]:
    """Terms of a step by the uncertainty they bring: (name, half-width as a share of the step),
    largest first.

    Args:
        step: a step at one point.
        residual_ratio: half-width by operation.
        overhead: the engine's share.
    """
    total = float(np.mean(step.total_s))
    spread: dict[str, float] = {
        "overhead": float(np.mean(step.overhead_s)) * overhead.spread_ratio / total
    }
    for phase, seconds in (("draft", step.draft), ("verify", step.verify)):
        for operation, value in seconds.items():
            ratio = residual_ratio.get(_family(operation), _UNKNOWN_RATIO)
            spread[f"{phase} {operation}"] = float(np.mean(value)) * ratio / total
    return sorted(spread.items(), key=lambda item: -item[1])


def term_source(term: str, device: Device, overhead: Overhead) -> NumberProvenance:
    """Where the spread of a term of `dominant_terms` comes from: measured on this device, carried
    over, or assumed.
    """
    if term == "overhead":
        assumed = overhead.source.startswith("ASSUMED")
        return NumberProvenance(kind="assumed" if assumed else "measured", source=overhead.source)
    name = _family(term.rsplit(" ", 1)[-1])
    nothing = NumberProvenance(kind="assumed", source=f"no profile states how far {name} errs")
    return device.provenance.get(f"constants.residual_ratio.{name}", nothing)


def paired(samples: Array, count: int, generator: np.random.Generator) -> npt.NDArray[np.float64]:
    """`count` rows of `samples` (along the first axis), drawn with replacement, to pair with other
    draws.
    """
    return np.asarray(samples[generator.integers(0, len(samples), size=count)], dtype=np.float64)
