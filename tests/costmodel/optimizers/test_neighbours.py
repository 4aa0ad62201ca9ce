"""Neighbours lose what asking about them says, their causes add up to it, and none of them is
better."""

import pytest

from costmodel.answers.estimate import estimate
from costmodel.answers.workload import Limits
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.drafters.named_drafters import drafter_source
from costmodel.optimizers.neighbours import TERMS, neighbourhoods
from costmodel.optimizers.recommend import recommend

DRAFTERS = ("eagle-3:0.75,0.52,0.38,0.3,0.24,0.2", "n-gram:0.5", "mtp:0.8")
BATCHES, CONTEXTS = [1, 16, 256], [1024, 8192]


def asked(drafters=DRAFTERS, **more):
    question = DecodingConfiguration(
        deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm")
    )
    grid = {"batches": BATCHES, "contexts": CONTEXTS} | more
    return recommend(question, [drafter_source(each) for each in drafters], **grid)


@pytest.fixture(scope="module")
def answer():
    return asked()


@pytest.fixture(scope="module")
def around(answer):
    return neighbourhoods(answer.optimum)


def test_every_choice_has_its_neighbours(answer, around):
    assert [each.winner for each in around] == [cell.winner for cell in answer.optimum.cells]
    for each in around:
        kinds = [beside.kind for beside in each.neighbours]
        drafted = each.winner.acceptance.draft_tokens
        assert kinds.count("drafter") == len(DRAFTERS) - 1
        assert kinds.count("off") == (1 if drafted else 0)
        for beside in each.neighbours:
            if beside.kind in ("shorter", "longer"):
                assert beside.acceptance.draft_tokens - drafted == (
                    -1 if beside.kind == "shorter" else 1
                )


def test_losses_are_those_of_asking_and_none_is_better(answer, around):
    for each in around:
        here = {"batch": each.winner.batch, "context": each.winner.context}
        for beside in each.neighbours:
            if beside.barred:
                continue
            setting = answer.contenders[beside.source].setting
            rate = float(estimate(setting, beside.acceptance, **here).tokens_per_s)
            assert beside.tokens_per_s == pytest.approx(rate, rel=1e-9)
            assert beside.lost_ratio == pytest.approx(
                1.0 - rate / each.winner.tokens_per_s, abs=1e-9
            )
            assert beside.lost_ratio >= -1e-12
        losses = [beside.lost_ratio for beside in each.neighbours if not beside.barred]
        assert losses == sorted(losses)


def test_causes_add_up(around):
    seen = 0
    for each in around:
        for beside in each.neighbours:
            if not beside.barred:
                assert tuple(beside.terms) == TERMS
                assert sum(beside.terms.values()) == pytest.approx(beside.lost_ratio, abs=1e-9)
                if beside.kind == "shorter":  # less work, fewer tokens
                    assert (
                        beside.terms["tokens"] > 0 > beside.terms["draft"]
                        and beside.terms["verify"] <= 1e-12
                    )
                    seen += 1
    assert seen


def test_carried_choices_lose_what_they_lose_there(answer, around):
    winners = {(c.winner.batch, c.winner.context): c.winner for c in answer.optimum.cells}
    for each in around:
        for there in each.carried:
            best = winners[there.batch, each.winner.context]
            at = {"batch": there.batch, "context": each.winner.context}
            rate = float(
                estimate(each.winner.contender.setting, each.winner.acceptance, **at).tokens_per_s
            )
            assert there.lost_ratio == pytest.approx(1.0 - rate / best.tokens_per_s, abs=1e-9)
            same = (
                best.contender is each.winner.contender
                and best.acceptance is each.winner.acceptance
            )
            assert (there.lost_ratio < 1e-12) == same


def test_what_is_not_allowed_says_why():
    answer = asked(DRAFTERS[:1], batches=[1], contexts=[1024], limits=Limits(tpot_s=0.0035))
    (limited,) = neighbourhoods(answer.optimum)
    barred = {beside.kind: beside.barred for beside in limited.neighbours}
    assert barred["off"] == "limits" and limited.neighbours[-1].barred
    assert all(
        not beside.terms and beside.lost_ratio is None
        for beside in limited.neighbours
        if beside.barred
    )


def test_where_off_is_best_drafts_stand_beside_it():
    answer = asked(("eagle-3:0.1",), batches=[256], contexts=[1024])
    (off,) = neighbourhoods(answer.optimum)
    assert off.winner.topology == "off" and [beside.kind for beside in off.neighbours] == ["shape"]
    assert off.neighbours[0].acceptance.draft_tokens == 1 and off.neighbours[0].lost_ratio > 0
