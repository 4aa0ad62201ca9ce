"""What was measured, and what is answered for it, once for every measurement?

Tables repeat measurements under several labels; rows that hold one count once, with the median of
their answers. Leaves out files (`app.questions.record_files`) and sums over measurements
(`app.answers.scoring.summaries`).
"""

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from app.answers.scoring.names import device_name, shape
from costmodel.engine_library import load_engine
from hardware_profiles.errors import InputError
from simulator.closed_loop.table_rows import RowAnswer

Record = Mapping[str, Any]
Interval = tuple[float, float]
QUANTITIES = ("tpot", "ttft")
_MEDIANS = tuple(f"{by}ttft_median_ms" for by in ("silicon_", "measured_", ""))
COLUMNS = {
    q: (
        *(_MEDIANS if q == "ttft" else ()),
        *(f"silicon_{q}_ms", f"measured_{q}_ms", f"{q}_ms", f"{q}_mean_ms"),
    )
    for q in QUANTITIES
}
"""Columns that hold a measured time, in milliseconds; the first that a row fills counts. Of the
time to first token that is the median where there is one, since a mean tells of the first burst as
much as of what users wait afterwards."""
MARKS = ("measurement", "implausible")
_BANDS = (4, 16, 64, 256)


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedTime:
    """A measured time beside its answer.

    Args:
        measured_ms: above 0.
        predicted_ms: the answer; None where there is none.
        interval_ms: its 80 % interval.
    """

    measured_ms: float
    predicted_ms: float | None = None
    interval_ms: Interval | None = None

    @property
    def error_ratio(self) -> float:
        """Predicted over measured, minus one; nan without an answer."""
        return math.nan if self.predicted_ms is None else self.predicted_ms / self.measured_ms - 1.0

    @property
    def inside(self) -> bool:
        """Whether the interval holds what was measured."""
        return (
            self.interval_ms is not None
            and self.interval_ms[0] <= self.measured_ms <= self.interval_ms[1]
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedMeasurement:
    """A measurement, however many rows hold it.

    Args:
        ids: of these rows.
        family: that they share (`family`).
        place: value by slice, such as `engine`.
        tpot: time per output token; None where it was not measured.
        ttft: time to first token; None where it was not measured.
        reason: why none of its rows has an answer.
        shares: by quantity the shares of the predicted time by part; empty where unknown.
    """

    ids: tuple[str, ...]
    family: tuple[Any, str, str]
    place: Mapping[str, str]
    tpot: ComparedTime | None
    ttft: ComparedTime | None
    reason: str | None
    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def compared(self, quantity: str) -> ComparedTime | None:
        """What was measured of `tpot` or `ttft`, where there is an answer to compare with; else
        None.
        """
        pair = self.tpot if quantity == "tpot" else self.ttft
        return pair if pair is not None and pair.predicted_ms is not None else None


def measurements(
    records: Sequence[Record], answers: Sequence[RowAnswer]
) -> tuple[list[PublishedMeasurement], dict[str, int]]:
    """Every measurement of a table with its answer, in order of appearance, and rows that hold
    none, by reason.

    Args:
        records: rows by column.
        answers: one a row.
    """
    unusable: dict[str, int] = {}
    groups: dict[tuple[Any, ...], list[int]] = {}
    times: list[dict[str, float | None]] = []
    for index, record in enumerate(records):
        try:
            times.append(measured_times(record))
        except InputError as error:
            times.append({})
            unusable[str(error)] = unusable.get(str(error), 0) + 1
            continue
        groups.setdefault(_key(record, times[index], index), []).append(index)
    measured = [
        _measurement([records[i] for i in rows], [answers[i] for i in rows], times[rows[0]])
        for rows in groups.values()
    ]
    return measured, unusable


def model_class(name: str) -> str:
    """`MLA`, `MoE` or `dense`, what costs most in a model; `unknown` for a name that nothing is
    known of.
    """
    architecture = shape(name)
    if architecture is None:
        return "unknown"
    latent = any(block.attention.is_mla for block, _ in architecture.blocks)
    return "MLA" if latent else "MoE" if architecture.is_moe else "dense"


def family(record: Record) -> tuple[Any, str, str]:
    """What runs of one family share: a model's shapes, a device and an engine."""
    model, engine = str(record.get("model_path")), str(record.get("backend"))
    with contextlib.suppress(InputError):
        engine = load_engine(engine).name
    return shape(model) or model, device_name(str(record.get("system"))), engine


def measured_times(record: Record) -> dict[str, float | None]:
    """Measured milliseconds by quantity, None where a row has none.

    Raises:
        InputError: a row without a measurement, with one that is no time, or with one that the
            table calls implausible.
    """
    if str(record.get("implausible") or "").casefold() in ("true", "1"):
        raise InputError("the table calls the measurement so", key="implausible")
    times: dict[str, float | None] = {}
    for quantity in COLUMNS:
        column = _column(record, quantity)
        try:
            value = None if column is None else float(record[column])
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if value is not None and not 0.0 < value < math.inf:
            raise InputError("must be a time above 0", key=column, value=str(record[column])[:40])  # type: ignore[index]
        times[quantity] = value
    if not any(times.values()):
        raise InputError(
            "the row holds no measurement",
            key=" or ".join(f"silicon_{quantity}_ms" for quantity in QUANTITIES),
        )
    return times


def _column(record: Record, quantity: str) -> str | None:
    """The column whose measured time of a quantity counts; None: the row has none."""
    return next((name for name in COLUMNS[quantity] if _filled(record.get(name))), None)


def _filled(value: Any) -> bool:
    return not (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or str(value).strip().casefold() in ("", "nan")
    )


def _key(record: Record, times: Mapping[str, float | None], index: int) -> tuple[Any, ...]:
    """What rows of one measurement share: the table's own mark, else all that users see, to the
    last digit.
    """
    if _filled(record.get("measurement")):
        return (str(record["measurement"]),)
    if None in times.values():
        return (index,)  # one number alone may well be equal by accident
    same = (str(record.get(name)) for name in ("backend", "system", "isl", "osl", "concurrency"))
    model = str(record.get("model_path"))
    return (shape(model) or model, *same, *times.values())


def _measurement(
    records: Sequence[Record], answers: Sequence[RowAnswer], times: Mapping[str, float | None]
) -> PublishedMeasurement:
    answered = [a for a in answers if a.reason is None]
    first = next((i for i, a in enumerate(answers) if a.reason is None), 0)
    of_median = _column(records[0], "ttft") in _MEDIANS
    compared = [with_median(a) for a in answered] if of_median else answered
    pairs = {
        q: None if value is None else _compared(value, q, compared) for q, value in times.items()
    }
    shares: dict[str, dict[str, float]] = {}
    for quantity, seconds in (
        ("tpot", answers[first].seconds),
        ("ttft", answers[first].ttft_seconds),
    ):
        total = sum(seconds.values())
        shares[quantity] = (
            {part: value / total for part, value in seconds.items()} if total > 0 else {}
        )
    return PublishedMeasurement(
        ids=tuple(a.id for a in answers),
        family=family(records[0]),
        place=_place(records[first]),
        tpot=pairs["tpot"],
        ttft=pairs["ttft"],
        reason=None if answered else answers[first].reason,
        shares=shares,
    )


def with_median(answer: RowAnswer) -> RowAnswer:
    """The answer with the median time to first token in the place of the mean, whose interval it
    shares as a ratio.
    """
    if not answer.ttft_ms or answer.ttft_median_ms is None or answer.ttft_ms_interval is None:
        return answer
    low, high = (answer.ttft_median_ms / answer.ttft_ms * end for end in answer.ttft_ms_interval)
    return replace(answer, ttft_ms=answer.ttft_median_ms, ttft_ms_interval=(low, high))


def _compared(measured_ms: float, quantity: str, answered: Sequence[RowAnswer]) -> ComparedTime:
    values = [
        v for a in answered if (v := getattr(a, f"{quantity}_ms")) is not None and math.isfinite(v)
    ]
    bounds = [b for a in answered if (b := getattr(a, f"{quantity}_ms_interval")) is not None]
    return ComparedTime(
        measured_ms=measured_ms,
        predicted_ms=median(values) if values else None,
        interval_ms=(median(b[0] for b in bounds), median(b[1] for b in bounds))
        if bounds
        else None,
    )


def _place(record: Record) -> dict[str, str]:
    """Where a row stands: its value in every slice."""

    def text(*names: str) -> str:
        return next(
            (str(record[name]) for name in names if _filled(record.get(name))), "not stated"
        )

    model = text("model_path").rstrip("/").rsplit("/", 1)[-1]
    users = text("concurrency", "batch_size")
    kind = model_class(text("model_path"))
    formats = ("moe_quant_mode", "gemm_quant_mode", "precision")
    engine, device = text("backend"), text("system")
    return {
        "engine": engine,
        "model": model,
        "class": kind,
        "device": device,
        "precision": text(*(formats if kind != "dense" else formats[1:])),
        "users": _band(users),
        "lengths": f"{text('isl')} in, {text('osl')} out",
        "serving": "aggregated" if mode_of(record) == "agg" else mode_of(record),
        "layout": layout(record),
        "launch": text("launch"),
        "version": f"{engine} {text('backend_version', 'image')}",
        "setting": f"{model}, {engine}, {device}",
    }


def layout(record: Record) -> str:
    """How a row spreads its model, in words such as `tp8` or `2 x dp8 ep8, 1 x tp8`."""
    sides = ("",) if mode_of(record) == "agg" else ("prefill_", "decode_")
    return ", ".join(_width(record, side) for side in sides)


def mode_of(record: Record) -> str:
    """`agg`, or how requests are split over servers."""
    return str(record["mode"]) if _filled(record.get("mode")) else "agg"


def _width(record: Record, side: str) -> str:
    def number(name: str) -> int:
        value: Any = record.get(side + name)
        return int(float(value)) if _filled(value) else 0

    widths = {
        "tp": number("tp_size"),
        "pp": number("pp_size"),
        "dp": number("attention_dp_size"),
        "ep": number("moe_ep_size"),
    }
    words = " ".join(f"{name}{size}" for name, size in widths.items() if size > 1) or "tp1"
    count = number("num_workers") if side else 0
    return f"{count} x {words}" if count > 1 else words


def _band(users: str) -> str:
    try:
        number = float(users)
    except ValueError:
        return users
    least = 1
    for most in _BANDS:
        if number <= most:
            return f"{least} to {most}"
        least = most + 1
    return f"over {_BANDS[-1]}"
