"""Commands that are killed at twenty points each, half of them between two changes on the disk.

They go on, or begin anew, and leave what an undisturbed command leaves: bytes, or of what was timed
everything but the times. Of commands that write an answer at once, nothing or all of it is there at
every moment.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip("torch")

from tests.faults.held import (
    bytes_below,
    calibrated_values,
    campaign_values,
    recorded_values,
    validated_values,
)

KILLS = 20
MOST_LIVES = 120

pytestmark = pytest.mark.faults


class Nursery:
    """Processes that have loaded everything and wait for words."""

    def __init__(self, folder, *, torch):
        self.folder, self.log = folder, folder.with_name("log.txt")
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-W",
                "ignore",
                Path(__file__).with_name("nursery.py"),
                *(["torch"] if torch else []),
            ],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def lives(self, words, *, folder=None, after_s=None, at_change=None, steady=False):
        order = {
            "words": [str(word) for word in words],
            "folder": str(folder or self.folder),
            "log": str(self.log),
            "after_s": after_s,
            "at_change": at_change,
            "steady": steady,
        }
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert answer["code"] in (0, -signal.SIGKILL), (answer, self.log.read_text()[-2000:])
        return answer

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def nursery(tmp_path, request):
    work = tmp_path / "work"
    work.mkdir()
    with_torch = not request.node.get_closest_marker("no_torch")
    process = Nursery(work, torch=with_torch)
    yield process
    process.close()


def killed_and_resumed(nursery, words, values, *, steady=False, seed=7):
    """Lives that end in twenty kills; whenever a command comes to its end all the same, its values
    are compared.

    Budgets are hours, so that how busy the machine is leaves nothing out.
    """
    moments = random.Random(seed)
    nursery.lives(words("first"), steady=steady)  # whose imports take longer than all the rest
    whole = nursery.lives(words("undisturbed"), steady=steady)
    expected = values(nursery.folder / "undisturbed")
    kills = lives = finished = 0
    out = nursery.folder / "killed"
    while kills < KILLS:
        lives += 1
        assert lives < MOST_LIVES
        if kills % 2:
            ended = nursery.lives(
                [*words("killed"), "--resume"],
                steady=steady,
                after_s=moments.uniform(0, 0.9 * whole["seconds"]),
            )
        else:
            ended = nursery.lives(
                [*words("killed"), "--resume"],
                steady=steady,
                at_change=moments.randint(1, max(2, whole["changes"] // 2)),
            )
        if ended["code"] == 0:
            finished += 1
            assert values(out) == expected
            shutil.rmtree(out)
        else:
            kills += 1
    nursery.lives([*words("killed"), "--resume"], steady=steady)
    assert values(out) == expected
    assert not list(out.parent.glob(".*.part")), "what the dead left is swept"
    return {"kills": kills, "lives": lives, "finished": finished, "changes": whole["changes"]}


def killed_and_begun_anew(nursery, words, *, seed=7):
    """Kills of a command that answers at once, into a place that is free or over an earlier
    answer."""
    moments = random.Random(seed)
    first, undisturbed = nursery.folder / "first", nursery.folder / "undisturbed"
    for folder in (first, undisturbed):  # the imports of the first take longer than all the rest
        folder.mkdir()
        whole = nursery.lives(words, folder=folder)
    expected = bytes_below(undisturbed)
    for kill in range(KILLS):
        folder = nursery.folder / f"killed-{kill}"
        folder.mkdir()
        beside = kill % 4 > 1  # in the place of an answer that is there
        if beside:
            shutil.copytree(undisturbed, folder, dirs_exist_ok=True)
            for file in (path for path in folder.rglob("*") if path.is_file()):
                file.write_text("old")
        if kill % 2:
            moment = {"after_s": moments.uniform(0, whole["seconds"])}
        else:
            moment = {"at_change": moments.randint(1, whole["changes"])}
        nursery.lives(words, folder=folder, **moment)
        left = bytes_below(folder)
        if not beside:
            assert left in ({}, expected), moment
        else:
            assert left.keys() == expected.keys()
            assert all(content in (b"old", expected[name]) for name, content in left.items()), (
                moment
            )
        nursery.lives(words, folder=folder)
        assert bytes_below(folder) == expected
        assert not list(folder.rglob(".*")), "what the dead left is swept"
        shutil.rmtree(folder)


@pytest.fixture
def prompts(tmp_path):
    texts = [
        "abc abc abc",
        "Hello!",
        "one two one two one",
        "def f(x):\n    return x\n",
        "x",
        "10 9 8 7",
    ]
    lines = [
        'title = "six"',
        *(
            f'[[prompts]]\nid = "p{i}"\nkind = "any"\ntext = {json.dumps(text)}'
            for i, text in enumerate(texts)
        ),
    ]
    (tmp_path / "prompts.toml").write_text("\n".join(lines))
    return tmp_path / "prompts.toml"


def test_record(nursery, tiny_folder, prompts):
    killed_and_resumed(
        nursery,
        lambda out: [
            "record",
            "--out",
            out,
            "--model",
            tiny_folder,
            "--prompts",
            prompts,
            "--drafter",
            "prompt-lookup",
            "--drafter",
            "layer-skip",
            "--no-skip-bridge",
            "--max-new-tokens",
            "12",
            "--threads",
            "1",
            "--quiet",
        ],
        recorded_values,
    )


def test_campaign(nursery, tiny_folder, prompts, tmp_path):
    model = {
        "model_file": str(tiny_folder),
        "prompts": str(prompts),
        "max_new_tokens": 12,
        "estimate_s": 600,
        "drafter_options": {"fit_answers": 0, "fit_characters": 2000, "exit_layer": 1},
    }
    timed = {
        "estimate_s": 600,
        "dtype": "fp32",
        "repeats": 3,
        "budget_s": 0.002,
        "kernel_names": False,
    }
    lookup = {"name": "lookup", "drafter": "prompt-lookup", "draft_tokens": 3}
    jobs = [
        {"name": "launch", "kind": "launch", "kernels": [1, 2], "priority": 1} | timed,
        {"name": "record", "kind": "record", "drafters": ["prompt-lookup"], "priority": 2} | model,
        {"name": "decode", "kind": "decode", "configurations": [lookup], "rounds": 2, "priority": 3}
        | model,
        {"name": "copy", "kind": "copy", "sizes_bytes": [65536], "priority": 4} | timed,
    ]
    file = tmp_path / "campaign.yaml"
    file.write_text(yaml.safe_dump({"schema": 1, "threads": 1, "jobs": jobs}))
    killed_and_resumed(
        nursery,
        lambda out: ["campaign", file, "--budget", "3h", "--out", out, "--no-isolate", "--quiet"],
        campaign_values,
        steady=True,
    )


def test_validate(nursery, tiny_folder, tmp_path):
    from tests.real_runs.validation.own_loop.test_validate import PROMPTS

    (tmp_path / "kinds.toml").write_text(PROMPTS)
    killed_and_resumed(
        nursery,
        lambda out: [
            "validate",
            "--profile",
            "cpu-generic",
            "--model",
            tiny_folder,
            "--prompts",
            tmp_path / "kinds.toml",
            "--fidelity",
            "calibrated",
            "--context",
            "0",
            "--fit-context",
            "120",
            "--new-tokens",
            "4",
            "--rounds",
            "1",
            "--per-cell",
            "1",
            "--batch",
            "1",
            "--drafter",
            "prompt-lookup",
            "--keep-disturbed",
            "--budget",
            "3h",
            "--out",
            out,
            "--quiet",
        ],
        validated_values,
    )


def test_calibrate(nursery):
    killed_and_resumed(
        nursery,
        lambda out: [
            "calibrate",
            "--here",
            "cpu",
            "--budget",
            "3h",
            "--results",
            out,
            "--quiet",
        ],
        calibrated_values,
        steady=True,
    )


@pytest.mark.no_torch
def test_sweep(nursery, tmp_path):
    from tests.app.answers.sweep.conftest import PLAIN

    (tmp_path / "lists.yaml").write_text(yaml.safe_dump(PLAIN))
    killed_and_resumed(
        nursery,
        lambda out: [
            "sweep",
            tmp_path / "lists.yaml",
            "--out",
            f"{out}/cells.parquet",
            "--csv",
            f"{out}/cells.csv",
            "--workers",
            "1",
            "--quiet",
        ],
        bytes_below,
    )


@pytest.mark.no_torch
def test_optimize(nursery):
    killed_and_begun_anew(
        nursery,
        [
            "optimize",
            "--model",
            "llama-3.1-8b",
            "--device",
            "h100-sxm",
            "--drafter",
            "eagle-3",
            "--batch",
            "1,8",
            "--out",
            "out",
            "--quiet",
        ],
    )


@pytest.mark.no_torch
def test_traces_import(nursery, tmp_path):
    requests = [{"prompt_tokens": 5, "emitted": [3, 2, 1, 1]}] * 4000
    (tmp_path / "engine.json").write_text(json.dumps({"requests": requests}))
    killed_and_begun_anew(
        nursery,
        ["traces", "import", tmp_path / "engine.json", "--out", "out/engine.parquet", "--quiet"],
    )
