"""What is said of the hours of a profile? Rows, and their table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from app.answers.answer import Column, Row, Table
from app.answers.numbers import plain


@dataclass(frozen=True, kw_only=True, slots=True)
class HourRow(Row):
    """An hour of the profile under the best plan; times are None where nobody arrives."""

    hour: Annotated[int, Column("Of the profile.")]
    requests_per_s: Annotated[float, Column("That arrive.", "requests/s")]
    replicas: Annotated[int, Column("That this hour needs.")]
    utilisation_ratio: Annotated[
        float, Column("What a replica is sent, of what it could finish.", "utilisation", "ratio")
    ]
    ttft_s: Annotated[
        float | None, Column("Time to first token, as its limit takes it.", "TTFT", "s")
    ]
    tpot_s: Annotated[
        float | None, Column("Time per output token, as its limit takes it.", "TPOT", "s")
    ]
    e2e_s: Annotated[
        float | None, Column("Time of a whole request, as its limit takes it.", "E2E", "s")
    ]
    usd: Annotated[float | None, Column("Price of the hour; None: unknown.", "$", decimals=2)]


@dataclass(frozen=True, kw_only=True, slots=True)
class DayPlan(Row):
    """The hours of a profile, planned one by one and at their peak."""

    peak_hour: Annotated[int, Column("Hour with the highest rate, which plans are made for.")]
    usd_at_peak: Annotated[
        float | None, Column("Of all hours, with the replicas of the peak throughout.")
    ]
    usd_scaled: Annotated[float | None, Column("Of all hours, with the replicas of each.")]
    hours: Annotated[Sequence[HourRow], Column("In the order of the profile.")]

    def table(self, times: Sequence[str], heads: Mapping[str, str]) -> Table:
        """The hours as a person is shown them.

        Args:
            times: columns of times.
            heads: of times that are percentiles, by column.
        """
        dollars = "no price is known"
        if self.usd_at_peak is not None and self.usd_scaled is not None:
            dollars = (
                f"all {len(self.hours)} hours cost ${plain(self.usd_at_peak)} with the replicas of"
                f" the peak and ${plain(self.usd_scaled)} with those of each hour"
            )
        return Table(
            title=f"the best plan by hour; the peak is hour {self.peak_hour}",
            rows=self.hours,
            columns=[
                "hour",
                "requests_per_s",
                "replicas",
                "utilisation_ratio",
                *times,
                "usd",
            ],
            caption=f"{dollars}; replicas that follow the load need time to start",
            kind=HourRow,
            heads=heads,
        )
