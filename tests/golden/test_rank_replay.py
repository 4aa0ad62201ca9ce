"""Replays without answers at hand run, and what must hold of any of them holds.

Qwen3-30B-A3B on two RTX PRO 6000, data parallel with expert parallelism over PCIe, and Llama-3.1-8B
on two of them with tensor parallelism: workload, engine and kernel profile are those of public
runs. The times are printed.
"""

import json

import numpy as np
import pytest

from simulator.engine import simulate
from simulator.scenario.build import prepare
from simulator.scenario.file import checked_scenario
from simulator.timing.engine_settings import read_engine
from simulator.timing.profile_timer import ProfileTimer

RANKS = "rtxpro6000_qwen3-30b-a3b-instruct-2507"
DENSE = "rtxpro6000_llama3.1-8b"
BYTES_PER_S = 1.597e12


def replayed(folder, name, prefix, engine, **changes):
    profile = {"prefix": str(prefix), "engine": str(engine)}
    requests = {"file": str(folder / f"{name}_workload.parquet")}
    prepared = prepare(checked_scenario({"requests": requests, "profile": profile} | changes))
    return prepared, simulate(prepared.scenario())


@pytest.fixture(scope="module")
def ranks(reference_data):
    folder = reference_data / "serving"
    return replayed(folder, RANKS, folder / RANKS, folder / f"{RANKS}_engine.json")


def accounted(prepared, result):
    workload = prepared.scenario().workload
    assert result.finished.all() and result.counters["preemptions"] == 0
    assert result.counters["emitted"] == int((workload.output_tokens - 1).sum())
    computed = result.counters["prompt_tokens_computed"] + result.counters["prefix_hit_tokens"]
    assert computed == int(workload.prompt_tokens.sum())
    assert np.all(result.scheduled_s >= result.arrival_s) and np.all(
        result.first_token_s > result.scheduled_s
    )


def test_ranks_with_experts_of_each_other(ranks):
    prepared, result = ranks
    accounted(prepared, result)
    assert prepared.scenario().router == "reported-load" and prepared.scenario().in_step
    assert np.bincount(result.replica).tolist() == [150, 150]
    ttft, tpot = result.ttft_s.mean(), result.tpot_s.mean()
    rate = result.output_tokens.sum() / result.clock_s
    print(f"\nTTFT {ttft * 1e3:.0f} ms, TPOT {tpot * 1e3:.1f} ms, output {rate:.0f} tokens/s")
    # every token waits for the weights of half of the experts, once, and for 96 messages of 20 us
    experts = 48 * 64 * 3 * 2048 * 768 * 2
    assert tpot > experts / BYTES_PER_S + 96 * 20e-6


def test_requests_of_both_ranks_end_iterations_together(ranks):
    _, result = ranks
    first, second = (set(result.last_token_s[result.replica == rank].round(9)) for rank in (0, 1))
    assert (
        first & second
    )  # requests of different ranks that end at the same time, to the nanosecond


def test_a_link_that_takes_no_time_and_one_that_takes_all(reference_data, tmp_path):
    folder = reference_data / "serving"
    settings = json.loads((folder / f"{RANKS}_engine.json").read_text())
    mean = {}
    for name, rate, latency_ns in (("none", 1e6, 0), ("stated", 16, 20000), ("slow", 1, 20000)):
        settings["sim_config"] |= {"link_bw": rate, "link_latency": latency_ns}
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(settings))
        timer = ProfileTimer.from_files(folder / RANKS, read_engine(file))
        mean[name] = timer.together_s([100, 100])
    assert mean["stated"] - mean["none"] == pytest.approx(
        96 * (20e-6 + 100 * 4128 / 16e9), rel=0.01
    )
    assert mean["slow"] - mean["none"] == pytest.approx(96 * (20e-6 + 100 * 4128 / 1e9), rel=0.01)


def test_two_devices_that_share_every_layer(reference_data, tmp_path):
    folder = reference_data / "serving"
    settings = json.loads((folder / f"{DENSE}_engine.json").read_text())
    alone = replayed(
        folder, DENSE, reference_data / "kernels" / DENSE, folder / f"{DENSE}_engine.json"
    )[1]
    settings["engine_kwargs"]["tensor_parallel_size"] = 2
    settings["sim_config"]["nodes"][0]["instances"][0] |= {"num_npus": 2, "tp_size": 2}
    file = tmp_path / "tp2.json"
    file.write_text(json.dumps(settings))
    prepared, shared = replayed(folder, DENSE, reference_data / "kernels" / DENSE, file)
    accounted(prepared, shared)
    print(
        f"\nTPOT on one device {alone.tpot_s.mean() * 1e3:.1f} ms, on two"
        f" {shared.tpot_s.mean() * 1e3:.1f} ms"
    )
    assert 0.5 * alone.tpot_s.mean() < shared.tpot_s.mean() < alone.tpot_s.mean()
