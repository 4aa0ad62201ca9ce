"""A simulated engine against the measured one: 300 requests on vLLM 0.19, Llama-3.1-8B, one RTX PRO
6000.

Iterations are timed by the engine's own kernel profile; the scheduler is vLLM's with the settings
of the run. Nothing was chosen after seeing the run. What remains is printed: the measured engine
notes that a prompt is scheduled when it composes an iteration, while the one before still runs, and
the profile leaves out what the host adds.
"""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from simulator.engine import simulate
from simulator.loop.options import Scenario
from simulator.scenario.arrivals import recorded
from simulator.timing.engine_settings import read_engine
from simulator.timing.profile_timer import ProfileTimer
from traces.importers.formats import read_requests_any

NAME = "rtxpro6000_llama3.1-8b"


@pytest.fixture(scope="module")
def measured(reference_data):
    table = pq.read_table(reference_data / "serving" / f"{NAME}_vllm_requests.parquet")
    columns = {name: np.asarray(table[name]) for name in table.column_names}
    later = columns["output_tokens"] - 1
    return {
        "ttft_s": columns["first_token_s"] - columns["arrival_s"],
        "tpot_s": (columns["last_token_s"] - columns["first_token_s"]) / later,
        "e2e_s": columns["last_token_s"] - columns["arrival_s"],
        "scheduled_s": columns["first_token_s"] - columns["scheduled_s"],
    }


@pytest.fixture(scope="module")
def scenario(reference_data):
    engine = read_engine(reference_data / "serving" / f"{NAME}_engine.json")
    return Scenario(
        workload=recorded(
            read_requests_any(reference_data / "serving" / f"{NAME}_workload.parquet")
        ),
        scheduler=engine.scheduler(),
        timer=ProfileTimer.from_files(reference_data / "kernels" / NAME, engine),
    )


@pytest.fixture(scope="module")
def result(scenario):
    return simulate(scenario)


def test_the_measured_run_comes_back(result, measured):
    print()
    errors, correlations = {}, {}
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        found, known = getattr(result, name), measured[name]
        errors[name] = found.mean() / known.mean() - 1.0
        correlations[name] = np.corrcoef(found, known)[0, 1]
        print(
            f"{name}: simulated {found.mean():.4f}, measured {known.mean():.4f}, error"
            f" {errors[name]:+.1%}, per-request correlation {correlations[name]:.4f}"
        )
    assert abs(errors["tpot_s"]) <= 0.02
    assert abs(errors["ttft_s"]) <= 0.06
    assert min(correlations.values()) >= 0.98


def test_what_remains(result, measured):
    # before the engine fills up, 128 requests in flight, nobody queues, and the difference is the
    # engine's own
    early = slice(20, 110)
    waits = measured["scheduled_s"][early] - (result.first_token_s - result.scheduled_s)[early]
    iteration = result.tpot_s[early].mean()
    print(
        f"\nfirst token after scheduling: {np.median(waits) * 1e3:.1f} ms later; an iteration"
        f" {iteration * 1e3:.1f} ms"
    )
    assert 0.0 < np.median(waits) < 1.5 * iteration


def test_who_does_not_queue_waits_for_the_iteration_that_is_composed_already(
    scenario, result, measured
):
    # before 128 requests are in flight nobody queues: arrival to first token is at most two
    # iterations and a prompt
    early = slice(5, 100)
    options = replace(scenario.scheduler, overlapped_scheduling=False)
    at_once = simulate(replace(scenario, scheduler=options))
    errors = [
        np.median((each.ttft_s / measured["ttft_s"])[early]) - 1.0 for each in (result, at_once)
    ]
    print(
        f"\nTTFT of the first hundred: {errors[0]:+.1%}; composed at the last moment:"
        f" {errors[1]:+.1%}"
    )
    assert abs(errors[0]) < 0.12 < abs(errors[1])


def test_unequal_contexts_are_what_makes_tokens_as_slow_as_measured(scenario, result, measured):
    def equal(requests, queries, context, prefill, longest=0.0):
        return scenario.timer(requests, queries, context, prefill)

    evened = simulate(
        Scenario(workload=scenario.workload, scheduler=scenario.scheduler, timer=equal)
    )
    error = evened.tpot_s.mean() / measured["tpot_s"].mean() - 1.0
    print(f"\nTPOT without the measured cost of unequal contexts: {error:+.1%}")
    assert evened.tpot_s.mean() < result.tpot_s.mean() < measured["tpot_s"].mean()


def test_every_request_and_token_is_accounted_for(result, scenario):
    assert result.finished.all()
    assert result.counters["emitted"] == int((scenario.workload.output_tokens - 1).sum())
    computed = result.counters["prompt_tokens_computed"] + result.counters["prefix_hit_tokens"]
    assert computed == int(scenario.workload.prompt_tokens.sum())
    assert result.counters["prefix_hit_tokens"] > 0 and result.counters["preemptions"] == 0
    assert np.all(result.scheduled_s >= result.arrival_s) and np.all(
        result.first_token_s > result.scheduled_s
    )
