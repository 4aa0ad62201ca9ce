"""How does the gain of drafting move with acceptance and bandwidth, as rows and in words?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from app.answers.answer import Column, Row
from app.answers.numbers import digits
from costmodel.answers.breakeven import AcceptanceLaw
from costmodel.answers.breakeven_curves import SpeedupCurve, acceptance_curve, bandwidth_curve
from costmodel.answers.estimate import Setting
from costmodel.laws.acceptance import Acceptance
from hardware_profiles.units import TERA

ACCEPTANCE, TOKENS, BANDWIDTH = "acceptance", "tokens_per_step", "bandwidth_bytes_per_s"
_NAMED = {ACCEPTANCE: "acceptance", TOKENS: "tokens per step", BANDWIDTH: "TB/s"}


@dataclass(frozen=True, kw_only=True, slots=True)
class CrossingRow(Row):
    """Where the speedup is 1."""

    value: Annotated[float, Column("On the axis of the curve.")]
    pays_above: Annotated[bool, Column("Whether drafting wins above it, and not below.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftCurve(Row):
    """The draft whose speedup a curve shows, where it runs, and over which number."""

    model: Annotated[str, Column("Target model.")]
    device: Annotated[str, Column("Device.")]
    engine: Annotated[str, Column("Serving engine.")]
    batch: Annotated[int, Column("Requests that decode together.")]
    context: Annotated[int, Column("Cached tokens per request.")]
    draft_tokens: Annotated[int, Column("Draft tokens per request and step.", "K")]
    over: Annotated[
        str, Column("`acceptance` of one token, `tokens_per_step` or `bandwidth_bytes_per_s`.")
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class CurvePoint(DraftCurve):
    """The speedup at one value of the number that a curve is over."""

    value: Annotated[float, Column("Of that number, in SI units.")]
    speedup: Annotated[float, Column("Against no speculation at the same value.", decimals=3)]


@dataclass(frozen=True, kw_only=True, slots=True)
class CurveRow(DraftCurve):
    """The speedup of one draft at one batch and context over one number."""

    own: Annotated[float | None, Column("Where the question lies; None where that is not known.")]
    own_speedup: Annotated[float | None, Column("The speedup there.")]
    crossings: Annotated[Sequence[CrossingRow], Column("Where the speedup is 1, increasing.")]
    values: Annotated[Sequence[float], Column("Of the number, in SI units, increasing.")]
    speedups: Annotated[Sequence[float], Column("Against no speculation at the same value.")]

    @property
    def words(self) -> str:
        """On which side of which values drafting loses: `below 0.43 acceptance drafting loses`."""
        if not self.crossings:
            verdict = "pays" if self.speedups[0] >= 1.0 else "loses"
            ends = " to ".join(self._number(end) for end in (self.values[0], self.values[-1]))
            return f"drafting {verdict} at every value from {ends} {_NAMED[self.over]}"
        return ", ".join(
            f"below {self.value_words(at.value)} drafting loses"
            if at.pays_above
            else f"from {self.value_words(at.value)} on drafting loses"
            for at in self.crossings
        )

    def value_words(self, value: float) -> str:
        """A value on the axis, with its unit: `0.43 acceptance`, `1.90 TB/s`."""
        return f"{self._number(value)} {_NAMED[self.over]}"

    def _number(self, value: float) -> str:
        return digits(value / TERA if self.over == BANDWIDTH else value)

    @property
    def where(self) -> str:
        """Of which draft, batch and context it is."""
        return f"K={self.draft_tokens}, batch {self.batch:,}, context {self.context:,}"

    def rows(self) -> Iterator[CurvePoint]:
        """Its points, for media of numbers."""
        for value, speedup in zip(self.values, self.speedups, strict=True):
            yield CurvePoint(
                model=self.model,
                device=self.device,
                engine=self.engine,
                batch=self.batch,
                context=self.context,
                draft_tokens=self.draft_tokens,
                over=self.over,
                value=value,
                speedup=speedup,
            )


def curve_rows(
    setting: Setting,
    acceptance: Acceptance,
    law: AcceptanceLaw,
    names: dict[str, Any],
    *,
    is_known: bool,
) -> list[CurveRow]:
    """The speedup over acceptance, and where acceptance is known over bandwidth too.

    Args:
        setting: target, device, drafter and engine.
        acceptance: the draft.
        law: the draft at every acceptance.
        names: attributes that say of which cell, batch, context and draft it is.
        is_known: whether the tokens per step of `acceptance` are known.
    """
    where = {"batch": names["batch"], "context": names["context"]}
    known = acceptance if is_known else None
    over = ACCEPTANCE if law.by_rate else TOKENS
    rows = [_row(acceptance_curve(setting, law, known=known, **where), over, names)]
    if is_known:
        rows.append(_row(bandwidth_curve(setting, acceptance, **where), BANDWIDTH, names))
    return rows


def _row(curve: SpeedupCurve, over: str, names: dict[str, Any]) -> CurveRow:
    return CurveRow(
        **names,
        over=over,
        own=curve.own,
        own_speedup=curve.own_speedup,
        crossings=[CrossingRow(value=at.value, pays_above=at.pays_above) for at in curve.crossings],
        values=list(curve.values),
        speedups=list(curve.speedups),
    )
