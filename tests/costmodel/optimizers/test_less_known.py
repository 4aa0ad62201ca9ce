"""What a choice loses that knows less: never a gain, and nothing where the less is all."""

import numpy as np
import pytest

from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.optimizers.drafters.competing import competing
from costmodel.optimizers.drafters.sources import rates_source, trace_source
from costmodel.optimizers.less_known import KnownDrafts, known_drafts, less_known
from costmodel.optimizers.recommend import drafter_question
from hardware_profiles.errors import InputError
from traces.library import trace_file

BATCHES = (1, 8, 64, 256)
NAMES = (
    "gpu/vicuna-7b--medusa--greedy",
    "gpu/vicuna-7b-v1.5--rest--greedy",
    "smollm2-135m--prompt-lookup--greedy",
    "smollm2-135m--early-exit--greedy",
    "level-3/smollm2-135m--feature-head--t0.8",
)


def setting_of(source, device="h100-sxm"):
    where = DeploymentNames(model=source.model, device=device)
    question = DecodingConfiguration(deployment=where)
    (drafter,) = competing(question, [source])
    return build_setting(drafter_question(question, drafter))


@pytest.mark.parametrize("name", NAMES)
def test_no_choice_beats_that_of_the_recording(name):
    source = trace_source(trace_file(name))
    known = known_drafts(source)
    at_batches = less_known(known, setting_of(source), batches=BATCHES, context=1024)
    assert at_batches
    for choices in at_batches.values():
        assert [choice.knows for choice in choices] == [each.knows for each in known]
        best = choices[0]
        assert best.lost_ratio == 0.0 and best.chosen == best.run
        for choice in choices:
            assert 0.0 <= choice.lost_ratio < 1.0
            assert choice.tokens_per_s == pytest.approx(
                (1.0 - choice.lost_ratio) * best.tokens_per_s, rel=1e-12
            )


def test_batches_that_do_not_fit_are_left_out():
    source = trace_source(trace_file("gpu/vicuna-7b--medusa--greedy"))
    at_batches = less_known(known_drafts(source), setting_of(source), batches=BATCHES, context=1024)
    assert list(at_batches) == [1, 8, 64]


def test_a_law_that_is_all_loses_nothing():
    """Of drafts that obey one rate, its mean and its rates choose as the recording does."""
    source = trace_source(trace_file("smollm2-135m--early-exit--greedy"))
    accepted = [geometric(0.7, k) for k in range(9)]
    known = [KnownDrafts(knows=knows, accepted=accepted) for knows in ("trace", "rates", "mean")]
    for choices in less_known(known, setting_of(source), batches=BATCHES, context=64).values():
        assert [choice.lost_ratio for choice in choices] == [0.0, 0.0, 0.0]


def test_one_mean_takes_a_recorded_tree_for_a_chain_of_as_many_levels():
    """It drafts on where 64 rows of every request no longer pay."""
    source = trace_source(trace_file("gpu/vicuna-7b--medusa--greedy"))
    known = known_drafts(source)
    assert [each.knows for each in known] == ["trace", "mean"], "counts of a tree hold no rates"
    mean = max(draft.tokens_per_step for draft in known[1].accepted)
    assert mean == pytest.approx(43754 / 17058)
    trace, by_mean = less_known(known, setting_of(source), batches=[64], context=1024)[64]
    assert (str(trace.chosen), str(by_mean.chosen), str(by_mean.run)) == ("off", "chain:4", "own")
    assert by_mean.lost_ratio > 0.4


def test_rates_are_those_that_an_engine_would_count():
    source = trace_source(trace_file("smollm2-135m--prompt-lookup--greedy"))
    recorded, rates, mean = known_drafts(source)
    longest = recorded.accepted[-1]
    assert longest.draft_tokens == rates.accepted[-1].draft_tokens == 16
    assert rates.accepted[-1].tokens_per_step == pytest.approx(longest.tokens_per_step, rel=1e-2)
    at_five = {a.draft_tokens: a.tokens_per_step for a in recorded.accepted}[5]
    assert mean.accepted[-1].draft_tokens == 5
    assert mean.accepted[-1].tokens_per_step == pytest.approx(at_five, rel=1e-12)
    assert np.all(np.diff([a.tokens_per_step for a in mean.accepted]) > 0)


def test_numbers_alone_are_refused():
    with pytest.raises(InputError, match="recorded steps"):
        known_drafts(rates_source("eagle-3", [0.7]))
    with pytest.raises(InputError, match="no chains"):
        known_drafts(trace_source(trace_file("catalogue/smollm2-135m--ppd--greedy")))
