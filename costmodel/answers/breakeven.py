"""At which acceptance, draft cost and batch does a method stop being faster than plain decoding?

The cost of a step does not depend on what it emits, so the least tokens per step at which a method beats plain
decoding is the ratio of the two steps; rates follow by inverting the acceptance law. Batches are tried one by one,
because tiles and waves make the speedup a little jagged. Leaves out prompt processing and traffic.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from costmodel.answers.estimate import Setting, estimate
from costmodel.answers.uncertainty import DRAWS, draw_steps, interval, paired
from costmodel.laws.acceptance import Acceptance, rank_rate
from costmodel.passes.ops import Array
from hardware_profiles.errors import InputError
from traces.kinds.tree import Tree

MOST_BATCH = 4096
_DRAWN_BATCHES = 48  # points of the curve whose interval is drawn
_GRID = 512  # rates at which the law is tabulated before it is refined

Bounds = tuple[float, float]


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
        least_rate: constant acceptance rate of one token that emits as much; None: not even a rate of 1 does.
        least_rate_bounds: its interval; None where no rate does.
        draft_s: seconds of the draft passes of a step.
        pass_s: seconds of a plain pass of the target, the unit of ratios.
        greatest_draft_s: most seconds of draft passes per step at the known acceptance; negative where verifying
            alone already loses; None where no acceptance is known.
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
        if self.least_rate is None:
            return "never"
        return "always" if self.least_tokens_per_step <= 1.0 else "on"


@dataclass(frozen=True, kw_only=True, slots=True)
class PayingBatches:
    """At which batches a configuration beats plain decoding at one context.

    Args:
        context: cached tokens per request.
        largest: the largest batch that was tried.
        ranges: inclusive ranges of batches at which the speedup exceeds 1.
        last: largest batch at which it pays, after which it stops; None: it pays at no batch.
        last_bounds: 80 % interval of `last`; 0 where it may not pay at all, `largest` where it may never stop.
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
    *,
    batch: int,
    context: int,
    known: bool,
    generator: np.random.Generator,
) -> BreakEven:
    """Least acceptance and greatest draft cost of one configuration at one point.

    Example:
        >>> from costmodel.laws.acceptance import geometric
        >>> from costmodel.answers.settings import build_setting
        >>> from costmodel.configuration import DecodingConfiguration, DeploymentNames
        >>> where = DeploymentNames(model="llama-3.1-8b", engine="none")
        >>> setting = build_setting(DecodingConfiguration(method="n-gram", deployment=where))
        >>> at = break_even(setting, geometric(0.5, 3), batch=1, context=1024, known=True,
        ...                 generator=np.random.default_rng(0))
        >>> bool(1.0 < at.least_tokens_per_step < 1.2), at.verdict
        (True, 'on')

    Args:
        setting: target, device, drafter and engine.
        acceptance: the configuration, with at least one draft token.
        batch: requests, >= 1.
        context: cached tokens per request, >= 0.
        known: `acceptance.tokens_per_step` is an answer, not a placeholder.
        generator: source of randomness for the intervals.

    Raises:
        InputError: a configuration without draft tokens.
    """
    if acceptance.draft_tokens < 1:
        raise InputError("a break-even needs at least one draft token", key="draft_tokens", value=0)
    result = estimate(setting, acceptance, batch=batch, context=context)
    drawn = draw_steps(
        result.plain, result.step, setting.device.constants.residual_ratio, setting.overhead,
        generator=generator,
    )  # fmt: skip
    plain, step = drawn.plain_s[:, 0], drawn.step_s[:, 0]
    least = float(result.step_s) / float(result.plain.total_s)
    needed = _bounds(step / plain)
    law = RateLaw(acceptance)
    found = BreakEven(
        batch=batch,
        context=context,
        acceptance=acceptance,
        least_tokens_per_step=least,
        least_tokens_bounds=needed,
        most_tokens_per_step=float(law(1.0)),
        least_rate=least_rate(acceptance, least),
        least_rate_bounds=(least_rate(acceptance, needed[0]), least_rate(acceptance, needed[1])),
        draft_s=float(result.step.draft_s),
        pass_s=float(result.plain.verify_s),
    )
    if not known:
        return found
    tokens = _tokens(acceptance, generator)
    rest = step - _drawn_draft(float(result.step.draft_s), float(result.step_s), step)
    beside = float(result.step_s) - found.draft_s
    return replace(
        found,
        greatest_draft_s=acceptance.tokens_per_step * float(result.plain.total_s) - beside,
        greatest_draft_bounds=_bounds(tokens * plain - rest),
        speedup=float(result.speedup),
        speedup_bounds=_bounds(tokens * plain / step),
    )


class RateLaw:
    """Emitted tokens per step when every draft token is accepted with one probability, independently.

    Siblings of a tree are tried in the order of their ranks, the k-th with a k-th of that probability. A chain
    whose proposals vary in length counts its mean length, the last token in part.
    """

    def __init__(self, acceptance: Acceptance) -> None:
        self._share = acceptance.proposal_ratio
        self._tree: Tree | None = acceptance.tree
        self._length = acceptance.proposed_tokens

    def __call__(self, rate: float | Array) -> Array:
        """Tokens per step at `rate` in [0, 1]; broadcasts."""
        r = np.asarray(rate, dtype=np.float64)
        if self._tree is None:
            whole = int(self._length)
            powers = sum((r**depth for depth in range(1, whole + 1)), start=np.zeros_like(r))
            return np.asarray(1.0 + self._share * (powers + (self._length - whole) * r ** (whole + 1)))
        reached = [np.ones_like(r)]
        for parent, rank in zip(self._tree.parents[1:], self._tree.ranks[1:], strict=True):
            reached.append(reached[parent] * rank_rate(r, rank))
        return np.asarray(1.0 + sum(reached[1:], start=np.zeros_like(r)))


def least_rate(acceptance: Acceptance, tokens_per_step: float) -> float | None:
    """Least constant acceptance rate at which a configuration emits `tokens_per_step`; None where none does.

    Args:
        acceptance: the configuration; what it emits itself does not matter.
        tokens_per_step: wanted; 1 or less needs no acceptance at all.

    >>> from costmodel.laws.acceptance import geometric
    >>> least_rate(geometric(0.0, 2), 1.75)
    0.5
    """
    if tokens_per_step <= 1.0:
        return 0.0
    law = RateLaw(acceptance)
    rates = np.linspace(0.0, 1.0, _GRID + 1)
    enough = np.flatnonzero(law(rates) >= tokens_per_step)
    if not enough.size:
        return None
    high = int(enough[0])
    low_rate, high_rate = float(rates[max(high - 1, 0)]), float(rates[high])
    if float(law(high_rate)) == tokens_per_step:
        return high_rate
    while high_rate - low_rate > 1e-13:
        middle = (low_rate + high_rate) / 2.0
        if float(law(middle)) >= tokens_per_step:
            high_rate = middle
        else:
            low_rate = middle
    return high_rate


def paying_batches(
    setting: Setting,
    acceptance: Acceptance,
    *,
    context: int,
    largest: int,
    generator: np.random.Generator,
) -> PayingBatches:
    """Batches at which a configuration pays at one context, each whole number up to `largest` tried.

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
    pays = estimate(setting, acceptance, batch=batches, context=context).speedup > 1.0
    last = int(np.flatnonzero(pays)[-1]) + 1 if pays.any() else 0
    return PayingBatches(
        context=context,
        largest=most,
        ranges=_ranges(pays),
        last=last or None,
        last_bounds=_last_bounds(setting, acceptance, context, last, most, generator),
    )


def _last_bounds(
    setting: Setting, a: Acceptance, context: int, last: int, most: int, generator: np.random.Generator
) -> tuple[int, int]:
    """Where the lower and the upper bound of the speedup curve fall to 1 for good, around the point estimate."""
    batches = np.unique(np.geomspace(1, most, _DRAWN_BATCHES).round())
    result = estimate(setting, a, batch=batches, context=context)
    drawn = draw_steps(
        result.plain, result.step, setting.device.constants.residual_ratio, setting.overhead,
        generator=generator,
    )  # fmt: skip
    curves = interval(_tokens(a, generator)[:, None] * drawn.plain_s / drawn.step_s)
    low, high = (_last_crossing(batches, curve, most) for curve in curves)
    return min(low, last), max(high, last)


def _last_crossing(batches: Array, speedup: Array, most: int) -> int:
    """Largest batch at which a curve exceeds 1, between its points in logarithms; 0 where it never does."""
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
    return paired(a.samples, DRAWS, generator) if a.samples.size else np.full(DRAWS, a.tokens_per_step)


def _drawn_draft(draft_s: float, step_s: float, drawn: Array) -> Array:
    """The draft passes' share of drawn steps: they err as the whole step does."""
    return np.asarray(drawn * draft_s / step_s)


def _bounds(samples: Array) -> Bounds:
    low, high = interval(samples)
    return float(low), float(high)
