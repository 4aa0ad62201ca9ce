"""Steps of variable drafts: what they share with chains and static trees, and every batch written
out."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.answers.settings import build_setting
from costmodel.answers.steps.dynamic_step import dynamic_step
from costmodel.answers.steps.step import chain_step, expansion_widths, tree_step
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.drafters.pass_costs import draft_pass
from costmodel.laws.draft_lengths import DraftLengths, draft_lengths
from costmodel.passes.forward import pass_cost
from tests.property_examples import examples
from traces.kinds.tree import Tree

B, C = np.array([[1.0], [4.0], [64.0]]), np.array([[300.0, 4000.0]])
METHODS = ("eagle-3", "mtp", "early-exit", "medusa", "n-gram")


def setting_of(method, device="h100-sxm"):
    return build_setting(
        DecodingConfiguration(
            method=method, deployment=DeploymentNames(model="llama-3.1-8b", device=device)
        )
    )


def always(tokens, passes, rows=None):
    rows = np.ones((1, passes)) if rows is None else np.array([rows], dtype=float)
    return draft_lengths(np.array([tokens]), np.array([passes]), rows)


def step(setting, drafts, b=B, c=C):
    return dynamic_step(
        setting.deployment, setting.drafter, setting.overhead, drafts, batch=b, context=c
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("k", [1, 4])
def test_drafts_that_never_vary_cost_what_a_chain_costs(method, k):
    s = setting_of(method)
    chain = chain_step(
        s.deployment, s.drafter, s.overhead, batch=B, context=C, draft_tokens=float(k)
    )
    varying = step(s, always(k, k))
    for part in ("draft_s", "verify_s", "overhead_s", "total_s"):
        found, expected = np.broadcast_arrays(getattr(varying, part), getattr(chain, part))
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("method", ["eagle-3", "early-exit", "medusa"])
def test_a_tree_that_never_changes_costs_what_a_static_tree_costs(method):
    s = setting_of(method)
    tree = Tree.from_paths([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])
    widths = expansion_widths(tree)
    static = tree_step(s.deployment, s.drafter, s.overhead, tree, batch=B, context=C)
    varying = step(s, always(tree.draft_tokens, len(widths), widths))
    np.testing.assert_allclose(varying.total_s, static.total_s, rtol=1e-12)


@settings(max_examples=examples(25))
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=6),
    st.integers(1, 3),
)
def test_every_batch_written_out_costs_the_same_on_average(steps, batch):
    """Draft passes exactly; the verify pass within a percent, as two points stand for all numbers
    of rows."""
    s = setting_of("early-exit")
    found = draft_lengths(np.array([n for n, _ in steps]), np.array([p for _, p in steps]))
    verify_s, expected_verify = {}, 0.0
    for drawn in itertools.product(steps, repeat=batch):
        share = 1.0 / len(steps) ** batch
        mean = sum(n for n, _ in drawn) / batch
        if mean not in verify_s:
            cost = pass_cost(
                s.deployment, batch=float(batch), query_tokens=1.0 + mean, context=500.0
            )
            verify_s[mean] = float(cost.total_s)
        expected_verify += share * verify_s[mean]
    one = step(s, found, b=float(batch), c=500.0)
    assert float(one.verify_s) == pytest.approx(expected_verify, rel=0.01)
    if batch == 1:
        single = float(
            draft_pass(
                s.deployment,
                s.drafter,
                s.drafter.stages[0],
                batch=1.0,
                query_tokens=1.0,
                context=500.0,
            ).total_s
        )
        expected_draft = single * np.mean([p for _, p in steps])
        assert float(one.draft_s) == pytest.approx(expected_draft, rel=1e-9)


def test_ranking_and_a_longer_tail_cost_more():
    s = setting_of("early-exit")
    even = DraftLengths(tokens=np.array([0, 0, 1.0]), passes=np.array([0, 0, 1.0]), rows=np.ones(2))
    spread = DraftLengths(
        tokens=np.array([0.5, 0, 0, 0, 0.5]), passes=np.array([0.5, 0, 0, 0, 0.5]), rows=np.ones(4)
    )
    ranked = DraftLengths(tokens=even.tokens, passes=even.passes, rows=even.rows, ranked=True)
    assert np.all(step(s, ranked).draft_s > step(s, even).draft_s)
    # as many passes on average: alone they take as long; together somebody nearly always needs all
    # four
    alone, together = step(s, spread).draft_s[0], step(s, spread).draft_s[2]
    assert np.all(together > 1.3 * step(s, even).draft_s[2])
    assert np.all(alone < 1.2 * step(s, even).draft_s[0])
