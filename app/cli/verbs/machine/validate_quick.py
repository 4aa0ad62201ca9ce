"""`validate --quick`: a card is probed, timed, fitted, predicted and reported in one go."""

from pathlib import Path


def validate_card(
    device: str, *, base: str | None, resume: bool, out: Path, json: bool, quiet: bool
) -> None:
    """Run the stages, and leave a report to share.

    Args:
        device: torch device; the default of the verb, a CPU, stands for the first GPU.
        base: profile that the fit starts from; None: the card's own.
        resume: go on in a folder that an earlier call began.
        out: folder for everything.
        json: print the report as JSON.
        quiet: print nothing.

    Raises:
        InputError: no GPU, wrong numbers, or too little was measured.
    """
    from app.cli.progress import progress_lines
    from app.cli.verbs.machine.validate_report import leave_report
    from app.questions.places import require_folder
    from app.render.text import say
    from real_runs.validation.quick import validate_quickly

    require_folder(out)
    named = "cuda" if device == "cpu" else device
    found = validate_quickly(
        out, device=named, base=base, resume=resume, tell=progress_lines(quiet)
    )
    leave_report(
        found.to_json(),
        out,
        json=json,
        quiet=quiet,
        inputs={"quick": True, "device": named, "profile": base},
    )
    if not quiet and not json:
        say(
            f"profile of this card in {found.profile}; validation.html and validation.json are what"
            " to share"
        )
