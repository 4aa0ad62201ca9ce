"""How does a validation of real runs become a report?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.answers.validation.rows import ValidationReport, errors_by_group, errors_of
from real_runs.validation.loop_costs import as_json
from real_runs.validation.score import breakdown
from real_runs.validation.validate import Validation


def report_of(
    validation: Validation, *, out: Path, inputs: Mapping[str, Any], **more: Any
) -> ValidationReport:
    """The report of a validation.

    Args:
        validation: points, choices and fitted costs.
        out: folder of the report.
        inputs: what was asked.
        more: further attributes of the report.
    """
    return ValidationReport(
        inputs=inputs,
        about=validation.about,
        summary=errors_of(validation.summary),
        by=errors_by_group(breakdown(validation.points)),
        regrets=validation.regrets,
        points=validation.points,
        costs=as_json(validation.costs),
        missing_runs=validation.missing,
        left_out=validation.left_out,
        out=out,
        **more,
    )
