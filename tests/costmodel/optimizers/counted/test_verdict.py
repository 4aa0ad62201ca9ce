"""Verdicts are what the cost model says of both lengths, and as sure as counts and cost model
allow."""

import numpy as np
import pytest

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.draft_shape import OFF, chain
from costmodel.laws.claims import rate_claim
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.candidates.asked_shapes import shape_acceptances
from costmodel.optimizers.counted.lengths import known_lengths
from costmodel.optimizers.counted.next_run import next_runs, steps_for
from costmodel.optimizers.counted.verdict import TOLERANCE_RATIO, verdicts
from costmodel.optimizers.drafters.sources import counted_source
from traces.kinds.acceptance import AcceptanceTrace, Provenance
from traces.kinds.summary import Summary

NAMES = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="vllm")
ASKED = DecodingConfiguration(method="eagle-3", deployment=NAMES)
BATCHES, CONTEXTS = (1, 16, 256), (1024, 16384)


@pytest.fixture(scope="module")
def setting():
    return build_setting(ASKED)


def source_of(kept, steps, **counts):
    """Counters of steps that accepted the first d tokens so often."""
    drafted = {
        "draft_tokens": steps * len(kept),
        "acceptance_by_depth": tuple(each / steps for each in kept),
    }
    summary = Summary(**{"drafts": steps, "accepted_tokens": sum(kept), **drafted, **counts})
    trace = AcceptanceTrace(provenance=Provenance(model="llama-3.1-8b"), summary=summary)
    return counted_source(trace, "eagle-3", about="counters")


def found(setting, source, in_use, *, longest=8, batches=BATCHES, contexts=CONTEXTS, seed=0):
    lengths = known_lengths(
        source.entry,
        source.rates,
        source.trace.summary,
        longest=longest,
        generator=np.random.default_rng(seed),
    )
    contender = Contender(
        configuration=ASKED,
        setting=setting,
        candidates=shape_acceptances(source, [OFF, chain(1)], generator=np.random.default_rng(0)),
    )
    return lengths, verdicts(
        contender,
        source,
        lengths,
        in_use,
        batches=batches,
        contexts=contexts,
        generator=np.random.default_rng(seed),
    )


def test_the_best_is_that_of_asking_every_length_alone(setting):
    source = source_of([7000, 5200, 4100, 3300, 2700], 10_000)
    _, judged = found(setting, source, 5)
    assert [(each.batch, each.context) for each in judged] == [
        (b, c) for c in CONTEXTS for b in BATCHES
    ][: len(judged)]
    for each in judged:
        rates = {
            k: float(
                estimate(
                    setting,
                    rate_claim(source.entry, source.rates, k),
                    batch=each.batch,
                    context=each.context,
                ).tokens_per_s
            )
            for k in range(6)
        }
        best = max(rates, key=rates.get)
        assert each.best == best and each.best_tokens_per_s == pytest.approx(rates[best], rel=1e-9)
        assert each.gain_ratio == pytest.approx(rates[best] / rates[5] - 1.0, abs=1e-9)
        assert each.gain_interval[0] <= each.gain_ratio <= each.gain_interval[1]


def test_more_steps_make_counts_surer_and_the_cost_model_stays(setting):
    few, many = (
        found(
            setting, source_of([n * 6 // 10, n * 3 // 10, n // 10, n // 20], n), 4, contexts=(1024,)
        )[1][-1]
        for n in (2_000, 2_000_000)
    )
    width = [
        each.gain_interval_of_counts[1] - each.gain_interval_of_counts[0] for each in (few, many)
    ]
    assert width[1] < width[0] / 10 and few.best == many.best < 4
    assert many.counts_loss_ratio == 0.0 and many.answer == "change"
    assert many.gain_interval[1] - many.gain_interval[0] > 3 * width[1]


def test_a_bound_below_the_best_settles_longer_drafts(setting):
    """Where hardly a step reaches the end of the draft, no longer one can pay, whatever follows."""
    source = source_of([5000, 1000, 20], 10_000)
    lengths, judged = found(setting, source, 2)
    for each in judged:
        most = max(
            float(
                estimate(
                    setting,
                    rate_claim(source.entry, source.rates, known.draft_tokens),
                    batch=each.batch,
                    context=each.context,
                ).tokens_per_s
            )
            * known.most
            / known.tokens_per_step
            for known in lengths[4:]
        )
        assert each.unknown_gain_ratio == pytest.approx(
            max(most / each.best_tokens_per_s - 1.0, 0.0), abs=2e-3
        )
        assert each.suffices
    assert next_runs(source.entry, source.rates, source.trace.summary, lengths, judged) == []


def test_where_longer_drafts_could_pay_the_next_run_is_one_beyond_the_best_expected(setting):
    source = source_of([8000, 6800, 5900], 10_000)
    lengths, judged = found(setting, source, 3, batches=(1,), contexts=(1024,))
    (verdict,) = judged
    assert (
        verdict.best == 3
        and verdict.answer == "keep"
        and not verdict.suffices
        and verdict.law_best > 3
    )
    (run,) = next_runs(source.entry, source.rates, source.trace.summary, lengths, judged)
    assert (run.reason, run.draft_tokens) == ("never drafted", min(verdict.law_best + 1, 8))
    steps = steps_for(source.entry, source.rates, run.draft_tokens, TOLERANCE_RATIO)
    assert (
        run.steps == steps
        and steps_for(source.entry, source.rates, run.draft_tokens, 0.1) < steps / 50
    )
    counts = Summary(drafts=steps)
    after = known_lengths(
        source.entry, source.rates, counts, longest=3, generator=np.random.default_rng(0)
    )[3]
    assert (
        after.interval[1] - after.interval[0]
    ) / 2 / after.tokens_per_step < TOLERANCE_RATIO * 1.1


def test_a_mean_alone_asks_for_the_lengths_below_it(setting):
    """At a large batch a shorter draft could be far better or worse: the mean does not tell where
    it was lost."""
    source = source_of([], 10_000, accepted_tokens=14_000, draft_tokens=40_000, longest_draft=4)
    lengths, (verdict,) = found(setting, source, 4, longest=4, batches=(256,), contexts=(1024,))
    assert [each.how for each in lengths] == ["counted", "between", "between", "between", "counted"]
    assert not verdict.suffices and verdict.unknown in (1, 2, 3)
    (run, *_) = next_runs(source.entry, source.rates, source.trace.summary, lengths, [verdict])
    assert (run.reason, run.draft_tokens) == ("mean alone", verdict.unknown)


def test_few_steps_ask_for_more_of_the_same(setting):
    source = source_of([60, 33, 21, 14, 12], 100)
    lengths, judged = found(setting, source, 5, longest=5, batches=(256,), contexts=(1024,))
    (run, *_) = next_runs(source.entry, source.rates, source.trace.summary, lengths, judged)
    assert (run.reason, run.draft_tokens) == ("few steps", 5) and run.steps > 100


def test_what_does_not_fit_is_no_verdict(setting):
    source = source_of([8000, 6800, 5900], 10_000)
    _, judged = found(setting, source, 3, batches=(1, 4096), contexts=(16384,))
    assert [each.batch for each in judged] == [1]
