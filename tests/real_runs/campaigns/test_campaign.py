"""A campaign keeps to its budget and its order, survives failing jobs and stops, and never repeats
finished work."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml

pytest.importorskip("torch")

import real_runs
from app.cli.main import main
from app.questions.values import Time
from hardware_profiles.errors import InputError
from real_runs.campaigns import campaign as campaigns
from real_runs.campaigns import kernel_job as jobs
from real_runs.campaigns import process as processes
from real_runs.campaigns import results
from real_runs.campaigns.file import digest, read_campaign
from real_runs.campaigns.shipped import campaign_file
from real_runs.drafters.registry import check_drafters, load_drafter
from real_runs.kernels.attention_forms import FORMS
from traces.storage.kernels import KernelProvenance, KernelRow, KernelTrace, write_kernels

SHIPPED = sorted((Path(real_runs.__file__).parent / "campaigns").glob("*.yaml"))
TINY = {
    "kind": "launch",
    "estimate_s": 2,
    "dtype": "fp32",
    "kernels": [1],
    "repeats": 3,
    "budget_s": 0.002,
}


def written(tmp_path, *entries, **settings):
    file = tmp_path / "campaign.yaml"
    file.write_text(
        yaml.safe_dump({"schema": 1, "jobs": [TINY | entry for entry in entries]} | settings)
    )
    return file


def row(**changes):
    sizes = {
        "median_s": 1e-5,
        "low_s": 1e-5,
        "high_s": 1e-5,
        "repeats": 3,
        "flops": 1.0,
        "bytes": 1.0,
    }
    flags = {"cold": True, "graph": False}
    return KernelRow(
        **(
            {"operation": "launch", "implementation": "chain", "dtype": "fp32"}
            | sizes
            | flags
            | changes
        )
    )


@pytest.fixture
def ran(monkeypatch):
    """Names of the jobs that ran, each leaving one row; `bad` raises after leaving its row."""
    names = []

    def fake(job, campaign, *, deadline, should_stop, part, command, measured):
        names.append(job.name)
        trace = KernelTrace(
            rows=(row(rows=len(names)),), provenance=KernelProvenance(command=command)
        )
        if job.name == "bad":
            write_kernels(trace, part)
            raise RuntimeError("an illegal memory access was encountered")
        if job.name == "kill":
            os.kill(os.getpid(), signal.SIGTERM)
        return trace

    monkeypatch.setattr(jobs, "run_job", fake)
    return names


def run(file, out, **options):
    return campaigns.run_campaign(file, **{"budget_s": 100, "out": out, "isolate": False} | options)


def test_a_gpu_that_is_not_there_is_said_once_and_at_once(tmp_path, ran, monkeypatch):
    file = written(tmp_path, {"name": "a"}, {"name": "b"}, device="cuda")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(
        InputError,
        match=r"device: must be a GPU of this machine, and torch \S+ (sees none|is built)",
    ):
        run(file, tmp_path / "out")
    assert ran == [] and not (tmp_path / "out").exists()
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    assert len(run(file, tmp_path / "out").outcomes) == len(ran) == 2


def states(report):
    return {each.name: each.state for each in report.outcomes}


def test_jobs_run_by_priority_while_their_estimates_fit(tmp_path, ran):
    file = written(
        tmp_path,
        {"name": "late", "priority": 9},
        {"name": "long", "priority": 1, "estimate_s": 500},
        {"name": "first", "priority": 0},
        {"name": "second", "priority": 1},
    )
    report = run(file, tmp_path / "out")
    assert ran == ["first", "second", "late"]
    assert states(report) == {
        "first": "finished",
        "long": "skipped",
        "second": "finished",
        "late": "finished",
    }
    kept = results.read_results(tmp_path / "out")
    assert [each.job for each in kept.rows] == ran
    assert set(kept.provenance.extra["jobs"]) == set(ran)


def test_a_failing_job_is_recorded_with_its_rows_and_the_next_one_runs(tmp_path, ran):
    report = run(
        written(tmp_path, {"name": "bad", "priority": 1}, {"name": "good"}), tmp_path / "out"
    )
    assert states(report) == {"bad": "failed", "good": "finished"}
    assert "illegal memory access" in report.outcomes[0].reason and report.outcomes[0].rows == 1
    assert len(results.read_results(tmp_path / "out").rows) == 2


def test_resuming_runs_only_what_is_not_finished_or_has_changed(tmp_path, ran):
    file = written(tmp_path, {"name": "a"}, {"name": "b"}, {"name": "bad"})
    run(file, tmp_path / "out")
    with pytest.raises(InputError, match="--resume"):
        run(file, tmp_path / "out")
    changed = written(
        tmp_path, {"name": "a", "estimate_s": 3}, {"name": "b", "kernels": [2]}, {"name": "bad"}
    )
    ran.clear()
    report = run(changed, tmp_path / "out", resume=True)
    assert ran == ["b", "bad"]
    assert [each.resumed for each in report.outcomes] == [True, False, False]
    assert sorted(each.job for each in results.read_results(tmp_path / "out").rows) == [
        "a",
        "b",
        "bad",
    ]


def test_a_signal_ends_the_campaign_after_the_job_at_hand(tmp_path, ran):
    before = signal.getsignal(signal.SIGTERM)
    report = run(written(tmp_path, {"name": "kill"}, {"name": "after"}), tmp_path / "out")
    assert ran == ["kill"] and states(report) == {"kill": "finished", "after": "stopped"}
    assert signal.getsignal(signal.SIGTERM) is before
    assert (
        json.loads((tmp_path / "out" / "summary.json").read_text())["jobs"]["after"]["state"]
        == "stopped"
    )
    resumed = run(
        written(tmp_path, {"name": "kill"}, {"name": "after"}), tmp_path / "out", resume=True
    )
    assert states(resumed) == {"kill": "finished", "after": "finished"}


def test_what_is_left_lies_in_few_well_named_files(tmp_path, ran):
    run(written(tmp_path, *({"name": f"job-{i}"} for i in range(12))), tmp_path / "out")
    names = [path.name for path in (tmp_path / "out").iterdir()]
    assert sorted(names) == ["kernels.parquet", "summary.json"]


def _full_at_the_third_file(monkeypatch):
    write, written_files = results.write_kernels, []

    def full(trace, path):
        written_files.append(path)
        if len(written_files) == 3:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write(trace, path)

    monkeypatch.setattr(results, "write_kernels", full)


def test_rows_are_packed_into_files_below_the_limit(tmp_path, monkeypatch):
    trace = KernelTrace(rows=tuple(row(rows=i, kernels=f"kernel {i * 7919}") for i in range(4000)))
    write_kernels(trace, tmp_path / "kernels.parquet")
    limit = (tmp_path / "kernels.parquet").stat().st_size * 2 // 3
    results.write_packed(tmp_path, trace, limit_bytes=limit)
    sizes = [path.stat().st_size for path in results.kernel_files(tmp_path)]
    assert len(sizes) >= 2 and max(sizes) <= limit
    assert results.read_results(tmp_path).rows == trace.rows
    results.write_packed(tmp_path, trace)
    assert [path.name for path in results.kernel_files(tmp_path)] == ["kernels.parquet"]
    _full_at_the_third_file(monkeypatch)
    with pytest.raises(OSError, match="No space left"):
        results.write_packed(tmp_path, trace, limit_bytes=limit)
    assert (
        len(results.kernel_files(tmp_path)) == 2
        and results.read_results(tmp_path).rows == trace.rows
    )
    monkeypatch.undo()
    with pytest.raises(InputError, match="files"):
        results.write_packed(tmp_path, trace, limit_bytes=100)


def test_a_job_is_measured_in_a_process_of_its_own(tmp_path):
    report = run(
        written(tmp_path, {"name": "real", "estimate_s": 30}), tmp_path / "out", isolate=True
    )
    # on a busy machine every repeat may be disturbed; the job then says so
    assert (
        states(report) == {"real": "finished"}
        or report.outcomes[0].reason == "no shape could be timed"
    )
    assert sorted(
        path.name for path in (tmp_path / "out").iterdir() if path.suffix != ".parquet"
    ) == [
        "log.txt",
        "summary.json",
    ]
    assert (
        not (tmp_path / "out" / "running.parquet").exists()
        and not (tmp_path / "out" / "work").exists()
    )


def test_a_process_that_dies_is_reported_with_its_last_words(tmp_path, monkeypatch):
    stand_in = tmp_path / "python"
    stand_in.write_text("#!/bin/sh\ncat > /dev/null\necho 'CUDA error: device lost' >&2\nexit 3\n")
    stand_in.chmod(0o755)
    monkeypatch.setattr(processes.sys, "executable", str(stand_in))
    report = run(written(tmp_path, {"name": "a"}, {"name": "b"}), tmp_path / "out", isolate=True)
    assert states(report) == {"a": "failed", "b": "failed"}
    assert report.outcomes[0].reason == "RuntimeError: ended with 3: CUDA error: device lost"


def test_a_job_ends_with_its_campaign(tmp_path):
    """A campaign that is killed leaves nothing that writes into its folder."""
    asked = {
        "job": "a",
        "campaign": {"schema": 1, "jobs": [TINY | {"name": "a"}]},
        "out": str(tmp_path),
    }
    asked |= {"deadline_epoch_s": 0, "command": ""}
    child = f"import os, sys; sys.stdin = open({str(tmp_path / 'asked.json')!r})"
    child += "; from real_runs.campaigns import job_process"
    child += f"; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    child += (
        "; job_process.perform = lambda *a, **k: job_process.time.sleep(3600); job_process.main()"
    )
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    parent = (
        f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]);"
        " time.sleep(3600)"
    )
    root = str(Path(real_runs.__file__).parent.parent)
    process = subprocess.Popen(
        [sys.executable, "-c", parent], env={**os.environ, "PYTHONPATH": root}
    )
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    number = int((tmp_path / "pid").read_text())
    os.kill(number, 0)
    process.kill()
    process.wait()
    until(lambda: not alive(number))


def until(holds):
    end = time.monotonic() + 300  # far less than the job would take that is waited for
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def alive(number):
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


class FakeChild:
    """A process that ends only when killed."""

    def __init__(self):
        self.signals, self.dead = [], threading.Event()

    def poll(self):
        return -9 if self.dead.is_set() else None

    def send_signal(self, number):
        self.signals.append(number)

    def kill(self):
        self.dead.set()

    def wait(self):
        return -9


def test_a_job_that_hangs_is_asked_to_end_and_then_killed(monkeypatch):
    monkeypatch.setattr(processes, "GRACE_S", 0.1)
    child = FakeChild()
    with pytest.raises(RuntimeError, match="killed"):
        processes.await_child(child, processes.time.monotonic() - 60, processes.StopSignal())
    assert child.signals == [signal.SIGTERM] and child.dead.is_set()


@pytest.mark.parametrize(
    "path", [path for path in SHIPPED if "synthetic" not in path.stem], ids=lambda path: path.stem
)
def test_shipped_campaigns_fit_their_slot_and_name_what_exists(path):
    from costmodel.architectures.library import load_model

    campaign = read_campaign(path)
    records = "record" in path.stem  # when somebody wants them, as long as they take
    within, left = [], float("inf") if records else 534.0
    for job in campaign.by_priority():
        if job.estimate_s <= left:
            within.append(job)
            left -= job.estimate_s
    validates = path.stem.startswith("validate-")
    real = "record" if campaign.device == "cpu" else "decode"  # a CPU records as well as a GPU does
    wanted = {"steps"} if validates else {"attention", "copy", "gemm", "launch", "steps", real}
    assert records or {job.kind for job in within} >= wanted
    assert not validates or within == campaign.by_priority(), "a validation campaign fits whole"
    assert [job.priority for job in within[:6]] == sorted(job.priority for job in campaign.jobs)[:6]
    for job in campaign.jobs:
        for model in getattr(job, "models", None) or [getattr(job, "model", "smollm2-135m")]:
            assert load_model(model).layers > 0
        for each in getattr(job, "configurations", ()):
            assert load_drafter(each.drafter).propose is not None
        if job.kind == "record":
            check_drafters(job.drafters)
        assert set(getattr(job, "implementations", None) or ()) <= set(FORMS)
    first = campaign.by_priority()[0]
    assert validates or records or (first.kind == "attention" and max(first.query_tokens) == 128)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"speed": 1}, "speed"),
        ({"kernels": []}, "kernels"),
        ({"kernels": [0]}, "kernels"),
        ({"estimate_s": 0}, "estimate_s"),
        ({"kind": "dance"}, "jobs.0"),
        ({"name": "../x"}, "name"),
        ({"dtype": "fp8"}, "fp8 is for gemm"),
        ({"priority": -1}, "priority"),
    ],
)
def test_a_bad_job_is_refused_by_file_and_key(tmp_path, change, word):
    with pytest.raises(InputError, match=word) as caught:
        read_campaign(written(tmp_path, {"name": "a"} | change))
    assert "campaign.yaml" in str(caught.value)


def test_jobs_of_models_are_checked_before_they_run(tmp_path):
    decode = {"name": "d", "kind": "decode", "estimate_s": 9}
    chain = {"name": "k", "drafter": "prompt-lookup", "draft_tokens": 3}
    bad = {
        "plain": {"configurations": [chain | {"name": "plain"}]},
        "unique": {"configurations": [chain, chain]},
        "has one of": {"configurations": [chain | {"tree": {"parents": [-1, 0], "ranks": [0, 0]}}]},
        "topological": {
            "configurations": [
                {"name": "t", "drafter": "x", "tree": {"parents": [-1, 1], "ranks": [0, 0]}}
            ]
        },
        "speed is none of": {"configurations": [chain], "drafter_options": {"speed": 1}},
        "out of range": {"configurations": [chain], "drafter_options": {"least_match": 0}},
    }
    for word, change in bad.items():
        file = tmp_path / "campaign.yaml"
        file.write_text(yaml.safe_dump({"schema": 1, "jobs": [decode | change]}))
        with pytest.raises(InputError, match=word):
            read_campaign(file)


def test_a_model_file_is_part_of_a_job_by_its_name_alone(tmp_path):
    def known(path):
        entry = {
            "name": "r",
            "kind": "record",
            "estimate_s": 9,
            "drafters": ["prompt-lookup"],
            "model_file": path,
        }
        (tmp_path / "campaign.yaml").write_text(yaml.safe_dump({"schema": 1, "jobs": [entry]}))
        campaign = read_campaign(tmp_path / "campaign.yaml")
        return digest(campaign, campaign.jobs[0])

    assert known("/one/place/a.gguf") == known("other/a.gguf") != known("other/b.gguf")


def test_a_job_whose_model_is_absent_is_skipped_and_nothing_tells_where_it_was_sought(tmp_path):
    entry = {"name": "r", "kind": "record", "estimate_s": 9, "drafters": ["prompt-lookup"]}
    file = tmp_path / "campaign.yaml"
    file.write_text(yaml.safe_dump({"schema": 1, "jobs": [entry]}))
    report = run(file, tmp_path / "out", model_file=tmp_path / "absent.gguf")
    assert [each.state for each in report.outcomes] == ["skipped"]
    assert ".gguf" in report.outcomes[0].reason
    assert str(tmp_path) not in (tmp_path / "out" / "summary.json").read_text()


def test_a_folder_is_held_against_a_second_campaign(tmp_path, ran, monkeypatch):
    monkeypatch.setattr(processes, "LOCK_WAIT_S", 0.1)
    out = tmp_path / "out"
    out.mkdir()
    with processes.locked(out), pytest.raises(InputError, match="another run"):
        run(written(tmp_path, {"name": "a"}), out)
    assert states(run(written(tmp_path, {"name": "a"}), out)) == {"a": "finished"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1",
        "schema: 2\njobs: []",
        "!!python/object/apply:os.system ['true']",
        "schema: 1\njobs: 3",
        "\x00",
    ],
)
def test_a_file_that_is_no_campaign_is_refused(tmp_path, text):
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(InputError):
        read_campaign(tmp_path / "c.yaml")
    with pytest.raises(InputError):
        read_campaign(tmp_path / "absent.yaml")


def test_names_are_unique_and_digests_follow_the_parameters(tmp_path):
    with pytest.raises(InputError, match="unique"):
        read_campaign(written(tmp_path, {"name": "a"}, {"name": "a"}))
    one = read_campaign(written(tmp_path, {"name": "a"}))
    same = read_campaign(written(tmp_path, {"name": "a", "estimate_s": 9, "priority": 3}))
    other = read_campaign(written(tmp_path, {"name": "a"}, threads=2))
    digests = [digest(each, each.jobs[0]) for each in (one, same, other)]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    ("text", "value"), [("540", 540), ("540s", 540), ("9m", 540), ("1.5h", 5400)]
)
def test_budgets_are_read_with_their_unit(text, value):
    assert Time().read(text) == value


@pytest.mark.parametrize("text", ["", "0", "-1", "9 m", "1d", "nan", "1e3"])
def test_other_budgets_are_refused(text):
    with pytest.raises(InputError, match="must be a positive time such as 540s, 9m or 1h"):
        Time().read(text)


def test_the_command_measures_and_answers_in_json(tmp_path, capsys):
    arguments = [
        "kernels",
        "attention",
        "--query-tokens",
        "1,4",
        "--context",
        "64",
        "--repeats",
        "3",
    ]
    forms = ["--implementation", "sdpa-packed", "--implementation", "flash"]
    assert main([*arguments, *forms, "--budget", "20s", "--json", "--out", str(tmp_path)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == 4 and answer["inputs"]["query_tokens"] == [1, 4]
    assert {each["reason"] for each in answer["skipped"]} >= {"does not run on cpu"}
    assert len(results.read_results(tmp_path).rows) == len(answer["rows"]) <= 2


def test_the_command_refuses_what_it_cannot_do(tmp_path, capsys):
    assert main(["kernels", "softmax"]) == 2
    assert main(["kernels", "gemm", "--dtype", "fp12"]) == 2
    assert main(["campaign", str(tmp_path / "none.yaml")]) == 2
    assert main(["campaign", "cpu", "--budget", "soon"]) == 2
    assert "dtype" in capsys.readouterr().err
    assert (
        campaign_file(Path("cpu")).exists() and campaign_file(tmp_path / "cpu") == tmp_path / "cpu"
    )
