"""The shipped recording with seconds of its steps: replayed, it tells the steps that were timed, and
`validate --trace NAME` has something to read in a fresh clone."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from app.cli.main import main
from real_runs.validation.timed.files import timed_traces
from traces.kinds.tree import chain_tree
from traces.library import recordings, trace_file
from traces.replay.walk import replay_chain

NAME = "timed/smollm2-135m--early-exit--greedy"


@pytest.fixture(scope="module")
def shipped():
    (trace,), others = timed_traces(Path(NAME))
    assert not others
    return trace


def test_it_is_small_and_says_what_it_was_measured_on(shipped):
    assert trace_file(NAME).stat().st_size < 1 << 20 and NAME in recordings()
    assert shipped.level == 3 and shipped.requests == 6
    assert "shared" in shipped.provenance.notes
    steps = shipped.steps
    assert {tree.draft_tokens for tree in steps.shapes} == {0, 2, 3, 6, 8}
    assert set(steps.batch.tolist()) == {1, 2}
    assert (steps.verify_s > 0).all() and (steps.draft_s[steps.drafted > 0] > 0).all()


def test_a_replay_tells_the_steps_that_were_timed(shipped):
    steps = shipped.steps
    for draft_tokens in (2, 3):
        shape = steps.shapes.index(chain_tree(draft_tokens))
        replay = replay_chain(shipped, draft_tokens)
        for request in range(shipped.requests):
            rows = np.arange(*steps.offsets[request : request + 2])
            alone = rows[(steps.shape[rows] == shape) & (steps.batch[rows] == 1)]
            assert len(alone) == replay.steps[request]
            assert steps.emitted[alone].sum() == replay.tokens[request]


def test_predicted_stands_beside_measured(tmp_path, capsys):
    words = ["validate", "--trace", NAME, "--profile", "cpu-amd-epyc--1-thread"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "step by step" in said and "predicted" in said
    report = json.loads((tmp_path / "validation.json").read_text())
    assert {row["agreeing_ratio"] for row in report["steps"]} == {1.0}
    assert {row["batch"] for row in report["points"]} == {1, 2}
    assert all(row["measured_s"] > 0 and row["predicted_s"] > 0 for row in report["steps"])
