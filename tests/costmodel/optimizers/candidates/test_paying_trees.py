"""The roofline under which trees grow: that of lines, and what a deployment makes of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.draft_shape import OWN
from costmodel.laws.acceptance import DepthRates
from costmodel.method_library import load_method
from costmodel.optimizers.candidates.asked_shapes import shape_acceptances
from costmodel.optimizers.candidates.paying_trees import calibrated_limits, roofline
from costmodel.optimizers.drafters.sources import Source

NODES = [1, 2, 4, 8, 16, 32]


@given(free=st.sampled_from(NODES[:-1]), ratio=st.floats(0.001, 0.9), scale=st.floats(1e-3, 1e3))
def test_a_line_that_is_flat_and_rises_is_found(free, ratio, scale):
    seconds = scale * (1.0 + ratio * np.maximum(np.array(NODES) - free, 0))
    found, rise = roofline(NODES, seconds.tolist())
    assert (found, rise) == (free, pytest.approx(ratio, rel=1e-2))


@pytest.fixture(scope="module")
def setting():
    return build_setting(
        DecodingConfiguration(
            method="bastion",
            deployment=DeploymentNames(model="llama-3.1-8b", device="a100-sxm-80", engine="none"),
        )
    )


def test_more_requests_reach_the_ridge_with_fewer_nodes_and_pay_more_for_each(setting):
    limits = load_method("bastion").shape
    lines = [calibrated_limits(setting, limits, batch=b, context=1024) for b in (1, 8, 64)]
    assert lines[0].free_nodes > 20
    free, ratios = ([getattr(x, name) for x in lines] for name in ("free_nodes", "cost_ratio"))
    assert free == sorted(free, reverse=True) and free[0] > free[-1]
    assert ratios == sorted(ratios)


def test_the_own_tree_is_grown_under_the_roofline_of_every_point(setting):
    rates = DepthRates(by_depth=(0.88,))
    source = Source(method="bastion", kind="stated", rates=rates)
    found = shape_acceptances(
        source,
        [OWN],
        generator=np.random.default_rng(0),
        weighed=(setting, (1, 64), (1024,)),
    )
    assert [a.holds_at for a in found] == [(1, 1024), (64, 1024)]
    alone, crowded = (a.draft_tokens for a in found)
    assert alone > 4 * crowded
    everywhere = shape_acceptances(source, [OWN], generator=np.random.default_rng(0))
    assert [a.holds_at for a in everywhere] == [None]
