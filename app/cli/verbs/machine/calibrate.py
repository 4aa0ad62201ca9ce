"""`calibrate`: score a device profile on measured kernels, and fit its constants to them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from app.questions.field import Field, Group
from app.questions.fields import Device, Json, Overrides, Quiet, Seed

if TYPE_CHECKING:
    from costmodel.calibration.calibrate import CalibrationScore


def calibrate(
    kernels: Annotated[
        list[Path] | None,
        Field("Table of kernel timings, Parquet or CSV; repeat for several.", Group.RUN),
    ] = None,
    device: Device = "h100-sxm",
    more: Annotated[
        list[Path] | None, Field("Further tables.", Group.WORKLOAD, argument=True)
    ] = None,
    score_only: Annotated[
        bool, Field("Score the profile as it is; fit nothing.", Group.RUN)
    ] = False,
    out: Annotated[Path | None, Field("Profile to write, a .toml file.", Group.OUTPUT)] = None,
    dtype: Annotated[str, Field("Number format whose rows are used.", Group.FORMATS)] = "bf16",
    share: Annotated[float, Field("Share of the rows to fit to, or that was.", Group.RUN)] = 0.25,
    model: Annotated[
        str | None,
        Field("Shipped model behind tables that name layers without shapes.", Group.WORKLOAD),
    ] = None,
    here: Annotated[
        str | None,
        Field("Measure this machine instead of reading tables: cpu, cuda or cuda:1.", Group.RUN),
    ] = None,
    threads: Annotated[int, Field("With --here: CPU threads.", Group.HARDWARE, least=1)] = 1,
    budget: Annotated[str, Field("With --here: wall time, e.g. 10m.", Group.RUN)] = "10m",
    results: Annotated[
        Path, Field("With --here: folder for the rows and the profile.", Group.HARDWARE)
    ] = Path("rooftree-out/calibrate"),
    resume: Annotated[
        bool, Field("With --here: go on in a folder that holds rows.", Group.RUN)
    ] = False,
    base: Annotated[
        str | None,
        Field(
            "With --here: profile to start from; default: the device's own, where one ships.",
            Group.RUN,
        ),
    ] = None,
    server: Annotated[
        str | None,
        Field(
            "Measure the engine that answers at this address, such as http://HOST:8000.",
            Group.HARDWARE,
        ),
    ] = None,
    engine: Annotated[
        str | None,
        Field(
            "Measure llama.cpp, started here with --model FILE.gguf for every draft length.",
            Group.HARDWARE,
        ),
    ] = None,
    overrides: Overrides = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit a quarter of the rows (--share), score the others; --score-only scores the same rows
    without a fit.

    Without tables it measures this machine: --here cpu or --here cuda says which device, --server
    or --engine llama.cpp which engine, of which --budget, --results, --resume, --base, --threads
    and --out hold too.
    """
    from app.cli.progress import progress_line
    from app.cli.verbs.machine.calibration.profile_file import (
        check_profile_file,
        write_profile_file,
    )
    from app.render.json import print_json
    from costmodel.calibration.calibrate import calibrate as calibrated
    from costmodel.calibration.tables import read_all, shipped_model
    from hardware_profiles.errors import InputError
    from hardware_profiles.loader import load_device

    tables = [*(kernels or []), *(more or [])]
    if server is not None or engine is not None:
        from app.cli.verbs.machine.calibration.server import calibrate_server

        if tables or score_only or here is not None:
            key = "--server" if server is not None else "--engine"
            raise InputError(
                "measures an engine: leave out tables, --score-only and --here", key=key
            )
        calibrate_server(
            server,
            engine,
            model=model,
            threads=threads,
            budget=budget,
            results=results,
            resume=resume,
            base=base,
            out=out,
            json=json,
            quiet=quiet,
        )
        return
    if not tables and not score_only:
        from app.cli.verbs.machine.calibration.here import calibrate_here

        calibrate_here(
            here,
            model=model,
            threads=threads,
            budget=budget,
            results=results,
            resume=resume,
            base=base,
            out=out,
            json=json,
            quiet=quiet,
        )
        return
    if here is not None:
        raise InputError(
            "measures this machine: leave out tables and --score-only", key="--here", value=here
        )
    if not tables:
        raise InputError("at least one table of kernel timings is needed", key="--kernels")
    if out is not None and score_only:
        raise InputError(
            "writes fitted constants, and --score-only fits none", key="--out", value=str(out)
        )
    check_profile_file(out)
    if model is not None:
        shipped_model(model)
    profile = load_device(device, overrides or [])
    with progress_line(quiet) as tell:
        tell("reading tables")
        rows = read_all(tables, model=model)
        found = calibrated(
            rows, profile, fit=not score_only, dtype=dtype, seed=seed, share=share, progress=tell
        )
    write_profile_file(found.device, out)
    if json:
        inputs = {
            "kernels": [str(each) for each in tables],
            "device": profile.name,
            "score_only": score_only,
            "dtype": dtype,
            "share": share,
            "seed": seed,
            "model": model,
            "overrides": list(overrides or []),
        }
        print_json(
            {
                "inputs": inputs,
                "operations": {name: _plain(score) for name, score in found.scores.items()},
                "out": None if out is None else str(out),
            }
        )
    elif not quiet:
        how = "as it is" if score_only else "after a fit to the rows set aside"
        _print_scores(f"{profile.title}, {how}", found.scores)


def _print_scores(title: str, scores: Mapping[str, "CalibrationScore"]) -> None:
    from app.render.text import print_table

    lines = []
    for name, score in scores.items():
        lines.append(_line(f"{name} ({score.form})" if score.form else name, score))
        lines.extend(_line(f"  {part}", each) for part, each in score.parts.items())
    print_table(
        title,
        ["operation", "rows", "used", "fitted", "scored", "median", "p90", "in interval"],
        lines,
        caption=(
            "errors are |predicted / measured - 1|; the interval is to hold 80 % of the scored rows"
        ),
    )


def _plain(score: "CalibrationScore") -> dict[str, Any]:
    numbers: dict[str, Any] = {
        "rows": score.rows,
        "rows_used": score.rows_used,
        "rows_fitted": score.rows_fitted,
        "rows_scored": score.rows_scored,
        "median": score.median,
        "p90": score.p90,
        "coverage": score.coverage,
        "width_ratio": score.width_ratio,
    }
    if score.form:
        numbers["form"] = score.form
    if score.parts:
        numbers["parts"] = {name: _plain(part) for name, part in score.parts.items()}
    return numbers


def _line(name: str, score: "CalibrationScore") -> list[str]:
    counts = (score.rows, score.rows_used, score.rows_fitted, score.rows_scored)
    errors = ("–" if value != value else f"{value:.1%}" for value in (score.median, score.p90))  # noqa: PLR0124
    held = "–" if score.coverage != score.coverage else f"{score.coverage:.0%}"
    return [name, *map(str, counts), *errors, held]
