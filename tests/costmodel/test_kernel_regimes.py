"""Which interval holds for a predicted time: that of its regime, or the operation's own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.kernels.regimes import holds, log_bounds
from costmodel.kernels.timing import Shares, Timing, shares
from hardware_profiles.residuals import Regime, Residuals

LEFT = Regime(launch=(0.0, 0.3), compute=(0.0, 1.0), low_ratio=-0.1, high_ratio=0.02)
RIGHT = Regime(launch=(0.3, 1.0), compute=(0.0, 1.0), low_ratio=-0.01, high_ratio=0.4)
BOTH = Residuals({"gemm": 0.2, "moe": 0.3}, {"gemm": (LEFT, RIGHT)})


@given(launch=st.floats(0.0, 1.0), compute=st.floats(0.0, 1.0))
def test_every_point_lies_in_one_regime_of_a_partition(launch, compute):
    where = Shares(np.asarray(launch), np.asarray(compute))
    inside = [bool(holds(each, where)) for each in (LEFT, RIGHT)]
    assert inside.count(True) == 1
    low, high = log_bounds(BOTH, "gemm", where)
    here = LEFT if inside[0] else RIGHT
    assert np.expm1([float(low), float(high)]) == pytest.approx([here.low_ratio, here.high_ratio])


def test_without_a_regime_the_half_width_holds():
    where = Shares(np.array([0.1, 0.9]), np.array([0.5, 0.5]))
    low, high = log_bounds(BOTH, "moe", where)
    np.testing.assert_allclose(high, np.log1p(0.3))
    np.testing.assert_allclose(low, -high)
    _, high = log_bounds(Residuals({"gemm": 0.2}, {"gemm": (LEFT,)}), "gemm", where)
    np.testing.assert_allclose(high, np.log1p([0.02, 0.2]))
    with pytest.raises(KeyError):
        log_bounds(BOTH, "mla", where)


def test_shares_lie_between_nothing_and_all():
    timing = Timing(np.array([10.0, 4.0]), np.array([3.0, 0.0]), np.array([6.0, 0.0]), np.array([1.0, 4.0]))
    found = shares(timing)
    np.testing.assert_allclose(found.launch, [0.1, 1.0])
    np.testing.assert_allclose(found.compute, [1 / 3, 0.0])
