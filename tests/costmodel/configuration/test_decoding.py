"""A configuration keeps what it says through JSON, and says nothing that contradicts itself."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.method import Shape, Stop
from hardware_profiles.errors import InputError, UnknownNameError
from traces.kinds.refine_policy import RefinePolicy
from traces.kinds.tree import Tree, chain_tree

BINARY = Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)])
NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12)


def build(method="eagle-3", **changes):
    where = changes.pop("deployment", DeploymentNames(model="meta-llama/Llama-3.1-8B"))
    if "draft_tokens" not in changes:
        changes["draft_tokens"] = max((row[2] for row in changes.get("schedule", ())), default=5)
    return DecodingConfiguration(deployment=where, method=method, **changes)


@st.composite
def trees(draw):
    parents, ranks = [-1], [0]
    for node in range(1, draw(st.integers(2, 12))):
        parent = draw(st.integers(0, node - 1))
        parents.append(parent)
        ranks.append(sum(other == parent for other in parents[1:-1]))
    return Tree(parents=tuple(parents), ranks=tuple(ranks))


@st.composite
def schedules(draw):
    rows, start = [], 1
    for _ in range(draw(st.integers(1, 5))):
        end = start + draw(st.integers(0, 60))
        rows.append((start, end, draw(st.integers(0, 9))))
        start = end + 1 + draw(st.sampled_from([0, 0, 5]))
    return tuple(rows)


def optional(strategy):
    return st.none() | strategy


DEPLOYMENTS = st.builds(
    DeploymentNames,
    model=NAMES,
    device=NAMES,
    engine=NAMES,
    dtype=optional(NAMES),
    kv_dtype=optional(NAMES),
    tensor_parallel=st.integers(1, 8),
    context_parallel=st.integers(1, 8),
    split_verify=optional(st.booleans()),
    fidelity=st.sampled_from(["datasheet", "calibrated", "measured"]),
    transforms=st.lists(NAMES, max_size=3).map(tuple),
    overrides=st.lists(NAMES, max_size=3).map(tuple),
)
RATES = st.lists(st.floats(0, 1), max_size=5).map(lambda rates: tuple(sorted(rates, reverse=True)))
ENDS = {
    "at": st.floats(0, 1),
    "least_tokens": st.integers(0, 4),
    "most_tokens": st.integers(0, 9),
}
STOPS = st.one_of(
    st.builds(Stop, rule=st.just("probability"), unlikely_tokens=st.integers(0, 1), **ENDS),
    st.builds(
        Stop, rule=st.sampled_from(["length", "product", "gain", "ema", "goodput", "cost"]), **ENDS
    ),
)


@st.composite
def configurations(draw):
    shape, schedule = None, ()
    drafted = draw(st.integers(0, 9))
    kind = draw(st.sampled_from(["chain", "schedule", "tree", "dynamic_tree"]))
    if kind == "schedule":
        schedule = draw(schedules())
        drafted = max(row[2] for row in schedule)
    elif kind == "tree":
        shape = draw(trees())
        drafted = shape.draft_tokens
    elif kind == "dynamic_tree":
        drafted = draw(st.integers(1, 60))
        shape = Shape(
            kind="dynamic_tree",
            nodes=drafted,
            depth=draw(st.integers(0, 9)),
            width=draw(st.integers(0, 9)),
        )
    return DecodingConfiguration(
        deployment=draw(DEPLOYMENTS),
        method=draw(st.sampled_from(["eagle-3", "n-gram", "medusa"])),
        shape=shape,
        draft_tokens=drafted,
        schedule=schedule,
        stop=draw(STOPS),
        draft_model=draw(optional(NAMES)),
        exit_layers=draw(optional(st.integers(1, 40))),
        trace=draw(optional(NAMES)),
        match_rate=draw(optional(st.floats(0, 1))),
        acceptance_by_depth=draw(optional(RATES)),
        batch=draw(optional(st.integers(1, 999))),
        context=draw(optional(st.integers(0, 99_999))),
        max_batch=draw(optional(st.integers(1, 999))),
        provenance=draw(
            st.dictionaries(
                NAMES, NAMES | st.floats(-9, 9) | st.integers(0, 9) | st.none(), max_size=3
            )
        ),
    )


@given(configurations())
def test_json_says_all_of_a_configuration(chosen):
    written = json.dumps(chosen.to_json(), allow_nan=False)
    assert DecodingConfiguration.from_json(json.loads(written)) == chosen
    assert json.loads(written)["schema"] == 1


@given(configurations())
def test_a_changed_field_changes_the_json(chosen):
    other = dataclasses.replace(chosen, ngram_max=chosen.ngram_max + 1)
    assert other.to_json() != chosen.to_json() and other != chosen
    assert hash(dataclasses.replace(other, ngram_max=chosen.ngram_max)) == hash(chosen)


@given(schedules())
def test_steps_say_what_the_ranges_say(schedule):
    chosen = build("n-gram", schedule=schedule)
    for low, high, tokens in schedule:
        assert {chosen.draft_tokens_at(batch) for batch in range(low, high + 1)} == {tokens}
    assert chosen.varies == (len({tokens for _, _, tokens in schedule}) > 1)


def test_a_schedule_keeps_its_last_k_over_gaps_and_past_its_end():
    chosen = build(schedule=((1, 4, 5), (10, 20, 2), (21, 30, 2)))
    assert chosen.steps == ((1, 5), (10, 2))
    assert [chosen.draft_tokens_at(batch) for batch in (1, 4, 9, 10, 30, 400)] == [5, 5, 5, 2, 2, 2]
    assert chosen.largest_batch == 30
    fixed = build(draft_tokens=3)
    assert (
        fixed.draft_tokens_at(1),
        fixed.draft_tokens_at(999),
        fixed.varies,
        fixed.largest_batch,
    ) == (
        3,
        3,
        False,
        None,
    )


def test_topology_follows_from_what_is_drafted():
    dynamic = Shape(kind="dynamic_tree", nodes=6, depth=3, width=4)
    assert (
        build(draft_tokens=0).topology == build("plain-decoding", draft_tokens=0).topology == "off"
    )
    assert build().topology == "chain"
    assert (
        build(shape=BINARY, draft_tokens=6).topology == "tree"
        and build(shape=BINARY, draft_tokens=6).tree == BINARY
    )
    assert build(shape=dynamic, draft_tokens=6).topology == "dynamic_tree"
    assert build(shape=dynamic, draft_tokens=6).tree is None


def test_a_configuration_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        build().draft_tokens = 4


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"draft_tokens": -1}, "draft_tokens"),
        ({"draft_tokens": 4096}, "draft_tokens"),
        ({"draft_tokens": True}, "draft_tokens"),
        ({"draft_tokens": 2.0}, "draft_tokens"),
        ({"context": -1}, "context"),
        ({"batch": 0}, "batch"),
        ({"max_batch": 0}, "max_batch"),
        ({"exit_layers": 0}, "exit_layers"),
        ({"ngram_min": 4, "ngram_max": 3}, "ngram_min"),
        ({"match_rate": 1.5}, "match_rate"),
        ({"match_rate": float("nan")}, "match_rate"),
        ({"draft_passes": 2}, "draft_passes"),
        ({"draft_model": "a\x00b"}, "draft_model"),
        ({"draft_model": "--trust-remote-code"}, "draft_model"),
        ({"trace": "x" * 5000}, "trace"),
        ({"method": "plain-decoding", "draft_tokens": 3}, "draft_tokens"),
        ({"shape": BINARY, "draft_tokens": 5}, "draft_tokens"),
        ({"shape": BINARY, "draft_tokens": 6, "schedule": ((1, 8, 6),)}, "schedule"),
        ({"shape": Shape(kind="chain", nodes=5)}, "shape.kind"),
        ({"shape": Shape(kind="dynamic_tree", nodes=0), "draft_tokens": 0}, "shape.nodes"),
        (
            {"shape": Shape(kind="dynamic_tree", nodes=5, least_probability=2.0)},
            "shape.least_probability",
        ),
        ({"shape": "tree"}, "shape"),
        ({"stop": Stop(rule="probability", at=1.5)}, "stop.at"),
        ({"stop": Stop(rule="sometimes")}, "stop.rule"),
        ({"schedule": ((2, 4, 5),)}, "schedule"),
        ({"schedule": ((1, 4, 5), (4, 9, 1))}, "schedule"),
        ({"schedule": ((1, 4, 5), (9, 8, 1))}, "schedule"),
        ({"schedule": ((1, 4, 5), (9, 10, -1))}, "schedule"),
        ({"schedule": ((1, 4),), "draft_tokens": 5}, "schedule"),
        ({"schedule": (7,), "draft_tokens": 5}, "schedule"),
        ({"schedule": ("158",), "draft_tokens": 5}, "schedule"),
        ({"schedule": ((1, 4, 5.0),), "draft_tokens": 5}, "schedule"),
        ({"schedule": ((1, 4, 3),), "draft_tokens": 5}, "draft_tokens"),
        ({"acceptance_by_depth": (0.5, 0.6)}, "acceptance_by_depth"),
        ({"acceptance_by_depth": (1.1,)}, "acceptance_by_depth"),
        ({"acceptance_by_depth": (float("nan"),)}, "acceptance_by_depth"),
        ({"provenance": {"device": ["l4"]}}, "provenance.device"),
        ({"provenance": {"speedup": float("inf")}}, "provenance.speedup"),
    ],
)
def test_contradictions_are_refused_by_key(changes, key):
    with pytest.raises(InputError) as caught:
        build(**changes)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"model": "--trust-remote-code"}, "deployment.model"),
        ({"model": "a\nb"}, "deployment.model"),
        ({"model": None}, "deployment.model"),
        ({"tensor_parallel": 0}, "deployment.tensor_parallel"),
        ({"tensor_parallel": 1.0}, "deployment.tensor_parallel"),
        ({"fidelity": "guessed"}, "deployment.fidelity"),
        ({"transforms": ("a", "-b")}, "deployment.transforms"),
        ({"overrides": "device.price=1"}, "deployment.overrides"),
    ],
)
def test_a_deployment_names_its_parts(changes, key):
    with pytest.raises(InputError) as caught:
        DeploymentNames(**({"model": "gpt2"} | changes))
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"schema": 2}, "schema"),
        ({"draft_length": 5}, "draft_length"),
        ({"deployment": {"model": "gpt2", "gpu": "l4"}}, "deployment.gpu"),
        ({"deployment": {"device": "l4"}}, "deployment.model"),
        ({"deployment": "gpt2"}, "deployment"),
        ({"stop": {"rule": "probability", "below": 0.4}}, "stop.below"),
        ({"shape": {"kind": "dynamic_tree", "leaves": 3}}, "shape.leaves"),
        ({"shape": {"parents": [0], "ranks": [0]}}, "parents"),
        ({"draft_tokens": "5"}, "draft_tokens"),
        ({"schedule": [[1, 8, "5"]]}, "schedule"),
    ],
)
def test_a_file_is_refused_by_file_key_and_value(change, key):
    with pytest.raises(InputError) as caught:
        DecodingConfiguration.from_json(build().to_json() | change, file="chosen.json")
    assert (caught.value.file, caught.value.key) == ("chosen.json", key)


def test_keys_that_are_absent_keep_their_defaults():
    document = {"schema": 1, "deployment": {"model": "gpt2"}, "method": "n-gram", "draft_tokens": 4}
    chosen = DecodingConfiguration.from_json(document)
    assert chosen == build("n-gram", draft_tokens=4, deployment=DeploymentNames(model="gpt2"))
    assert DecodingConfiguration.from_json(
        document | {"shape": chain_tree(4).to_json()}
    ).tree == chain_tree(4)
    with pytest.raises(InputError, match="deployment"):
        DecodingConfiguration.from_json({"schema": 1})


def test_unknown_methods_offer_the_nearest():
    with pytest.raises(UnknownNameError, match="eagle-3"):
        build("eagle-33")


def masked(**fields):
    policy = RefinePolicy(commit="neighbours", at={"tokens": 3}, block_tokens=16, cache="prefix")
    stated = {"method": "fast-dllm", "refine": policy, "canvas_tokens": 128} | fields
    return DecodingConfiguration(deployment=DeploymentNames(model="llama-3.1-8b"), **stated)


def test_a_policy_for_masked_blocks_survives_the_file():
    chosen = masked()
    document = json.loads(json.dumps(chosen.to_json()))
    assert document["refine"]["at"] == {"confidence": 0.9, "near_confidence": 0.75, "tokens": 3}
    assert DecodingConfiguration.from_json(document) == chosen and hash(chosen) == hash(masked())


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"commit": "treshold"}, "refine"),
        ({"at": {"confidence": 1.5}}, "refine.at.confidence"),
        ({"at": {"sureness": 0.5}}, "refine"),
        ({"block_tokens": 0}, "refine.block_tokens"),
        ({"cache": "all"}, "refine.cache"),
        ({"blok": 4}, "refine"),
    ],
)
def test_a_policy_that_is_none_is_refused_by_name(change, key):
    document = masked().to_json()
    document["refine"] = {**document["refine"], **change}
    with pytest.raises(InputError) as caught:
        DecodingConfiguration.from_json(document)
    assert caught.value.key == key


def test_a_policy_must_fit_its_method_and_canvas():
    with pytest.raises(InputError, match="refines no masked blocks"):
        masked(method="eagle-3")
    with pytest.raises(InputError, match="divide the canvas of 120"):
        masked(canvas_tokens=120)
    assert masked().topology == "block" and not masked().speculates
