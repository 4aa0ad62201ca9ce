"""What does `score` answer? Errors by slice and by part, where they gather, and every measurement."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.numbers import signed_percent
from app.answers.scoring.measured import QUANTITIES, Interval

WORDS: Mapping[str, str] = {"tpot": "time per output token", "ttft": "time to first token"}
_MOST_VALUES = 8  # of a slice on the screen; --json and --csv have all
_MOST_REASONS = 8

_Measurements = Annotated[int, Column("Measurements, however many rows hold each.")]
_Answered = Annotated[int, Column("Those of them that have an answer.")]
_Slice = Annotated[str, Column("By what measurements are told apart.")]
_Value = Annotated[str, Column("Its value.")]
_Quantity = Annotated[str, Column("`tpot` or `ttft`.")]
_Measured = Annotated[float | None, Column("Measured, in milliseconds.")]
_Predicted = Annotated[float | None, Column("Predicted, in milliseconds.")]
_Within = Annotated[Interval | None, Column("The interval of the prediction.")]
_Shares = Annotated[Mapping[str, float], Column("Shares of the predicted time by part.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeErrors(Row):
    """Errors of predictions of one quantity, beside what was measured.

    The bias is the median of predicted over measured, minus one; the others are of its size without
    the sign.
    """

    measurements: _Measurements
    bias_ratio: Annotated[float, Column("Median error with its sign.")]
    median_error_ratio: Annotated[float, Column("Half of the errors are smaller.")]
    mean_error_ratio: Annotated[float, Column("Mean error.")]
    p90_error_ratio: Annotated[float, Column("Nine in ten errors are smaller.")]
    coverage_ratio: Annotated[float | None, Column("Share inside the 80 % interval.")]
    width_ratio: Annotated[float | None, Column("Median of its upper over its lower end.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class OverallErrors(Row):
    """Counts of measurements and their errors."""

    measurements: _Measurements
    answered: _Answered
    tpot: Annotated[TimeErrors | None, Column("Of the time per output token.")]
    ttft: Annotated[TimeErrors | None, Column("Of the time to first token.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineErrors(Row):
    """Errors of what stands beside, on the measurements that both answer."""

    tpot: Annotated[TimeErrors | None, Column("Of the time per output token.")]
    ttft: Annotated[TimeErrors | None, Column("Of the time to first token.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceErrors(Row):
    """Counts and errors of the measurements that share one value of a slice."""

    slice: _Slice
    value: _Value
    measurements: _Measurements
    answered: _Answered
    tpot: Annotated[TimeErrors | None, Column("Of the time per output token.")]
    ttft: Annotated[TimeErrors | None, Column("Of the time to first token.")]
    baseline: Annotated[BaselineErrors | None, Column("Those of what stands beside.")] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TimePart(Row):
    """A part of the predicted time, and which factor on it alone would bring answers nearest."""

    quantity: _Quantity
    part: Annotated[str, Column("Kernels, or a stage of waiting.")]
    share_ratio: Annotated[float, Column("Mean share of predicted times.", "share", "ratio", 1)]
    worst_share_ratio: Annotated[
        float, Column("The same of the worst tenth.", "of the worst tenth", "ratio", 1)
    ]
    factor: Annotated[
        float, Column("With the least mean error, 1/8 to 8.", "best factor", decimals=2)
    ]
    median_error_ratio: Annotated[float, Column("Median error as it is.")]
    median_error_then_ratio: Annotated[float, Column("Median error with the factor.")]
    log_error: Annotated[float, Column("Mean of |log(predicted / measured)| with it.")]

    @property
    def then_percent(
        self,
    ) -> Annotated[
        float,
        Column("Error with it.", "median % with it", decimals=1, of=("median_error_then_ratio",)),
    ]:
        """Median error with the factor, in percent."""
        return 100.0 * self.median_error_then_ratio


@dataclass(frozen=True, kw_only=True, slots=True)
class GatheredErrors(Row):
    """A value of a slice that holds more of the error than of the measurements."""

    quantity: _Quantity
    slice: _Slice
    value: _Value
    measurements: _Measurements
    count_ratio: Annotated[float, Column("Share of them.", "of measurements", "ratio", 1)]
    error_share_ratio: Annotated[
        float, Column("Share of all |log(predicted / measured)|.", "of the error", "ratio", 1)
    ]
    bias_ratio: Annotated[float, Column("Median error with its sign.")]
    part: Annotated[str | None, Column("The part that helps most there.")]
    factor: Annotated[float | None, Column("The best factor on it.")]

    @property
    def bias(self) -> Annotated[str, Column("Bias.", "bias %", of=("bias_ratio",))]:
        """The median error with its sign, in percent."""
        return signed_percent(self.bias_ratio, 1)

    @property
    def most_helpful(self) -> Annotated[str, Column("Part.", of=("part", "factor"))]:
        """The part that helps most, with the factor on it."""
        return "" if self.part is None else f"{self.part} x {self.factor:.2f}"


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedMeasurements(Row):
    """Why measurements are not answered."""

    reason: Annotated[str, Column("In the words of the refusal.")]
    measurements: _Measurements


@dataclass(frozen=True, kw_only=True, slots=True)
class UnusableRows(Row):
    """Why rows of the table hold no measurement."""

    reason: Annotated[str, Column("In the words of the refusal.")]
    rows: Annotated[int, Column("Rows of the table.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOutFamily(Row):
    """A model, device or half of the families that constants which never saw it answered."""

    left_out: Annotated[str, Column("The model, device or half of the families.")]
    rows: Annotated[int, Column("Its rows of the tables.")]
    constants: Annotated[
        Mapping[str, float],
        Column("Fitted without it, by `simulator.closed_loop.constants.NAMES`."),
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class FittedConstant(Row):
    """A constant that was fitted without a model, device or half of the families."""

    left_out: Annotated[str, Column("The model, device or half of the families.")]
    constant: Annotated[str, Column("Its name.")]
    value: Annotated[float, Column("As fitted.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasurementRow(Row):
    """A measurement with its answer; times are in milliseconds."""

    ids: Annotated[Sequence[str], Column("Of the rows that hold it.")]
    engine: Annotated[str, Column("As the table names it.")]
    model: Annotated[str, Column("Last part of its name.")]
    class_: Annotated[str, Column("`dense`, `MoE`, `MLA` or `unknown`.")]
    device: Annotated[str, Column("As the table names it.")]
    precision: Annotated[str, Column("Number format as the table states it.")]
    users: Annotated[str, Column("Users at once, by bands.")]
    lengths: Annotated[str, Column("Tokens of prompt and output.")]
    serving: Annotated[str, Column("`aggregated`, or how requests are split over servers.")]
    layout: Annotated[str, Column("How the model is spread, by worker.")]
    launch: Annotated[str, Column("By whose scripts the engine was started and loaded.")]
    version: Annotated[str, Column("Of the engine.")]
    setting: Annotated[str, Column("Model, engine and device together.")]
    reason: Annotated[str | None, Column("Why it is not answered.")]
    measured_tpot_ms: _Measured
    tpot_ms: _Predicted
    tpot_ms_interval: _Within
    tpot_share_ratio: _Shares
    measured_ttft_ms: _Measured
    ttft_ms: _Predicted
    ttft_ms_interval: _Within
    ttft_share_ratio: _Shares

    def times_ms(self, quantity: str) -> tuple[float, float] | None:
        """Measured and predicted milliseconds of `tpot` or `ttft`; None where one is missing."""
        if quantity == "tpot":
            measured, predicted = self.measured_tpot_ms, self.tpot_ms
        else:
            measured, predicted = self.measured_ttft_ms, self.ttft_ms
        return (measured, predicted) if measured and predicted else None


@dataclass(frozen=True, kw_only=True, slots=True)
class _ErrorLine(Row):
    """The errors of one quantity in a value of a slice, and those of a baseline beside them."""

    slice: _Slice
    value: _Value
    counted: Annotated[int, Column("Measurements.", "n")]
    compared: Annotated[int, Column("Those with an answer.")]
    bias: Annotated[str, Column("Median error with its sign.", "bias %")]
    median: Annotated[float, Column("Half of the errors are smaller.", unit="ratio", decimals=1)]
    mean: Annotated[float, Column("Mean error.", unit="ratio", decimals=1)]
    p90: Annotated[float, Column("Nine in ten are smaller.", unit="ratio", decimals=1)]
    coverage: Annotated[
        float | None, Column("Share inside the interval.", "in 80", "ratio", decimals=1)
    ]
    width: Annotated[float | None, Column("Ratio of its ends.", decimals=2)]
    baseline_bias: Annotated[str, Column("Of the baseline.", "baseline bias %")] = ""
    baseline_median: Annotated[
        float | None, Column("Of the baseline.", unit="ratio", decimals=1)
    ] = None
    baseline_mean: Annotated[float | None, Column("Of the baseline.", unit="ratio", decimals=1)] = (
        None
    )
    baseline_p90: Annotated[float | None, Column("Of the baseline.", unit="ratio", decimals=1)] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class ScoredRuns(Answer):
    """How far off answers are on measured serving runs.

    Attributes:
        table_rows: of all tables.
        overall: counts and errors of all measurements.
        slices: the same for every value of every slice, all measurements first.
        parts: parts of the predicted times, by quantity the most helpful first.
        gathered: values of slices in which errors gather, by quantity.
        refused: measurements without an answer, by reason.
        unusable: rows without a measurement, by reason.
        common: slices of what a baseline answers too, with its errors; empty without one.
        measurements: every one of them.
        left_out: models or devices whose constants were fitted without them.
    """

    name: ClassVar[str] = "score"
    frame_columns: ClassVar[tuple[str, ...]] = ("slice", "value", "measurements", *QUANTITIES)
    table_rows: int
    overall: OverallErrors
    slices: Sequence[SliceErrors]
    parts: Sequence[TimePart]
    gathered: Sequence[GatheredErrors]
    refused: Sequence[RefusedMeasurements]
    unusable: Sequence[UnusableRows]
    common: Sequence[SliceErrors]
    measurements: Sequence[MeasurementRow]
    left_out: Sequence[LeftOutFamily]

    @property
    def own_rows(self) -> Sequence[SliceErrors]:
        """The slices."""
        return self.slices

    def shown(self) -> Iterator[Table | str]:
        """Errors by slice, what stands beside, through which parts, and what has no answer."""
        yield (
            f"{self.table_rows} rows hold {self.overall.measurements} measurements, of which"
            f" {self.overall.answered} are answered"
        )
        for quantity in QUANTITIES:
            if getattr(self.overall, quantity) is not None:
                yield _errors_table(self.slices, quantity)
        if self.left_out:
            yield _constants_table(self.left_out)
        if self.common:
            for quantity in QUANTITIES:
                yield _common_table(self.common, quantity)
        for quantity in QUANTITIES:
            yield from _parts_table(self.parts, quantity)
            yield from _gathered_table(self.gathered, quantity)
        if self.refused:
            yield Table(
                title="not answered",
                rows=self.refused[:_MOST_REASONS],
                columns=["measurements", "reason"],
            )
        if self.unusable:
            yield Table(
                title="nothing measured",
                rows=self.unusable[:_MOST_REASONS],
                columns=["rows", "reason"],
            )


def _several(rows: Sequence[SliceErrors]) -> list[SliceErrors]:
    """Slices of several values, the first values of each."""
    values: dict[str, list[SliceErrors]] = {}
    for row in rows:
        values.setdefault(row.slice, []).append(row)
    return [
        row
        for name, own in values.items()
        if len(own) > 1 or name == "all"
        for row in own[:_MOST_VALUES]
    ]


def _errors_table(rows: Sequence[SliceErrors], quantity: str) -> Table:
    columns = ["slice", "value", "counted", "compared", "bias", "median", "mean", "p90"]
    return Table(
        title=f"errors in {WORDS[quantity]}",
        rows=[
            _error_line(row, errors)
            for row in _several(rows)
            if (errors := _errors_of(row, quantity)) is not None
        ],
        columns=[*columns, "coverage", "width"],
        caption=(
            "bias: median of predicted / measured - 1; in 80 %: inside the interval; width: its"
            " ends' ratio"
        ),
    )


def _common_table(rows: Sequence[SliceErrors], quantity: str) -> Table:
    errors = ["bias", "median", "mean", "p90"]
    return Table(
        title=f"{WORDS[quantity]} beside the baseline",
        rows=[
            _error_line(row, ours, theirs)
            for row in _several(rows)
            if (ours := _errors_of(row, quantity)) is not None
            and row.baseline is not None
            and (theirs := _errors_of(row.baseline, quantity)) is not None
        ],
        columns=["slice", "value", "counted", *errors, *(f"baseline_{name}" for name in errors)],
        caption="measurements that both answer",
        kind=_ErrorLine,
    )


def _errors_of(row: SliceErrors | BaselineErrors, quantity: str) -> TimeErrors | None:
    return row.tpot if quantity == "tpot" else row.ttft


def _error_line(
    row: SliceErrors, errors: TimeErrors, baseline: TimeErrors | None = None
) -> _ErrorLine:
    return _ErrorLine(
        slice=row.slice if row.value != "all" else "",
        value=row.value,
        counted=row.measurements if baseline is None else baseline.measurements,
        compared=errors.measurements,
        bias=signed_percent(errors.bias_ratio, 1),
        median=errors.median_error_ratio,
        mean=errors.mean_error_ratio,
        p90=errors.p90_error_ratio,
        coverage=errors.coverage_ratio,
        width=errors.width_ratio,
        baseline_bias="" if baseline is None else signed_percent(baseline.bias_ratio, 1),
        baseline_median=None if baseline is None else baseline.median_error_ratio,
        baseline_mean=None if baseline is None else baseline.mean_error_ratio,
        baseline_p90=None if baseline is None else baseline.p90_error_ratio,
    )


def _constants_table(left_out: Sequence[LeftOutFamily]) -> Table:
    return Table(
        title="constants fitted without",
        rows=[
            FittedConstant(left_out=row.left_out, constant=name, value=value)
            for row in left_out
            for name, value in row.constants.items()
        ],
        columns=["left_out", "constant", "value"],
        caption="baseline below: as shipped",
    )


def _parts_table(rows: Sequence[TimePart], quantity: str) -> Iterator[Table]:
    """The parts of a quantity that take one percent of it or more."""
    large = [
        row
        for row in rows
        if row.quantity == quantity and max(row.share_ratio, row.worst_share_ratio) >= 0.01
    ]
    if large:
        yield Table(
            title=f"parts of the {WORDS[quantity]}",
            rows=large,
            columns=["part", "share_ratio", "worst_share_ratio", "factor", "then_percent"],
            caption=(
                "best factor: on this part alone, everywhere; the median is"
                f" {100.0 * large[0].median_error_ratio:.1f} %"
            ),
        )


def _gathered_table(rows: Sequence[GatheredErrors], quantity: str) -> Iterator[Table]:
    own = [row for row in rows if row.quantity == quantity]
    if own:
        columns = ["slice", "value", "count_ratio", "error_share_ratio", "bias", "most_helpful"]
        yield Table(title=f"where errors in {WORDS[quantity]} gather", rows=own, columns=columns)
