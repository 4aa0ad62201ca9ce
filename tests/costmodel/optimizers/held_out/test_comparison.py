"""Policies on requests that they did not see: ours beside the published ones, below the oracles."""

import numpy as np
import pytest

from costmodel.answers.chains import step_seconds
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.optimizers.drafters.sources import Source, length_source, trace_source
from costmodel.optimizers.held_out.comparison import compare_policies, half_width
from costmodel.optimizers.held_out.half import Costs, Half, HeldOutDraft
from costmodel.optimizers.held_out.policies import OURS, PUBLISHED
from costmodel.optimizers.held_out.trees import split_halves
from hardware_profiles.errors import InputError
from traces.library import trace_file
from traces.replay.walk import replay_chain

NAMES = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="vllm")


@pytest.fixture(scope="module")
def lookup():
    source = trace_source(trace_file("smollm2-135m--prompt-lookup--t0.8"), "", None)
    return source, build_setting(DecodingConfiguration(method=source.method, deployment=NAMES))


@pytest.fixture(scope="module")
def compared(lookup):
    source, setting = lookup
    return compare_policies(source, setting, batches=[1, 64], context=1024, splits=2)


def test_every_policy_runs_on_the_half_that_it_did_not_see(lookup, compared):
    source, setting = lookup
    generator = np.random.default_rng(0)
    parts = [part for _ in range(2) for part in split_halves(source.positions, generator)]
    (fixed,) = [each for each in compared[0].published if each.policy.name == "K=3"]
    seconds = step_seconds(setting, [geometric(0.0, 0)], batch=1, context=1024)
    assert fixed.drafts == (HeldOutDraft(shape=3),) * 4
    each = np.array([replay_chain(part, 3).tokens_per_step for part in parts])
    assert fixed.by_half == pytest.approx(each) and fixed.tokens_per_step == pytest.approx(
        1 / np.mean(1 / each)
    )
    (plain,) = [each for each in compared[0].published if each.policy.name == "no speculation"]
    assert plain.tokens_per_s == pytest.approx(1 / float(seconds[0]))


def test_the_one_to_beat_is_the_best_in_hindsight(compared):
    for each in compared:
        assert each.best.tokens_per_s == max(outcome.tokens_per_s for outcome in each.published)
        low, high = each.gain_interval
        assert low <= each.gain_ratio <= high
        assert each.ours.tokens_per_s == pytest.approx(
            each.best.tokens_per_s * (1 + each.gain_ratio)
        )
        assert each.half_gain_ratio <= each.gain_ratio + 1e-12, (
            "no one policy is best on every half"
        )


def test_nobody_sees_the_half_that_it_runs_on(lookup):
    source, setting = lookup
    trace, generator = source.positions, np.random.default_rng(0)
    parts = split_halves(trace, generator)
    costs = Costs(setting=setting, batches=np.array([64.0]), context=1024)
    halves = [Half(source=source, trace=part, costs=costs) for part in parts]
    (found,) = compare_policies(source, setting, batches=[64], context=1024, splits=1)
    for run, seen in zip(found.ours.drafts, halves[::-1], strict=True):
        assert (run,) == tuple(OURS.drafts(seen, 0))
        assert all(
            seen.rate(draft, 0) <= seen.rate(run, 0)
            for p in PUBLISHED
            for draft in p.drafts(seen, 0)
        )


def test_intervals_hold_what_was_chosen_on_and_what_was_run_on():
    generator, held = np.random.default_rng(5), 0
    for _ in range(200):  # of requests with a gain of 0.1 on average, chosen and run on in halves
        gains = generator.normal(0.1, 0.2, 48)
        halves = np.array([gains[generator.permutation(48)[:24]].mean() for _ in range(10)])
        held += abs(halves.mean() - 0.1) <= half_width(halves)
    assert 0.72 <= held / 200 <= 0.95


def test_chains_lie_below_the_oracles(compared):
    for each in compared:
        assert each.request_oracle <= each.step_oracle * (1 + 1e-9)
        for outcome in (each.ours, *each.published):
            if all(isinstance(draft.shape, int) and draft.stop is None for draft in outcome.drafts):
                assert outcome.tokens_per_s <= each.step_oracle * (1 + 1e-3)


def test_the_same_seed_gives_the_same_comparison(lookup, compared):
    again = compare_policies(*lookup, batches=[1, 64], context=1024, splits=2)
    assert [each.ours.drafts for each in again] == [each.ours.drafts for each in compared]
    assert np.array_equal(again[0].ours.rates, compared[0].ours.rates)


def test_batches_do_not_depend_on_each_other(lookup, compared):
    (alone,) = compare_policies(*lookup, batches=[64], context=1024, splits=2)
    assert alone.ours.drafts == compared[1].ours.drafts
    assert [each.tokens_per_s for each in alone.published] == [
        each.tokens_per_s for each in compared[1].published
    ]


def test_trees_are_compared_where_ranks_were_recorded():
    source = trace_source(trace_file("smollm2-135m--early-exit--greedy"), "", None)
    setting = build_setting(DecodingConfiguration(method=source.method, deployment=NAMES))
    costs = Costs(setting=setting, batches=np.array([1.0]), context=64)
    half = Half(source=source, trace=source.positions, costs=costs)
    by_name = {policy.name: policy.drafts(half, 0) for policy in PUBLISHED}
    assert by_name["Medusa, 63 nodes"][0].shape.nodes == 64
    assert by_name["Sequoia"] and not by_name["EAGLE-2, 60 nodes"], (
        "its dynamic trees were not recorded"
    )


def test_numbers_have_no_requests_to_hold_out(lookup):
    stated: Source = length_source("eagle-3", 2.4, [3])
    with pytest.raises(InputError, match="recording with positions"):
        compare_policies(stated, lookup[1], batches=[1], context=8)
    with pytest.raises(InputError, match="whole number >= 1"):
        compare_policies(*lookup, batches=[1], context=8, splits=0)
