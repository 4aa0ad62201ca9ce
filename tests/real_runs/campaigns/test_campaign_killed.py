"""A campaign killed again and again, and resumed each time, leaves what an undisturbed one
leaves."""

import io
import json
import multiprocessing
import random
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml

pytest.importorskip("torch")
pytest.importorskip("transformers")

import pyarrow.parquet as pq

from real_runs.campaigns.campaign import run_campaign
from real_runs.campaigns.results import read_recordings, read_results, read_runs, read_summary
from real_runs.kernels import timing

SHARE_LIVED = 0.25  # most that a killed call lives, of what a whole one takes
PROMPTS = """
title = "two kinds"
[[prompts]]
id = "a-1"
kind = "a"
text = "one two one two one two"
[[prompts]]
id = "a-2"
kind = "a"
text = "abcabcabc"
[[prompts]]
id = "b-1"
kind = "b"
text = "x y z x y z"
"""
TIMED = {"estimate_s": 5, "dtype": "fp32", "repeats": 3, "budget_s": 0.002}
MEASURED_ROW = (
    "kernels",
    "median_s",
    "low_s",
    "high_s",
    "repeats",
    "discarded",
    "outliers",
    "cpu_ratio",
)
TIMES = ("wall_s", "cpu_s", "step_draft_s", "step_verify_s", "step_rest_s")
UNTIMED = {
    "wall_s": 1.0,
    "cpu_s": 1.0,
    "prefill_s": 1.0,
    "draft_s": 0.0,
    "verify_s": 0.0,
    "rest_s": 0.0,
}


@pytest.fixture(scope="module")
def campaign_file(tiny_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    (folder / "prompts.toml").write_text(PROMPTS)
    model = {
        "model_file": str(tiny_folder),
        "prompts": str(folder / "prompts.toml"),
        "max_new_tokens": 12,
        "estimate_s": 60,
        "drafter_options": {"fit_answers": 0, "fit_characters": 2000, "exit_layer": 1},
    }
    chain = {"name": "lookup", "drafter": "prompt-lookup", "draft_tokens": 3}
    tree = {
        "name": "exit",
        "drafter": "early-exit",
        "tree": {"parents": [-1, 0, 0, 1], "ranks": [0, 0, 1, 0]},
    }
    jobs = [
        {"name": "launch", "kind": "launch", "kernels": [1, 2], "priority": 1} | TIMED,
        {
            "name": "record",
            "kind": "record",
            "drafters": ["prompt-lookup", "early-exit"],
            "priority": 2,
            "timed": {"chains": [2], "tree_nodes": [3], "batches": [1, 2], "rounds": 2},
        }
        | model,
        {
            "name": "decode",
            "kind": "decode",
            "configurations": [chain, tree],
            "rounds": 2,
            "priority": 3,
        }
        | model,
        {"name": "copy", "kind": "copy", "sizes_bytes": [65536], "priority": 4} | TIMED,
    ]
    file = folder / "campaign.yaml"
    file.write_text(yaml.safe_dump({"schema": 1, "threads": 1, "jobs": jobs}))
    return file


def one_call(file, out):
    timing.LEAST_PROCESS_SHARE = (
        0.0  # which rows there are does not hang on what else runs on this machine
    )
    run_campaign(Path(file), budget_s=300, out=Path(out), resume=True, isolate=False)


def everything_but_times(out):
    """All that a results folder holds, less what was timed."""
    rows = read_results(out).rows
    runs = read_runs(out).runs
    traces = {}
    for name, data in read_recordings(out).items():
        table = pq.read_table(io.BytesIO(data))
        header = json.loads(table.schema.metadata[b"rooftree"])
        timed = [column for column in table.column_names if column.endswith(TIMES)]
        assert timed
        traces[name] = (table.drop_columns(timed).to_pydict(), header)
    jobs = {
        name: {key: entry[key] for key in ("state", "reason", "rows", "digest")}
        for name, entry in read_summary(out)["jobs"].items()
    }
    return {
        "rows": [{k: v for k, v in asdict(row).items() if k not in MEASURED_ROW} for row in rows],
        "runs": [asdict(replace(run, **UNTIMED)) for run in runs],
        "traces": traces,
        "jobs": jobs,
        "files": sorted(path.name for path in out.iterdir() if path.name != "log.txt"),
    }


@pytest.mark.heavy
@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_many_moments_and_resumed_equals_undisturbed(campaign_file, tmp_path, kills):
    context = multiprocessing.get_context("forkserver")
    jobs = ("decode_runs", "kernel_job", "recording_job")
    context.set_forkserver_preload([f"real_runs.campaigns.{job}" for job in jobs])
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    moments, alive = random.Random(7), 0

    def started(out):
        child = context.Process(target=one_call, args=(str(campaign_file), str(out)))
        child.start()
        return child

    began = time.monotonic()
    child = started(undisturbed)
    child.join(600)
    whole_s = time.monotonic() - began
    assert child.exitcode == 0
    for _ in range(kills):
        child = started(killed)
        time.sleep(moments.uniform(0.0, SHARE_LIVED * whole_s))
        alive += child.is_alive()
        child.kill()
        child.join()
    assert alive >= 1  # the first lives for a share of what the whole takes: it dies at work
    child = started(killed)
    child.join(600)
    assert child.exitcode == 0
    first, second = everything_but_times(undisturbed), everything_but_times(killed)
    assert [entry["state"] for entry in first["jobs"].values()] == ["finished"] * 4
    for key, value in first.items():
        if key == "rows":  # in the order in which jobs were last finished
            assert sorted(map(str, second[key])) == sorted(map(str, value))
        else:
            assert second[key] == value, key
