"""What does a folder hold, less what was timed?"""

import json
from dataclasses import replace

from real_runs.calibration.device import fit_results
from real_runs.campaigns.results import read_results
from tests.real_runs.campaigns.test_campaign_killed import everything_but_times
from tests.real_runs.recording.test_record_killed import contents

RUN = (
    "cell",
    "configuration",
    "round",
    "prompts",
    "tokens",
    "steps",
    "request_steps",
    "drafted_tokens",
    "output_sha256",
)


def bytes_below(folder):
    """Every file that does not begin with a dot, to the byte."""
    found = (path for path in folder.rglob("*") if path.is_file())
    named = {path.relative_to(folder): path for path in found}
    return {
        str(name): path.read_bytes()
        for name, path in named.items()
        if not any(p[0] == "." for p in name.parts)
    }


def recorded_values(folder):
    """Traces less their times, and no other file."""
    assert {path.suffix for path in folder.iterdir()} == {".parquet"}
    return {path.name: contents(path) for path in folder.iterdir()}


def steady_rows(folder):
    """Measured rows, whose clock is steady, in any order.

    Kernels are named by what a profiler saw first, and there are as many sets of data as the free
    memory holds.
    """
    return sorted(
        str(replace(row, kernels="", sets=1, cold=True)) for row in read_results(folder).rows
    )


def campaign_values(folder):
    """Results less times; measured rows, whose clock is steady, with all that they hold, in any
    order."""
    held = everything_but_times(folder)
    return held | {"rows": steady_rows(folder)}


def validated_values(folder):
    """Traces, runs and what was predicted of each, less what was measured."""
    lines = [json.loads(line) for line in (folder / "runs.part.jsonl").read_text().splitlines()]
    runs = sorted(json.dumps({name: line[name] for name in RUN}) for line in lines[1:])
    report = json.loads((folder / "validation.json").read_text())
    points = sorted(
        (point["kind"], point["batch"], point["configuration"]) for point in report["points"]
    )
    traces = {path.name: contents(path) for path in (folder / "traces").glob("*.parquet")}
    files = sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    return {"setup": lines[0], "runs": runs, "points": points, "traces": traces, "files": files}


def calibrated_values(folder):
    """Rows, whose clock is steady, and the profile, which is what these very rows give."""
    (profile,) = folder.glob("*.toml")
    text = profile.read_bytes()
    fit_results(folder)
    assert profile.read_bytes() == text
    return {"rows": steady_rows(folder), "files": sorted(p.name for p in folder.iterdir())}
