"""What does the best plan need in every hour of a profile, and what if it followed the load?"""

from collections.abc import Sequence
from dataclasses import replace

from app.answers.capacity.day import DayPlan, HourRow
from app.answers.capacity.rows import ServedRow
from app.answers.capacity.service import Service
from app.questions.resolve.profiles import HourRate
from costmodel.answers.workload import Load


def peak(profile: Sequence[HourRate]) -> HourRate:
    """The first hour with the highest rate."""
    return max(profile, key=lambda hour: hour.requests_per_s)


def day_plan(service: Service, best: ServedRow, load: Load, profile: Sequence[HourRate]) -> DayPlan:
    """The hours of a profile, each planned as the peak was.

    Args:
        service: of the best plan.
        best: its row, at the peak.
        load: of the peak.
        profile: at least one hour, one with requests.
    """
    drafted = service.with_draft(best.draft)
    by_rate: dict[float, ServedRow] = {load.requests_per_s: best}
    for hour in profile:
        if hour.requests_per_s and hour.requests_per_s not in by_rate:
            at = replace(load, requests_per_s=hour.requests_per_s)
            by_rate[hour.requests_per_s] = drafted.planned(at)
    priced = best.usd_per_hour is not None
    percentiles = service.limits.highest_percentile is not None

    def row(hour: HourRate) -> HourRow:
        planned = by_rate.get(hour.requests_per_s)
        if planned is None:
            return HourRow(
                hour=hour.hour,
                requests_per_s=0.0,
                replicas=0,
                utilisation_ratio=0.0,
                ttft_s=None,
                tpot_s=None,
                e2e_s=None,
                usd=0.0 if priced else None,
            )
        return HourRow(
            hour=hour.hour,
            requests_per_s=hour.requests_per_s,
            replicas=planned.replicas,
            utilisation_ratio=planned.utilisation_ratio,
            ttft_s=planned.held_ttft_s if percentiles else planned.ttft_s,
            tpot_s=planned.held_tpot_s if percentiles else planned.tpot_s,
            e2e_s=planned.held_e2e_s if percentiles else planned.e2e_s,
            usd=planned.usd_per_hour,
        )

    hours = [row(hour) for hour in profile]
    return DayPlan(
        peak_hour=peak(profile).hour,
        usd_at_peak=None if best.usd_per_hour is None else best.usd_per_hour * len(hours),
        usd_scaled=sum(hour.usd or 0.0 for hour in hours) if priced else None,
        hours=hours,
    )
