"""Which law a rule is replayed by on the shipped recordings, and what it keeps there."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.laws.acceptance import (
    RULES,
    accepted_by,
    law_for,
    replay_by,
    several_chains,
    sibling_law,
)
from costmodel.laws.acceptance.rules import LOSSY, MATCHED, SAMPLED
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError, UnknownNameError
from traces.kinds.tree import Tree
from traces.library import read_trace
from traces.replay.statistics import drawn_tokens_per_step, request_draws
from traces.replay.walk import replay_chain, replay_tree

DRAFTERS = ("draft-model", "early-exit", "feature-head", "layer-skip", "medusa-heads")
SERIAL = ("draft-model", "early-exit", "layer-skip")
LOOKUPS = ("prompt-lookup", "suffix-automaton")
BUSH = Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (1, 0)])


@pytest.fixture(scope="module")
def recorded():
    found = {}

    def read(drafter, mode):
        if (drafter, mode) not in found:
            found[drafter, mode] = read_trace(
                f"traces/recorded/level-3/smollm2-135m--{drafter}--{mode}.parquet"
            )
        return found[drafter, mode]

    return read


def rate(trace, rule, shape):
    return replay_by(trace, law_for(trace, rule, (shape,), strict=True), shape).tokens_per_step


def test_layer_skip_at_temperature_one_by_rejection_and_by_matching(recorded):
    """The two numbers that set the laws apart: a replay by matching understated this method by a
    fifth."""
    trace = recorded("layer-skip", "t1")
    assert rate(trace, "token_rejection", 3) == pytest.approx(1.8052, abs=5e-5)
    assert rate(trace, "match", 3) == pytest.approx(1.4553, abs=5e-5)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "near_match"])
@pytest.mark.parametrize("drafter", [*DRAFTERS, *LOOKUPS])
def test_at_temperature_zero_every_rule_is_matching(recorded, drafter, rule):
    trace = recorded(drafter, "greedy")
    law = law_for(trace, rule, (3,), strict=True)
    assert (law.rule, law.note, law.lossy) == (rule, "", False)
    np.testing.assert_array_equal(replay_by(trace, law, 3).steps, replay_chain(trace, 3).steps)
    if trace.level > 1:
        np.testing.assert_array_equal(
            replay_by(trace, law, BUSH).steps, replay_tree(trace, BUSH).steps
        )


@pytest.mark.parametrize("mode", ["t0.8", "t1"])
@pytest.mark.parametrize("drafter", SERIAL)
def test_what_rules_keep_of_sampled_drafts(recorded, drafter, mode):
    """A block keeps at least what its tokens keep, and further drafts never keep less."""
    trace = recorded(drafter, mode)
    token, block = rate(trace, "token_rejection", 3), rate(trace, "block", 3)
    assert token < block < 4
    assert rate(trace, "multi_path_block", several_chains(1, 3)) == pytest.approx(block, rel=1e-12)
    assert rate(trace, "multi_path_block", several_chains(2, 3)) > block
    pair = several_chains(2, 1)
    with_it, without_it = (
        rate(trace, "with_replacement", pair),
        rate(trace, "without_replacement", pair),
    )
    assert rate(trace, "token_rejection", 1) < with_it < without_it
    assert rate(trace, "fixed_candidates", BUSH) == replay_tree(trace, BUSH).tokens_per_step


@pytest.mark.parametrize("drafter", ["feature-head", "medusa-heads"])
@pytest.mark.parametrize("rule", [*SAMPLED, *LOSSY])
def test_deeper_levels_of_drafters_that_read_their_own_states_are_not_made_up(
    recorded, drafter, rule
):
    trace = recorded(drafter, "t1")
    with pytest.raises(InputError, match="allow 1 draft level"):
        law_for(trace, rule, (1, 3), strict=True)
    law = law_for(trace, rule, (1, 3))
    assert law.rule == "match" and rule in law.note and "allow 1 draft level" in law.note
    assert law_for(trace, rule, (1,)).rule == rule, "one level is recorded"
    np.testing.assert_array_equal(replay_by(trace, law, 1).steps, replay_chain(trace, 1).steps)


@pytest.mark.parametrize("rule", [*SAMPLED, *LOSSY])
def test_a_recording_without_probabilities_is_matched_and_says_so(recorded, rule):
    trace = recorded("prompt-lookup", "t1")
    law = law_for(trace, rule, (3,))
    assert law.by_matching and not law.lossy and "level 3" in law.note
    with pytest.raises(InputError, match="level 3"):
        law_for(trace, rule, (3,), strict=True)


@pytest.mark.parametrize("rule", MATCHED)
def test_certain_candidates_need_lengths_alone(recorded, rule):
    trace = recorded("prompt-lookup", "t0.8")
    assert rate(trace, rule, 5) == replay_chain(trace, 5).tokens_per_step


def test_lossy_rules_keep_more_and_say_that_they_are_lossy(recorded):
    trace = recorded("layer-skip", "t1")
    law = law_for(trace, "near_match", (3,), at={"ratio": 0.3})
    assert law.lossy
    kept = [
        replay_by(trace, replace(law, at={"ratio": r}), 3).tokens_per_step
        for r in (1.0, 0.6, 0.3, 0.0)
    ]
    assert kept == sorted(kept) and kept[0] < kept[-1] <= 4
    strict, loose = ({"posterior_threshold": t, "entropy_factor": 9.0} for t in (0.5, 0.05))
    rates = [
        replay_by(trace, law_for(trace, "typical", (3,), at=at), 3).tokens_per_step
        for at in (strict, loose)
    ]
    assert rates[0] < rates[1]
    greedy = recorded("layer-skip", "greedy")
    assert law_for(greedy, "near_match", (3,)).lossy, (
        "what is nearly the likeliest token is another token"
    )


def test_a_methods_own_verifier_decides(recorded):
    trace = recorded("layer-skip", "t1")
    draws = request_draws(trace.prompt_kinds, generator=np.random.default_rng(0), draws=50)
    verify = load_method("layer-skip").verify
    found = accepted_by(trace, law_for(trace, verify.rule, (3,), at=verify.at), 3, draws)
    assert (found.rule, found.note, found.lossy) == ("token_rejection", "", False)
    assert found.tokens_per_step == pytest.approx(1.8052, abs=5e-5)
    assert (found.draft_tokens, found.proposed_tokens, found.proposal_ratio) == (3, 3.0, 1.0)
    counted = replay_by(trace, law_for(trace, "token_rejection"), 3)
    drawn = drawn_tokens_per_step(counted, draws)
    np.testing.assert_allclose(
        found.samples, drawn, err_msg="the draws are those of the requests handed in"
    )
    assert counted.steps.shape == (trace.requests,) and np.ptp(drawn) > 0
    lossy = law_for(
        trace, "typical", (BUSH,), at={"posterior_threshold": 0.09, "entropy_factor": 0.3}
    )
    assert accepted_by(trace, lossy, BUSH, draws).lossy


def test_siblings_of_sampled_drafts_exclude_each_other(recorded):
    trace = recorded("draft-model", "t1")
    kept = sibling_law(trace, law_for(trace, "without_replacement", (2,)))
    assert kept.shape == (4,) and np.all(kept > 0) and kept.sum() < 1
    one_level = Tree.from_paths([(rank,) for rank in range(4)])
    assert 1 + kept.sum() == pytest.approx(rate(trace, "without_replacement", one_level), rel=0.03)
    assert sibling_law(trace, law_for(trace, "token_rejection", (2,))) is None


@pytest.mark.parametrize(
    ("rule", "shape"),
    [
        ("token_rejection", BUSH),
        ("block", BUSH),
        ("multi_path_block", BUSH),
        ("with_replacement", Tree.from_paths([(1,)])),
    ],
)
def test_shapes_that_a_rule_does_not_judge_are_refused(recorded, rule, shape):
    with pytest.raises(InputError):
        law_for(recorded("layer-skip", "t1"), rule, (shape,), strict=True)
    assert law_for(recorded("layer-skip", "t1"), rule, (shape,)).by_matching


def test_unknown_rules_and_numbers_are_refused(recorded):
    trace = recorded("layer-skip", "t1")
    with pytest.raises(UnknownNameError, match="typical"):
        law_for(trace, "typicl")
    with pytest.raises(InputError, match="no number"):
        law_for(trace, "typical", at={"epsilon": 0.1})
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        replay_by(trace, law_for(trace, "near_match", at={"ratio": 1.5}), 3)
