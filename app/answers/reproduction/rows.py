"""What does `reproduce` answer? Every published number beside its prediction, errors by group and by
system, what is not predicted, and how far apart sources are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.numbers import signed_percent

KINDS: Mapping[str, str] = {
    "absolute": "times and rates",
    "ratio": "ratios to a baseline",
    "tokens": "tokens per step",
    "computed": "computed by the source",
}
_FAR_RATIO = 0.2  # of the median error of a system that is listed as far off
_MOST_SYSTEMS = 12
_MOST_REASONS = 10
_MOST_SPREADS = 8
_MOST_ROWS = 24

_Group = Annotated[str, Column("How much is stated: `full`, `partial` or `headline`.", "stated")]


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedNumber(Row):
    """A published number beside its prediction."""

    system: Annotated[str, Column("As it was published.")]
    source: Annotated[str, Column("Where the number stands.")]
    quantity: Annotated[str, Column("What was measured, or its unit.")]
    published: Annotated[float | None, Column("The number.")]
    predicted: Annotated[float | None, Column("What the cost model says.")]
    error_ratio: Annotated[float | None, Column("Predicted over published, minus one.")]
    group: _Group
    kind: Annotated[str, Column("`absolute`, `ratio`, `tokens` or `computed`.")]
    reason: Annotated[str, Column("Why it is not predicted.")]
    cause: Annotated[str, Column("Of a large error, where it is known.")]
    remarks: Annotated[Sequence[str], Column("What was assumed.")]
    method: Annotated[str | None, Column("The entry that stands for the system.")]
    target: Annotated[str, Column("Target model, as it was published.", "model")]
    hardware: Annotated[str, Column("As it was published.")]
    batch: Annotated[str, Column("As it was published.")]
    data: Annotated[str, Column("Data set, as it was published.")]
    published_speedup: Annotated[float | None, Column("Stated beside the number.")]
    predicted_speedup: Annotated[float | None, Column("What the cost model says of it.")]
    published_baseline: Annotated[float | None, Column("Of plain decoding, stated beside it.")]
    predicted_baseline: Annotated[float | None, Column("What the cost model says of it.")]
    file: Annotated[str | None, Column("Table that it stands in.")]
    line: Annotated[int | None, Column("Its line there.")]

    @property
    def error(self) -> Annotated[str, Column("Error.", "error %", of=("error_ratio",))]:
        """The error with its sign, in percent."""
        return signed_percent(self.error_ratio, 0)

    @property
    def why(self) -> Annotated[str, Column("Why.", of=("cause", "reason"))]:
        """The cause of a large error, or the reason for no prediction."""
        return self.cause or self.reason


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorSizes(Row):
    """Errors of numbers that are predicted: the bias is their median with its sign, the others are
    of their size.
    """

    predicted: Annotated[int, Column("Numbers that are predicted.")]
    bias_ratio: Annotated[float | None, Column("Median error with its sign.")]
    median_error_ratio: Annotated[
        float | None, Column("Half of the errors are smaller.", "median", "ratio", 0)
    ]
    p90_error_ratio: Annotated[
        float | None, Column("Nine in ten errors are smaller.", "p90", "ratio", 0)
    ]

    @property
    def bias(self) -> Annotated[str, Column("Bias.", "bias %", of=("bias_ratio",))]:
        """The bias with its sign, in percent."""
        return signed_percent(self.bias_ratio, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class NumberErrors(ErrorSizes):
    """Errors of published numbers, and how many of them are large."""

    rows: Annotated[int, Column("Published numbers.")]
    over_30_percent: Annotated[int, Column("Errors above 30 %.", "over 30 %")]
    without_cause: Annotated[int, Column("Those of them whose cause is not known.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedGroupErrors(NumberErrors):
    """Errors of the numbers of which equally much is stated."""

    absolute: Annotated[NumberErrors, Column("Of times and rates.")]
    ratio: Annotated[NumberErrors, Column("Of ratios to a baseline.")]
    tokens: Annotated[NumberErrors, Column("Of tokens per step.")]
    computed: Annotated[NumberErrors, Column("Of numbers that their source computed.")]
    speedups: Annotated[ErrorSizes, Column("Of speedups that stand beside other numbers.")]
    baselines: Annotated[ErrorSizes, Column("Of plain decoding that stands beside them.")]

    @property
    def parts(self) -> list[tuple[str, NumberErrors]]:
        """The errors as a whole and by kind, with their names; kinds without rows are left out."""
        kinds = [(words, getattr(self, kind)) for kind, words in KINDS.items()]
        return [(words, errors) for words, errors in [("all", self), *kinds] if errors.rows]


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemErrors(NumberErrors):
    """Errors of one system's numbers in one publication."""

    group: _Group
    system: Annotated[str, Column("As it was published.")]
    source: Annotated[str, Column("The publication.")]
    cause: Annotated[str, Column("Of its large errors, where it is known.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedNumbers(Row):
    """Why numbers are not predicted."""

    group: _Group
    reason: Annotated[str, Column("Without what it is about.")]
    rows: Annotated[int, Column("Published numbers.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class NoiseRow(Row):
    """What several sources measured, and how far apart they are."""

    what: Annotated[
        str,
        Column("Plain decoding in ms per token, or a speedup.", "what two sources measured"),
    ]
    target: Annotated[str, Column("Target model.", "model")]
    device: Annotated[str, Column("Device.")]
    engine: Annotated[str, Column("Engine.")]
    batch: Annotated[int, Column("Requests that decode together.")]
    sources: Annotated[int, Column("How many.")]
    lowest: Annotated[float, Column("Of the sources' medians.")]
    highest: Annotated[float, Column("Of the sources' medians.")]
    spread_ratio: Annotated[float, Column("Highest over lowest, minus one.")]

    @property
    def spread(self) -> Annotated[str, Column("Spread.", "apart %", of=("spread_ratio",))]:
        """Highest over lowest, minus one, in percent."""
        return signed_percent(self.spread_ratio, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class _GroupLine(NumberErrors):
    """A part of a group's errors."""

    group: _Group
    numbers: Annotated[str, Column("Which of the group's.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class _SystemLine(SystemErrors):
    """A system that is far off."""

    numbered: Annotated[str, Column("Number of the cause below.", "cause")]


@dataclass(frozen=True, kw_only=True)
class Reproduction(Answer):
    """Published numbers beside their predictions.

    Attributes:
        rows: every number.
        groups: errors by how much is stated.
        systems: errors by system and publication, in every group the worst first.
        refused: why numbers are not predicted, the most frequent reason first.
        noise_floor: what several sources measured, widest apart first.
    """

    name: ClassVar[str] = "reproduction"
    frame_columns: ClassVar[tuple[str, ...]] = (
        "system",
        "target",
        "quantity",
        "published",
        "predicted",
        "error_ratio",
        "cause",
        "reason",
    )
    rows: Sequence[PublishedNumber]
    groups: Mapping[str, StatedGroupErrors]
    systems: Sequence[SystemErrors]
    refused: Sequence[RefusedNumbers]
    noise_floor: Sequence[NoiseRow]

    @property
    def own_rows(self) -> Sequence[PublishedNumber]:
        """The numbers."""
        return self.rows

    def shown(self) -> Iterator[Table | str]:
        """A few numbers one by one, errors by group, the worst systems with causes, what has no
        answer, and how far apart sources are.
        """
        if not self.rows:
            yield "no published number is asked about"
            return
        if len(self.rows) <= _MOST_ROWS:
            columns = ["system", "target", "quantity", "published", "predicted", "error", "why"]
            yield Table(title="published numbers", rows=self.rows, columns=columns)
        yield _groups_table(self.groups)
        yield from _far_systems(self.systems)
        if self.refused:
            yield Table(
                title="not predicted",
                rows=self.refused[:_MOST_REASONS],
                columns=["rows", "group", "reason"],
            )
        if self.noise_floor:
            columns = ["what", "target", "device", "sources", "lowest", "highest", "spread"]
            yield Table(title="noise floor", rows=self.noise_floor[:_MOST_SPREADS], columns=columns)


def _groups_table(groups: Mapping[str, StatedGroupErrors]) -> Table:
    return Table(
        title="predicted against published, by how much is stated",
        rows=[
            _GroupLine(group=group, numbers=words, **_values(errors))
            for group, own in groups.items()
            for words, errors in own.parts
        ],
        columns=[
            "group",
            "numbers",
            "rows",
            "predicted",
            "bias",
            "median_error_ratio",
            "p90_error_ratio",
            "over_30_percent",
            "without_cause",
        ],
    )


def _values(errors: NumberErrors) -> dict[str, Any]:
    return {name: getattr(errors, name) for name in NumberErrors.__dataclass_fields__}


def _far_systems(systems: Sequence[SystemErrors]) -> Iterator[Table | str]:
    """The systems that are furthest off, and their causes by number."""
    far = [s for s in systems if (s.median_error_ratio or 0.0) > _FAR_RATIO][:_MOST_SYSTEMS]
    causes = list(dict.fromkeys(system.cause for system in far if system.cause))
    if not far:
        return
    yield Table(
        title="furthest off",
        rows=[
            _SystemLine(
                **{name: getattr(system, name) for name in SystemErrors.__dataclass_fields__},
                numbered=str(causes.index(system.cause) + 1) if system.cause else "unknown",
            )
            for system in far
        ],
        columns=[
            "system",
            "source",
            "group",
            "predicted",
            "bias",
            "median_error_ratio",
            "numbered",
        ],
    )
    for number, cause in enumerate(causes, 1):
        yield f"{number}: {cause}"
