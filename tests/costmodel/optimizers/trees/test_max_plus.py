"""The convolution, in numpy and compiled, against its definition."""

from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from costmodel.optimizers.trees import max_plus as convolution
from costmodel.optimizers.trees.max_plus import best_share, max_plus

VALUES = st.one_of(st.just(-np.inf), st.floats(-100, 100))


def by_definition(rest, gains):
    out = np.full(rest.size, -np.inf)
    for n in range(rest.size):
        for y in range(min(n + 1, gains.size)):
            out[n] = max(out[n], rest[n - y] + gains[y])
    return out


@given(st.lists(VALUES, min_size=1, max_size=40), st.data())
def test_every_split_is_weighed(rest, data):
    rest = np.array(rest)
    gains = np.array(data.draw(st.lists(VALUES, max_size=rest.size)))
    before = rest.copy(), gains.copy()
    assert np.array_equal(max_plus(rest, gains), by_definition(rest, gains))
    assert np.array_equal(rest, before[0])
    assert np.array_equal(gains, before[1])


@given(st.lists(VALUES, min_size=1, max_size=40), st.data())
def test_numpy_and_the_compiled_loop_agree_to_the_last_bit(rest, data):
    rest = np.array(rest)
    gains = np.array(data.draw(st.lists(VALUES, min_size=1, max_size=rest.size)))
    plain = convolution.max_plus(rest, gains)
    with mock.patch.object(convolution, "_MOST_PLAIN", 0):
        assert plain.tobytes() == convolution.max_plus(rest, gains).tobytes()


@given(st.lists(VALUES, min_size=1, max_size=20), st.data())
def test_the_share_found_attains_the_best_value(rest, data):
    rest = np.array(rest)
    gains = np.array(data.draw(st.lists(VALUES, min_size=1, max_size=rest.size)))
    best = max_plus(rest, gains)
    for budget in np.flatnonzero(np.isfinite(best)):
        share = best_share(rest, gains, int(budget))
        assert rest[budget - share] + gains[share] == best[budget]
        smaller = [rest[budget - y] + gains[y] for y in range(share)]
        assert all(total < best[budget] for total in smaller)
