"""`validate --trace`: the timed steps of recordings, beside what replay and prices say of them."""

from dataclasses import asdict, replace

from app.answers.validation.against import Against
from app.answers.validation.rows import StepErrorsRow, ValidationReport
from app.answers.validation.scored import report_of
from app.questions.validate import ValidateQuestion
from real_runs.validation.timed.files import timed_traces
from real_runs.validation.timed.validate import validate_timed


def validate_trace(question: ValidateQuestion, against: Against) -> ValidationReport:
    """Steps that a recording timed, beside predictions; nothing runs.

    Raises:
        InputError: a trace without seconds, recordings that do not go together, or too few steps to
            fit on some and score others.
    """
    assert question.trace is not None
    traces, others = timed_traces(question.trace)
    timed = validate_timed(
        traces,
        profile=against.profile,
        shipped_model=question.shape,
        fidelity=against.fidelity,
        out=question.out,
    )
    report = report_of(question, timed.validation, fidelity=against.fidelity)
    return replace(
        report,
        left_out=[*report.left_out, *(f"{name}: no seconds of steps" for name in others)],
        steps=[StepErrorsRow(**asdict(errors)) for errors in timed.steps],
    )
