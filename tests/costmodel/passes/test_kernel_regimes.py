"""Which interval holds for a predicted time: that of its regime, or the operation's own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.kernels.regimes import Place, holds, log_bounds, place
from costmodel.passes.kernels.timing import Timing, shares
from costmodel.passes.precision import Precision
from hardware_profiles.fitted.residuals import SIZES, Regime, Regimes, Residuals
from hardware_profiles.loader import load_device

LEFT = Regime(launch=(0.0, 0.3), low_ratio=-0.1, high_ratio=0.02)
FEW = Regime(launch=(0.3, 1.0), sizes={"rows": (0.0, 64.0)}, low_ratio=-0.01, high_ratio=0.4)
MANY = Regime(launch=(0.3, 1.0), sizes={"rows": (64.0, np.inf)}, low_ratio=-0.2, high_ratio=0.05)
BOTH = Residuals({"gemm": 0.2, "moe": 0.3}, {"gemm": (LEFT, FEW, MANY)})


def at(launch, **sizes):
    axes = {"launch": np.asarray(launch), "compute": np.full(np.shape(launch), 0.5)}
    found = {name: np.asarray(size) for name, size in sizes.items()}
    return Place(
        axes | found,
        np.broadcast_shapes(np.shape(launch), *(each.shape for each in found.values())),
    )


@given(launch=st.floats(0.0, 1.0), rows=st.floats(0.0, 1e6))
def test_every_point_lies_in_one_regime_of_a_partition(launch, rows):
    inside = holds(Regimes((LEFT, FEW, MANY)), at(launch, rows=rows))
    assert inside.tolist().count(True) == 1
    low, high = log_bounds(BOTH, "gemm", at(launch, rows=rows))
    here = LEFT if launch < 0.3 else FEW if rows < 64 else MANY
    assert np.expm1([float(low), float(high)]) == pytest.approx([here.low_ratio, here.high_ratio])


@given(seed=st.integers(0, 10_000))
def test_grids_are_looked_up_as_their_points_are(seed):
    generator = np.random.default_rng(seed)
    launch, rows = generator.uniform(0, 1, (4, 1)), generator.uniform(0, 128, (3,))
    grid = np.stack(log_bounds(BOTH, "gemm", at(launch, rows=rows)))
    assert grid.shape == (2, 4, 3)
    for i, j in np.ndindex(4, 3):
        assert tuple(grid[:, i, j]) == log_bounds(BOTH, "gemm", at(launch[i, 0], rows=rows[j]))


def test_without_a_regime_the_half_width_holds():
    low, high = log_bounds(BOTH, "moe", at([0.1, 0.9]))
    np.testing.assert_allclose(high, np.log1p(0.3))
    np.testing.assert_allclose(low, -high)
    _, high = log_bounds(Residuals({"gemm": 0.2}, {"gemm": (LEFT,)}), "gemm", at([0.1, 0.9]))
    np.testing.assert_allclose(high, np.log1p([0.02, 0.2]))
    with pytest.raises(KeyError):
        log_bounds(BOTH, "mla", at([0.1, 0.9]))


def test_a_call_of_unknown_size_is_in_no_regime_that_asks_for_it():
    _, high = log_bounds(BOTH, "gemm", at([0.1, 0.9]))
    np.testing.assert_allclose(high, np.log1p([0.02, 0.2]))
    alone = [log_bounds(BOTH, "gemm", at(launch))[1].item() for launch in (0.1, [0.9])]
    assert alone == high.tolist()
    timing = Timing(*(np.asarray(each) for each in (1.0, 0.2, 0.3, 0.5)))
    assert set(place(timing, {"rows": 3, "graphs": 1.0}).axes) == {"launch", "compute", "rows"}


@pytest.mark.parametrize("model", ["llama-3.1-8b", "deepseek-v3"])
def test_passes_tell_every_size_that_shipped_regimes_ask_for(model):
    """A regime that no pass could be placed in would leave the half width in force without a
    word."""
    device = load_device("h100-sxm")
    deployment = Deployment(architecture=load_model(model), device=device, precision=Precision())
    operations = pass_cost(
        deployment, batch=np.array([1.0, 64.0]), query_tokens=1, context=4096
    ).operations
    regimes = device.constants.residuals.regimes
    placed = set()
    for each in operations:
        if each.name in regimes:
            where = place(each.timing, each.sizes)
            assert set(regimes[each.name].axes) <= set(where.axes), each.name
            assert (holds(regimes[each.name], where).sum(axis=0) == 1).all(), each.name
            placed.add(each.name)
    assert placed == {"gemm", "attention"} if model == "llama-3.1-8b" else {"gemm", "mla", "moe"}
    assert all(set(each.sizes or ()) <= set(SIZES) for each in operations)


def test_shares_lie_between_nothing_and_all():
    timing = Timing(
        np.array([10.0, 4.0]), np.array([3.0, 0.0]), np.array([6.0, 0.0]), np.array([1.0, 4.0])
    )
    found = shares(timing)
    np.testing.assert_allclose(found.launch, [0.1, 1.0])
    np.testing.assert_allclose(found.compute, [1 / 3, 0.0])
