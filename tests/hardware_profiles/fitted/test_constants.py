"""Records of constants: each belongs to one operation, and refuses numbers out of its range."""

import math
from dataclasses import fields, replace

import pytest

from hardware_profiles.errors import InputError
from hardware_profiles.fitted.constants import CONSTANT_NAMES, OPERATIONS, Constants
from hardware_profiles.loader import load_device
from tests.every import every


@pytest.fixture(scope="module")
def device():
    return load_device("h100-sxm")


@every("name", CONSTANT_NAMES)
@every("bad", [math.nan, -math.inf, -1, None])
def test_constants_out_of_range(device, name, bad):
    with pytest.raises(InputError) as caught:
        device.constants.changed({name: bad})
    assert caught.value.key == f"constants.{name}"


@every("name", [name for name in CONSTANT_NAMES if name.endswith(("efficiency", "norm"))])
def test_an_efficiency_of_zero_would_divide_by_it(device, name):
    with pytest.raises(InputError, match="must lie between"):
        device.constants.changed({name: 0.0})


def test_every_operation_has_a_residual(device):
    partial = {name: 0.1 for name in OPERATIONS if name != "moe"}
    with pytest.raises(InputError, match="missing: moe"):
        replace(device.constants, residual_ratio=partial)


def test_every_operation_is_a_record_of_its_name(device):
    assert set(OPERATIONS) == {each.name for each in fields(Constants)} - {
        "residual_ratio",
        "corrections",
    }
    for operation in OPERATIONS:
        assert device.constants.of(operation).operation == operation
    assert len(set(CONSTANT_NAMES)) == len(CONSTANT_NAMES)
    assert {name.partition(".")[0] for name in CONSTANT_NAMES} == set(OPERATIONS)


def test_changing_constants_leaves_all_others(device):
    changed = device.constants.changed({"gemm.launch_s": 1e-6, "host.layer_s": 0.5})
    assert {
        name for name in CONSTANT_NAMES if changed.number(name) != device.constants.number(name)
    } == {"gemm.launch_s", "host.layer_s"}
    assert changed.residuals is device.constants.residuals


def test_limits_that_are_meant(device):
    assert device.constants.changed({"gemm.norm": math.inf}).gemm.norm == math.inf
    with pytest.raises(InputError, match=r"prefill\.compute_efficiency"):
        device.constants.changed({"prefill.compute_efficiency": 1.01})
