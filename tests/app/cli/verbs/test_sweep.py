"""`rooftree sweep`: one file, a summary, what moved, and how to go on."""

import json
import os
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

import rooftree as front
from hardware_profiles.errors import InputError

LISTS = (
    "models: [llama-3.1-8b, qwen3-8b]\ndevices: [h100-sxm, l4]\ndrafters: [n-gram:0.6]\nbatches:"
    " [1, 2000]\n"
)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A file of lists and the folder in which its result lies."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "sweep.yaml").write_text(LISTS)
    found = front.sweep(folder / "sweep.yaml", out=folder / "out.parquet", csv=folder / "out.csv")
    return folder, found


def test_the_summary_counts_the_rows_of_the_file(rooftree, swept, tmp_path):
    folder, _ = swept
    words = ("sweep", folder / "sweep.yaml", "--out", tmp_path / "new.parquet")
    answer = rooftree(*words, "--json").answer
    rows = pq.read_table(tmp_path / "new.parquet").to_pylist()
    assert (answer["cells"], answer["computed"]) == (len(rows), len(rows)) == (8, 8)
    assert (
        answer["feasible"]
        == sum(row["feasible"] for row in rows)
        == sum(answer["topologies"].values())
    )
    assert sum(answer["reasons"].values()) == 8 - answer["feasible"] > 0
    assert answer["inputs"]["devices"] == ["h100-sxm", "l4"]
    assert (tmp_path / "new.parquet").read_bytes() == (folder / "out.parquet").read_bytes()
    said = rooftree(*words).out
    assert said.startswith(
        f"8 cells in {tmp_path / 'new.parquet'}, {answer['feasible']} with an answer"
    )
    assert "GiB usable" in said


def test_cells_of_a_load_have_times_and_goodput(rooftree, tmp_path):
    written = LISTS.replace(
        "batches: [1, 2000]", "users: [1, 4]\noutput_tokens: [20]\nslo_tpot: 30"
    )
    (tmp_path / "loads.yaml").write_text(written)
    words = ("sweep", tmp_path / "loads.yaml", "--out", tmp_path / "loads.parquet")
    answer = rooftree(*words, "--json").answer
    rows = pq.read_table(tmp_path / "loads.parquet").to_pylist()
    assert answer["cells"] == len(rows) == 8 and answer["inputs"]["users"] == [1, 4]
    for row in rows:
        assert row["feasible"] and row["users"] in (1, 4) and row["batch"] is None
        assert row["ttft_p99_s"] >= row["ttft_s"] > 0.0 and row["sustained"]
        assert (row["good_ratio"] > 0.5) == (row["tpot_s"] < 0.03)
    moved = rooftree("sweep", "--compare", tmp_path / "loads.parquet", tmp_path / "loads.parquet")
    assert moved.out.startswith("0 cells moved")


def test_nothing_moves_between_a_sweep_and_itself_and_other_lists_bring_other_cells(
    rooftree, swept, tmp_path
):
    folder, _ = swept
    out = folder / "out.parquet"
    same = rooftree("sweep", "--compare", out, out, "--json").answer
    assert (same["same"], same["moved"], same["appeared"], same["disappeared"]) == (8, [], [], [])
    (tmp_path / "other.yaml").write_text(LISTS.replace("[1, 2000]", "[1, 16]"))
    rooftree("sweep", tmp_path / "other.yaml", "--out", tmp_path / "other.parquet")
    found = rooftree(
        "sweep", "--compare", out, tmp_path / "other.parquet", "--csv", tmp_path / "moved.csv"
    )
    assert found.out.startswith(
        "0 cells moved by more than 0.01, 4 did not; 4 appeared, 4 disappeared"
    )
    assert len((tmp_path / "moved.csv").read_text().splitlines()) == 1 + 4 + 4


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ((), "Missing a FILE of lists and '--out'"),
        (("sweep.yaml",), "Missing a FILE of lists and '--out'"),
        (("sweep.yaml", "--compare", "a", "b"), "--compare: goes with --threshold"),
        (("--compare", "absent", "absent"), "absent: there is no such file"),
        (
            ("--compare", "a", "b", "--threshold", "-1"),
            "--threshold: must be a share >= 0, got -1.0",
        ),
        (("absent.yaml", "--out", "x.parquet"), "absent.yaml: there is no such file"),
        (("absent.yaml", "--out", "/"), "--out: must be a file to write"),
    ],
)
def test_words_that_make_no_sense_are_refused(rooftree, tmp_path, monkeypatch, words, rule):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep.yaml").write_text(LISTS)
    done = rooftree("sweep", *words)
    assert done.code == 2
    assert done.err.startswith(f"rooftree: {rule}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweep.yaml"]


def test_an_interrupt_says_how_to_go_on(tmp_path, root):
    (tmp_path / "sweep.json").write_text(
        json.dumps(
            {
                "models": ["llama-3.1-8b"],
                "devices": ["h100-sxm"],
                "drafters": ["n-gram:0.6", "eagle-3:0.7"],
                "batches": [*range(1, 201)],
                "contexts": [*range(1, 101)],
            }
        )
    )
    words = ["sweep", "sweep.json", "--out", "out.parquet", "--workers", "2"]
    code = "import sys; from app.cli.main import main; sys.exit(main())"
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    child = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
        start_new_session=True,
    )
    deadline = time.monotonic() + 300
    while (
        not (tmp_path / "out.parquet.parts" / "sweep.json").exists() and time.monotonic() < deadline
    ):
        time.sleep(0.01)
    os.killpg(child.pid, signal.SIGINT)
    said = child.communicate(timeout=300)[1]
    assert child.returncode == 130
    assert said.endswith(
        "this goes on: rooftree sweep sweep.json --out out.parquet --workers 2 --resume\n"
    )
    left = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in left


def test_python_takes_lists_and_gives_frames(swept, tmp_path):
    folder, found = swept
    frame = found.to_frame()
    assert len(frame) == found["cells"] == 8
    lists = {
        "models": ("llama-3.1-8b", "qwen3-8b"),
        "devices": ["h100-sxm", "l4"],
        "drafters": ["n-gram:0.6"],
        "batches": [1, 2000],
    }
    front.sweep(lists, out=tmp_path / "same.parquet")
    assert (tmp_path / "same.parquet").read_bytes() == (folder / "out.parquet").read_bytes()
    moved = front.sweep(compare=[folder / "out.parquet", tmp_path / "same.parquet"], threshold=0)
    assert moved["same"] == 8
    assert moved.to_frame().empty
    with pytest.raises(InputError, match="Missing a FILE"):
        front.sweep(lists)
