"""Disks that are full or can only be read: found before long work, and what was finished is
kept."""

import json
import pkgutil
import sys
from contextlib import suppress
from importlib import import_module

import pytest
import yaml

pytest.importorskip("torch")

import app.answers
import real_runs
from app.cli.main import main
from tests.app.answers.sweep.conftest import PLAIN
from tests.faults.held import bytes_below, recorded_values
from tests.real_runs.campaigns.test_campaign_killed import everything_but_times

VERBS = {
    "record": "record --out OUT --model {model} --quiet",
    "record of a masked model": "record --masked --out OUT --quiet",
    "campaign": "campaign cpu --out OUT --budget 5m --quiet",
    "validate": (
        "validate --profile cpu-generic --model {model} --fidelity calibrated --out OUT --quiet"
    ),
    "calibrate": "calibrate --here cpu --results OUT --quiet",
    "sweep": "sweep {lists} --out OUT.parquet --quiet",
    "sweep's values": "sweep {lists} --out {free}/cells.parquet --csv OUT.csv --quiet",
    "optimize": "optimize --out OUT --quiet",
    "simulate": (
        "simulate --model llama-3.1-8b --count 5 --rate 5 --per-request OUT.parquet --quiet"
    ),
    "kernels": "kernels copy --out OUT --quiet",
    "traces import": "traces import {engine} --out OUT.parquet --quiet",
}


@pytest.fixture
def words(tiny_folder, tmp_path):
    (tmp_path / "lists.yaml").write_text(yaml.safe_dump(PLAIN))
    (tmp_path / "engine.json").write_text(
        json.dumps({"requests": [{"prompt_tokens": 5, "emitted": [3, 2, 1, 1]}]})
    )
    (tmp_path / "free").mkdir()

    def made(line, out):
        places = {
            "model": tiny_folder,
            "lists": tmp_path / "lists.yaml",
            "free": tmp_path / "free",
            "engine": tmp_path / "engine.json",
        }
        return [word.replace("OUT", str(out)).format_map(places) for word in line.split()]

    return made


@pytest.fixture(scope="module")
def loaded():
    """Every module that may begin long work: one that is first loaded while a function is replaced
    would keep the replacement."""
    for package in (app.answers, real_runs):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with suppress(ImportError):  # of an extra that is not installed
                import_module(found.name)


@pytest.fixture
def undone(monkeypatch, loaded):
    """Whatever begins long work says so, wherever it has been imported to."""

    def begun(*_, **__):
        raise AssertionError("work began")

    monkeypatch.setattr("app.answers.sweep.evaluate.SweepEvaluation.shard", begun)
    for name in (
        "real_runs.models.loading.weights.load_weights",
        "costmodel.optimizers.recommend.recommend",
        "real_runs.kernels.timing.measure",
    ):
        place, _, function = name.rpartition(".")
        real = getattr(import_module(place), function)
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get(function) is real:
                monkeypatch.setattr(module, function, begun)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("state", ["full", "read-only"])
def test_it_is_found_before_long_work(small_disk, words, undone, capfd, verb, state):
    asked = words(VERBS[verb], small_disk.folder / "new" / "out")
    if state == "full":
        small_disk.fill(left_bytes=8192)
        code, why = 1, "No space left on device"
    else:
        small_disk.remount("ro")
        code, why = 2, "Read-only file system"
    assert main(asked) == code
    told = capfd.readouterr().err
    assert len(told.splitlines()) == 1 and why in told and str(small_disk.folder) in told
    assert [
        path.name for path in small_disk.folder.rglob("*") if not path.name.startswith("ballast")
    ] in ([], ["new"])


def test_a_recording_keeps_what_it_had(small_disk, tiny_folder, tmp_path, capfd):
    texts = [f"one two {number} one two {number}" for number in range(12)]
    (tmp_path / "prompts.toml").write_text(
        'title = "t"\n'
        + "".join(
            f'[[prompts]]\nid = "p{n}"\nkind = "any"\ntext = {json.dumps(text)}\n'
            for n, text in enumerate(texts)
        )
    )

    def recorded(out, *more):
        return main(
            [
                "record",
                "--out",
                str(out),
                "--model",
                str(tiny_folder),
                "--prompts",
                str(tmp_path / "prompts.toml"),
                "--drafter",
                "prompt-lookup",
                "--max-new-tokens",
                "40",
                "--threads",
                "1",
                "--quiet",
                *more,
            ]
        )

    assert recorded(tmp_path / "undisturbed") == 0
    capfd.readouterr()
    stopped = _filled_while(small_disk, lambda: recorded(small_disk.folder / "out"))
    told = capfd.readouterr().err
    assert (
        stopped == 1 and "what was finished before is kept" in told and len(told.splitlines()) == 1
    )
    (part,) = (small_disk.folder / "out").iterdir()
    lines = part.read_bytes().splitlines(keepends=True)
    assert len(lines) >= 2 and all(line.endswith(b"\n") and json.loads(line) for line in lines)
    small_disk.empty()
    assert recorded(small_disk.folder / "out", "--resume") == 0
    assert recorded_values(small_disk.folder / "out") == recorded_values(tmp_path / "undisturbed")


def _filled_while(disk, work):
    """Fill the disk after the first lines of a log, and let the work go on."""
    from real_runs.recording import log

    append, appended = log.RecordingLog.append, []

    def counted(self, entry):
        append(self, entry)
        appended.append(entry)
        if len(appended) == 3:
            disk.fill()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(log.RecordingLog, "append", counted)
        return work()


@pytest.mark.parametrize("beside", [False, True])
def test_an_answer_appears_whole_or_not_at_all(small_disk, tmp_path, capfd, beside):
    """The page of an answer, written last, finds no room."""
    out = small_disk.folder / "out"
    words = [
        "optimize",
        "--model",
        "llama-3.1-8b",
        "--device",
        "h100-sxm",
        "--drafter",
        "eagle-3",
        "--batch",
        "1",
        "--quiet",
        "--out",
    ]
    if beside:
        out.mkdir()
        (out / "recommendation.json").write_text("old")
    before = bytes_below(out)
    small_disk.fill(left_bytes=(1 << 20) + (1 << 16))  # the page holds several megabytes of scripts
    assert main([*words, str(out)]) == 1
    assert "No space left on device" in capfd.readouterr().err
    assert bytes_below(out) == before and out.exists() == beside
    assert not list(small_disk.folder.rglob(".*"))
    small_disk.empty()
    small_disk.remount("size=16m")
    assert main([*words, str(out)]) == 0
    assert {"recommendation.json", "report.html"} <= set(bytes_below(out))


def test_a_sweep_keeps_its_shards(small_disk, tmp_path, capfd, monkeypatch):
    (tmp_path / "lists.yaml").write_text(yaml.safe_dump(PLAIN))
    out = small_disk.folder / "cells.parquet"
    words = ["sweep", str(tmp_path / "lists.yaml"), "--workers", "1", "--quiet", "--out"]
    assert main([*words, str(tmp_path / "cells.parquet")]) == 0
    from app.answers.sweep import run

    whole = run._join

    def without_room(*arguments):
        small_disk.fill()
        whole(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(run, "_join", without_room)
        assert main([*words, str(out)]) == 1
    assert "No space left on device" in capfd.readouterr().err and not out.exists()
    small_disk.empty()

    def computed_again(*_):
        raise AssertionError("a shard was computed again")

    monkeypatch.setattr("app.answers.sweep.evaluate.SweepEvaluation.shard", computed_again)
    assert main([*words, str(out), "--resume"]) == 0
    assert out.read_bytes() == (tmp_path / "cells.parquet").read_bytes()


@pytest.mark.parametrize(
    "results", ["merge_job", "merge_recordings", "merge_runs", "write_summary"]
)
def test_a_campaign_keeps_what_found_no_room_among_its_results(
    small_disk, tiny_folder, tmp_path, capfd, monkeypatch, results
):
    """Whichever results a disk is full for, what was measured of their job is not measured
    again."""
    from real_runs.campaigns import campaign as campaigns

    monkeypatch.setattr(
        "real_runs.kernels.timing.LEAST_PROCESS_SHARE", 0.0
    )  # every row, whoever else computes here
    (tmp_path / "prompts.toml").write_text(
        'title = "t"\n[[prompts]]\nid = "p"\nkind = "any"\ntext = "one two one"\n'
    )
    model = {
        "model_file": str(tiny_folder),
        "prompts": str(tmp_path / "prompts.toml"),
        "max_new_tokens": 8,
        "estimate_s": 60,
    }
    timed = {"kind": "launch", "estimate_s": 5, "dtype": "fp32", "repeats": 3, "budget_s": 0.002}
    lookup = {"name": "lookup", "drafter": "prompt-lookup", "draft_tokens": 3}
    jobs = [
        timed | {"name": "one", "kernels": [1, 2]},
        timed | {"name": "two", "kernels": [4]},
        {"name": "record", "kind": "record", "drafters": ["prompt-lookup"]} | model,
        {"name": "decode", "kind": "decode", "configurations": [lookup]} | model,
    ]
    (tmp_path / "campaign.yaml").write_text(
        yaml.safe_dump({"schema": 1, "threads": 1, "jobs": jobs})
    )
    words = [
        "campaign",
        str(tmp_path / "campaign.yaml"),
        "--budget",
        "1h",
        "--no-isolate",
        "--quiet",
        "--out",
    ]
    assert main([*words, str(tmp_path / "undisturbed")]) == 0
    put, perform, calls, performed = getattr(campaigns, results), campaigns.perform, [], []

    def without_room(*arguments):
        calls.append(arguments)
        if results != "merge_job" or len(calls) == 2:  # the rows of the first job are there by then
            small_disk.fill()
        return put(*arguments)

    def counted(job, *arguments, **options):
        performed.append(job.name)
        perform(job, *arguments, **options)

    monkeypatch.setattr(campaigns, "perform", counted)
    capfd.readouterr()
    with monkeypatch.context() as patched:
        patched.setattr(campaigns, results, without_room)
        assert main([*words, str(small_disk.folder / "out")]) == 1
    told = capfd.readouterr().err
    assert len(told.splitlines()) == 1 and str(small_disk.folder / "out") in told
    assert "No space left on device; what was measured is kept, and --resume goes on" in told
    small_disk.empty()
    assert main([*words, str(small_disk.folder / "out"), "--resume"]) == 0
    assert sorted(performed) == ["decode", "one", "record", "two"]
    assert everything_but_times(small_disk.folder / "out") == everything_but_times(
        tmp_path / "undisturbed"
    )
