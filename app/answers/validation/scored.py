"""How does a validation of real runs become a report?"""

import math
from typing import Any

from app.answers.validation.rows import ValidationReport, errors_by_group, errors_of, report_inputs
from app.questions.validate import ValidateQuestion
from real_runs.validation.score import Validation, breakdown
from real_runs.validation.subject import BenchOptions


def bench_options(
    question: ValidateQuestion, *, rounds: int, budget_s: float = math.inf
) -> BenchOptions:
    """Where runs are kept, how many there are, and how long they may take.

    Args:
        question: what was stated.
        rounds: where none are stated.
        budget_s: where none is stated.
    """
    return BenchOptions(
        out=question.out,
        rounds=question.rounds or rounds,
        budget_s=question.budget_s or budget_s,
        resume=question.resume,
        keep_disturbed=question.keep_disturbed,
    )


def report_of(
    question: ValidateQuestion,
    validation: Validation,
    *,
    bench: BenchOptions | None = None,
    **resolved: Any,
) -> ValidationReport:
    """The report of a validation.

    Args:
        question: what was asked.
        validation: points, choices and fitted costs.
        bench: rounds and wall time, where anything ran.
        resolved: values by keyword that say more than what was stated.
    """
    if bench is not None:
        resolved["rounds"] = bench.rounds
        if math.isfinite(bench.budget_s):
            resolved["budget_s"] = bench.budget_s
    return ValidationReport(
        inputs=report_inputs(question, **resolved),
        about=validation.about,
        summary=errors_of(validation.summary),
        by=errors_by_group(breakdown(validation.points)),
        regrets=validation.regrets,
        points=validation.points,
        costs=validation.costs,
        missing_runs=validation.missing,
        left_out=validation.left_out,
        out=question.out,
    )
