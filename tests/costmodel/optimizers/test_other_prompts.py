"""How much a choice depends on the prompts: what `optimize` says of every published data set."""

import pytest

import rooftree
from costmodel.acceptance_library import best_match, other_prompts, published
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.drafters.named_drafters import drafter_source
from costmodel.optimizers.other_prompts import by_prompts
from costmodel.optimizers.recommend import recommend
from hardware_profiles.errors import InputError

PLACE = {"model": "llama-3.3-70b", "device": "h100-sxm", "tp": 4, "dtype": "fp8"}


def searched(text, model="llama-3.1-8b"):
    where = DeploymentNames(model=model, device="h100-sxm", engine="vllm")
    question = DecodingConfiguration(deployment=where)
    return recommend(question, [drafter_source(text, model=model)], batches=[8, 64])


def test_every_data_set_is_answered_as_if_it_were_named():
    answer = rooftree.optimize(drafter="eagle-3", **PLACE, batch=[8, 64])
    rows = answer["by_prompts"]
    assert len(rows) == 7 and {row["batch"] for row in rows} == {8}
    assert [row["tokens_per_s"] for row in rows] == sorted(row["tokens_per_s"] for row in rows)
    for row in (rows[0], rows[3], rows[-1]):
        named = rooftree.optimize(drafter=f"eagle-3:{row['data_set']}", **PLACE, batch=8)
        (choice,) = named["choices"]
        assert choice["draft"] == row["draft"]
        assert choice["tokens_per_s"] == pytest.approx(row["tokens_per_s"])
        assert choice["speedup"] == pytest.approx(row["speedup"])
    assert any(row["speedup"] == pytest.approx(answer["choices"][0]["speedup"]) for row in rows)


@pytest.mark.parametrize("text", ["eagle-3:0.7", "n-gram:length=1.4@3"])
def test_stated_acceptance_has_no_other_prompts(text):
    search = searched(text)
    assert by_prompts(search, search.winners[0]) == []


def test_other_prompts_are_of_one_method_and_target_and_prefer_the_same_head():
    entry = best_match("eagle-3", "llama-3.3-70b").entry
    others = other_prompts(entry)
    assert {other.target for other in others} == {entry.target}
    assert {other.drafter for other in others} == {entry.drafter}
    assert len({other.data_set for other in others} | {entry.data_set}) == len(others) + 1
    known = {e.data_set for e in published("eagle-3", "llama-3.3-70b") if e.shape == "chain"}
    assert known == {entry.data_set, *(other.data_set for other in others)}


def test_a_data_set_that_nobody_measured_is_refused_with_those_that_are_known():
    with pytest.raises(InputError, match=r"financeqa, gpqa, .*mtbench"):
        drafter_source("eagle-3:nonsense", model="llama-3.3-70b")


def test_a_described_drafter_that_loses_takes_no_part_in_what_other_prompts_bring():
    """One of 350 MB at poor rates competes with EAGLE-3, whose published figure wins."""
    own = {"draft_bytes": 350e6, "draft_passes": 4, "draft_name": "ours"}
    answer = rooftree.optimize(
        model="llama-3.1-8b", acceptance=[0.3], drafter="eagle-3", batch=8, **own
    )
    (choice,) = answer["choices"]
    assert choice["drafter"] == "eagle-3"
    alone = rooftree.optimize(model="llama-3.1-8b", drafter="eagle-3", batch=8)
    assert answer["by_prompts"] == alone["by_prompts"]
