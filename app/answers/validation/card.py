"""`validate --quick`: a card is probed, timed, fitted, predicted and reported in one go."""

from dataclasses import replace

from app.answers.progress import progress_lines
from app.answers.validation.rows import ValidationReport
from app.answers.validation.scored import report_of
from app.questions.places import require_folder
from app.questions.validate import ValidateQuestion
from real_runs.validation.quick import validate_quickly


def validate_card(question: ValidateQuestion) -> ValidationReport:
    """Run the stages, and leave a report to share.

    Raises:
        InputError: no GPU, wrong numbers, or too little was measured.
    """
    require_folder(question.out)
    # the default of the verb, a CPU, stands for the first GPU
    device = "cuda" if question.device == "cpu" else question.device
    card = validate_quickly(
        question.out,
        device=device,
        base=question.profile,
        resume=question.resume,
        tell=progress_lines(question.quiet),
    )
    return replace(
        report_of(question, card.validation, device=device),
        doctor=card.findings,
        jobs={name: report.outcomes for name, report in card.campaigns.items()},
        profile_file=card.profile.name,
        card_profile=card.profile,
    )
