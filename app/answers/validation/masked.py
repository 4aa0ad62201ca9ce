"""`validate --method`: commit rules, blocks and caches of the small masked model, run live beside
their predictions.
"""

from app.answers.progress import progress_line
from app.answers.validation.against import batches_of
from app.answers.validation.rows import (
    ValidationReport,
    errors_by_group,
    errors_of,
    report_inputs,
)
from app.questions.places import require_folder
from app.questions.validate import ValidateQuestion
from costmodel.laws.refined_method import method_policy
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError
from real_runs.validation.masked.validate import MaskedValidation, validate_masked
from real_runs.validation.score import breakdown

_BUDGET_S = 900.0
_TAKEN = frozenset(
    {
        "method",
        "model",
        "batch",
        "rounds",
        "budget_s",
        "out",
        "resume",
        "keep_disturbed",
        "seed",
        "json",
        "quiet",
    }
)


def validate_masked_blocks(question: ValidateQuestion) -> ValidationReport:
    """Predict, run and score.

    Raises:
        InputError: an option that says nothing here, a method that refines no masked blocks, or
            what the validation refuses.
    """
    for name in question.stated_values:
        if name not in _TAKEN:
            rule = (
                "--method runs the small masked model of `record --masked` on one CPU thread; leave"
                " it out"
            )
            raise InputError(rule, key=f"--{name.replace('_', '-')}")
    require_folder(question.out)
    methods = question.method or []
    options = MaskedValidation(
        out=question.out,
        model=question.model,
        named=tuple(dict.fromkeys(method_policy(load_method(name)) for name in methods)),
        batches=batches_of(question, most=16),
        rounds=question.rounds or 1,
        budget_s=question.budget_s or _BUDGET_S,
        seed=question.seed,
        resume=question.resume,
        keep_disturbed=question.keep_disturbed,
    )
    with progress_line(question.quiet) as tell:
        report = validate_masked(options, tell=tell)
    return ValidationReport(
        inputs=report_inputs(
            question,
            batch=options.batches,
            rounds=options.rounds,
            budget_s=options.budget_s,
            named=[policy.as_json() for policy in options.named],
        ),
        about=report.about,
        summary=errors_of(report.summary),
        by=errors_by_group(breakdown(report.points)),
        regrets=report.regrets,
        points=report.points,
        costs=report.costs.as_json(),
        missing_runs=report.missing,
        left_out=report.left_out,
        choices=report.choices,
        replays=report.replays,
        out=question.out,
    )
