"""Recordings of runs on GPUs that others published, made of their answer files.

`python -m tests.traces.gpu_recordings` writes them into `traces/recorded/gpu`; a test asks that what
is shipped is what the files say. Leaves out how answer files are read
(`traces.importers.benchmarks.answers`).
"""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

from traces.importers.formats import read_trace_any
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.provenance import (
    LICENCE_KEY,
    POLICY_KEY,
    REPEATS_KEY,
    TREE_KEY,
    Provenance,
)
from traces.kinds.step_counts import NEW_TOKENS, STEPS, WALL_S
from traces.storage.acceptance_file import write_acceptance

PUBLISHED = Path(__file__).parent.parent / "published"
SHIPPED = Path(__file__).parent.parent.parent / "traces" / "recorded" / "gpu"


def recordings() -> dict[str, AcceptanceTrace]:
    """Every recording by its name, as the answer files and the table of runs say."""
    table = tomllib.loads((PUBLISHED / "gpu_runs.toml").read_text(encoding="utf-8"))
    return {
        name: _recording(run, table["sources"][run["source"]])
        for name, run in table["recordings"].items()
    }


def _recording(run: dict, source: dict) -> AcceptanceTrace:
    trace = _answers(run["file"])
    counted = trace.provenance.extra
    extra = {
        LICENCE_KEY: source["licence"],
        "source": f"{source['repository']}@{source['commit']} {run['path']}",
        "dropped": source["dropped"],
        STEPS: counted[STEPS],
        NEW_TOKENS: counted[NEW_TOKENS],
    }
    if "tree" in source:
        extra[TREE_KEY] = json.loads((PUBLISHED / "trees.json").read_text())[source["tree"]]
    if "policy_draft_tokens" in run:
        extra[POLICY_KEY] = run["policy_draft_tokens"]
    if "repeats" in run:
        extra[REPEATS_KEY] = [_counts(_answers(file)) for file in run["repeats"]]
    about = Provenance(
        model=run["model"],
        drafter=run["drafter"],
        method=run["method"],
        device=source["device"],
        dtype="float16",
        sampling=source["sampling"],
        dataset="MT-bench",
        recorder_version=f"{source['repository']} llm_judge",
        notes=" ".join([*run.get("notes", []), *source["notes"]]),
        extra=extra,
    )
    return replace(trace, provenance=about, file=None)


def _answers(file: str) -> AcceptanceTrace:
    return read_trace_any(PUBLISHED / "engine_logs" / file)


def _counts(trace: AcceptanceTrace) -> dict[str, float]:
    """Steps, tokens and seconds of a run."""
    columns = trace.extra_columns
    counts = {name: sum(columns[name]) for name in (STEPS, NEW_TOKENS)}
    return {**counts, WALL_S: round(sum(columns[WALL_S]), 3)}


if __name__ == "__main__":
    SHIPPED.mkdir(exist_ok=True)
    for name, trace in recordings().items():
        write_acceptance(trace, SHIPPED / f"{name}.parquet")
