"""A front holds the points that nothing beats in both quantities, in whatever order they come."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.optimizers.front import Front
from tests.property_examples import examples


@settings(max_examples=examples(50))
@given(points=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=30))
def test_the_front_holds_what_nothing_beats(points):
    x, y = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    whole, parts = Front(), Front()
    names = [(at, 0, 0, 0) for at in range(len(points))]
    whole.add(x, y, names)
    for at, name in enumerate(names):
        parts.add(x[at : at + 1], y[at : at + 1], [name])
    unbeaten = {
        (a, b)
        for a, b in points
        if not any((c >= a and d >= b) and (c, d) != (a, b) for c, d in points)
    }
    assert {*zip(whole.x.tolist(), whole.y.tolist(), strict=True)} == {
        (float(a), float(b)) for a, b in unbeaten
    }
    assert whole.names == parts.names
    assert whole.covers(x, y) and not whole.covers(x.max(keepdims=True) + 1, y[:1])
