"""`reproduce`: how far are predictions from what was published, by how much of it was stated, and
why?

Errors of every row, of groups of rows and of systems, with the cause of large ones and the spread
of sources that measured the same thing. Leaves out how a row is predicted (`real_runs.published_numbers`).
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from app.answers.progress import counting
from app.answers.reproduction.rows import (
    ErrorSizes,
    NoiseRow,
    NumberErrors,
    PublishedNumber,
    RefusedNumbers,
    Reproduction,
    StatedGroupErrors,
    SystemErrors,
)
from app.questions.field import inputs_of
from app.questions.reproduce import ReproduceQuestion
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError
from real_runs.published_numbers.answer import Prediction
from real_runs.published_numbers.causes import cause_of
from real_runs.published_numbers.noise import noise_floor
from real_runs.published_numbers.predict import predictions
from real_runs.published_numbers.reading.names import method_of_system, system_name
from real_runs.published_numbers.reading.table import GROUPS, PublishedRow, read_rows
from real_runs.published_numbers.reported import reported_rows

LARGE_RATIO = 0.3  # of an error that needs a cause


def answer(question: ReproduceQuestion) -> Reproduction:
    """Every published number that is asked about, beside its prediction.

    Raises:
        InputError: an unknown method or group, or a file that is no table of published numbers.
    """
    names, group = question.names or [], question.group
    if group and group not in GROUPS:
        raise InputError(f"must be one of {', '.join(GROUPS)}", key="--group", value=group)
    slugs = {load_method(name).slug for name in names}
    tables = [(str(path), read_rows(path)) for path in question.rows or []]
    tables = tables or [("", reported_rows(sorted(slugs)))]
    with counting(question.quiet or question.json) as progress:
        predicted = [
            (file, prediction)
            for file, table in tables
            for prediction in predictions(
                _wanted(table, group, slugs), table=table, progress=progress
            )
        ]
    inputs = inputs_of(question, names=names, rows=question.rows or [])
    return reproduction(predicted, inputs)


def _wanted(table: Sequence[PublishedRow], group: str, slugs: set[str]) -> list[PublishedRow]:
    """The rows of a group, all for an empty one, and of the entries that are named, all where none
    is.
    """
    return [row for row in table if group in ("", row.group) and (not slugs or _slug(row) in slugs)]


def _slug(row: PublishedRow) -> str:
    """The entry that stands for a row's system; empty where none does."""
    try:
        return method_of_system(row.system)[0].slug
    except InputError:
        return ""


def reproduction(
    predicted: Sequence[tuple[str, Prediction]], inputs: Mapping[str, Any]
) -> Reproduction:
    """Errors of predictions, by row, group and system.

    Args:
        predicted: with the file that each one's row stands in; empty for rows of the catalogue.
        inputs: what was asked.
    """
    rows = [_row(file, prediction) for file, prediction in predicted]
    return Reproduction(
        inputs=inputs,
        rows=rows,
        groups={group: _group([row for row in rows if row.group == group]) for group in GROUPS},
        systems=_systems(rows),
        refused=_refused(rows),
        noise_floor=[
            NoiseRow(
                what=spread.what,
                target=spread.target,
                device=spread.device,
                engine=spread.engine,
                batch=spread.batch,
                sources=spread.sources,
                lowest=spread.lowest,
                highest=spread.highest,
                spread_ratio=spread.ratio,
            )
            for spread in noise_floor(prediction.row for _, prediction in predicted)
        ],
    )


def _row(file: str, p: Prediction) -> PublishedNumber:
    r, error = p.row, p.error_ratio
    far = error is not None and abs(error) > LARGE_RATIO
    return PublishedNumber(
        system=r.system,
        source=r.source,
        quantity=r.quantity,
        published=r.published,
        predicted=p.predicted,
        error_ratio=error,
        group=r.group,
        kind=_kind(p),
        reason=p.reason,
        cause=cause_of(r) if far else "",
        remarks=p.remarks,
        method=p.method or None,
        target=r.target,
        hardware=r.hardware,
        batch=r.batch,
        data=r.data,
        published_speedup=r.speedup,
        predicted_speedup=p.speedup,
        published_baseline=r.baseline,
        predicted_baseline=p.baseline,
        file=file or None,
        line=r.line or None,
    )


def _kind(p: Prediction) -> str:
    """Whether a row's number was computed by its source, is absolute, a ratio to a baseline, or
    tokens alone.
    """
    if p.computed:
        return "computed"
    unit = p.row.quantity
    if unit == "speedup" or unit.startswith("x "):
        return "ratio"
    return "tokens" if unit.startswith("tokens/") else "absolute"


def _group(rows: Sequence[PublishedNumber]) -> StatedGroupErrors:
    """Errors of a group: of all its numbers, of each kind, and of speedups and baselines that stand
    beside them.
    """

    def of_kind(kind: str) -> NumberErrors:
        return NumberErrors(**_errors([row for row in rows if row.kind == kind]))

    return StatedGroupErrors(
        **_errors(rows),
        absolute=of_kind("absolute"),
        ratio=of_kind("ratio"),
        tokens=of_kind("tokens"),
        computed=of_kind("computed"),
        speedups=_beside([(row.predicted_speedup, row.published_speedup) for row in rows]),
        baselines=_beside([(row.predicted_baseline, row.published_baseline) for row in rows]),
    )


def _errors(rows: Sequence[PublishedNumber]) -> dict[str, Any]:
    """The attributes of `NumberErrors`."""
    errors = [row.error_ratio for row in rows if row.error_ratio is not None]
    large = [
        row for row in rows if row.error_ratio is not None and abs(row.error_ratio) > LARGE_RATIO
    ]
    return {
        **_sizes(errors),
        "rows": len(rows),
        "over_30_percent": len(large),
        "without_cause": sum(not row.cause for row in large),
    }


def _beside(pairs: Sequence[tuple[float | None, float | None]]) -> ErrorSizes:
    """Errors of numbers that stand beside those the rows are there for, predicted and published."""
    return ErrorSizes(
        **_sizes(
            [
                predicted / published - 1.0
                for predicted, published in pairs
                if predicted and published
            ]
        )
    )


def _sizes(errors: Sequence[float]) -> dict[str, Any]:
    """The attributes of `ErrorSizes`."""
    sizes = sorted(abs(error) for error in errors)
    return {
        "predicted": len(sizes),
        "bias_ratio": median(errors) if errors else None,
        "median_error_ratio": median(sizes) if sizes else None,
        "p90_error_ratio": percentile(sizes, 0.9) if sizes else None,
    }


def percentile(ordered: Sequence[float], share: float) -> float:
    """A percentile of ordered numbers, at least one, interpolated between neighbours.

    >>> percentile([0.0, 1.0, 2.0], 0.75)
    1.5
    """
    place = share * (len(ordered) - 1)
    low, part = math.floor(place), place - math.floor(place)
    return ordered[low] + part * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def _systems(rows: Sequence[PublishedNumber]) -> list[SystemErrors]:
    """Errors by group, system and publication, the groups in order and the worst systems of each
    first.
    """
    by_system: dict[tuple[str, str, str], list[PublishedNumber]] = {}
    for row in rows:
        if row.error_ratio is not None:
            publication = row.source.partition(" ")[0].rstrip(",")
            by_system.setdefault((row.group, system_name(row.system), publication), []).append(row)
    systems = [
        SystemErrors(
            **_errors(own),
            group=group,
            system=system,
            source=publication,
            cause=next((row.cause for row in own if row.cause), ""),
        )
        for (group, system, publication), own in by_system.items()
    ]
    return sorted(systems, key=lambda s: (GROUPS.index(s.group), -(s.median_error_ratio or 0.0)))


def _kind_of_reason(reason: str) -> str:
    """A reason without the name or value that it is about."""
    _, colon, rule = reason.partition(": no ")
    return f"no {rule}" if colon else reason.partition(": ")[0]


def _refused(rows: Sequence[PublishedNumber]) -> list[RefusedNumbers]:
    """Why rows are not predicted, the most frequent reasons first."""
    counts = Counter(
        (row.group, _kind_of_reason(row.reason)) for row in rows if row.predicted is None
    )
    return [
        RefusedNumbers(group=group, reason=reason, rows=count)
        for (group, reason), count in counts.most_common()
    ]
