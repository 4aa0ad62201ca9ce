"""llama.cpp's server from end to end: loaded, observed, optimised for, exported, started anew,
measured, reported."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("xllamacpp")

from real_runs.servers.llama_cpp.launch import launched
from tests.real_runs.conftest import few_layers, shipped  # noqa: F401

pytestmark = [pytest.mark.heavy, pytest.mark.model]

VALIDATE = (
    "rooftree validate --engine llama.cpp --profile cpu-amd-epyc--1-thread --fidelity calibrated"
    " --context 160 --batch 2 --per-cell 1 --rounds 1 --new-tokens 16 --keep-disturbed --out v"
)


def test_a_running_server_is_loaded_and_observed(user, tmp_path, few_layers):  # noqa: F811
    words = ["--model", str(few_layers), "--ctx-size", "1024", "--parallel", "2"]
    with launched(words, folder=tmp_path / "server") as running:
        loaded = user(
            f"rooftree load {running.url} --users 2 --count 4 --prompt-tokens 64 --output-tokens 16"
            " --out load --json"
        ).answer
        seen = user(f"rooftree observe {running.url} --for 1s --json").answer
    assert loaded["requests"] == 4, loaded
    assert "llama.cpp" in json.dumps(seen), seen


@pytest.mark.parametrize("model", ["few_layers", pytest.param("shipped", marks=pytest.mark.slow)])
def test_what_optimize_chose_is_exported_started_measured_and_reported(
    user, tmp_path, request, model
):
    validate = f"{VALIDATE} --model {request.getfixturevalue(model)}"
    report = user(f"{validate} --json").answer
    assert report["missing_runs"] == 0 and len(report["points"]) >= 4
    for point in report["points"]:
        measured, predicted = point["measured"], point["predicted"]
        assert measured["tokens_per_s"] > 0 and measured["tpot_s"] > 0 and measured["ttft_s"] > 0
        if not point["differing"]:  # the same text takes the steps that were foretold
            assert measured["tokens_per_step"] == pytest.approx(
                predicted["tokens_per_step"], rel=0.1
            )
    assert {each["kind"] for each in report["regrets"]} <= {"overlap", "ordinary"}
    commands = report["about"]["commands"]
    assert "2 slots, plain" in commands and all(
        "--parallel 2" in each for each in commands.values()
    )
    assert all(
        Path("v", name).exists()
        for name in ("validation.json", "validation.parquet", "commands.md")
    )
    again = user(f"{validate} --resume --json").answer
    assert again["points"] == report["points"]
    assert not _started_in(tmp_path)


@pytest.mark.slow
def test_a_validation_that_was_killed_goes_on_and_leaves_no_server(user, tmp_path, shipped):  # noqa: F811
    words = [sys.executable, "-c", "import sys; from app.cli.main import main; sys.exit(main())"]
    begun = subprocess.Popen(
        [*words, *shlex.split(VALIDATE)[1:], "--quiet"], cwd=tmp_path, env=os.environ
    )
    runs = tmp_path / "v" / "runs.part.jsonl"
    until = time.monotonic() + 300.0
    while time.monotonic() < until and (
        not runs.exists() or len(runs.read_bytes().splitlines()) < 2
    ):
        assert begun.poll() is None
        time.sleep(0.05)
    begun.send_signal(signal.SIGKILL)
    begun.wait()
    kept = runs.read_bytes().splitlines()[1:]
    assert kept
    report = user(f"{VALIDATE} --resume --json").answer
    assert report["missing_runs"] == 0
    assert runs.read_bytes().splitlines()[1 : 1 + len(kept)] == kept
    names = {(each["cell"], each["configuration"]) for each in map(json.loads, kept)}
    assert names <= {
        (f"{p['kind']}, {p['context']} tokens, batch {p['batch']}", p["configuration"])
        for p in report["points"]
    }
    assert not _started_in(tmp_path)


def _started_in(folder):
    """Processes whose command line names a folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in words:
            found.append(words)
    return found
