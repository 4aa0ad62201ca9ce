"""Regimes: what they hold, how they widen, and that a table of them is as frozen as the profile it
belongs to."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from hardware_profiles.fitted.regime_lines import parse_regime, regime_line
from hardware_profiles.fitted.residuals import SIZES, Regime, Residuals
from hardware_profiles.frozen_table import FrozenTable
from hardware_profiles.loader import load_device
from hardware_profiles.overrides import overridden
from hardware_profiles.writer import write_device

LEFT = Regime(launch=(0.0, 0.3), compute=(0.0, 1.0), low_ratio=-0.1, high_ratio=0.02)
RIGHT = Regime(launch=(0.3, 1.0), compute=(0.0, 1.0), low_ratio=-0.01, high_ratio=0.4)
BOTH = Residuals({"gemm": 0.2, "moe": 0.3}, {"gemm": (LEFT, RIGHT)})
SIZED = Regime(
    launch=(0.3, 1.0), sizes={"rows": (64, float("inf"))}, low_ratio=-0.01, high_ratio=0.4
)
RATIO = {"low_ratio": st.floats(-0.9, 0.0), "high_ratio": st.floats(0.0, 9.0)}


@given(factor=st.floats(1.0, 5.0), low=RATIO["low_ratio"], high=RATIO["high_ratio"])
def test_widening_moves_both_ends_outwards(factor, low, high):
    before = Regime(sizes={"rows": (8.0, 64.0)}, low_ratio=low, high_ratio=high)
    after = before.wider(factor)
    assert all(
        after.span(axis) == before.span(axis) for axis in ("launch", "compute", "rows", "context")
    )
    assert after.low_ratio <= low * (1 - 1e-9) + 1e-12
    assert after.high_ratio >= high * (1 - 1e-9) - 1e-12


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"launch": (0.5, 0.5)}, "must rise"),
        ({"compute": (-0.1, 0.5)}, "must rise"),
        ({"compute": (0.1, 1.5)}, "must rise"),
        ({"low_ratio": 0.1}, "low_ratio"),
        ({"low_ratio": -1.0}, "low_ratio"),
        ({"high_ratio": -0.1}, "high_ratio"),
        ({"high_ratio": float("nan")}, "high_ratio"),
        ({"sizes": {"rows": (64.0, 64.0)}}, "sizes.rows"),
        ({"sizes": {"rows": (-1.0, 64.0)}}, "must rise from 0"),
        ({"sizes": {"rows": (float("nan"), 64.0)}}, "must rise from 0"),
        ({"sizes": {"row": (0.0, 64.0)}}, "nearest: rows"),
    ],
)
def test_regimes_that_mean_nothing_are_refused(changes, said):
    whole = {"launch": (0.0, 1.0), "compute": (0.0, 1.0), "low_ratio": -0.1, "high_ratio": 0.1}
    with pytest.raises(InputError, match=said):
        Regime(**(whole | changes))


def test_a_table_with_regimes_is_frozen_equal_and_travels():
    assert BOTH == {"gemm": 0.2, "moe": 0.3} == FrozenTable({"moe": 0.3, "gemm": 0.2})
    copy = pickle.loads(pickle.dumps(BOTH))
    assert copy == BOTH and copy.regimes == BOTH.regimes and hash(copy) == hash(BOTH)
    assert BOTH.changed("moe", 0.5).regimes == BOTH.regimes
    assert BOTH.changed("gemm", 0.5).regimes == {} and BOTH["gemm"] == 0.2
    assert BOTH.only("gemm") == {"gemm": 0.2, "moe": 0.0} and BOTH.only("moe").regimes == {}


def written(tmp_path, regimes):
    text = (tmp_path / "whole.toml").read_text(encoding="utf-8")
    head, tail = text.split("[constants.gemm]\n", 1)
    path = tmp_path / "mine.toml"
    path.write_text(f"{head}[constants.gemm]\nregimes = [{regimes}]\n{tail}", encoding="utf-8")
    return path


spans = st.tuples(st.floats(0.0, 1e6), st.floats(1e-3, 1e6)).map(
    lambda ends: (ends[0], ends[0] + ends[1])
)


@given(
    sizes=st.dictionaries(st.sampled_from(SIZES), spans),
    low=RATIO["low_ratio"],
    high=RATIO["high_ratio"],
)
def test_a_regime_survives_its_line(sizes, low, high):
    before = Regime(compute=(0.25, 1.0), sizes=sizes, low_ratio=low, high_ratio=high)
    assert parse_regime(regime_line(before)) == before


def test_a_regime_that_nothing_bounds_says_so():
    assert regime_line(Regime(low_ratio=-0.25, high_ratio=0.5)) == "everywhere: -0.25..0.5"
    assert parse_regime("everywhere: -0.25..0.5") == Regime(low_ratio=-0.25, high_ratio=0.5)


@pytest.fixture
def whole(tmp_path):
    device = overridden(load_device("h100-sxm"), "device.constants.residual_ratio.gemm=0.2")
    write_device(device, tmp_path / "whole.toml")
    return tmp_path


def test_regimes_survive_a_file_and_an_override_of_another_residual(whole):
    lines = (
        "'launch 0..0.25, compute 0.5..1: -0.05..0.1', 'launch 0.3..1, rows 64..inf: -0.01..0.4'"
    )
    device = load_device(written(whole, lines))
    assert device.constants.residuals.regimes["gemm"] == (
        Regime(launch=(0.0, 0.25), compute=(0.5, 1.0), low_ratio=-0.05, high_ratio=0.1),
        SIZED,
    )
    write_device(device, whole / "again.toml")
    assert (
        load_device(whole / "again.toml").constants.residuals.regimes
        == device.constants.residuals.regimes
    )
    other = overridden(device, "device.constants.residual_ratio.moe=0.5")
    assert other.constants.residuals.regimes["gemm"] == device.constants.residuals.regimes["gemm"]
    same = overridden(device, "device.constants.residual_ratio.gemm=0.5")
    assert (
        "gemm" not in same.constants.residuals.regimes
        and same.constants.residual_ratio["gemm"] == 0.5
    )


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("'launch 0..0.25, compute 0.5..1: 0.05..0.1'", "constants.gemm.regimes.low_ratio"),
        ("'launch 0.25..0: -0.05..0.1'", "must rise"),
        ("'launch 0..2: -0.05..0.1'", "must rise within [0, 1]"),
        ("'launch 0: -0.05..0.1'", "is not of the form"),
        ("'lunch 0..1: -0.05..0.1'", "unknown size 'lunch'"),
        ("'rose 0..1: -0.05..0.1'", "nearest: rows"),
        ("'rows 2..1: -0.05..0.1'", "must rise from 0"),
        ("'rows 1..2, rows 1..2: -0.05..0.1'", "is not of the form"),
        ("'rows 1..2 -0.05..0.1'", "is not of the form"),
        ("': -0.05..0.1'", "is not of the form"),
        ("'everywhere: -0.05..x'", "is not of the form"),
        ("{ launch = [0, 1] }", "valid string"),
        (",".join(["'everywhere: 0..0'"] * 65), "at most 64"),
    ],
)
def test_files_with_wrong_regimes_name_the_key(whole, entry, said):
    with pytest.raises(InputError, match=r"mine\.toml") as caught:
        load_device(written(whole, entry))
    assert said in str(caught.value)


def test_a_relative_hands_down_wider_regimes(tmp_path):
    """Constants of an uncalibrated device come with the interval of their regime, further apart."""
    theirs = load_device("h100-sxm").constants.residuals
    ours = load_device("h100-pcie").constants.residuals
    for name, regimes in theirs.regimes.items():
        if name in ours.regimes:
            for mine, own in zip(ours.regimes[name], regimes, strict=True):
                assert mine.low_ratio <= own.low_ratio and mine.high_ratio >= own.high_ratio
                assert mine.sizes == own.sizes
