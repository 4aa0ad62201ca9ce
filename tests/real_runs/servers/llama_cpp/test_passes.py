"""The simulator's passes are those of the live engine, one by one, whatever the machine's speed."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from costmodel.engine_library import load_engine
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions
from simulator.loop.request import Workload

pytestmark = [pytest.mark.model, pytest.mark.heavy]

SCRIPT = Path(__file__).with_name("noted_passes.py")


def simulated(requests, slots):
    """Passes as sequences and tokens of each; every pass takes a second, and the first request
    comes alone."""
    passes = []

    def timer(decode_requests, query_tokens, decode_context_tokens, prefill, longest_context=0.0):
        tokens = {new for new, _ in prefill} | ({query_tokens} if decode_requests else set())
        assert len(tokens) == 1
        passes.append([decode_requests + len(prefill), int(tokens.pop())])
        return 1.0

    workload = Workload(
        arrival_s=0.001 * np.arange(len(requests)),
        prompt_tokens=np.array([prompt for prompt, _ in requests]),
        output_tokens=np.array([output for _, output in requests]),
    )
    engine = load_engine("llama.cpp")
    started = replace(engine.scheduling, max_requests=slots)
    scheduler = SchedulerOptions(
        **asdict(started), block_tokens=engine.memory.block_tokens, kv_blocks=1024 * slots
    )
    assert simulate(Scenario(workload=workload, scheduler=scheduler, timer=timer)).finished.all()
    return passes


@pytest.mark.parametrize(
    ("slots", "short"),
    [(2, 7), *(pytest.param(slots, 15, marks=pytest.mark.slow) for slots in (2, 4))],
)
def test_the_simulator_computes_the_passes_of_the_engine(shipped, slots, short):
    rng = np.random.default_rng(slots)
    drawn = (rng.integers(low, high, short).tolist() for low, high in ((4, 60), (1, 9)))
    requests = [[600, 3], *zip(*drawn, strict=True)]
    ran = subprocess.run(
        [sys.executable, SCRIPT, str(shipped), str(slots), json.dumps(requests)],
        capture_output=True,
        check=True,
        timeout=240,
    )
    passes = json.loads(ran.stdout)
    assert len(passes) > short
    assert passes == simulated(requests, slots)
