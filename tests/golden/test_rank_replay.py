"""Replays without answers at hand run, and what must hold of any of them holds.

Qwen3-30B-A3B on two devices, data parallel with expert parallelism over PCIe, on a made-up profile,
and Llama-3.1-8B on two RTX PRO 6000 with tensor parallelism, on the profile of a public run. The
times are printed.
"""

import json

import numpy as np
import pandas as pd
import pytest

from simulator.engine import simulate
from simulator.scenario.build import prepare
from simulator.scenario.file import checked_scenario
from tests.simulator.timing.made_up_profile import RANKS, expert_us, write_profile

DENSE = "rtxpro6000_llama3.1-8b"


def replayed(folder, name, prefix, engine, **changes):
    profile = {"prefix": str(prefix), "engine": str(engine)}
    requests = {"file": str(folder / f"{name}_workload.parquet")}
    prepared = prepare(checked_scenario({"requests": requests, "profile": profile} | changes))
    return prepared, simulate(prepared.scenario())


@pytest.fixture(scope="module")
def ranks(published, tmp_path_factory):
    """The requests of a public run, on a made-up profile."""
    folder = tmp_path_factory.mktemp("ranks")
    profile = write_profile(folder, engine=RANKS, experts=(8, 32, 64, 128))
    columns = pd.read_csv(published / "vllm_run.csv")
    columns = columns[["arrival_s", "input_tokens", "output_tokens"]]
    columns.to_parquet(folder / "requests_workload.parquet", index=False)
    return replayed(folder, "requests", profile, folder / "engine.json")


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
    # loads are known as of the latest report, so that the split follows the seconds of steps, and
    # with them how many experts are visited
    assert np.bincount(result.replica).tolist() == [151, 149]
    ttft, tpot = result.ttft_s.mean(), result.tpot_s.mean()
    rate = result.output_tokens.sum() / result.clock_s
    print(f"\nTTFT {ttft * 1e3:.0f} ms, TPOT {tpot * 1e3:.1f} ms, output {rate:.0f} tokens/s")
    # every token waits for the fewest experts that were measured, and for 96 messages of 20 us
    assert tpot > 48e-6 * expert_us(1, 8) + 96 * 20e-6


def test_requests_of_both_ranks_end_iterations_together(ranks):
    _, result = ranks
    first, second = (set(result.last_token_s[result.replica == rank].round(9)) for rank in (0, 1))
    assert (
        first & second
    )  # requests of different ranks that end at the same time, to the nanosecond


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
