"""Scripts in processes of their own that believe in a GPU (`pretend_cuda`), with models small
enough to run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAD = """
import torch
from tests.real_runs import pretend_cuda
pretend_cuda.install()
from dataclasses import replace
from real_runs.kernels import machine as machines, probes, step
from real_runs.kernels.timing import CaptureError, Effort, measure
from real_runs.models.graphs import StaticPass
PLACE = torch.device("cuda")
machines._probe = lambda place, dtype: (1e10, 1e12)
machines._cache_bytes = lambda place: 1 << 14
def tiny(model):
    (block, layers), = model.blocks
    attention, feed_forward = replace(block.attention, heads=3, kv_heads=1), replace(block.feed_forward, width=96)
    blocks = ((replace(block, attention=attention, feed_forward=feed_forward), layers),)
    return replace(model, hidden=64, vocab=64, blocks=blocks)

TINY = tiny(probes.load_model("smollm2-135m").with_layers(2))
"""
# starts a process for every script, in which all of that is loaded already
NURSERY = """
import json, os, sys, traceback
for line in sys.stdin:
    script, out = json.loads(line)
    child = os.fork()
    if child == 0:
        os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT), 1)
        try:
            exec(script, globals())
            complaint = ""
        except BaseException:
            complaint = traceback.format_exc()
        sys.stdout.flush()
        sys.stderr.write(complaint)
        sys.stderr.flush()
        os._exit(bool(complaint))
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@pytest.fixture(scope="session")
def ran(tmp_path_factory):
    """Run a script in a process that believes in a GPU; the words that it prints."""
    folder = tmp_path_factory.mktemp("pretended")
    told, complaints = folder / "out", folder / "err"
    with complaints.open("w") as errors:
        nursery = subprocess.Popen(
            [sys.executable, "-c", HEAD + NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            cwd=ROOT,
        )

    def run(script):
        told.unlink(missing_ok=True)
        nursery.stdin.write(json.dumps([script, str(told)]) + "\n")
        nursery.stdin.flush()
        assert nursery.stdout.readline() == "0\n", complaints.read_text()[-2000:]
        return told.read_text().split()

    with nursery:
        yield run
