"""`calibrate --server` and `calibrate --engine llama.cpp`: an engine's own constants from requests
to it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from real_runs.calibration.server.calibrate import ServerCalibration


def calibrate_server(
    server: str | None,
    engine: str | None,
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
        server: address of a server that runs.
        engine: engine to start in its place; llama.cpp alone.
        model: GGUF file or name of the model.
        threads: CPU threads of a server that is started.
        budget: wall time in words.
        results: folder for the profile, the passes and the engine file.
        resume: go on in a folder that holds a part.
        base: profile to start from.
        out: where to write the profile, too.
        json: print JSON.
        quiet: print nothing.

    Raises:
        InputError: bad options, no server, or too little was measured.
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
    from costmodel.engine_library import load_engine
    from hardware_profiles.errors import InputError
    from real_runs.calibration.server.calibrate import calibrate_server as calibrated

    if server is not None and engine is not None:
        raise InputError(
            "starts a server: leave out --server, or leave it to say which engine it is",
            key="--engine",
        )
    if engine is not None and load_engine(engine).name != "llama.cpp":
        rule = "only llama.cpp is started here; give the address of others with --server"
        raise InputError(rule, key="--engine", value=engine)
    limit_s = seconds(budget, "--budget")
    require_folder(results, "--results")
    check_profile_file(out)
    calibration = calibrated(
        out=results,
        server=server,
        model=model,
        threads=threads,
        budget_s=limit_s,
        base=base,
        resume=resume,
        progress=progress_lines(quiet),
    )
    write_profile_file(calibration.device, out)
    if json:
        inputs = {
            "server": server,
            "engine": engine,
            "model": model,
            "threads": threads,
            "budget_s": limit_s,
        }
        print_json({"inputs": inputs, **_plain(calibration)})
    elif not quiet:
        print_table(
            calibration.device.title,
            ["what", "costs"],
            _lines(calibration),
            caption=_caption(calibration),
        )
        files = f"--device {calibration.profile} --engine {calibration.engine_file}"
        say(f"predict and optimize take it with {files} --fidelity measured,")
        say("simulate with --set deployment.fidelity=measured in its place")


def _plain(calibration: "ServerCalibration") -> dict[str, Any]:
    numbers = {
        name: getattr(calibration, name)
        for name in ("seconds", "law", "prompt_s", "accepted_s", "weight_bytes", "score")
    }
    files = {name: str(getattr(calibration, name)) for name in ("profile", "engine_file", "trace")}
    return {"device": calibration.device.name, **files, **numbers}


def _lines(calibration: "ServerCalibration") -> list[list[str]]:
    law = calibration.law
    per = {
        "a step, whatever it serves": law.step_s,
        "a request that decodes": law.request_s,
        "a query token": law.token_s,
        "1000 cached tokens of a request": 1000 * law.cached_s,
        "1000 cached tokens, per query token": 1000 * law.pair_s,
        "a prompt, beyond its pass": calibration.prompt_s,
        "an accepted draft token, beside its pass": calibration.accepted_s,
    }
    lines = [[name, f"{1e3 * seconds:.3g} ms"] for name, seconds in per.items()]
    if law.prompt_token_s:
        lines.append(["a prompt's token", f"{1e3 * law.prompt_token_s:.3g} ms"])
    rate = law.bytes_per_s(calibration.weight_bytes)
    return [*lines, ["weights read by one token's step", f"{rate / 1e9:.3g} GB/s"]]


def _caption(calibration: "ServerCalibration") -> str:
    score, law = calibration.score, calibration.law
    return (
        f"this sum is off by {law.error_ratio:.1%} in the median of {law.steps} shapes; the profile"
        f" by {score.median:.1%} (90 %: {score.p90:.1%}) where it was not fitted; between measured"
        f" passes 80 % lie within {score.interpolated:.1%}; measured in {calibration.seconds:.0f} s"
    )
