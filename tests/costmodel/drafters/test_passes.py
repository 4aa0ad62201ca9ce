"""How many passes a draft takes, by hand and against the same tree drafted level by level."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.drafters.passes import chain_passes, tree_passes
from costmodel.method import Draft


def times(draft, k):
    return sum(float(each.often) for each in chain_passes(draft, np.asarray(float(k))))


@pytest.mark.parametrize(
    ("draft", "k", "passes"),
    [
        (Draft(by="model"), 6, 6),
        (Draft(by="head", depths_per_pass=2, rereads=True), 7, 4),
        (Draft(by="model", depths_per_pass=0), 12, 1),
        (Draft(by="head", serial_depths=2, rereads=True), 7, 3),
        (Draft(by="head", serial_depths=2), 2, 2),
        (Draft(by="model", passes=5), 3, 5),
        (Draft(by="heads", heads=4, depths_per_pass=0), 4, 1),
        (Draft(by="heads", heads=4), 4, 4),
        (Draft(by="lookup"), 4, 0),
        (Draft(by="rows"), 4, 0),
        (Draft(by="model", depths_per_pass=0), 0, 0),
    ],
)
def test_passes_follow_from_the_depth(draft, k, passes):
    assert times(draft, k) == passes


@given(
    k=st.integers(1, 12),
    per=st.integers(0, 4),
    serial=st.none() | st.integers(0, 4),
    rereads=st.booleans(),
    by=st.sampled_from(["model", "head", "heads"]),
)
def test_a_chain_is_a_tree_of_one_node_per_level(k, per, serial, rereads, by):
    """Level by level, both drafts take as many passes, and rows differ by what the last pass has no
    levels for."""
    draft = Draft(by=by, heads=4, depths_per_pass=per, serial_depths=serial, rereads=rereads)
    chain = chain_passes(draft, np.asarray(float(k)))
    tree = tree_passes(draft, [1.0] * k, reread_tokens=float(k))
    assert sum(float(each.often) for each in chain) == len(tree)
    rows = [sum(float(e.often) * float(e.rows) for e in found) for found in (chain, tree)]
    assert rows[1] <= rows[0] + 1e-9 <= rows[1] + max(per - 1, 0) + 2e-9


@given(k=st.integers(1, 10))
def test_drafts_of_several_lengths_are_drafts_of_each(k):
    lengths = np.array([0.0, float(k), float(k + 1)])
    for draft in (Draft(by="model"), Draft(by="head", depths_per_pass=2, rereads=True)):
        together = sum(
            np.broadcast_to(each.often, lengths.shape) for each in chain_passes(draft, lengths)
        )
        assert together.tolist() == [times(draft, 0), times(draft, k), times(draft, k + 1)]
