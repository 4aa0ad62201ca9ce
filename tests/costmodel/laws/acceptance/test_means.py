"""Rates of measured means, against scipy's regression and root finding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, isotonic_regression

from costmodel.laws.acceptance.means import rates_of_means

MEANS = st.dictionaries(st.integers(1, 16), st.floats(0, 1), min_size=1, max_size=8).map(
    lambda found: {k: 1.0 + share * k for k, share in found.items()}
)


def beyond(rate, wanted, span):
    return sum(rate**step for step in range(1, span + 1)) - wanted


def by_scipy(means):
    lengths = sorted(means)
    spans = np.diff([0, *lengths])
    gains = np.diff([1.0, *(means[k] for k in lengths)]) / spans
    falling = np.clip(isotonic_regression(gains, weights=spans, increasing=False).x, 0.0, 1.0)
    found = []
    for span, gain in zip(spans.tolist(), (falling * spans).tolist(), strict=True):
        before = found[-1] if found else 1.0
        wanted = gain / before if before > 0 else 0.0
        rate = 1.0 if wanted >= span else brentq(beyond, 0.0, 1.0, args=(wanted, span))
        found += [before * rate**step for step in range(1, span + 1)]
    return found


@given(MEANS)
def test_rates_are_those_of_scipy(means):
    assert rates_of_means(means) == pytest.approx(by_scipy(means), abs=1e-9)


@given(MEANS)
def test_rates_never_increase(means):
    rates = rates_of_means(means)
    assert all(
        0.0 <= later <= sooner + 1e-12 for sooner, later in zip([1.0, *rates], rates, strict=False)
    )
