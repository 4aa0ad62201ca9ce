"""What the client of live servers costs, and how far its times are off: 500 streams from a stub in
another process."""

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from real_runs.servers.address import Address
from real_runs.servers.client import Completion
from real_runs.servers.identify import identify
from real_runs.servers.session import run_requests

ROOT = Path(__file__).parents[2]
STREAMS, TOKENS, INTERVAL_S = 500, 24, 0.25
MOST_ERROR, MOST_CPU_S = 0.02, 100e-6


@contextmanager
def stub_process(**options):
    """A stub in a process of its own; its clock is this one's, because a machine has one monotonic
    clock."""
    words = [sys.executable, "-m", "tests.real_runs.servers.stub_server", json.dumps(options)]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.heavy
def test_times_of_many_streams_are_those_of_the_server(benchmark, aim):
    """The stub writes its clock into every token; at one instant 500 of them may arrive."""
    request = Completion(prompt=(1, 2, 3), max_tokens=TOKENS)
    with stub_process(kind="llama.cpp", interval_s=INTERVAL_S, first_s=INTERVAL_S) as url:
        server = identify(Address.parse(url))
        cpu_s = time.process_time()
        answers = benchmark.pedantic(
            lambda: run_requests(server, [request] * STREAMS, users=STREAMS), rounds=1, iterations=1
        )
        cpu_s = time.process_time() - cpu_s
    assert all(answer.error is None and len(answer.token_times_s) == TOKENS for answer in answers)
    written = np.array([[float(word) for word in answer.text.split()] for answer in answers])
    seen = np.array([answer.token_times_s for answer in answers])
    sent = np.array([[answer.sent_s] for answer in answers])
    assert np.all(seen >= written)
    error = (seen - written) / (written - sent)
    tpot = (seen[:, -1] - seen[:, 0]) / (written[:, -1] - written[:, 0]) - 1.0
    late_s = np.percentile(seen - written, (50, 99))
    print(
        f"\n{STREAMS} streams: {late_s[0] * 1e3:.2f} ms late in the median, {late_s[1] * 1e3:.2f}"
        " at p99"
    )
    aim("time since sent against the server's, mean error", float(error.mean()), most=MOST_ERROR)
    aim("the same, 99th percentile", float(np.percentile(error, 99)), most=MOST_ERROR)
    aim(
        "time per token against the server's, largest error",
        float(np.abs(tpot).max()),
        most=MOST_ERROR,
    )
    aim("CPU seconds of the client per token", cpu_s / (STREAMS * TOKENS), most=MOST_CPU_S)
    aim("share of one core that the client takes", cpu_s / (seen.max() - sent.min()), most=0.5)
