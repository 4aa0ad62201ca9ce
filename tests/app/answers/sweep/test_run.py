"""A sweep's file is the same on any number of workers, and after any of them, or all, are
killed."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.answers.sweep import workers
from app.answers.sweep.evaluate import SweepEvaluation
from app.answers.sweep.file import Sweep, SweepFile
from app.answers.sweep.run import run_sweep
from app.answers.sweep.table import COLUMNS
from hardware_profiles.errors import InputError
from tests.app.answers.sweep.conftest import PLAIN
from tests.property_examples import examples

LIMIT_S = 300


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The sweep of plain cells, computed in this process, and what its file is."""
    folder = tmp_path_factory.mktemp("undisturbed")
    sweep = Sweep(lists=SweepFile(**PLAIN), folder=folder)
    run_sweep(sweep, folder / "out.parquet", csv_file=folder / "out.csv", workers=1)
    return sweep, folder


@given(data=st.data())
@settings(max_examples=examples(6), deadline=None)
def test_a_shard_is_the_same_whoever_computes_it_and_when(undisturbed, data):
    """Shards dealt out among workers in any way, each of which computes its own in any order."""
    sweep, folder = undisturbed
    count = SweepEvaluation(sweep, 0).cells.shards
    assert count == 3
    owners = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    order = data.draw(st.permutations(range(count)))
    evaluations = [SweepEvaluation(sweep, 0) for _ in range(4)]
    tables = {shard: evaluations[owners[shard]].shard(shard) for shard in order}
    whole = pq.read_table(folder / "out.parquet").replace_schema_metadata(None)
    at = 0
    for shard in range(count):
        assert tables[shard].equals(whole.slice(at, tables[shard].num_rows))
        at += tables[shard].num_rows
    assert at == whole.num_rows


def test_processes_write_the_same_bytes_and_one_that_is_killed_is_replaced(
    undisturbed, tmp_path, monkeypatch
):
    """Called from a folder that holds a package of the name of ours."""
    sweep, folder = undisturbed
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("raise SystemExit('this is not ours')")
    monkeypatch.chdir(tmp_path)
    killed = []

    def kill_one(done, total):
        children = subprocess.run(
            ["ps", "--ppid", str(os.getpid()), "-o", "pid=,args="],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        alive = [int(line.split()[0]) for line in children if "app.answers.sweep.worker" in line]
        if alive and not killed:
            killed.append(alive[0])
            os.kill(alive[0], signal.SIGKILL)

    summary = run_sweep(
        sweep, tmp_path / "two.parquet", csv_file=tmp_path / "two.csv", workers=2, report=kill_one
    )
    assert killed
    assert (summary.cells, summary.computed, summary.workers) == (40, 40, 2)
    assert digest(tmp_path / "two.parquet") == digest(folder / "out.parquet")
    assert digest(tmp_path / "two.csv") == digest(folder / "out.csv")
    assert not (tmp_path / "two.parquet.parts").exists()


def test_a_shard_that_kills_every_process_ends_the_sweep(undisturbed, tmp_path, monkeypatch):
    dying = [sys.executable, "-c", "import sys; sys.stdin.readline(); sys.exit(9)"]
    real = subprocess.Popen
    monkeypatch.setattr(
        workers.subprocess, "Popen", lambda words, **options: real(dying, **options)
    )
    with pytest.raises(InputError, match=r"3 processes ended in it \(the last with 9\)"):
        run_sweep(undisturbed[0], tmp_path / "out.parquet", workers=2)
    assert (tmp_path / "out.parquet.parts").exists()
    assert not (tmp_path / "out.parquet").exists()


def test_a_sweep_that_is_killed_goes_on_and_ends_in_the_same_bytes(undisturbed, tmp_path, root):
    """SIGKILL for the sweep and all that it started; the second run computes only what is
    missing."""
    _, folder = undisturbed
    (tmp_path / "plain.json").write_text(json.dumps(PLAIN))
    out = tmp_path / "out.parquet"
    words = ["sweep", str(tmp_path / "plain.json"), "--out", str(out), "--workers", "1", "--json"]
    command = [
        sys.executable,
        "-c",
        "import sys; from app.cli.main import main; sys.exit(main())",
        *words,
    ]
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    running = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": path}}
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True, **running)
    parts = Path(f"{out}.parts")
    deadline = time.monotonic() + LIMIT_S
    while (
        not list(parts.glob("part-*.parquet"))
        and child.poll() is None
        and time.monotonic() < deadline
    ):
        time.sleep(0.002)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    finished = len(list(parts.glob("part-*.parquet")))
    assert finished >= 1
    assert not out.exists()
    refused = subprocess.run(command, capture_output=True, text=True, check=False, **running)
    assert refused.returncode == 2
    assert "pass --resume to go on" in refused.stderr
    again = subprocess.run(
        [*command, "--resume"], capture_output=True, text=True, check=True, **running
    )
    answer = json.loads(again.stdout)
    assert answer["cells"] == 40
    assert answer["computed"] < 40
    assert digest(out) == digest(folder / "out.parquet")


def test_parts_of_another_sweep_or_none_are_refused(undisturbed, tmp_path):
    sweep, _ = undisturbed
    out = tmp_path / "out.parquet"
    parts = tmp_path / "out.parquet.parts"
    parts.mkdir()
    (parts / "mine.txt").write_text("keep me")
    with pytest.raises(InputError, match="no sweep's"):
        run_sweep(sweep, out, workers=1)
    assert (parts / "mine.txt").read_text() == "keep me"
    (parts / "mine.txt").unlink()
    (parts / "sweep.json").write_text('{"digest": "of another"}')
    with pytest.raises(InputError, match="pass --resume"):
        run_sweep(sweep, out, workers=1)
    with pytest.raises(InputError, match="other lists, files, seed or release"):
        run_sweep(sweep, out, workers=1, resume=True)
    (parts / "sweep.json").write_text("{")
    with pytest.raises(InputError, match="other lists, files, seed or release"):
        run_sweep(sweep, out, workers=1, resume=True)


def test_a_damaged_part_is_computed_again_and_a_finished_sweep_is_not(undisturbed, tmp_path):
    sweep, folder = undisturbed
    out, parts = tmp_path / "out.parquet", tmp_path / "out.parquet.parts"
    parts.mkdir()
    (parts / "sweep.json").write_text(json.dumps({"digest": sweep.digest(0)}))
    (parts / "part-000001.parquet").write_bytes((folder / "out.parquet").read_bytes()[:-3])
    summary = run_sweep(sweep, out, workers=1, resume=True)
    assert summary.computed == 40
    assert digest(out) == digest(folder / "out.parquet")
    again = run_sweep(sweep, out, csv_file=tmp_path / "late.csv", workers=1, resume=True)
    assert (again.cells, again.computed) == (40, 0)
    assert digest(tmp_path / "late.csv") == digest(folder / "out.csv")


def test_the_file_says_what_it_is(undisturbed):
    sweep, folder = undisturbed
    table = pq.read_table(folder / "out.parquet")
    assert tuple(table.column_names) == COLUMNS
    about = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    assert json.loads(about["rooftree.sweep.lists"])["models"] == PLAIN["models"]
    assert about["rooftree.sweep.digest"] == sweep.digest(0)
    lines = (folder / "out.csv").read_text().splitlines()
    assert lines[0].split(",") == list(COLUMNS)
    assert len(lines) == 41
