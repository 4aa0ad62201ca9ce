"""`campaign`: work off a list of measurements within a time budget."""

import re
from pathlib import Path
from typing import Annotated

import typer

from app.cli.options import Json, Quiet

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def campaign(
    file: Annotated[Path, typer.Argument(help="Campaign file (YAML), or the name of a shipped one: cpu, gpu-80gb.")],
    budget: Annotated[str, typer.Option("--budget", help="Wall time for everything, e.g. 540s, 9m, 1h.")] = "9m",
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("rooftree-out/campaign"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on in a folder that holds results.")] = False,
    isolate: Annotated[
        bool, typer.Option("--isolate/--no-isolate", help="Run each job in a process of its own.")
    ] = True,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure what a campaign file lists, most important first, until the budget is spent."""
    import sys

    from app.cli.output import emit_json, print_table, say
    from real_runs.campaign import run_campaign

    def progress(text: str) -> None:
        if not quiet:
            sys.stderr.write(text.rstrip() + "\n")
            sys.stderr.flush()

    path = shipped_campaign(file)
    report = run_campaign(
        path, budget_s=seconds(budget, "--budget"), out=out, resume=resume, isolate=isolate, progress=progress
    )
    if json:
        inputs = {"file": str(file), "budget_s": seconds(budget, "--budget"), "resume": resume}
        emit_json({"inputs": inputs, "out": str(out), "seconds": report.seconds, "jobs": list(report.outcomes)})
    elif not quiet:
        rows = [[o.name, o.state, str(o.rows), f"{o.seconds:.0f}", o.reason[:80]] for o in report.outcomes]
        print_table(f"{report.seconds:.0f} s", ["job", "state", "rows", "seconds", "reason"], rows)
        say(f"results in {out}")


def seconds(text: str, option: str) -> float:
    """A time such as "540", "540s", "9m" or "1h" in seconds.

    Raises:
        InputError: something else, or not positive.
    """
    from hardware_profiles.errors import InputError

    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smh]?)", text.strip())
    value = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if value <= 0:
        raise InputError("must be a positive time such as 540s, 9m or 1h", key=option, value=text)
    return value


def shipped_campaign(file: Path) -> Path:
    """The file itself where it exists, else the shipped campaign of that name."""
    import real_runs

    shipped = Path(str(real_runs.__file__)).parent / "campaigns" / f"{file.name.removesuffix('.yaml')}.yaml"
    return shipped if not file.exists() and len(file.parts) == 1 and shipped.exists() else file
