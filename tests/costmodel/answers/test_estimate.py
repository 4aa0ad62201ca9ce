"""Estimates and intervals: identities, monotonicity, coverage of drawn errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.estimate import (
    estimate,
    intervals,
    mixed_prefill_s,
    needed_bytes,
    prefill_s,
    throughput_speedup,
)
from costmodel.answers.settings import build_setting
from costmodel.answers.uncertainty import dominant_terms, draw_steps, interval
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import Acceptance, DepthRates, from_replay, geometric
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.statistics import request_draws
from traces.replay.walk import replay_chain

EAGLE = build_setting(
    DecodingConfiguration(
        method="eagle-3", deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm")
    )
)
BARE = build_setting(
    DecodingConfiguration(
        method="eagle-3",
        deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none"),
    )
)


def test_the_geometric_law_by_hand():
    assert geometric(0.5, 2).tokens_per_step == 1 + 0.5 + 0.25
    assert geometric(1.0, 3).tokens_per_step == 4
    assert geometric(0.9, 0).tokens_per_step == 1
    assert geometric(0.8, 1, match_rate=0.25).tokens_per_step == pytest.approx(1.2)


@pytest.mark.parametrize("rates", [[1.1], [-0.1], [0.4, 0.5], [float("nan")]])
def test_impossible_rates_are_refused(rates):
    with pytest.raises(InputError):
        DepthRates(by_depth=tuple(rates))


def test_bad_laws_are_refused():
    with pytest.raises(InputError, match="acceptance"):
        geometric(1.5, 2)
    with pytest.raises(InputError, match="draft_tokens"):
        geometric(0.5, -1)


@given(
    batch=st.integers(1, 256),
    context=st.integers(0, 16_384),
    k=st.integers(0, 8),
    rate=st.floats(0.0, 1.0),
)
def test_identities(batch, context, k, rate):
    accepted = geometric(rate, k)
    result = estimate(EAGLE, accepted, batch=batch, context=context)
    assert float(result.tokens_per_s) == pytest.approx(
        batch * accepted.tokens_per_step / float(result.step_s)
    )
    assert float(result.speedup) == pytest.approx(
        accepted.tokens_per_step * float(result.plain.total_s) / float(result.step_s)
    )
    if k == 0:
        assert float(result.speedup) == pytest.approx(1.0)


@given(rate=st.floats(0.0, 0.98), k=st.integers(1, 8))
def test_more_acceptance_is_never_slower(rate, k):
    slow = estimate(EAGLE, geometric(rate, k), batch=4, context=1024)
    fast = estimate(EAGLE, geometric(rate + 0.02, k), batch=4, context=1024)
    assert float(fast.speedup) > float(slow.speedup)


def test_speculation_fades_with_batch():
    speedups = estimate(
        BARE, geometric(0.7, 5), batch=np.array([1, 32, 256, 1024]), context=256
    ).speedup
    assert np.all(np.diff(speedups) < 0)
    assert speedups[0] > 1.8 and speedups[-1] < 1.0


def test_long_context_keeps_speculation_worthwhile():
    """At batch 128 weights no longer bound a pass; a long cache, read once per request, does
    again."""
    speedups = estimate(
        BARE, geometric(0.7, 3), batch=128, context=np.array([256, 4096, 32_768])
    ).speedup
    assert np.all(np.diff(speedups) > 0)


def test_intervals_hold_the_point_and_shrink_without_errors(generator):
    result = estimate(EAGLE, geometric(0.7, 3), batch=np.array([1, 16]), context=1024)
    spread = intervals(EAGLE, result, batch=np.array([1, 16]), generator=generator)
    for (low, high), value in (
        (spread.step_s, result.step_s),
        (spread.speedup, result.speedup),
        (spread.tokens_per_s, result.tokens_per_s),
    ):
        assert np.all(low < value) and np.all(value < high)
    relative = (spread.speedup[1] - spread.speedup[0]) / result.speedup
    steps = (spread.step_s[1] - spread.step_s[0]) / result.step_s
    assert np.all(relative < steps + 0.2)


def test_no_speculation_is_surely_one(generator):
    """It is the very step that it is compared with, however unsure that step's time is."""
    result = estimate(EAGLE, geometric(0.7, 0), batch=1, context=1024)
    spread = intervals(EAGLE, result, batch=1, generator=generator)
    assert [float(bound) for bound in spread.speedup] == [1.0, 1.0]
    assert float(spread.step_s[0]) < float(result.step_s) < float(spread.step_s[1])


def test_drawn_errors_cover_what_they_claim(generator):
    """One operation alone: 80 % of draws lie within its stated half-width."""
    result = estimate(BARE, geometric(0.7, 3), batch=1, context=0)
    only = dict.fromkeys(("gemm", "attention", "elementwise", "sampler"), 0.0) | {"gemm": 0.2}
    drawn = draw_steps(
        result.plain, result.step, only, BARE.overhead, generator=generator, draws=4000
    )
    gemm = float(result.plain.verify["gemm"] + result.plain.verify["head"])
    error = (drawn.plain_s[:, 0] - float(result.plain.total_s)) / gemm
    inside = np.mean((error > 1 / 1.2 - 1) & (error < 0.2))
    assert inside == pytest.approx(0.8, abs=0.02)


def test_more_requests_narrow_the_interval(generator):
    def width(requests):
        lengths = np.full(requests, 100)
        emitted = np.concatenate(
            [np.random.default_rng(r).integers(1, 6, 100) for r in range(requests)]
        )
        trace = AcceptanceTrace(offsets=np.concatenate([[0], np.cumsum(lengths)]), emitted=emitted)
        draws = request_draws(trace.prompt_kinds, generator=generator)
        low, high = interval(from_replay(replay_chain(trace, 3), draws).samples)
        return float(high - low)

    assert width(64) < width(8)


def test_dominant_terms_name_the_largest():
    result = estimate(BARE, geometric(0.7, 3), batch=1, context=1024)
    names = [
        name
        for name, _ in dominant_terms(
            result.step, EAGLE.device.constants.residual_ratio, EAGLE.overhead
        )
    ]
    assert names[0] == "verify gemm"


def test_prefill_is_charged_to_both_sides():
    none = throughput_speedup(
        EAGLE, geometric(0.7, 3), batch=1, prompt_tokens=1, output_tokens=10_000
    )
    decode = estimate(EAGLE, geometric(0.7, 3), batch=1, context=5001).speedup
    heavy = throughput_speedup(
        EAGLE, geometric(0.7, 3), batch=64, prompt_tokens=4000, output_tokens=100
    )
    assert float(none) == pytest.approx(float(decode), rel=0.01)
    assert 0.8 < float(heavy) < 1.1
    assert prefill_s(EAGLE, prompt_tokens=4000) > prefill_s(EAGLE, prompt_tokens=4000, drafts=False)


def test_a_drafter_takes_memory_only_when_used():
    off, on = geometric(0.7, 0), geometric(0.7, 3)
    extra = needed_bytes(EAGLE, on, batch=1, context=1024) - needed_bytes(
        EAGLE, off, batch=1, context=1024
    )
    assert float(extra) > 2 * EAGLE.drafter.resident_values


def test_acceptance_of_a_proposer_that_rests():
    accepted = Acceptance(
        draft_tokens=5, tokens_per_step=1.3, proposal_ratio=0.2, proposed_tokens=5.0
    )
    setting = build_setting(
        DecodingConfiguration(
            method="n-gram", deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm")
        )
    )
    resting = estimate(setting, accepted, batch=64, context=512)
    always = estimate(
        setting,
        Acceptance(draft_tokens=5, tokens_per_step=1.3, proposed_tokens=5.0),
        batch=64,
        context=512,
    )
    assert float(resting.speedup) > 1.15 * float(always.speedup)


def test_a_prompt_beside_others_costs_less_than_alone():
    """The step reads the weights anyway; what a prompt adds grows with its length."""
    alone = float(prefill_s(EAGLE, prompt_tokens=128, drafts=False))
    beside = [
        float(mixed_prefill_s(EAGLE, prompt_tokens=p, decode_rows=16.0, drafts=False))
        for p in (128, 512, 2048)
    ]
    assert 0 < beside[0] < 0.5 * alone
    assert beside == sorted(beside)
    drafted = float(mixed_prefill_s(EAGLE, prompt_tokens=128, decode_rows=16.0))
    assert drafted > beside[0], "a feature drafter keeps a cache of its own"
