"""Spreads are even, repeatable and never hold what loop costs are fitted on."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.method import Stop
from hardware_profiles.errors import InputError
from real_runs.validation.configurations import (
    CHAINS,
    FITTED_CHAINS,
    Configuration,
    candidates,
    chain,
    fitted,
    recycling,
    spread,
    static_tree,
)
from traces.kinds.tree import Tree

DRAFTERS = ("prompt-lookup", "suffix-automaton", "early-exit", "layer-skip", "token-recycling")


def test_names_distinguish_configurations_and_survive_json():
    every = [
        Configuration(),
        *candidates(DRAFTERS, batch=1, recorded_nodes=(17, 33)),
        *fitted(DRAFTERS, batch=1, recorded_nodes=(9,)),
    ]
    assert len({each.name for each in every}) == len(
        {(e.drafter, e.draft_tokens, e.tree) for e in every}
    )


def test_what_is_fitted_on_is_never_a_candidate():
    for batch in (1, 4):
        scored = {each.name for each in candidates(DRAFTERS, batch=batch, recorded_nodes=(17,))}
        fits = {each.name for each in fitted(DRAFTERS, batch=batch, recorded_nodes=(9,))}
        assert not scored & fits
        assert "plain" in fits
    assert not set(CHAINS) & set(FITTED_CHAINS)


def test_drafters_of_single_requests_stay_out_of_batches():
    names = {each.drafter for each in candidates(DRAFTERS, batch=4, recorded_nodes=(17,))}
    assert names == {"prompt-lookup", "suffix-automaton", "early-exit"}


@given(st.integers(0, 30), st.integers(0, 1000))
def test_a_spread_is_distinct_bounded_and_excludes_what_is_measured(count, seed):
    pool = candidates(DRAFTERS, batch=1, recorded_nodes=(17,))
    taken = [chain("early-exit", 2), recycling(17)]
    found = spread(pool, count, excluded=taken, seed=seed)
    names = [each.name for each in found]
    assert len(set(names)) == len(names) == min(count, len(pool) - 2)
    assert not set(names) & {each.name for each in taken}
    assert found == spread(pool, count, excluded=taken, seed=seed)


def test_a_spread_reaches_every_drafter_and_both_ends_of_its_sizes():
    pool = candidates(DRAFTERS[:3], batch=1, recorded_nodes=())
    found = [each for seed in range(20) for each in spread(pool, 6, excluded=(), seed=seed)]
    share = Counter(each.drafter for each in found)
    assert min(share.values()) > len(found) / 6
    assert {min(CHAINS), 12} <= {
        each.draft_tokens for each in found if each.drafter == "prompt-lookup"
    }


def test_trees_count_their_root_in_nodes_alone():
    made = static_tree("early-exit", 9)
    assert made.draft_tokens == 8 and made.tree.nodes == 9 and made.topology == "tree"
    assert chain("early-exit", 3).shape.draft_tokens == 3
    assert Configuration().topology == "off"


def test_a_decoding_configuration_runs_as_the_drafter_of_its_method():
    where = DeploymentNames(model="smollm2-135m")
    chain = DecodingConfiguration(
        deployment=where,
        method="n-gram",
        draft_tokens=5,
        schedule=((1, 2, 5), (3, 4, 2), (5, 8, 0)),
    )
    assert [Configuration.of(chain, batch).name for batch in (1, 4, 8)] == [
        "prompt-lookup-5",
        "prompt-lookup-2",
        "plain",
    ]
    tree = Tree.from_paths([(0,), (1,)])
    drawn = DecodingConfiguration(deployment=where, method="early-exit", draft_tokens=2, shape=tree)
    assert Configuration.of(drawn, 1) == Configuration(
        drafter="early-exit", draft_tokens=2, tree=tree
    )
    for changes in ({"method": "eagle-3"}, {"stop": Stop(rule="probability", at=0.5)}):
        with pytest.raises(InputError):
            Configuration.of(replace(drawn, **changes), 1)
