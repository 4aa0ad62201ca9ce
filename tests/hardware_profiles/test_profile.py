"""The frozen records: immutable, hashable, picklable, in range."""

import copy
import math
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from hardware_profiles.frozen_table import FrozenTable
from hardware_profiles.loader import load_device
from hardware_profiles.profile import Device
from tests.every import every

RANGED = [each.name for each in fields(Device) if "range" in each.metadata]


@pytest.fixture(scope="module")
def device():
    return load_device("h100-sxm")


def test_nothing_can_be_changed(device):
    with pytest.raises(FrozenInstanceError):
        device.power_w = 1.0
    with pytest.raises(FrozenInstanceError):
        device.constants.gemm.norm = 1.0
    for table in (device.peak_flops_per_s, device.provenance, device.constants.residual_ratio):
        with pytest.raises(TypeError):
            table["bf16"] = 1.0
    with pytest.raises((AttributeError, TypeError)):
        device.peak_flops_per_s.extra = 1


def test_a_table_does_not_follow_the_dict_it_was_made_of(device):
    peaks = {"bf16": 1e15}
    changed = replace(device, peak_flops_per_s=peaks)
    peaks["bf16"] = 2e15
    assert changed.peak("bf16") == 1e15


def test_devices_cross_processes_and_serve_as_keys(device):
    for clone in (pickle.loads(pickle.dumps(device)), copy.deepcopy(device), replace(device)):
        assert clone == device
        assert hash(clone) == hash(device)
    assert replace(device, power_w=1.0) != device


@given(st.dictionaries(st.text(max_size=5), st.integers()))
def test_a_frozen_table_is_the_mapping_it_was_made_of(entries):
    table = FrozenTable(entries)
    assert table == entries
    assert dict(table) == entries
    assert hash(table) == hash(FrozenTable(dict(reversed(entries.items()))))
    assert len(table) == len(entries)
    assert repr(table) == f"FrozenTable({entries!r})"
    assert pickle.loads(pickle.dumps(table)) == table


def test_peak_of_a_missing_dtype_names_those_there_are(device):
    assert device.peak("bf16") == 989.4e12
    with pytest.raises(
        InputError,
        match=r"h100-sxm has no such peak; it has fp32, bf16, fp16, fp8, int8, got 'fp4'",
    ):
        device.peak("fp4")


@every("name", RANGED)
@every("bad", [math.nan, math.inf, -math.inf, -1, "80", True])
def test_device_numbers_out_of_range(device, name, bad):
    with pytest.raises(InputError) as caught:
        replace(device, **{name: bad})
    assert caught.value.key == name


def test_limits_that_are_meant(device):
    assert replace(device, price_usd_per_hour=None).price_usd_per_hour is None


def test_peaks_are_checked(device):
    for peaks, rule in (
        ({}, "at least one"),
        ({"fp7": 1e12}, "one of"),
        ({"bf16": 0.0}, "between"),
    ):
        with pytest.raises(InputError, match=rule):
            replace(device, peak_flops_per_s=peaks)
