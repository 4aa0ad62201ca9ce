"""Floors lie below what the cost model says of steps and prompts on every kind of device, so that
they never bind."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.optimizers.joint.evaluation import law, under_load
from costmodel.optimizers.joint.search import nodes_of
from costmodel.optimizers.recommend import compare
from tests.costmodel.optimizers.joint.joint_questions import EAGLE, question
from tests.property_examples import examples

pytestmark = pytest.mark.heavy

DEVICES = (
    "h100-sxm",
    "h200-sxm",
    "b200-sxm",
    "a100-sxm-80",
    "l4",
    "mi300x",
    "rtx-pro-6000",
    "epyc-9654",
    "gaudi3",
)


@settings(max_examples=examples(10), deadline=None)
@given(
    model=st.sampled_from(
        ["llama-3.1-8b", "qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v2-lite", "gemma-2-9b"]
    ),
    device=st.sampled_from(DEVICES),
    formats=st.sampled_from([None, "fp8", "int4"]),
    prompt=st.sampled_from([32, 1024, 9000]),
    output=st.sampled_from([8, 300]),
)
def test_floors_never_bind(model, device, formats, prompt, output):
    asked = question(
        model,
        prompt=prompt,
        output=output,
        device_names=[device],
        weight_formats=[formats],
        batch_caps=(1, 2, 7, 33, 128, 512),
    )
    for node in nodes_of(asked)[0]:
        assert node.floor is not None
        steady = node.steady(asked.load)
        steps = steady.step_s
        assert np.all(node.floor.step_s <= steps)
        budgets = np.array(asked.token_budgets, dtype=float)[None, :, None]
        _, free = law(asked, replace(node, floor=None), steps[:, None, :], budgets)
        _, bound = law(asked, node, steps[:, None, :], budgets)
        fits = under_load(asked, node, steady).fits
        for one, other in zip(free, bound, strict=True):
            assert np.array_equal(
                np.broadcast_to(one, fits.shape)[fits], np.broadcast_to(other, fits.shape)[fits]
            )


@pytest.mark.parametrize("fidelity", ["measured", "calibrated"])
def test_what_is_measured_has_no_floor_and_is_searched_whole(fidelity):
    base = question().question
    where = replace(base, deployment=replace(base.deployment, fidelity=fidelity))
    compared = compare(where, [EAGLE], draft_tokens=(1, 3))
    nodes, _ = nodes_of(question(compared=compared, device_names=["h100-sxm"]))
    assert all((node.floor is None) == (fidelity == "measured") for node in nodes)
