"""Unequal lengths: padded, taken as they are, or regrouped by length; and that no token depends on
it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.method import Batch
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import Workload
from tests.property_examples import examples
from traces.kinds.acceptance import AcceptanceTrace


def recorded(seed, drafted=True):
    rng = np.random.default_rng(seed)
    emitted = rng.integers(1, 7, 400)
    left = 400 - np.arange(400)
    known = {"drafted": rng.integers(0, 7, 400)} if drafted else {}
    return AcceptanceTrace(offsets=[0, 400], emitted=np.minimum(emitted, left), **known)


def law(decode_requests, query_tokens, decode_context_tokens, prefill, longest_context=0.0):
    """A launch and the weights, rows, and the cache: the more of each, the longer."""
    rows = decode_requests * query_tokens + sum(new for new, _ in prefill)
    return 1e-3 + 2e-5 * rows + 1e-6 * decode_context_tokens


def run(
    ragged,
    group=None,
    *,
    seed=0,
    requests=24,
    timer=law,
    drafted=True,
    arrival_s=0.0,
    prompts=(1, 400),
):
    rng = np.random.default_rng(seed)
    workload = Workload(
        arrival_s=np.sort(rng.uniform(0, arrival_s, requests)) if arrival_s else np.zeros(requests),
        prompt_tokens=np.resize(prompts, requests)
        if isinstance(prompts, list)
        else rng.integers(*prompts, requests),
        output_tokens=rng.integers(5, 60, requests),
    )
    speculation = SpeculationOptions(
        topology=5, trace=recorded(seed, drafted), batch=Batch(ragged=ragged), group_requests=group
    )
    options = SchedulerOptions(kv_blocks=4000, token_budget=100_000, max_requests=requests)
    scenario = Scenario(
        workload=workload, scheduler=options, timer=timer, speculation=speculation, seed=seed
    )
    return simulate(scenario)


@settings(max_examples=examples(25))
@given(seed=st.integers(0, 1 << 20), group=st.integers(1, 30), drafted=st.booleans())
def test_regrouping_never_costs_more_than_padding_by_arrival(seed, group, drafted):
    """With everybody there from the start both go through the same iterations; each of them costs
    no more."""
    padded, regrouped = (
        run(ragged, group, seed=seed, drafted=drafted) for ragged in ("pad", "regroup")
    )
    assert regrouped.iterations == padded.iterations and regrouped.counters == padded.counters
    assert np.all(regrouped.last_token_s <= padded.last_token_s)
    assert regrouped.busy_s <= padded.busy_s


@settings(max_examples=examples(15))
@given(
    seed=st.integers(0, 1 << 20),
    group=st.integers(1, 30),
    ragged=st.sampled_from(["split", "pad", "regroup"]),
)
def test_every_token_is_delivered_once_however_batches_are_shaped(seed, group, ragged):
    result = run(ragged, None if ragged == "split" else group, seed=seed, arrival_s=0.3)
    assert result.finished.all()
    assert result.counters["emitted"] == result.output_tokens.sum() - result.request.size


def test_lengths_far_apart_are_worth_regrouping():
    """Half the prompts are short and half long, in turn: by arrival every group is as long as the
    longest."""
    padded, regrouped, split = (
        run(ragged, None if ragged == "split" else 4, prompts=[20, 1500])
        for ragged in ("pad", "regroup", "split")
    )
    decoding_s = [
        result.clock_s - result.first_token_s.max() for result in (padded, regrouped, split)
    ]
    assert decoding_s[1] < 0.8 * decoding_s[0]
    assert decoding_s[2] < decoding_s[1]  # one pass, and no padding: what ragged kernels are for


def test_padding_costs_nothing_where_all_are_alike():
    padded, split = (
        run(ragged, drafted=False, prompts=(64, 65), requests=1) for ragged in ("pad", "split")
    )
    assert padded.clock_s == split.clock_s


@pytest.mark.parametrize("group", [1, 3, 24])
def test_groups_are_passes_of_their_own(group):
    """With a price per pass alone an iteration costs as many as there are groups."""

    def per_pass(
        decode_requests, query_tokens, decode_context_tokens, prefill, longest_context=0.0
    ):
        return 1.0

    result = run("pad", group, timer=per_pass, requests=24)
    by_batch = result.steps_by_batch[1:] / np.arange(1, result.steps_by_batch.size)
    passes = -(-np.arange(1, result.steps_by_batch.size) // group)
    prompts = result.iterations - by_batch.sum()  # iterations in which nobody decodes
    assert result.busy_s == pytest.approx(float(by_batch @ passes) + prompts)
