"""`score`: how far off is the model on tables of measured serving runs, where, and through what?"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from app.answers.progress import Report, counting
from app.answers.scoring.baseline import read_baseline
from app.answers.scoring.conformal import half_of, with_conformal_intervals
from app.answers.scoring.held_out import GROUPS, held_out
from app.answers.scoring.measured import (
    COLUMNS,
    MARKS,
    QUANTITIES,
    PublishedMeasurement,
    family,
    measurements,
)
from app.answers.scoring.mechanisms import gathered, parts
from app.answers.scoring.rows import (
    LeftOutFamily,
    MeasurementRow,
    RefusedMeasurements,
    ScoredRuns,
    UnusableRows,
)
from app.answers.scoring.summaries import Predicted, beside, slices, summary
from app.questions.field import inputs_of
from app.questions.record_files import Records, read_records
from app.questions.resolve.launches import with_launches
from app.questions.score import ScoreQuestion
from hardware_profiles.errors import InputError
from simulator.closed_loop.table_rows import RowAnswer, answer_rows


def answer(question: ScoreQuestion) -> ScoredRuns:
    """Errors on every measurement of the tables, beside a baseline where there is one.

    Raises:
        InputError: options that contradict each other, or tables without a measurement.
    """
    by, baseline, tables = question.leave_out, question.baseline, question.tables
    if by and baseline is not None:
        raise InputError("takes no --baseline", key="--leave-out", value=by)
    if by and by not in GROUPS:
        raise InputError(f"must be one of {', '.join(GROUPS)}", key="--leave-out", value=by)
    other = None if baseline is None else read_baseline(baseline)
    left_out: list[LeftOutFamily] = []
    with counting(question.quiet or question.json) as progress:
        records, answers = _answered(question, progress)
        if by:
            other = _times_by_id(measurements(records, answers)[0])
            answers, left_out = held_out(
                records, by=by, file=str(tables[0]), seed=question.seed, progress=progress
            )
    measured, unusable = measurements(records, answers)
    if by == "family":
        half = half_of((family(record) for record in records), seed=question.seed)
        measured = with_conformal_intervals(measured, half)
    if not measured:
        rule = next(iter(unusable), "has no rows")
        raise InputError(f"holds no measurement to score: {rule}", file=tables[0])
    refused = Counter(m.reason for m in measured if m.reason is not None)
    return ScoredRuns(
        inputs=inputs_of(question),
        table_rows=len(records),
        overall=summary(measured),
        slices=slices(measured),
        parts=[row for quantity in QUANTITIES for row in parts(measured, quantity)],
        gathered=[row for quantity in QUANTITIES for row in gathered(measured, quantity)],
        refused=[
            RefusedMeasurements(reason=reason, measurements=count)
            for reason, count in _by_count(refused)
        ],
        unusable=[UnusableRows(reason=reason, rows=count) for reason, count in _by_count(unusable)],
        common=[] if other is None else beside(measured, other),
        measurements=[_measurement_row(m) for m in measured],
        left_out=left_out,
    )


def _answered(question: ScoreQuestion, progress: Report) -> tuple[Records, list[RowAnswer]]:
    """Rows of all tables and their answers."""
    more = (*MARKS, *(name for names in COLUMNS.values() for name in names))
    records: Records = []
    answers: list[RowAnswer] = []
    for table in question.tables:
        own = with_launches(read_records(table, more=more), question.launch, file=str(table))
        records += own
        answers += answer_rows(own, file=str(table), seed=question.seed, progress=progress)
    return records, answers


def _times_by_id(measured: Sequence[PublishedMeasurement]) -> Predicted:
    """Answered milliseconds by id and quantity, of what was measured: a mean or a median."""
    times: dict[str, dict[str, float]] = {}
    for m in measured:
        compared = {quantity: m.compared(quantity) for quantity in QUANTITIES}
        for name in m.ids:
            times[name] = {
                quantity: time.predicted_ms
                for quantity, time in compared.items()
                if time is not None and time.predicted_ms is not None
            }
    return times


def _by_count(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _measurement_row(m: PublishedMeasurement) -> MeasurementRow:
    place: dict[str, Any] = {
        "class_" if name == "class" else name: value for name, value in m.place.items()
    }
    tpot, ttft = m.tpot, m.ttft
    return MeasurementRow(
        ids=m.ids,
        **place,
        reason=m.reason,
        measured_tpot_ms=None if tpot is None else tpot.measured_ms,
        tpot_ms=None if tpot is None else tpot.predicted_ms,
        tpot_ms_interval=None if tpot is None else tpot.interval_ms,
        tpot_share_ratio=m.shares.get("tpot", {}),
        measured_ttft_ms=None if ttft is None else ttft.measured_ms,
        ttft_ms=None if ttft is None else ttft.predicted_ms,
        ttft_ms_interval=None if ttft is None else ttft.interval_ms,
        ttft_share_ratio=m.shares.get("ttft", {}),
    )
