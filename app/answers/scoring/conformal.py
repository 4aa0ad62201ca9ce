"""How wide must intervals be that hold 80 % of runs of families which nobody has seen?

Split conformal prediction: families (model, device, engine) are split into halves, and the residuals
of one half give the widths of the other, by engine and phase. An interval's half-width is that of
the kernels' errors and of what a simulation leaves out, added in squares, so that the residuals tell
the second. Leaves out the answers themselves (`app.answers.scoring.held_out`).

Reference: Papadopoulos et al. 2002, "Inductive Confidence Machines for Regression"; Angelopoulos and
Bates 2021 (arXiv:2107.07511), section 1.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.answers.scoring.measured import QUANTITIES, ComparedTime, PublishedMeasurement
from simulator.closed_loop.left_out import Serving, keys, left_out_ratio

Key = tuple[str, str, str]
Family = tuple[Any, str, str]
LEAST = 40  # measurements that a ratio rests on
LEAST_FAMILIES = 2
COVERED = 0.8
HALVES = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Residual:
    """How far off one answer is.

    Args:
        quantity: `tpot` or `ttft`.
        serving: `aggregated` or `disaggregated`.
        engine: its name.
        family: of the run.
        log: log(measured / predicted).
        kernels: half-width, as a logarithm, that the kernels' errors give the interval.
    """

    quantity: str
    serving: Serving
    engine: str
    family: Family
    log: float
    kernels: float

    @property
    def needed(self) -> float:
        """Half-width of what is left out with which the interval just holds the measurement."""
        return math.sqrt(max(self.log**2 - self.kernels**2, 0.0))


def residuals(measured: Iterable[PublishedMeasurement]) -> list[Residual]:
    """Residuals of all answered measurements; the shipped half-width is taken out of their
    intervals.
    """
    return [
        residual
        for m in measured
        for quantity in QUANTITIES
        if (residual := _residual(m, quantity)) is not None
    ]


def conformal_ratios(own: Sequence[Residual]) -> dict[Key, float]:
    """By (quantity, serving, engine) the ratio that holds 80 % of a set, for every set that is large
    enough.

    Runs of one family resemble each other, so that n of them count as the square root of n. The
    next one is counted as outside, so that it lies inside with 80 %. Where no set is large enough,
    the widest ratio of the quantity holds.

    Args:
        own: residuals of runs that the interval's constants have not seen.
    """
    sets: dict[Key, list[Residual]] = {}
    for residual in own:
        for key in keys(residual.quantity, residual.serving, residual.engine):
            sets.setdefault(key, []).append(residual)
    ratios = {
        key: math.expm1(_half_width(members))
        for key, members in sorted(sets.items())
        if (len(members) >= LEAST and len({r.family for r in members}) >= LEAST_FAMILIES)
        or key[1:] == ("", "")
    }
    for quantity in {key[0] for key in ratios}:
        ratios[quantity, "", ""] = max(r for key, r in ratios.items() if key[0] == quantity)
    return ratios


def half_of(families: Iterable[Family], *, seed: int) -> dict[Family, int]:
    """Which half each family belongs to, drawn by a seed from the families in order of appearance.

    Args:
        families: in any number; equal ones are one.
        seed: of the draw.
    """
    distinct = list(dict.fromkeys(families))
    order = np.random.default_rng(seed).permutation(len(distinct))
    return {distinct[index]: place % HALVES for place, index in enumerate(order)}


def with_conformal_intervals(
    measured: Sequence[PublishedMeasurement], half: Mapping[Family, int]
) -> list[PublishedMeasurement]:
    """The measurements with intervals whose widths the other half of the families gives.

    Args:
        measured: with answers that never saw their family.
        half: of every family.
    """
    tables = [
        conformal_ratios(residuals(m for m in measured if half[m.family] != own))
        for own in range(HALVES)
    ]
    return [_with_interval(m, tables[half[m.family]]) for m in measured]


def ratio_of(ratios: Mapping[Key, float], key: Key) -> float:
    """The closest ratio that a table has; infinite where it has none."""
    return next((ratios[name] for name in keys(*key) if name in ratios), math.inf)


def _residual(m: PublishedMeasurement, quantity: str) -> Residual | None:
    time = m.compared(quantity)
    if time is None or time.predicted_ms is None or time.interval_ms is None:
        return None
    serving, engine = _serving(m), m.family[2]
    low, high = time.interval_ms
    shipped = math.log1p(left_out_ratio(quantity, engine, serving))
    whole = 0.5 * math.log(high / low)
    return Residual(
        quantity=quantity,
        serving=serving,
        engine=engine,
        family=m.family,
        log=math.log(time.measured_ms / time.predicted_ms),
        kernels=math.sqrt(max(whole**2 - shipped**2, 0.0)),
    )


def _with_interval(m: PublishedMeasurement, ratios: Mapping[Key, float]) -> PublishedMeasurement:
    return replace(m, tpot=_widened(m, "tpot", ratios), ttft=_widened(m, "ttft", ratios))


def _widened(
    m: PublishedMeasurement, quantity: str, ratios: Mapping[Key, float]
) -> ComparedTime | None:
    time, residual = m.compared(quantity), _residual(m, quantity)
    if time is None or time.predicted_ms is None or residual is None:
        return m.tpot if quantity == "tpot" else m.ttft
    ratio = ratio_of(ratios, (quantity, residual.serving, residual.engine))
    factor = math.exp(math.hypot(residual.kernels, math.log1p(ratio)))
    return replace(time, interval_ms=(time.predicted_ms / factor, time.predicted_ms * factor))


def _serving(m: PublishedMeasurement) -> Serving:
    return "aggregated" if m.place["serving"] == "aggregated" else "disaggregated"


def _half_width(members: Sequence[Residual]) -> float:
    """The half-width that holds the next residual with 80 %."""
    runs = Counter(residual.family for residual in members)
    ordered = sorted(members, key=lambda residual: residual.needed)
    weights = np.cumsum([runs[residual.family] ** -0.5 for residual in ordered])
    most = COVERED * (weights[-1] + weights[-1] / len(members))
    return ordered[min(int(np.searchsorted(weights, most)), len(members) - 1)].needed
