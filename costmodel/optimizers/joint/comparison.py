"""How likely is the winner the best, and what would it cost to be wrong?

Errors of the cost model and of the acceptance are drawn together for all designs: those of one kind
of device share the part of an operation's error that all passes share, those of one drafter the
recorded requests that are drawn. A draw slows a design's passes or changes its tokens per step; it
then runs at the best load within the limits that its batch cap allows. Leaves out errors that no
residual shows, and of acceptance that was stated or published.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from costmodel.answers.energy import power_model
from costmodel.answers.estimate import estimate
from costmodel.answers.ties import SAME
from costmodel.answers.uncertainty import DRAWS, HALF_WIDTH_SIGMA, draw_steps, interval
from costmodel.optimizers.joint.evaluation import (
    law,
    node_load,
    node_watts,
    seen_by_requests,
    served_value,
)
from costmodel.optimizers.joint.search import Design
from costmodel.optimizers.joint.space import JointQuestion
from costmodel.passes.ops import Array, Mask
from hardware_profiles.fitted.constants import OPERATIONS

_NAMES = (*OPERATIONS, "host")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DesignComparison:
    """Designs against each other; the first is the one that would be run.

    Args:
        draws: of the objective, shape [designs, draws].
        intervals: 80 % interval of each design's objective.
        beaten_probability: that the first design beats each one: it reaches more, or the same at a
            lower time per output token; of equals half counts. NaN for itself.
        best_probability: that each design is the best of all in that sense; equals share it.
        expected_regret: mean of what the best design of a draw has more than the first, in units of
            the objective.
        regret_ratio: the same over the first design's mean.
    """

    draws: Array
    intervals: Sequence[tuple[float, float]]
    beaten_probability: Array
    best_probability: Array
    expected_regret: float
    regret_ratio: float


def compare_designs(
    question: JointQuestion,
    designs: Sequence[Design],
    *,
    seed: int = 0,
    simulated: Sequence[Sequence[float] | None] | None = None,
    tpot_ratios: Sequence[float] | None = None,
    draws: int = DRAWS,
) -> DesignComparison:
    """Draw the objective of designs, and count.

    Args:
        question: the search space, load and limits.
        designs: the one that would be run first, at least one.
        seed: of all draws.
        simulated: for each design, simulated over predicted objective by seed, the same seeds for
            all; None: as predicted.
        tpot_ratios: for each design, simulated over predicted time per output token; None: as
            predicted.
        draws: number of draws.
    """
    errors = _SharedErrors(seed, draws)
    drawn = [_drawn(question, design, place, errors) for place, design in enumerate(designs)]
    values, tpot_s = (np.stack(arrays) for arrays in zip(*drawn, strict=True))
    if tpot_ratios is not None:
        tpot_s *= np.asarray(tpot_ratios)[:, None]
    if simulated is not None:
        runs = max((len(ratios) for ratios in simulated if ratios), default=1)
        chosen = np.random.default_rng([seed, 1]).integers(
            0, runs, size=draws
        )  # of one seed the same for all designs
        for place, ratios in enumerate(simulated):
            if ratios:
                values[place] *= np.asarray(ratios, dtype=np.float64)[
                    np.minimum(chosen, len(ratios) - 1)
                ]
    first, best = values[0], values.max(axis=0)
    # of those that reach the most, the lowest time per token wins
    highest = np.where(_close(values, best), tpot_s, np.inf)
    wins = _close(highest, highest.min(axis=0))
    score = np.sign(np.where(_close(values, first), tpot_s - tpot_s[0], first - values))
    beaten = np.mean((1.0 + score) / 2.0, axis=1)
    beaten[0] = np.nan
    regret, mean = float(np.mean(best - first)), float(np.mean(first))
    return DesignComparison(
        draws=values,
        intervals=[(float(low), float(high)) for low, high in map(interval, values)],
        beaten_probability=beaten,
        best_probability=np.mean(wins / wins.sum(axis=0), axis=1),
        expected_regret=regret,
        regret_ratio=regret / mean if mean > 0.0 else float("nan"),
    )


def _close(one: Array, other: Array) -> Mask:
    return np.asarray(np.isclose(one, other, rtol=1.0 - SAME, atol=0.0))


class _SharedErrors:
    """Draws that designs have in common, by what they have in common."""

    def __init__(self, seed: int, draws: int) -> None:
        self.seed, self.draws = seed, draws

    def generator(self, *names: str) -> np.random.Generator:
        """A source of randomness of its own for a name."""
        return np.random.default_rng([self.seed, *(crc32(name.encode()) for name in names)])

    def operations(self, constants_from: str) -> Mapping[str, Array]:
        """The part of every operation's error that passes on devices with the same constants
        share.
        """
        generator = self.generator("device", constants_from)
        return {name: generator.standard_normal((self.draws, 1)) for name in _NAMES}


def _drawn(
    question: JointQuestion, design: Design, place: int, errors: _SharedErrors
) -> tuple[Array, Array]:
    """The objective and the time per output token of a design in every draw."""
    node, a = design.contender, design.acceptance
    load = node_load(node, question.load)
    device, setting = node.setting.device, node.setting
    at = estimate(setting, a, batch=float(design.batch), context=load.decode_context)
    steps = draw_steps(
        at.plain,
        at.step,
        device.constants.residual_ratio,
        setting.overhead,
        generator=errors.generator("design", str(place)),
        draws=errors.draws,
        shared=errors.operations(device.constants_from),
    )
    drawn_s = steps.step_s if a.draft_tokens else steps.plain_s
    slower = drawn_s[:, :1] / float(at.step_s)
    capped = node.up_to(float(design.batch))
    step_s = replace(capped, candidates=[a]).steady(question.load).step_s
    budget = np.array([[float(design.scheduler.token_budget)]])
    curve, busy = law(
        question,
        capped,
        step_s,
        budget,
        tokens_per_step=_tokens(design, errors),
        slower=slower,
        shapes=[a],
    )
    replicas = np.asarray(float(design.replicas))
    seen, _ = seen_by_requests(question, capped, curve, busy, replicas)
    watts: Array | float = 0.0
    if question.maximise == "tokens-per-joule":
        spread = np.log1p(power_model(device).spread_ratio) / HALF_WIDTH_SIGMA
        model = errors.generator("power", device.kind).standard_normal((errors.draws, 1))
        watts = node_watts(question, capped, [a], step_s, busy.requests_per_s) * np.exp(
            spread * model
        )
    value = served_value(question, node, busy.requests_per_s, replicas, watts)
    meets = capped.is_cap & question.slo.met(seen.times(question.load.output_tokens))
    reached = np.where(meets, value, 0.0)
    most = np.max(reached, axis=1)
    times = np.where(reached >= SAME * most[:, None], seen.tpot_s, np.inf)
    return np.asarray(most), np.asarray(np.min(times, axis=1))


def _tokens(design: Design, errors: _SharedErrors) -> Array:
    """Tokens per step in every draw, shape [draws, 1]; shapes of one drafter are drawn on the same
    requests.
    """
    a = design.acceptance
    if not a.samples.size:
        return np.full((errors.draws, 1), a.tokens_per_step)
    share = errors.generator("drafter", str(design.contender.source)).random(errors.draws)
    return np.asarray(a.samples[(share * len(a.samples)).astype(int)]).reshape(-1, 1)
