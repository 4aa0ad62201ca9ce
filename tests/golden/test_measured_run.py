"""The cost model as a serving engine, against a measured run: 300 requests on vLLM 0.19,
Llama-3.1-8B, one RTX PRO 6000.

Iterations are timed by the model, the device's profile and vLLM's shipped overheads alone;
`test_vllm_replay` times them by the run's own kernel profile, which does not travel with the tests.
"""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simulator.engine import simulate
from simulator.scenario.build import prepare
from simulator.scenario.file import checked_scenario


@pytest.fixture(scope="module")
def requests(published):
    with (published / "vllm_run.csv").open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture(scope="module")
def measured(requests):
    arrival, first, last = (
        np.array([float(row[name]) for row in requests])
        for name in ("arrival_s", "first_token_s", "last_token_s")
    )
    later = np.array([int(row["output_tokens"]) for row in requests]) - 1
    return {"ttft_s": first - arrival, "tpot_s": (last - first) / later, "e2e_s": last - arrival}


def prefixes(requests):
    """Blocks of 16 tokens by request; those that two prompts share have the same number."""
    blocks, free = [], 0
    for row in requests:
        shared = int(row["prefix_blocks"] or 0)
        own = int(row["input_tokens"]) // 16 - shared
        first = blocks[int(row["prefix_of"])][:shared] if shared else []
        blocks.append([*first, *range(free, free + own)])
        free += own
    return blocks


@pytest.fixture(scope="module")
def prepared(requests, tmp_path_factory):
    columns = {
        "arrival_s": [float(row["sent_s"]) for row in requests],
        "input_tokens": [int(row["input_tokens"]) for row in requests],
        "output_tokens": [int(row["output_tokens"]) for row in requests],
        "prefix_block16_ids": prefixes(requests),
    }
    file = tmp_path_factory.mktemp("run") / "requests.parquet"
    pq.write_table(pa.table(columns), file)
    sections = {
        "requests": {"file": str(file)},
        "deployment": {"model": "llama-3.1-8b", "device": "rtx-pro-6000", "engine": "vllm"},
        "scheduler": {"max_requests": 128, "token_budget": 2048},
    }
    return prepare(checked_scenario(sections))


@pytest.fixture(scope="module")
def result(prepared):
    return simulate(prepared.scenario())


def test_times_of_the_measured_run_are_met(result, measured):
    print()
    for name, most in (("tpot_s", 0.06), ("ttft_s", 0.16), ("e2e_s", 0.08)):
        simulated, known = getattr(result, name), measured[name]
        error = simulated.mean() / known.mean() - 1.0
        correlation = np.corrcoef(simulated, known)[0, 1]
        print(
            f"{name}: simulated {simulated.mean():.4f}, measured {known.mean():.4f}, error"
            f" {error:+.1%}, per-request correlation {correlation:.4f}"
        )
        assert abs(error) <= most and correlation >= 0.97


def test_quantiles_of_waiting_are_met(result, measured):
    for share in (0.1, 0.5, 0.9):
        simulated, known = (
            np.quantile(times, share) for times in (result.e2e_s, measured["e2e_s"])
        )
        assert simulated == pytest.approx(known, rel=0.15)


def test_every_request_and_token_is_accounted_for(result, prepared):
    workload = prepared.scenario().workload
    assert result.finished.all() and result.counters["preemptions"] == 0
    assert result.counters["emitted"] == int((workload.output_tokens - 1).sum())
    computed = result.counters["prompt_tokens_computed"] + result.counters["prefix_hit_tokens"]
    assert computed == int(workload.prompt_tokens.sum())
    assert result.counters["prefix_hit_tokens"] > 0
