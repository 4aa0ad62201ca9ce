"""A step that drafts nothing beside a drafter that stays loaded."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.estimate import estimate, footprint_of, step_cost
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric

OFF = geometric(0.0, 0)


def setting_of(method, engine="vllm", **names):
    where = DeploymentNames(
        **{"model": "llama-3.1-8b", "device": "h100-sxm", **names}, engine=engine
    )
    return build_setting(DecodingConfiguration(method=method, deployment=where))


@given(
    batch=st.integers(1, 256),
    context=st.integers(0, 8192),
    engine=st.sampled_from(["vllm", "sglang", "tensorrt-llm", "none"]),
    method=st.sampled_from(["eagle-3", "n-gram"]),
    pipeline=st.sampled_from([1, 2]),
)
def test_it_lies_between_a_plain_step_and_one_that_drafts(batch, context, engine, method, pipeline):
    """What a loaded drafter adds is never negative, and less than a draft of one token; memory is
    that of a server with the drafter.
    """
    alone = setting_of(method, engine, pipeline_parallel=pipeline)
    kept = replace(alone, keeps_drafter=True)
    at = {"batch": batch, "context": context}
    plain, idle, drafts = (
        float(step_cost(setting, chain, **at).total_s)
        for setting, chain in ((alone, OFF), (kept, OFF), (alone, geometric(0.7, 1)))
    )
    assert plain <= idle <= drafts
    own = alone.drafter.kv_values_per_token and kept.engine.idle_drafter.follows
    assert (idle > plain) == bool(own)
    held = [float(footprint_of(s, OFF, **at).total_bytes) for s in (alone, kept)]
    assert held[1] >= held[0] and (held[1] > held[0]) == bool(alone.drafter.kv_values_per_token)


def test_speedups_are_against_a_server_without_the_drafter():
    kept = replace(setting_of("eagle-3"), keeps_drafter=True)
    assert float(estimate(kept, OFF, batch=8, context=1024).speedup) < 1.0


def test_it_is_what_vllm_was_measured_at(published):
    """Four measurements of the pass that vLLM runs at K=0, as a mean; single ones scatter more."""
    with (published / "tracker_numbers.csv").open(newline="", encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if "drafter's pass" in row["quantity"]]
    kept = replace(
        setting_of(
            "mtp",
            model="qwen3.5-35b-a3b",  # the shapes of Qwen3.6-35B-A3B
            device="rtx-5090",
            dtype="fp8",
            tensor_parallel=2,
        ),
        keeps_drafter=True,
    )
    ratios = []
    for row, batch in zip(rows, (1, 2, 8, 16), strict=True):
        cost = step_cost(kept, OFF, batch=batch, context=1024)
        rest = float(cost.total_s - cost.draft_s)
        whole = rest if "adds" in row["quantity"] else float(cost.total_s)
        ratios.append(float(cost.draft_s) / whole / float(row["value"]))
    assert np.exp(np.mean(np.log(ratios))) == pytest.approx(1.0, abs=0.25), ratios
