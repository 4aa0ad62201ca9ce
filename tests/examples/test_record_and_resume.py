"""Record overnight, stop it with Ctrl-C, go on the next morning, and lose nothing."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("torch")

from tests.real_runs.conftest import tiny_folder  # noqa: F401
from traces.library import read_trace

PROMPTS = 12
RECORD = (
    "record --drafter prompt-lookup --drafter suffix-automaton --temperature 0 --max-new-tokens 48"
    " --threads 1 --quiet"
)


@pytest.fixture
def words(tiny_folder, tmp_path):  # noqa: F811
    """A recording, as it is typed."""
    blocks = [
        f'[[prompts]]\nid = "p{i}"\nkind = "any"\ntext = "{i} and {i + 1} and "\n'
        for i in range(PROMPTS)
    ]
    (tmp_path / "prompts.toml").write_text('title = "numbers"\n' + "".join(blocks))
    return [
        *shlex.split(RECORD),
        "--model",
        str(tiny_folder),
        "--prompts",
        "prompts.toml",
        "--out",
        "night",
    ]


def lines_of(folder):
    parts = list(folder.glob("*.part.jsonl"))
    return parts[0].read_bytes().count(b"\n") if parts else 0


@pytest.mark.heavy
def test_ctrl_c_says_how_to_go_on_and_nothing_is_lost(words, user, tmp_path, root):
    code = "import sys; from app.cli.main import main; sys.exit(main())"
    night = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while lines_of(tmp_path / "night") < 4 and night.poll() is None:
        time.sleep(0.01)
    night.send_signal(signal.SIGINT)
    _, complaint = night.communicate()
    assert night.returncode == 130, complaint
    assert "--resume" in complaint and "Traceback" not in complaint
    done = [
        json.loads(line)
        for line in next((tmp_path / "night").glob("*.part.jsonl")).read_text().splitlines()
    ]
    assert 1 < len(done) < 2 * PROMPTS

    user(shlex.join(["rooftree", *words, "--resume"]))
    assert not list((tmp_path / "night").glob("*.part*"))
    names = sorted(path.name for path in (tmp_path / "night").glob("*.parquet"))
    assert len(names) == 2
    for name in names:
        whole = read_trace(tmp_path / "night" / name)
        assert sorted(whole.request_ids) == sorted(f"p{at}" for at in range(PROMPTS))

    rows = user(f"rooftree replay night/{names[0]} --draft-tokens 3 --json").answer["chains"]
    assert rows[0]["tokens_per_step"] >= 1.0
