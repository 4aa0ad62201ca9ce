"""What a sampled fleet costs, and how often its intervals hold the fleet's own numbers."""

import resource

import numpy as np
import pytest

from app.answers.simulations.runs import summary
from simulator.engine import simulate
from simulator.loop.replica_sample import drawn_sample
from simulator.scenario.build import prepare
from simulator.scenario.file import checked_scenario
from tests.simulator.sampled_fleets import sampled

REPLICAS, REQUESTS, SEEDS, DRAWS = 64, 200_000, 5, 40
MOST_S, MOST_MB = 60.0, 600.0
TIMES = [
    f"{name}.{part}"
    for name in ("ttft_s", "tpot_s", "e2e_s", "itl_s")
    for part in ("mean", "p50", "p90", "p99")
]


def fleet(requests, replicas, per_replica=4.7, **more):
    """Llama-3.1-8B on H100s, some nine tenths busy."""
    written = {
        "requests": {
            "count": requests,
            "rate_per_s": per_replica * replicas,
            "prompt_tokens": "lognormal:1000:1",
            "output_tokens": "exponential:250",
        },
        "deployment": {"model": "llama-3.1-8b"},
        "replicas": replicas,
        "slo": {"ttft_s": 0.1, "tpot_s": 0.01},
        **more,
    }
    return prepare(checked_scenario(written))


@pytest.mark.benchmark(group="simulator")
def test_a_day_of_a_hundred_million_requests(benchmark, cpu_s, aim):
    prepared = fleet(10**8, 4096, sample_replicas=4)
    told = summary(prepared, simulate(prepared.scenario(0)))
    seconds = cpu_s(lambda: summary(prepared, simulate(prepared.scenario(0))))
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    bounds = told["sampled"]["interval"]["ttft_s"]
    print(f"\n10^8 requests on 4,096 replicas, 4 of them simulated: {seconds:.1f} s, {held:.0f} MB")
    print(f"TTFT mean {told['ttft_s']['mean']:.4f} {bounds['mean']}, p99 {bounds['p99']}")
    assert told["finished"] == 10**8
    benchmark.extra_info.update(cpu_s=seconds, held_mb=held)
    benchmark.pedantic(lambda: simulate(prepared.scenario(0)), rounds=1)
    aim("CPU seconds", seconds, most=MOST_S)
    aim("MB", held, most=MOST_MB)


@pytest.mark.benchmark(group="simulator")
def test_how_often_intervals_hold_the_whole_fleet(benchmark):
    prepared, held = fleet(REQUESTS, REPLICAS), dict.fromkeys([*TIMES, "goodput_per_s"], 0)
    for seed in range(SEEDS):
        whole = prepared.scenario(seed)
        own = summary(prepared, simulate(whole))
        for draw in range(DRAWS):
            sample = drawn_sample(REPLICAS, 4, REQUESTS, 1000 * seed + draw)
            told = summary(prepared, simulate(sampled(whole, sample)))["sampled"]["interval"]
            for name in held:
                key, _, part = name.partition(".")
                bounds, value = (told[key][part], own[key][part]) if part else (told[key], own[key])
                held[name] += bounds[0] <= value <= bounds[1]
    shares = {name: count / (SEEDS * DRAWS) for name, count in held.items()}
    print()
    for name, share in shares.items():
        print(f"{name:14} {share:.1%} of {SEEDS * DRAWS}")
    benchmark.extra_info.update(shares)
    benchmark.pedantic(lambda: None, rounds=1)
    assert 0.9 <= np.mean([shares[name] for name in TIMES]) <= 0.99
