"""`validate --method`: commit rules, blocks and caches of the small masked model, run live beside
their predictions.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TAKEN = frozenset(
    {
        "method",
        "model",
        "batch",
        "rounds",
        "budget",
        "out",
        "resume",
        "keep_disturbed",
        "seed",
        "json",
        "quiet",
    }
)


def validate_refining(given: Mapping[str, Any], *, out: Path, json: bool, quiet: bool) -> None:
    """Predict, run and score.

    Args:
        given: options that stand on the command line, by parameter.
        out: folder for runs and report.
        json: print JSON.
        quiet: print nothing.

    Raises:
        InputError: an option that says nothing here, a method that refines no masked blocks, or
            what the validation refuses.
    """
    from app.cli.progress import progress_line
    from app.cli.verbs.machine.campaign import seconds
    from app.cli.verbs.machine.validate_report import leave_report
    from app.questions.places import require_folder
    from app.questions.values import whole_numbers
    from costmodel.laws.refined_method import method_policy
    from costmodel.method_library import load_method
    from hardware_profiles.errors import InputError
    from real_runs.validation.masked.validate import MaskedValidation, validate_masked

    for name in given:
        if name not in _TAKEN:
            rule = (
                "--method runs the small masked model of `record --masked` on one CPU thread; leave"
                " it out"
            )
            raise InputError(rule, key=f"--{name.replace('_', '-')}")
    require_folder(out)
    asked: dict[str, Any] = {
        "named": tuple(dict.fromkeys(method_policy(load_method(name)) for name in given["method"])),
        "batches": tuple(whole_numbers(given.get("batch", "1,4"), "--batch", least=1, most=16)),
        "budget_s": seconds(given.get("budget", "15m"), "--budget"),
        **{
            name: given[name]
            for name in ("model", "rounds", "seed", "resume", "keep_disturbed")
            if name in given
        },
    }
    with progress_line(quiet) as tell:
        found = validate_masked(MaskedValidation(out=out, **asked), tell=tell)
    inputs = asked | {
        "method": list(given["method"]),
        "named": [policy.as_json() for policy in asked["named"]],
        "model": asked["model"].name if asked.get("model") else None,
    }
    leave_report(found.to_json(), out, json=json, quiet=quiet, inputs=inputs)
