"""A row is what `optimize` and `predict` say of its cell, whatever else is asked and whoever
computes it."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.answers.sweep.evaluate import SweepEvaluation
from app.answers.sweep.file import Sweep, SweepFile
from costmodel.answers.estimate import estimate, intervals, needed_bytes
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.drafters.named_drafters import drafter_source
from costmodel.optimizers.drafters.sources import trace_source
from costmodel.optimizers.recommend import recommend
from tests.app.answers.sweep.conftest import DRAFTED
from tests.property_examples import examples
from traces.kinds.tree import Tree
from traces.library import trace_file

KEYS = ("model", "device", "engine", "tensor_parallel", "drafter", "batch", "context")


@pytest.fixture(scope="module")
def drafted(tmp_path_factory):
    return Sweep(lists=SweepFile(**DRAFTED), folder=tmp_path_factory.mktemp("sweep"))


@pytest.fixture(scope="module")
def rows(drafted):
    """Rows of all cells, by their keys."""
    evaluation = SweepEvaluation(drafted, 0)
    found = [
        row
        for shard in range(evaluation.cells.shards)
        for row in evaluation.shard(shard).to_pylist()
    ]
    return {tuple(row[key] for key in KEYS): row for row in found}


def test_every_row_has_an_answer_or_a_reason(rows):
    assert len(rows) == 2 * 2 * 2 * 4 * 2 * 2
    assert {row["feasible"] for row in rows.values()} == {True, False}
    for row in rows.values():
        assert row["feasible"] == (row["reason"] is None)
        if row["feasible"]:
            assert row["tokens_per_s_low"] <= row["tokens_per_s"] <= row["tokens_per_s_high"]
            assert row["speedup"] == pytest.approx(
                row["tokens_per_s"] / row["plain_tokens_per_s"], rel=1e-12
            )
            assert row["tokens_per_s"] >= row["plain_tokens_per_s"] * (1 - 1e-12), (
                "no drafting competes, too"
            )
            assert row["tpot_s"] * row["tokens_per_s"] == pytest.approx(row["batch"], rel=1e-12)
            assert row["ttft_s"] > row["step_s"]
            assert (row["topology"] == "off") == (row["draft_tokens"] == 0)
    reasons = {row["reason"] for row in rows.values()} - {None}
    assert any("needs" in reason and "GiB" in reason for reason in reasons), "too large"
    assert any("divide the heads" in reason for reason in reasons), "not divided"
    assert any("nodes they do not tell" in reason for reason in reasons), (
        "nothing is known of the drafter"
    )
    assert "tree" in {row["topology"] for row in rows.values()}


@pytest.mark.parametrize("drafter", [*DRAFTED["drafters"][:2], *DRAFTED["traces"]])
def test_a_row_is_the_best_of_optimize_and_the_numbers_of_predict(rows, drafter):
    names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="vllm")
    recorded = drafter in DRAFTED["traces"]
    source = (
        trace_source(trace_file(drafter))
        if recorded
        else drafter_source(drafter, model=names.model)
    )
    answer = recommend(
        DecodingConfiguration(deployment=names), [source], batches=[1, 64], contexts=[1024]
    )
    for best in answer.winners:
        row = rows["llama-3.1-8b", "h100-sxm", "vllm", 1, drafter, best.batch, best.context]
        plain_wins = row["topology"] == "off"
        a = best.acceptance
        if not recorded:  # of recordings the halves and draws are another seed's
            assert (row["topology"], row["draft_tokens"]) == (best.topology, a.draft_tokens)
        elif not plain_wins:
            assert row["tokens_per_s"] == pytest.approx(best.tokens_per_s, rel=0.03)
            tree = None if row["tree"] is None else Tree.from_json(json.loads(row["tree"]))
            assert (tree is None) == (row["topology"] != "tree")
            continue
        setting = best.contender.setting
        one = estimate(setting, a, batch=best.batch, context=best.context)
        ends = intervals(setting, one, batch=best.batch, generator=np.random.default_rng(0))
        expected = {
            "tokens_per_step": a.tokens_per_step,
            "step_s": float(one.step_s),
            "speedup": float(one.speedup),
            "tokens_per_s": float(one.tokens_per_s),
            "tokens_per_s_low": float(ends.tokens_per_s[0]),
            "tokens_per_s_high": float(ends.tokens_per_s[1]),
            "speedup_low": float(ends.speedup[0]),
            "speedup_high": float(ends.speedup[1]),
            "plain_tokens_per_s": best.batch / float(one.plain.total_s),
            "memory_bytes": float(needed_bytes(setting, a, batch=best.batch, context=best.context)),
        }
        assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-12)
        assert row["limit"] == str(one.step.limit)
        assert row["acceptance_label"] == answer.source(best).label


@given(data=st.data())
@settings(max_examples=examples(8), deadline=None)
def test_a_row_does_not_depend_on_which_others_are_asked(drafted, rows, data):
    lists = {
        name: data.draw(st.lists(st.sampled_from(DRAFTED[name]), min_size=1, unique=True), name)
        for name in ("models", "devices", "engines", "tensor_parallel", "batches", "contexts")
    }
    lists["drafters"] = data.draw(
        st.lists(st.sampled_from(DRAFTED["drafters"]), min_size=1, unique=True)
    )
    evaluation = SweepEvaluation(Sweep(lists=SweepFile(**lists), folder=drafted.folder), 0)
    for shard in range(evaluation.cells.shards):
        for row in evaluation.shard(shard).to_pylist():
            same = rows[tuple(row[key] for key in KEYS)]
            numbers = {name for name, value in row.items() if isinstance(value, float)}
            assert {name: value for name, value in row.items() if name not in numbers} == {
                name: value for name, value in same.items() if name not in numbers
            }
            assert {name: row[name] for name in numbers} == pytest.approx(
                {n: same[n] for n in numbers}, rel=1e-12
            )
