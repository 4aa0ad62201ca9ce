"""What counters tell of draft lengths: bounds hold whatever the law, and samples are as wide as
texts are alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.laws.acceptance import DepthRates, counted_rates, length_rates
from costmodel.method_library import load_method
from costmodel.optimizers.counted.lengths import (
    STEPS_A_SAMPLE,
    STEPS_A_SAMPLE_OF_LOOKUPS,
    KnownLength,
    known_lengths,
    spread_ratio,
)
from traces.kinds.summary import Summary
from traces.library import read_trace

EAGLE, LOOKUP = load_method("eagle-3"), load_method("n-gram")
FALLING = st.lists(st.floats(0.05, 1.0), min_size=2, max_size=6).map(
    lambda c: tuple(np.cumprod(c).tolist())
)


def known(rates, counts, longest=8, method=EAGLE):
    return known_lengths(method, rates, counts, longest=longest, generator=np.random.default_rng(1))


def counts_of(rates, steps=100_000):
    """Counts of steps that all drafted as deep as there are rates."""
    kept = [round(steps * rate) for rate in rates]
    return Summary(
        acceptance_by_depth=tuple(each / steps for each in kept),
        drafts=steps,
        draft_tokens=steps * len(rates),
        accepted_tokens=sum(kept),
    )


@given(FALLING)
def test_shorter_chains_are_counted_and_longer_ones_bounded(rates):
    counts = counts_of(rates)
    found = known(counted_rates(counts), counts, longest=len(rates) + 3)
    for each in found:
        assert each.least - 1e-9 <= each.tokens_per_step <= each.most + 1e-9
        if each.draft_tokens <= len(rates):
            exact = 1.0 + sum(counts.acceptance_by_depth[: each.draft_tokens])
            assert each.how == "counted" and each.least == each.most == pytest.approx(exact)
        else:
            further = (each.draft_tokens - len(rates)) * counts.acceptance_by_depth[-1]
            assert each.how == "beyond"
            assert each.least == pytest.approx(1.0 + sum(counts.acceptance_by_depth))
            assert each.most == pytest.approx(each.least + further)


@given(FALLING, st.integers(1, 6), st.floats(0.0, 1.0))
def test_whatever_law_has_a_mean_lies_within_its_bounds(rates, longer, keeps):
    """The mean at K alone is told; the true rates, and how they go on, are hidden."""
    used = len(rates)
    mean = length_rates(1.0 + sum(rates), used)
    truth = [*rates, *(rates[-1] * keeps**step for step in range(1, longer + 1))]
    for each in known(mean, Summary(drafts=1000, mean_tokens_per_step=None), longest=used + longer):
        true = 1.0 + sum(truth[: each.draft_tokens])
        assert each.least - 1e-9 <= true <= each.most + 1e-9, each


@given(FALLING, st.data())
def test_whatever_lengths_were_mixed_the_truth_lies_within(rates, data):
    """Some steps drafted less deep, whatever they would have accepted."""
    steps = 10**6
    deep = [steps]
    for _ in rates[1:]:
        deep.append(data.draw(st.integers(1, deep[-1])))
    kept = [rate * reached for rate, reached in zip(rates, deep, strict=True)]
    counts = Summary(
        acceptance_by_depth=tuple(each / steps for each in kept),
        drafts=steps,
        draft_tokens=sum(deep),
        accepted_tokens=int(sum(kept)),
    )
    for each in known(counted_rates(counts), counts, longest=len(rates) + 2):
        true = 1.0 + sum(rates[: each.draft_tokens])
        assert each.least - 1e-6 <= true
        if each.draft_tokens <= len(rates):
            assert true <= each.most + 1e-6, each


def test_samples_are_as_wide_as_the_counts_allow():
    rates = (0.75, 0.5, 0.375)
    for steps in (1_000, 100_000):
        counts = counts_of(rates, steps)
        three = known(counted_rates(counts), counts)[3]
        low, high = three.interval
        expected = spread_ratio(rates, three.tokens_per_step, steps / STEPS_A_SAMPLE)
        assert (high - low) / 2 / three.tokens_per_step == pytest.approx(expected, rel=0.1)
    spread = np.std([1, 1, 2, 3, 4, 4, 4, 4]) * 1.2815515655446004 / 2.875 / 10
    assert spread_ratio((0.75, 0.625, 0.5), 2.875, 100.0) == pytest.approx(spread)


def length_with(samples, tokens_per_step):
    return KnownLength(
        draft_tokens=3,
        tokens_per_step=tokens_per_step,
        least=1.0,
        most=4.0,
        samples=np.array(samples),
        how="counted",
    )


@given(
    st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=50),
    st.floats(1.0, 4.0),
    st.floats(1.0, 5.0),
)
def test_intervals_of_lengths_hold_the_point_and_never_narrow(around, point, wider):
    around = np.array(around)
    low, high = length_with(point + around, point).interval
    least, most = length_with(point + wider * around, point).interval
    assert least - 1e-9 <= low <= point <= high <= most + 1e-9
    assert length_with(np.full(around.size, point), point).interval == (
        pytest.approx(point),
        pytest.approx(point),
    )


@given(FALLING, st.integers(10, 100_000))
def test_intervals_of_counted_lengths_hold_what_was_counted(rates, steps):
    counts = counts_of(rates, steps)
    found = known(counted_rates(counts), counts)
    assert found[0].interval == (1.0, 1.0)
    for each in found:
        low, high = each.interval
        assert low <= each.tokens_per_step <= high


def test_lookups_count_for_less():
    counts = counts_of((0.6, 0.4))
    wide, narrow = (
        known(counted_rates(counts), counts, method=each)[2].interval for each in (LOOKUP, EAGLE)
    )
    ratio = (wide[1] - wide[0]) / (narrow[1] - narrow[0])
    assert ratio == pytest.approx((STEPS_A_SAMPLE_OF_LOOKUPS / STEPS_A_SAMPLE) ** 0.5, rel=0.1)


def test_shares_of_proposals_scale_what_drafts_add():
    counts = counts_of((0.6, 0.4))
    found = known(
        DepthRates(by_depth=(0.6, 0.4), measured=2, proposal_ratio=0.5), counts, method=LOOKUP
    )
    assert found[2].tokens_per_step == pytest.approx(1.5) and found[2].least == found[
        2
    ].most == pytest.approx(1.5)
    assert found[4].most == pytest.approx(1.5 + 0.5 * 2 * 0.4)


def variance_of_requests(trace, draft_tokens):
    """Variance of tokens per step over requests, over that of steps taken as independent."""
    most = np.minimum(np.asarray(trace.emitted), draft_tokens + 1)
    steps, tokens, every = [], [], []
    for start, end in zip(trace.offsets[:-1], trace.offsets[1:], strict=True):
        at, walked = int(start), []
        while at < end:
            walked.append(min(int(most[at]), int(end) - at))
            at += walked[-1]
        steps.append(len(walked))
        tokens.append(sum(walked))
        every += walked
    n, t = np.array(steps, dtype=float), np.array(tokens, dtype=float)
    mean = t.sum() / n.sum()
    between = ((t - mean * n) ** 2).sum() / n.sum() ** 2 * len(n) / (len(n) - 1)
    return between * n.sum() / np.var(every)


def test_the_worth_of_a_step_is_that_of_the_recordings(root):
    """The constants are the median of the shipped recordings of level 3, each kind of drafter by
    itself."""
    ratios = {True: [], False: []}
    for file in sorted((root / "traces" / "recorded" / "level-3").glob("*.parquet")):
        trace = read_trace(file)
        lookups = load_method(trace.provenance.method).may_propose_nothing
        ratios[lookups].append(variance_of_requests(trace, 4))
    assert np.median(ratios[False]) == pytest.approx(STEPS_A_SAMPLE, rel=0.15)
    assert np.median(ratios[True]) == pytest.approx(STEPS_A_SAMPLE_OF_LOOKUPS, rel=0.15)
