"""How does the gain of drafting move with acceptance and with memory bandwidth, and where does it cross 1?

Curves of the speedup of one configuration at one batch and context. Leaves out intervals, and the
greatest draft cost (`costmodel.answers.breakeven`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from costmodel.answers.breakeven import AcceptanceCurve, AcceptanceLaw
from costmodel.answers.estimate import Setting, estimate
from costmodel.answers.sensitivity import scaled
from costmodel.laws.acceptance import Acceptance

BANDWIDTH_RATIOS = (0.25, 4.0)  # of the device's own, over which the gain is drawn
_POINTS = 33  # 1 is one of them
_HALVINGS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Crossing:
    """Where the speedup is 1.

    Args:
        value: on the axis of the curve.
        pays_above: drafting wins above it and loses below; otherwise the reverse.
    """

    value: float
    pays_above: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedupCurve:
    """The speedup of a configuration over one number.

    Args:
        values: of the number, increasing.
        speedups: against no speculation at the same value.
        crossings: where the speedup is 1, increasing; a curve that only touches 1 crosses nowhere.
        own: where the configuration lies that was asked about; None where that is not known.
        own_speedup: its speedup.
    """

    values: Sequence[float]
    speedups: Sequence[float]
    crossings: Sequence[Crossing]
    own: float | None
    own_speedup: float | None


def acceptance_curve(
    setting: Setting,
    law: AcceptanceLaw,
    *,
    batch: int,
    context: int,
    known: Acceptance | None,
) -> SpeedupCurve:
    """The speedup over what `law` is by: the rate of one token, or the tokens per step.

    Args:
        setting: target, device, drafter and engine.
        law: the configuration at every value.
        batch: requests, >= 1.
        context: cached tokens per request, >= 0.
        known: the configuration that was asked about; None where its acceptance is not known.
    """
    curve = AcceptanceCurve(setting, law, batch=batch, context=context)
    own = None if known is None else _value_of(law, known.tokens_per_step)
    speedup = (
        None
        if known is None
        else float(estimate(setting, known, batch=batch, context=context).speedup)
    )
    values, speedups = zip(*curve.points, strict=True)
    return SpeedupCurve(
        values=values,
        speedups=speedups,
        crossings=_crossings(values, speedups, curve.speedup),
        own=own,
        own_speedup=speedup,
    )


def bandwidth_curve(
    setting: Setting, acceptance: Acceptance, *, batch: int, context: int
) -> SpeedupCurve:
    """The speedup over the device's memory bandwidth in bytes per second, all else as it is.

    Args:
        setting: target, device, drafter and engine.
        acceptance: the configuration, with a known number of tokens per step.
        batch: requests, >= 1.
        context: cached tokens per request, >= 0.
    """
    now = setting.device.bandwidth_bytes_per_s

    def speedup(bandwidth: float) -> float:
        there = scaled(setting, "bandwidth", bandwidth / now)
        return float(estimate(there, acceptance, batch=batch, context=context).speedup)

    values = (now * np.geomspace(*BANDWIDTH_RATIOS, _POINTS)).tolist()
    speedups = [speedup(value) for value in values]
    return SpeedupCurve(
        values=values,
        speedups=speedups,
        crossings=_crossings(values, speedups, speedup),
        own=now,
        own_speedup=speedup(now),
    )


def _crossings(
    values: Sequence[float], speedups: Sequence[float], speedup: Callable[[float], float]
) -> list[Crossing]:
    """Where neighbours on a curve lie on both sides of 1, each refined by halving."""
    crossings = []
    for (first, before), (last, after) in pairwise(zip(values, speedups, strict=True)):
        rises = after >= 1.0
        if rises == (before >= 1.0):
            continue
        at = _halved(first, last, partial(_is_paying, speedup, rises))
        crossings.append(Crossing(value=at, pays_above=rises))
    return crossings


def _is_paying(speedup: Callable[[float], float], wanted: bool, value: float) -> bool:
    return (speedup(value) >= 1.0) == wanted


def _halved(low: float, high: float, holds: Callable[[float], bool]) -> float:
    """The least value that holds, between one that does not and one that does."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _value_of(law: AcceptanceLaw, tokens_per_step: float) -> float:
    """The value at which a law emits so many tokens per step, or the nearest end of it."""
    return _halved(
        law.least, law.most, lambda value: law.at(value).tokens_per_step >= tokens_per_step
    )
