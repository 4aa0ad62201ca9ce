"""Up to which load does a service keep its limits, and does drafting move that?

A rate is kept where a share of the requests that arrive after the warm-up finish within the limits,
in a steady state: runs are lengthened until means of batches say on which side of the share they
are, and no backlog grows. The highest such rate is found by doubling and bisection, every rate and
setting on the same draws. Recorded arrivals cannot be lengthened; a backlog that still grows there
is marked. Leaves out which limits users need.

Reference: Zhong et al. 2024, DistServe (arXiv:2401.09670), whose goodput is that rate for a share
of 0.9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from app.answers.simulations.cases import LoadPoint
from app.answers.simulations.runs import (
    COVERAGE,
    Report,
    Variant,
    autoregressive,
    summary,
    with_whole_prompts,
)
from costmodel.draft_shape import chain
from hardware_profiles.errors import InputError, RooftreeError
from simulator.engine import simulate
from simulator.results.steady import steady_window
from simulator.scenario.build import Prepared, prepare

SHARE = 0.9
LONGER = 2
RESOLUTION = 1.01
"""How far apart the highest rate that is kept and the lowest that is not may stay."""
MOST_DOUBLINGS = 24
MOST_REQUESTS = 20_480
"""Of a run that is lengthened, unless more are asked for; ASSUMED, some minutes of a loaded
service."""
_SHOWN = (
    "good_ratio",
    "good_ratio_interval",
    "goodput_per_s",
    "tokens_per_s",
    "is_growing",
    "requests",
    "clock_s",
)
Point = Callable[[float], LoadPoint]


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingVariant:
    """One way to serve.

    Args:
        name: of its rows.
        prepared: the scenario; None where there is none.
        changes: fields of `SchedulerOptions` that differ.
        reason: why there is none.
    """

    name: str
    prepared: Prepared | None = None
    changes: Mapping[str, Any] | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class HighestRate:
    """The highest load of a setting.

    Args:
        name: of the setting.
        point: at the highest rate that is kept; None: not even the lowest that was tried is.
        lost: at the lowest rate above it that was tried, which is not kept; None: every one is.
        interval: of the rate over seeds; None for one seed.
        reason: why there is no rate.
    """

    name: str
    point: LoadPoint | None = None
    lost: LoadPoint | None = None
    interval: tuple[float, float] | None = None
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        """Rates in requests per second; above `above_per_s` the share is lost."""
        point = self.point
        return {
            "name": self.name,
            "feasible": point is not None,
            "reason": self.reason or None,
            "rate_per_s": point and point.rate_per_s,
            "rate_per_s_interval": self.interval,
            "above_per_s": self.lost.rate_per_s if point and self.lost else None,
            **{key: point and point.metrics[key] for key in _SHOWN},
        }


def settings_of(
    base: Prepared, lengths: Sequence[int], variants: Sequence[Variant]
) -> list[ServingVariant]:
    """A setting for every draft length, else for every variant; one that cannot be has its reason.

    Args:
        base: the scenario as asked.
        lengths: draft tokens K, 0 for none; empty: those of the scenario.
        variants: see `simulation_runs.variants_of`.

    Raises:
        InputError: lengths of a scenario that drafts nothing, or no setting can be.
    """
    if not lengths:
        plain = autoregressive(base)
        return [
            ServingVariant(
                name=name, prepared=plain if name == "autoregressive" else base, changes=changes
            )
            for name, changes in variants
        ]
    if base.written.speculation is None and any(lengths):
        raise InputError(
            "needs what is accepted: a --trace, --acceptance, --tokens-per-step or --drafter",
            key="--draft-tokens",
            value=",".join(map(str, lengths)),
        )
    variants_ready, first = [], None
    for length in lengths:
        name = str(chain(length))
        try:
            variants_ready.append(ServingVariant(name=name, prepared=_drafting(base, length)))
        except RooftreeError as error:
            first = first or error
            variants_ready.append(ServingVariant(name=name, reason=str(error)))
    if first is not None and all(setting.prepared is None for setting in variants_ready):
        raise first
    return variants_ready


def _drafting(base: Prepared, length: int) -> Prepared:
    if not length:
        return autoregressive(base)
    assert base.written.speculation is not None
    sized = {"draft_tokens": length, "tree": None, "shape": None, "schedule": ()}
    speculation = base.written.speculation.model_copy(update=sized)
    return prepare(base.written.model_copy(update={"speculation": speculation}))


def points_of(
    setting: ServingVariant,
    share: float,
    seed: int,
    report: Report,
    points: dict[float, LoadPoint],
) -> Point:
    """What a setting does at a rate, in runs that are long enough to say so; each rate is looked at
    once.

    Args:
        setting: with a scenario.
        share: of requests that must be within the limits.
        seed: of all draws: arrivals of every rate are those of another, nearer together.
        report: called with what runs, and how many requests of how many have ended.
        points: by rate, to which those that are looked at are added.
    """
    own, changes = setting.prepared, dict(setting.changes or {})
    assert own is not None
    limits = own.written.slo.limits

    def at(rate_per_s: float) -> LoadPoint:
        if rate_per_s not in points:
            count = None
            while True:
                scenario = own.scenario(seed, rate_per_s=rate_per_s, count=count, **changes)
                result = simulate(
                    with_whole_prompts(scenario, changes), progress=progress(rate_per_s)
                )
                window = steady_window(result, limits)
                count = LONGER * result.request.size
                if window.is_long_enough(share) or not own.extends or count > MOST_REQUESTS:
                    break
            half = window.good_half_width
            interval = [max(window.good_ratio - half, 0.0), min(window.good_ratio + half, 1.0)]
            more = {
                "good_ratio": window.good_ratio,
                "good_ratio_interval": interval,
                "is_growing": window.is_growing,
                "is_kept": window.good_ratio >= share and not (window.is_growing and own.extends),
            }
            points[rate_per_s] = LoadPoint(
                name=setting.name, rate_per_s=rate_per_s, metrics=summary(own, result) | more
            )
        return points[rate_per_s]

    def progress(rate_per_s: float) -> Callable[[int, int], None]:
        name = f"{setting.name} at {rate_per_s:.4g}/s"
        return lambda ended, total: report(name, ended, total)

    return at


def highest_rate(at: Point, start: float) -> tuple[LoadPoint | None, LoadPoint | None]:
    """The highest rate that is kept, and the lowest above it that is not, `RESOLUTION` apart.

    Where shares do not fall evenly with the rate, it is one of the rates at which they cross.

    Args:
        at: what happens at a rate, and whether it is kept.
        start: requests per second to begin at.

    Returns:
        The first is None where nothing is kept `MOST_DOUBLINGS` halvings below the start, the
        second where everything is so far above it.
    """
    highest, lost = None, None
    rate = start
    for _ in range(MOST_DOUBLINGS):
        point = at(rate)
        highest, lost = (point, lost) if point.metrics["is_kept"] else (highest, point)
        if highest is not None and lost is not None:
            break
        rate *= 2.0 if lost is None else 0.5
    while (
        highest is not None
        and lost is not None
        and lost.rate_per_s > RESOLUTION * highest.rate_per_s
    ):
        point = at(sqrt(highest.rate_per_s * lost.rate_per_s))
        highest, lost = (point, lost) if point.metrics["is_kept"] else (highest, point)
    return highest, lost


def highest_rates(
    settings: Sequence[ServingVariant],
    rates: Sequence[float],
    share: float,
    seeds: Sequence[int],
    report: Report,
) -> tuple[list[HighestRate], list[LoadPoint], list[LoadPoint]]:
    """The highest rate of every setting, what happens at stated rates, and at all that were looked
    at.

    Args:
        settings: some with a scenario.
        rates: requests per second to show, rising; empty: none.
        share: of requests that must be within the limits, 0..1.
        seeds: of all draws; rates of further ones make the interval.
        report: see `points_of`.
    """
    highest, shown, tried = [], [], []
    for setting in settings:
        if setting.prepared is None:
            highest.append(HighestRate(name=setting.name, reason=setting.reason))
            continue
        looked_at: dict[float, LoadPoint] = {}
        at = points_of(setting, share, seeds[0], report, looked_at)
        points = [at(rate) for rate in rates]
        shown += points
        good = [point.rate_per_s for point in points if point.metrics["is_kept"]]
        written = setting.prepared.written.requests.rate_per_s
        best, lost = highest_rate(at, max(good, default=rates[0] if rates else written or 1.0))
        tried += [looked_at[rate] for rate in sorted(looked_at)]
        others = [
            highest_rate(points_of(setting, share, seed, report, {}), best.rate_per_s)[0]
            for seed in seeds[1:]
            if best is not None and lost is not None
        ]
        values = [load_point.rate_per_s for load_point in (best, *others) if load_point is not None]
        low, high = np.quantile(values or [0.0], [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2]).tolist()
        reason = (
            f"no rate keeps {share:.0%} of the requests within the limits" if best is None else ""
        )
        if best is not None and lost is None:
            best, reason = (
                None,
                (
                    "every rate keeps them; more requests (--count) or a limit of the first token"
                    " would tell one"
                ),
            )
        interval = (low, high) if len(values) > 1 else None
        highest.append(
            HighestRate(name=setting.name, point=best, lost=lost, reason=reason, interval=interval)
        )
    return highest, shown, tried
