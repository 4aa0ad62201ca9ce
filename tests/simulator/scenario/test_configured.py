"""A configuration is simulated as it stands, or refused by the key that simulations do not have."""

import dataclasses

import pytest

from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.drafting import tree_policy
from costmodel.method import Shape, Stop
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError
from simulator.scenario.build import prepare
from simulator.scenario.configured import limits_of, sections_of
from simulator.scenario.drafted import drafted
from simulator.scenario.file import checked_scenario
from simulator.scenario.sections import SpeculationSection
from traces.kinds.tree import Tree
from traces.library import read_trace

WHERE = DeploymentNames(
    model="smollm2-135m", device="cpu-generic", engine="none", split_verify=False, dtype="fp32"
)
CHAIN = DecodingConfiguration(
    deployment=WHERE,
    method="n-gram",
    draft_tokens=5,
    schedule=((1, 4, 5), (5, 64, 0)),
    trace="smollm2-135m--prompt-lookup--greedy",
)
TREE = DecodingConfiguration(
    deployment=WHERE,
    method="early-exit",
    draft_tokens=3,
    shape=Tree.from_paths([(0,), (1,), (0, 0)]),
    exit_layers=4,
    trace="smollm2-135m--early-exit--greedy",
)
TRAFFIC = {"users": 2, "count": 4, "prompt_tokens": 20, "output_tokens": 8}


def prepared(chosen):
    return prepare(checked_scenario({"requests": TRAFFIC, **sections_of(chosen)}))


@pytest.mark.parametrize("chosen", [CHAIN, TREE])
def test_what_is_simulated_is_what_was_chosen(chosen):
    made = prepared(chosen)
    assert made.speculation.topology == (chosen.tree or chosen.draft_tokens)
    assert made.speculation.schedule == chosen.schedule
    assert (
        made.setting.deployment.precision.weights == "fp32"
        and not made.setting.deployment.split_verify
    )
    assert made.setting.drafter.exit_layers == chosen.exit_layers


def test_nothing_drafted_is_plain_decoding():
    plain = dataclasses.replace(CHAIN, draft_tokens=0, schedule=(), trace=None)
    assert sections_of(plain)["speculation"] is None and prepared(plain).speculation is None


@pytest.mark.parametrize(
    ("parallel", "schedulers", "limits"),
    [
        ({}, 1, (10, 100)),
        ({"data_parallel": 4}, 4, (3, 100)),
        ({"data_parallel": 4, "pipeline_parallel": 2}, 1, (12, 400)),
    ],
)
def test_limits_are_those_of_every_scheduler(parallel, schedulers, limits):
    where = dataclasses.replace(
        WHERE, model="llama-3.1-8b", device="h100-sxm", dtype=None, **parallel
    )
    chosen = dataclasses.replace(CHAIN, deployment=where, max_batch=10, token_budget=100)
    written = checked_scenario({"requests": TRAFFIC, **sections_of(chosen)})
    assert prepare(written).copies.schedulers == schedulers
    assert tuple(limits_of(chosen, written).values()) == limits
    bare = dataclasses.replace(chosen, max_batch=None, token_budget=None, schedule=())
    assert limits_of(bare, written) == {}


DEEP = dataclasses.replace(
    TREE,
    method="layer-skip",
    draft_tokens=12,
    trace="traces/recorded/level-3/smollm2-135m--layer-skip--greedy.parquet",
    shape=Shape(kind="dynamic_tree", nodes=12, depth=3, width=2, beam=4, least_probability=0.02),
)
LIKELY = "traces/recorded/level-3/smollm2-135m--draft-model--greedy.parquet"


@pytest.mark.parametrize(
    "stop",
    [
        Stop(),
        Stop(rule="ema", at=0.5),
        Stop(rule="goodput", least_tokens=0),
        Stop(rule="probability", at=0.4, least_tokens=2, most_tokens=3),
        Stop(rule="probability", at=0.4, unlikely_tokens=1),
        Stop(rule="product", at=0.3),
        Stop(rule="cost", at=0.05),
    ],
)
def test_stop_rules_keep_their_numbers(stop, root, monkeypatch):
    monkeypatch.chdir(root)
    made = prepared(dataclasses.replace(CHAIN, schedule=(), stop=stop, trace=LIKELY)).speculation
    assert made.stop == stop and made.topology == (stop.most_tokens or 5)
    assert made.ema_weight == (stop.at if stop.rule == "ema" else 0.2)


def test_a_dynamic_tree_and_the_gain_that_ends_it_are_one_policy(root, monkeypatch):
    monkeypatch.chdir(root)
    stop = Stop(rule="gain", at=0.2)
    made = prepared(dataclasses.replace(DEEP, stop=stop)).speculation
    assert made.topology == tree_policy(DEEP.shape, stop) and made.topology.least_gain == 0.2
    assert prepared(DEEP).speculation.topology == tree_policy(DEEP.shape)


@pytest.mark.parametrize("slug", ["eagle-2", "opt-tree"])
def test_an_entry_says_its_own_tree_where_nothing_is_written(slug, root, monkeypatch):
    monkeypatch.chdir(root)
    own = load_method(slug)
    trace = read_trace(DEEP.trace)
    section = SpeculationSection(trace=DEEP.trace, method=slug)
    policy, stop, note = drafted(section, own, trace)
    held = trace.expansions
    assert (policy.nodes, policy.depth) == (
        min(own.shape.nodes, held.nodes),
        min(own.shape.depth, held.depth),
    )
    assert policy.beam == own.shape.beam and policy.least_gain == (
        own.stop.at if own.stop.rule == "gain" else 0.0
    )
    assert stop == Stop() and "holds less than" in note
    with pytest.raises(InputError, match="expansions"):
        drafted(section, own, dataclasses.replace(trace, expansions=None))


def test_an_entry_says_its_own_length_and_one_without_asks_for_it(root):
    trace = read_trace(root / LIKELY)
    section = SpeculationSection(trace=LIKELY, method="specdec-pp")
    own = load_method("specdec-pp")
    assert drafted(section, own, trace)[:2] == (own.shape.nodes, own.stop)
    with pytest.raises(InputError, match="exactly one of shape, draft_tokens and tree"):
        drafted(section, load_method("speculative-decoding"), trace)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"trace": None}, "trace"),
        ({"stop": Stop(rule="exit", at=0.3)}, "stop.rule"),
        ({"shape": Shape(kind="window", nodes=5), "schedule": ()}, "shape.kind"),
    ],
)
def test_what_simulations_do_not_have_is_refused_by_key(changes, key):
    with pytest.raises(InputError) as caught:
        sections_of(dataclasses.replace(CHAIN, **changes))
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("chosen", "stop"),
    [
        (CHAIN, Stop(rule="gain", at=0.1)),
        (TREE, Stop(rule="ema")),
        (DEEP, Stop(rule="product", at=0.1)),
    ],
)
def test_stop_rules_belong_to_chains_or_dynamic_trees(chosen, stop, root, monkeypatch):
    monkeypatch.chdir(root)
    with pytest.raises(InputError) as caught:
        prepared(dataclasses.replace(chosen, stop=stop))
    assert "stop" in caught.value.key
