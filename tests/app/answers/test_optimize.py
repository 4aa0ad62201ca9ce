"""JSON objects hold what the records they were made from hold, and nothing that JSON cannot."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.answers.optimize import choices
from app.answers.optimize.choices import path_acceptance
from app.answers.optimize.points import recommended
from app.render.json import jsonable
from costmodel.answers.workload import Limits
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.recommend import recommend
from traces.kinds.tree import Tree, chain_tree
from traces.replay.walk import replay_chain, replay_tree
from traces.storage.acceptance_file import read_acceptance


@pytest.fixture(scope="module")
def found(files):
    """Both recordings on a slow device without an engine, where drafts pay at batch 1 and not at
    batch 64."""
    scenario = DecodingConfiguration(
        exit_layers=1, deployment=DeploymentNames(model="", device="l4", engine="none")
    )
    return recommend(
        scenario,
        [files.ranks, files.lookup],
        batches=[1, 64],
        contexts=[128, 512],
        draft_tokens=[1, 3],
        tree_sizes=[4],
    )


@pytest.fixture(scope="module")
def answer(found):
    return jsonable(recommended(found, {"model": "m"}, Limits(), folder=Path("out")))


def test_the_whole_answer_is_json(answer):
    assert json.loads(json.dumps(answer, allow_nan=False)) == json.loads(json.dumps(answer))
    assert answer["inputs"] == {"model": "m"} and "out/vllm/" in str(answer["exports"]["vllm"])


def test_every_choice_is_its_record(found, answer):
    written = [
        jsonable(choices.choice(picked, found))
        for ranked in found.optimum.ranked
        for picked in ranked
    ]
    assert sorted(map(str, written)) == sorted(map(str, answer["choices"] + answer["alternatives"]))
    for ranked, choice in zip(found.optimum.ranked, answer["choices"], strict=True):
        best = ranked[0]
        assert (choice["batch"], choice["context"]) == (best.batch, best.context)
        assert choice["tokens_per_s"] == best.tokens_per_s == max(c.tokens_per_s for c in ranked)
        assert choice["tokens_per_step_interval"] == [
            float(bound) for bound in best.intervals.tokens_per_step
        ]
        low, high = choice["speedup_interval"]
        assert low == float(best.intervals.speedup[0].item()) and high == float(
            best.intervals.speedup[1].item()
        )


def test_the_schedule_at_the_top_is_the_first_winners(found, answer):
    first = found.winners[0]
    (same,) = (
        s
        for s in answer["schedules"]
        if s["method"] == first.contender.method and s["context"] == first.context
    )
    assert (answer["schedule"], answer["schedule_loss_ratio"]) == (
        same["schedule"],
        same["schedule_loss_ratio"],
    )
    assert len(answer["schedules"]) == len(found.optimum.schedules) == 4


def test_no_chain_no_schedule(files):
    none = recommend(
        DecodingConfiguration(deployment=DeploymentNames(model="", device="l4")),
        [files.lookup],
        batches=[1],
        contexts=[128],
        draft_tokens=[1],
        tree_sizes=[],
        limits=Limits(tpot_s=1e3),
    )
    answered = recommended(
        replace(
            none,
            optimum=replace(
                none.optimum, schedules=[], dropped_batches=[2], by_topology=(), unmet=()
            ),
        ),
        {},
        Limits(),
    )
    without = answered.rankings
    assert (without.schedule, without.schedule_loss_ratio, without.dropped_batches) == (
        [],
        0.0,
        [2],
    )


def test_provenance_tells_measured_from_carried_over(found, answer):
    for choice in answer["choices"]:
        told = choice["provenance"]
        assert told["device"]["name"] == "l4" and told["fidelity"] == "calibrated"
        assert told["device"]["calibrated"] is found.contenders[0].setting.device.calibrated
        assert told["acceptance"]["borrowed"] is False and told["acceptance"]["kind"] == "recorded"
        assert told["acceptance"]["label"] == "acceptance recorded on this model"
        assert told["acceptance"]["interval_covers"] == "recorded requests and cost model"
        ratios = [term["ratio"] for term in told["dominant_uncertainty"]]
        for term in told["dominant_uncertainty"]:
            assert term["kind"] in ("measured", "assumed", "datasheet") and term["source"]
        assert len(ratios) == 2 and ratios == sorted(ratios, reverse=True) and ratios[-1] >= 0


def test_exit_layers_belong_to_early_exit_alone(found):
    layers = {c.method: c.configuration.exit_layers for c in found.contenders}
    assert layers == {"early-exit": 1, "n-gram": None}


def test_sources_are_the_traces_in_order(files, answer):
    assert [each["file"] for each in answer["drafters"]] == [str(files.ranks), str(files.lookup)]
    assert [(d["level"], d["requests"], d["tokens"]) for d in answer["drafters"]] == [
        (2, 8, 456),
        (1, 8, 456),
    ]


def test_curves_are_replays(files, answer):
    traces = {"early-exit": read_acceptance(files.ranks), "n-gram": read_acceptance(files.lookup)}
    assert [c["draft_tokens"] for c in answer["curves"] if c["topology"] != "tree"] == [
        0,
        1,
        3,
        0,
        1,
        3,
    ]
    for curve in answer["curves"]:
        low, high = curve["interval"]
        assert low <= curve["tokens_per_step"] <= high
        if curve["topology"] != "tree":
            played = replay_chain(traces[curve["drafter"]], curve["draft_tokens"])
            assert curve["tokens_per_step"] == played.tokens_per_step


@pytest.mark.parametrize("shape", [chain_tree(3), Tree.from_paths([(0,), (1,), (0, 0), (0, 2)])])
def test_shares_of_a_trees_tokens_add_up_to_its_replay(files, shape):
    trace = read_acceptance(files.ranks)
    shares = path_acceptance(trace, shape)
    assert len(shares) == shape.draft_tokens and all(0 <= share <= 1 for share in shares)
    for node in range(1, shape.nodes):
        parent = shape.parents[node]
        assert parent == 0 or shares[node - 1] <= shares[parent - 1]
    assert 1 + sum(shares) == pytest.approx(replay_tree(trace, shape).tokens_per_step, abs=1e-4)
    assert np.isfinite(shares).all()


def test_a_tree_is_read_back_from_its_json():
    shape = Tree.from_paths([(0,), (1,), (1, 0)])
    assert Tree.from_json(json.loads(json.dumps(shape.to_json()))) == shape
