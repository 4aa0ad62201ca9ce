"""A whole recording of a tiny model: its files, a kill half-way, and what is refused."""

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from hardware_profiles.errors import InputError, UnknownNameError
from real_runs.recording.options import RecordOptions
from real_runs.recording.record import record
from traces.replay.walk import replay_chain
from traces.storage.acceptance_file import read_acceptance

PROMPTS = """
title = "four"
[[prompts]]
id = "a"
kind = "short"
text = "abc abc abc"
[[prompts]]
id = "b"
kind = "short"
text = "Hello!"
[[prompts]]
id = "c"
kind = "long"
text = "one two three, one two three, one two four"
[[prompts]]
id = "d"
kind = "long"
text = "def f(x):\\n    return x\\n\\ndef g(x):\\n    return"
"""
KILLED_AFTER = 5
CHILD = """
import os, signal, sys
from pathlib import Path
from real_runs.recording.record import record
from real_runs.recording.options import RecordOptions

def killed(progress):
    if progress.stage == "record" and progress.done == {after}:
        os.kill(os.getpid(), signal.SIGKILL)

record(RecordOptions(out=Path(sys.argv[1]), model=Path(sys.argv[2]), prompts=Path(sys.argv[3]), {options}),
       progress=killed)
"""
DRAFTERS = ("prompt-lookup", "early-exit")
SMALL = {
    "drafters": DRAFTERS,
    "max_new_tokens": 24,
    "fit_characters": 3000,
    "fit_answers": 2,
    "threads": 1,
}
TIMES = ("_wall_s", "_cpu_s")
NAMES = [
    f"tiny-llama--{drafter}--{mode}.parquet" for mode in ("greedy", "t0.8") for drafter in DRAFTERS
]


@pytest.fixture(scope="module")
def options(tiny_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recording")
    (folder / "prompts.toml").write_text(PROMPTS)
    return RecordOptions(
        out=folder / "undisturbed", model=tiny_folder, prompts=folder / "prompts.toml", **SMALL
    )


@pytest.fixture(scope="module")
def undisturbed(options):
    seen = []
    return record(options, progress=seen.append), seen


def columns(path):
    """Every column of a trace but the times, and its provenance."""
    trace = read_acceptance(path)
    extra = {
        name: list(column)
        for name, column in trace.extra_columns.items()
        if not f"_{name}".endswith(TIMES)
    }
    arrays = {
        name: None if values is None else values.tolist()
        for name, values in (
            ("emitted", trace.emitted),
            ("drafted", trace.drafted),
            ("rank", trace.rank),
        )
    }
    shapes = (
        trace.request_ids,
        trace.prompt_kinds,
        trace.prompt_tokens.tolist(),
        trace.offsets.tolist(),
    )
    return shapes, arrays, extra, trace.provenance


def test_one_file_per_drafter_and_mode(options, undisturbed):
    report, seen = undisturbed
    assert [file.path.name for file in report.files] == NAMES
    left = sorted(path.name for path in options.out.iterdir())
    assert left == sorted([*NAMES, "tiny-llama--exit1-bridge.safetensors"])
    assert [p.done for p in seen if p.stage == "record"] == list(range(1, 9))
    assert {p.total for p in seen if p.stage == "record"} == {8}
    assert seen[-1].detail == "t0.8 d"


def test_files_say_what_they_are(undisturbed):
    report, _ = undisturbed
    for file in report.files:
        trace = read_acceptance(file.path)
        provenance = trace.provenance
        assert trace.level == (2 if file.drafter == "early-exit" else 1)
        method = {"prompt-lookup": "n-gram", "early-exit": "early-exit"}[file.drafter]
        assert (provenance.method, provenance.dtype) == (method, "float32")
        assert provenance.sampling["temperature"] == file.temperature
        assert provenance.dataset == "four"
        assert len(provenance.dataset_sha256) == len(provenance.extra["model_sha256"]) == 64
        assert "1 thread" in provenance.device
        assert trace.request_ids == ("a", "b", "c", "d")
        assert trace.first_step_position == 1
        assert set(trace.extra_columns["ended"]) <= {"eos", "length", "loop"}
        assert trace.extra_columns["tokens"] == trace.output_tokens.tolist()
        assert all(value > 0 for value in trace.extra_columns["wall_s"])
        looped = sum(trace.extra_columns["looped_tokens"]) / trace.positions
        assert provenance.extra["looped_ratio"] == file.looped_ratio == pytest.approx(looped)


def test_both_drafters_watched_the_same_text(undisturbed):
    report, _ = undisturbed
    for mode in (0.0, 0.8):
        digests = [
            read_acceptance(file.path).extra_columns["output_sha256"]
            for file in report.files
            if file.temperature == mode
        ]
        assert digests[0] == digests[1]


def test_results_by_kind_are_those_of_a_replay(undisturbed):
    report, _ = undisturbed
    for file in report.files:
        trace = read_acceptance(file.path)
        kinds = trace.provenance.extra["results"]
        assert list(kinds) == ["short", "long", "all"]
        assert (
            kinds["short"]["tokens"] + kinds["long"]["tokens"]
            == kinds["all"]["tokens"]
            == file.tokens
        )
        expected = replay_chain(trace.select([2, 3]), 3).tokens_per_step
        assert kinds["long"]["tokens_per_step"]["3"] == pytest.approx(expected, abs=1e-4)


def test_killed_and_resumed_equals_undisturbed(options, undisturbed, tmp_path):
    resumed = replace(options, out=tmp_path / "resumed", resume=True)
    code = CHILD.format(
        after=KILLED_AFTER, options=", ".join(f"{k}={v!r}" for k, v in SMALL.items())
    )
    arguments = [sys.executable, "-c", code, resumed.out, options.model, options.prompts]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    died = subprocess.run(arguments, env=environment, capture_output=True, check=False, timeout=300)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    part = resumed.out / "tiny-llama.part.jsonl"
    lines = part.read_bytes().splitlines(keepends=True)
    assert len(lines) == 1 + KILLED_AFTER
    part.write_bytes(
        b"".join(lines) + lines[-1][:50]
    )  # as if it had died while writing the next one

    with pytest.raises(InputError, match="resume it or delete it"):
        record(replace(resumed, resume=False))
    with pytest.raises(InputError, match="seed"):
        record(replace(resumed, seed=1))

    runs = []
    report = record(resumed, progress=runs.append)
    assert [file.path.name for file in report.files] == NAMES
    assert not part.exists()
    for name in NAMES:
        assert columns(resumed.out / name) == columns(options.out / name)
    assert not [p for p in runs if p.stage == "fit"], "the bridge is read, not fitted again"


def test_kept_requests_are_not_run_again(options, undisturbed, tmp_path, monkeypatch):
    """Resuming a recording that lacks nothing runs the model no more."""
    import real_runs.decoding.generate as module

    out = tmp_path / "again"

    def stopped(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("real_runs.recording.recorder.write_recordings", stopped)
    with pytest.raises(KeyboardInterrupt):
        record(replace(options, out=out))
    monkeypatch.undo()
    monkeypatch.setattr(module, "generate", stopped)
    record(replace(options, out=out, resume=True))
    for name in NAMES:
        assert columns(out / name) == columns(options.out / name)


def test_sampling_differs_from_greedy_and_follows_the_seed(options, undisturbed, tmp_path):
    report, _ = undisturbed
    reseeded = record(
        replace(options, out=tmp_path, seed=9, drafters=("prompt-lookup",), temperatures=(0.8, 0.0))
    )
    by_mode = {
        (seed, file.temperature): read_acceptance(file.path).extra_columns["output_sha256"]
        for seed, made in ((0, report), (9, reseeded))
        for file in made.files
    }
    assert by_mode[0, 0.0] == by_mode[9, 0.0]
    assert by_mode[0, 0.8] != by_mode[9, 0.8]
    assert by_mode[0, 0.8] != by_mode[0, 0.0]


@pytest.mark.parametrize(
    "changes",
    [
        {"max_new_tokens": 0},
        {"drafters": ()},
        {"temperatures": (0.0, 0.0)},
        {"temperatures": (-1.0,)},
        {"temperatures": (float("nan"),)},
        {"dtype": "float64"},
        {"threads": 0},
        {"prompts_per_kind": 0},
    ],
)
def test_options_out_of_range_are_refused(tmp_path, changes):
    with pytest.raises(InputError, match=next(iter(changes))):
        RecordOptions(out=tmp_path, **changes)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"drafters": ("eagle",)}, UnknownNameError, "unknown drafter 'eagle'"),
        ({"exit_layer": 4}, InputError, "exit_layer"),
        ({"device": "abacus"}, InputError, "device"),
        ({"max_new_tokens": 500, "drafters": ("prompt-lookup",)}, InputError, "prompt must have"),
    ],
)
def test_what_the_model_cannot_do_is_refused(options, tmp_path, changes, error, message):
    with pytest.raises(error, match=message):
        record(replace(options, out=tmp_path, **changes))


def test_ranks_and_lengths_describe_real_drafts(undisturbed):
    """Neither file is trivial: some drafts are right and some are wrong."""
    report, _ = undisturbed
    for file in report.files:
        trace = read_acceptance(file.path)
        if trace.rank is not None:
            assert {0, -1} < set(trace.rank.tolist())
        else:
            assert trace.drafted.max() > 0
        lowest = (
            1.0 if file.temperature else 1.05
        )  # random weights repeat themselves when greedy alone
        assert lowest <= replay_chain(trace, 4).tokens_per_step < 5.0
