"""`calibrate` without tables: measure this machine and fit its profile."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from real_runs.calibration.device import DeviceCalibration


def calibrate_here(
    device: str | None,
    *,
    model: str | None,
    threads: int,
    budget: str,
    results: Path,
    resume: bool,
    base: str | None,
    out: Path | None,
    json: bool,
    quiet: bool,
) -> None:
    """Measure, fit and print.

    Args:
        device: torch device; None: the GPU where torch sees one, else the CPU.
        model: shipped model whose shapes are measured; None: SmolLM2-135M on a CPU, Llama-3.1-8B on
            a GPU.
        threads: CPU threads.
        budget: wall time in words.
        results: folder for the rows and the profile.
        resume: go on in a folder that holds rows.
        base: profile to start from; None: the device's own.
        out: where to write the profile, too.
        json: print JSON.
        quiet: print nothing.

    Raises:
        InputError: bad options, or too little was measured.
    """
    from app.cli.progress import progress_lines
    from app.cli.verbs.machine.calibration.profile_file import (
        check_profile_file,
        write_profile_file,
    )
    from app.questions.places import require_folder
    from app.questions.values import seconds
    from app.render.json import print_json
    from app.render.text import print_table, say
    from real_runs.calibration.device import calibrate_device

    limit_s = seconds(budget, "--budget")
    require_folder(results, "--results")
    check_profile_file(out)

    found = calibrate_device(
        out=results,
        device=device or _default(),
        model=model,
        threads=threads,
        budget_s=limit_s,
        base=base,
        resume=resume,
        progress=progress_lines(quiet),
    )
    write_profile_file(found.device, out)
    profile = out or found.profile
    if json:
        print_json(
            {
                "inputs": {"here": device, "model": model, "threads": threads, "budget_s": limit_s},
                "device": found.device.name,
                "profile": str(profile),
                "trace": str(found.trace),
                "seconds": found.seconds,
                "operations": dict(found.scores),
                "passes": found.passes,
            }
        )
    elif not quiet:
        columns = ["what", "rows", "fitted", "scored", "median", "p90"]
        print_table(
            f"{found.device.title}, fitted in {found.seconds:.0f} s",
            columns,
            _lines(found),
            caption="errors are |predicted / measured - 1|; 0 fitted: constants kept",
        )
        say(f"profile in {profile}, rows in {found.trace}")


def _default() -> str:
    from real_runs.doctor import sees_gpu

    return "cuda" if sees_gpu() else "cpu"


def _lines(calibration: "DeviceCalibration") -> list[list[str]]:
    p = calibration.passes
    every = [
        (name, s.rows, s.rows_fitted, s.rows_scored, s.median, s.p90)
        for name, s in calibration.scores.items()
    ]
    every.append(("whole passes", p.rows, p.rows_fitted, p.rows_scored, p.median, p.p90))
    return [
        [name, *map(str, counts), f"{median:.1%}", f"{p90:.1%}"]
        for name, *counts, median, p90 in every
    ]
