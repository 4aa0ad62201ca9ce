"""`validate --method`: commit rules, blocks and caches of the small masked model, run live beside
their predictions.
"""

from dataclasses import replace

from app.answers.progress import progress_line
from app.answers.validation.against import batches_of
from app.answers.validation.rows import ValidationReport
from app.answers.validation.scored import bench_options, report_of
from app.questions.places import require_folder
from app.questions.validate import ValidateQuestion
from costmodel.laws.refined_method import method_policy
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError
from real_runs.validation.masked.validate import MaskedOptions, validate_masked

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
    options = MaskedOptions(
        bench=bench_options(question, rounds=1, budget_s=900.0),
        model=question.model,
        named=tuple(dict.fromkeys(method_policy(load_method(name)) for name in methods)),
        batches=batches_of(question, most=16),
        seed=question.seed,
    )
    with progress_line(question.quiet) as tell:
        ended = validate_masked(options, tell=tell)
    report = report_of(
        question,
        ended.validation,
        bench=options.bench,
        batch=options.batches,
        named=[policy.as_json() for policy in options.named],
    )
    return replace(report, choices=ended.choices, replays=ended.replays)
