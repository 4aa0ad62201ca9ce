"""At which acceptance, draft cost and batch does a method stop being faster than plain decoding?

What a step costs may depend on what it accepts (drafts that are made during verification, passes in
parts), so the speedup itself is solved for the acceptance rate, under the law that predictions take
for a stated rate. Batches are tried one by one, because tiles and waves make the speedup a little
jagged. Leaves out prompt processing and traffic.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.answers.batch_ranges import joined_ranges
from costmodel.answers.estimate import Setting, estimate, step_cost
from costmodel.answers.steps.step import StepCost
from costmodel.answers.uncertainty import DRAWS, draw_steps, interval, paired
from costmodel.laws.acceptance import Acceptance, geometric
from costmodel.passes.ops import Array
from hardware_profiles.errors import InputError

MOST_BATCH = 4096
_DRAWN_BATCHES = 48  # points of the curve whose interval is drawn
_GRID = 33  # values at which the speedup is looked at before a crossing is refined
_CLOSE = 1e-12  # width of the bracket, as a share of the range, at which it no longer is

Bounds = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptanceLaw:
    """A configuration at every value of the one number that a break-even is solved for.

    Args:
        at: the configuration at a value: what it emits, and what its step verifies; more is emitted
            at a higher value.
        least: smallest value.
        most: largest value.
        by_rate: the value is the acceptance rate of one token given that those before it were
            accepted; otherwise it is the tokens per step themselves, of a shape or method that no
            single rate describes.
    """

    at: Callable[[float], Acceptance]
    least: float
    most: float
    by_rate: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakEven:
    """The break-even of one configuration at one batch and context; bounds are 80 % intervals.

    Args:
        batch: requests.
        context: cached tokens per request.
        acceptance: the configuration; its emitted tokens matter where `known`.
        least_tokens_per_step: emitted tokens per step at which the speedup is 1.
        least_tokens_bounds: its interval.
        most_tokens_per_step: what the configuration emits where every draft token is accepted.
        least_rate: constant acceptance rate of one token at which the speedup is 1; None: not even
            a rate of 1 is enough, or no rate describes the configuration.
        least_rate_bounds: its interval; None where no rate is enough.
        draft_s: seconds of the draft passes of a step.
        pass_s: seconds of a plain pass of the target, the unit of ratios.
        greatest_draft_s: most seconds of draft passes per step at the known acceptance; negative
            where verifying alone already loses; None where no acceptance is known.
        greatest_draft_bounds: its interval.
        speedup: at the known acceptance.
        speedup_bounds: its interval.
    """

    batch: int
    context: int
    acceptance: Acceptance
    least_tokens_per_step: float
    least_tokens_bounds: Bounds
    most_tokens_per_step: float
    least_rate: float | None
    least_rate_bounds: tuple[float | None, float | None]
    draft_s: float
    pass_s: float
    greatest_draft_s: float | None = None
    greatest_draft_bounds: Bounds | None = None
    speedup: float | None = None
    speedup_bounds: Bounds | None = None

    @property
    def verdict(self) -> str:
        """`never` pays whatever is accepted, `always` pays, or pays from an acceptance `on`."""
        if self.least_tokens_per_step > self.most_tokens_per_step:
            return "never"
        return "always" if self.least_tokens_per_step <= 1.0 else "on"


@dataclass(frozen=True, kw_only=True, slots=True)
class PayingBatches:
    """At which batches a configuration beats plain decoding at one context.

    Args:
        context: cached tokens per request.
        largest: the largest batch that was tried.
        ranges: inclusive ranges of batches at which the speedup exceeds 1; a narrow range or gap is
            one only where it does so, or fails to, by more than its interval.
        last: largest batch at which it pays, after which it stops; None: it pays at no batch.
        last_bounds: 80 % interval of `last`; 0 where it may not pay at all, `largest` where it may
            never stop.
    """

    context: int
    largest: int
    ranges: Sequence[tuple[int, int]]
    last: int | None
    last_bounds: tuple[int, int]

    @property
    def verdict(self) -> str:
        """`never`, `always` (to the largest batch), or `some` batches."""
        if not self.ranges:
            return "never"
        return "always" if list(self.ranges) == [(1, self.largest)] else "some"


def break_even(
    setting: Setting,
    acceptance: Acceptance,
    law: AcceptanceLaw,
    *,
    batch: int,
    context: int,
    has_recording: bool,
    generator: np.random.Generator,
) -> BreakEven:
    """Least acceptance and greatest draft cost of one configuration at one point.

    Example:
        >>> from costmodel.laws.claims import rate_claim
        >>> from costmodel.answers.settings import build_setting
        >>> from costmodel.configuration import DecodingConfiguration, DeploymentNames
        >>> where = DeploymentNames(model="llama-3.1-8b", engine="none")
        >>> setting = build_setting(DecodingConfiguration(method="n-gram", deployment=where))
        >>> law = AcceptanceLaw(
        ...     at=lambda rate: rate_claim(setting.drafter.method, rate, 3), least=0.0, most=1.0, by_rate=True
        ... )
        >>> at = break_even(setting, law.at(0.5), law, batch=1, context=1024, has_recording=True,
        ...                 generator=np.random.default_rng(0))
        >>> bool(1.0 < at.least_tokens_per_step < 1.2), at.verdict
        (True, 'on')

    Args:
        setting: target, device, drafter and engine.
        acceptance: the configuration, with at least one draft token.
        law: the configuration at every acceptance; predictions at a stated rate take the same one.
        batch: requests, >= 1.
        context: cached tokens per request, >= 0.
        has_recording: `acceptance.tokens_per_step` is an answer, not a placeholder.
        generator: source of randomness for the intervals.

    Raises:
        InputError: a configuration without draft tokens.
    """
    if acceptance.draft_tokens < 1:
        raise InputError("a break-even needs at least one draft token", key="draft_tokens", value=0)
    curve = AcceptanceCurve(setting, law, batch=batch, context=context)
    root = curve.reaches(1.0)
    there = law.at(law.most if root is None else root)
    result = estimate(setting, there, batch=batch, context=context, plain=curve.plain)
    drawn = draw_steps(
        result.plain,
        result.step,
        setting.device.constants.residual_ratio,
        setting.overhead,
        generator=generator,
    )
    plain, step = drawn.plain_s[:, 0], drawn.step_s[:, 0]
    least = float(result.step_s) / float(result.plain.total_s)
    needed = _bounds(step / plain)
    ends = [curve.reaches(bound / least) for bound in needed]
    rated = law.by_rate
    solved = BreakEven(
        batch=batch,
        context=context,
        acceptance=acceptance,
        least_tokens_per_step=least,
        least_tokens_bounds=needed,
        most_tokens_per_step=law.at(law.most).tokens_per_step,
        least_rate=root if rated else None,
        least_rate_bounds=(ends[0], ends[1]) if rated else (None, None),
        draft_s=float(result.step.draft_s),
        pass_s=float(result.plain.verify_s),
    )
    if not has_recording:
        return solved
    result = estimate(setting, acceptance, batch=batch, context=context, plain=curve.plain)
    step = step * (
        float(result.step_s) / (least * float(result.plain.total_s))
    )  # errs as the step at the root does
    tokens = _tokens(acceptance, generator)
    draft_s = float(result.step.draft_s)
    rest = step - _drawn_draft(draft_s, float(result.step_s), step)
    return replace(
        solved,
        draft_s=draft_s,
        greatest_draft_s=acceptance.tokens_per_step * float(result.plain.total_s)
        - (float(result.step_s) - draft_s),
        greatest_draft_bounds=_bounds(tokens * plain - rest),
        speedup=float(result.speedup),
        speedup_bounds=_bounds(tokens * plain / step),
    )


class AcceptanceCurve:
    """The speedup of a configuration by the number that its law takes; steps of equal cost are
    priced once.

    Args:
        setting: target, device, drafter and engine.
        law: the configuration at every value.
        batch: requests, >= 1.
        context: cached tokens per request, >= 0.

    Attributes:
        points: values over the law's range with their speedups.
    """

    def __init__(self, setting: Setting, law: AcceptanceLaw, *, batch: int, context: int) -> None:
        self._setting, self._law, self._at = setting, law, {"batch": batch, "context": context}
        self.plain = step_cost(setting, geometric(0.0, 0), batch=batch, context=context)
        self._steps: dict[tuple[float, ...], StepCost] = {}
        values: list[float] = np.linspace(law.least, law.most, _GRID).tolist()
        self.points = [(value, self.speedup(value)) for value in values]

    def reaches(self, speedup: float) -> float | None:
        """Least value at which the speedup is at least so much; None where it is at none."""
        if self.points[0][1] >= speedup:
            return self.points[0][0]
        for (low, _), (high, reached) in pairwise(self.points):
            if reached >= speedup:
                return self._between(low, high, speedup)
        return None

    def _between(self, low: float, high: float, speedup: float) -> float:
        """The crossing between a value that does not reach the speedup and one that does, which
        stays on its side.
        """
        while high - low > _CLOSE * (self._law.most - self._law.least):
            middle = (low + high) / 2.0
            if self.speedup(middle) >= speedup:
                high = middle
            else:
                low = middle
        return high

    def speedup(self, value: float) -> float:
        """The speedup at a value of the law."""
        acceptance = self._law.at(value)
        alike = acceptance.lengths is None and not self._setting.drafter.method.has_own_pace
        key = (
            acceptance.proposal_ratio,
            acceptance.proposed_tokens,
            acceptance.foreseen_ratio,
            *(() if alike else (value,)),
        )
        if key not in self._steps:
            self._steps[key] = step_cost(self._setting, acceptance, **self._at)
        return float(acceptance.tokens_per_step * self.plain.total_s / self._steps[key].total_s)


def paying_batches(
    setting: Setting,
    acceptance: Acceptance,
    *,
    context: int,
    largest: int,
    generator: np.random.Generator,
) -> PayingBatches:
    """Batches at which a configuration pays at one context, each whole number up to `largest`
    tried.

    Args:
        setting: target, device, drafter and engine.
        acceptance: the configuration, with a known number of tokens per step.
        context: cached tokens per request.
        largest: largest batch to try, >= 1; at most `MOST_BATCH` are.
        generator: source of randomness for the interval.

    Raises:
        InputError: `largest` below 1.
    """
    if largest < 1:
        raise InputError("must be >= 1", key="largest", value=largest)
    most = min(largest, MOST_BATCH)
    batches = np.arange(1, most + 1, dtype=np.float64)
    speedup = estimate(setting, acceptance, batch=batches, context=context).speedup
    curve = _drawn_curve(setting, acceptance, context, most, generator)
    pays = _joined(batches, speedup, curve)
    last = int(np.flatnonzero(pays)[-1]) + 1 if pays.any() else 0
    return PayingBatches(
        context=context,
        largest=most,
        ranges=_ranges(pays),
        last=last or None,
        last_bounds=_last_bounds(curve, last, most),
    )


class _DrawnCurve(NamedTuple):
    """The interval of the speedup over some batches: all three of shape [points]."""

    batches: Array
    low: Array
    high: Array


def _drawn_curve(
    setting: Setting, a: Acceptance, context: int, most: int, generator: np.random.Generator
) -> _DrawnCurve:
    batches = np.unique(np.geomspace(1, most, _DRAWN_BATCHES).round())
    result = estimate(setting, a, batch=batches, context=context)
    drawn = draw_steps(
        result.plain,
        result.step,
        setting.device.constants.residual_ratio,
        setting.overhead,
        generator=generator,
    )
    low, high = interval(_tokens(a, generator)[:, None] * drawn.plain_s / drawn.step_s)
    return _DrawnCurve(batches, low, high)


def _joined(batches: Array, speedup: Array, curve: _DrawnCurve) -> npt.NDArray[np.bool_]:
    """Where it pays, without narrow ranges and gaps whose speedup the interval does not tell from
    1.
    """
    gains = np.log(speedup)
    half = np.interp(np.log(batches), np.log(curve.batches), np.log(curve.high / curve.low) / 2.0)

    def gain(run: slice, pays: int) -> float:
        return float(np.max(gains[run] * (-1.0 if pays else 1.0)))

    def doubt(run: slice, _: int) -> float:
        return float(np.mean(half[run]))

    choices = (gains > 0.0).astype(int).tolist()
    return np.array(joined_ranges(batches.astype(np.int64), choices, gain, doubt), dtype=bool)


def _last_bounds(curve: _DrawnCurve, last: int, most: int) -> tuple[int, int]:
    """Where the lower and the upper bound of the speedup curve fall to 1 for good, around the point
    estimate.
    """
    low, high = (
        _last_crossing(curve.batches, speedups, most) for speedups in (curve.low, curve.high)
    )
    return min(low, last), max(high, last)


def _last_crossing(batches: Array, speedup: Array, most: int) -> int:
    """Largest batch at which a curve exceeds 1, between its points in logarithms; 0 where it never
    does.
    """
    above = np.flatnonzero(speedup > 1.0)
    if not above.size:
        return 0
    at = int(above[-1])
    if at == len(batches) - 1:
        return most
    y0, y1 = np.log(speedup[at]), np.log(speedup[at + 1])
    x0, x1 = np.log(batches[at]), np.log(batches[at + 1])
    return int(np.exp(x0 + (x1 - x0) * y0 / (y0 - y1)) + 1e-9)


def _ranges(pays: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Inclusive ranges of batches (from 1) where the mask holds."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], pays, [False]]).astype(np.int8)))
    return [(int(start) + 1, int(stop)) for start, stop in edges.reshape(-1, 2)]


def _tokens(a: Acceptance, generator: np.random.Generator) -> Array:
    return (
        paired(a.samples, DRAWS, generator) if a.samples.size else np.full(DRAWS, a.tokens_per_step)
    )


def _drawn_draft(draft_s: float, step_s: float, drawn: Array) -> Array:
    """The draft passes' share of drawn steps: they err as the whole step does."""
    return np.asarray(drawn * draft_s / step_s)


def _bounds(samples: Array) -> Bounds:
    low, high = interval(samples)
    return float(low), float(high)
