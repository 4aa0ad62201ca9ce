"""Scripts in a process of their own that believes in a GPU (`pretend_cuda`), with models small enough to run."""

import os
import subprocess
import sys
from pathlib import Path

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
def tiny(model):
    (block, layers), = model.blocks
    attention, feed_forward = replace(block.attention, heads=3, kv_heads=1), replace(block.feed_forward, width=96)
    blocks = ((replace(block, attention=attention, feed_forward=feed_forward), layers),)
    return replace(model, hidden=64, vocab=64, blocks=blocks)

TINY = tiny(probes.load_model("smollm2-135m").with_layers(2))
"""


def ran(script):
    """Standard output of a script in a process that believes in a GPU."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + script], capture_output=True, text=True, timeout=600, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()
