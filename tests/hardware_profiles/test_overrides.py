"""`--set device.<key>=<number>`: every key can be set, nothing else moves, and wrong ones are
refused."""

import math
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.fitted.constants import CONSTANT_NAMES
from hardware_profiles.loader import load_device
from hardware_profiles.overrides import overridden, override_keys
from hardware_profiles.profile import Device
from tests.every import every

DEVICE = load_device("h100-sxm")
KEYS = override_keys()


def flat(device):
    numbers = {each.name: getattr(device, each.name) for each in fields(Device)}
    numbers |= {f"peak_flops_per_s.{name}": each for name, each in device.peak_flops_per_s.items()}
    constants = device.constants
    numbers |= {f"constants.{name}": constants.number(name) for name in CONSTANT_NAMES}
    numbers |= {"corrections": constants.corrections}
    numbers |= {
        f"constants.residual_ratio.{name}": each for name, each in constants.residual_ratio.items()
    }
    tables = ("constants", "peak_flops_per_s", "provenance", "calibrated")
    return {name: each for name, each in numbers.items() if name not in tables}


@given(st.sampled_from(KEYS), st.floats(1.01, 1.5))
def test_one_number_moves_and_nothing_else(key, factor):
    name = key.removeprefix("device.")
    before = flat(DEVICE)
    least = (
        100.0 if name in ("link_devices", "direct_devices") else 0.1
    )  # a link joins two devices at least
    number = (before[name] or least) if name in before else 1e15
    target = round(number * factor) if name == "processors" else number * factor
    try:
        device = overridden(DEVICE, f"{key}={target!r}")
    except InputError:
        assert "efficiency" in name or name.endswith("_ratio"), (
            "only ratios near their upper end may be refused"
        )
        return
    after = flat(device)
    assert after.pop(name) == target
    before.pop(name, None)
    assert after == before
    assert (device.provenance[name].kind, device.provenance[name].source) == (
        "assumed",
        "set on the command line",
    )
    others = {each: origin for each, origin in device.provenance.items() if each != name}
    assert others == {each: origin for each, origin in DEVICE.provenance.items() if each != name}
    assert device.calibrated == (not name.startswith("constants."))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("bandwidth_bytes_per_s=3.35TB/s", "bandwidth_bytes_per_s=3.35e12"),
        ("memory_bytes=96GiB", "memory_bytes=103079215104"),
    ],
)
def test_bytes_have_units(text, plain):
    assert overridden(DEVICE, f"device.{text}") == overridden(DEVICE, f"device.{plain}")


@given(
    st.sampled_from(KEYS),
    st.sampled_from(["nan", "5TB/h", "3W", "-1", "-inf", "-1e-9", "", "fast", "1e", "0x10", "1,5"]),
)
def test_wrong_numbers_are_refused_under_their_key(key, text):
    with pytest.raises(InputError) as caught:
        overridden(DEVICE, f"{key}={text}")
    assert caught.value.key == key
    assert caught.value.value == text


@pytest.mark.parametrize(
    "name",
    [
        "bandwidth_bytes_per_s",
        "memory_bytes",
        "processors",
        "link_bytes_per_s",
        "host_link_bytes_per_s",
        "power_w",
        "peak_flops_per_s.bf16",
        "constants.gemm.compute_efficiency",
        "constants.gemm.norm",
        "constants.residual_ratio.gemm",
    ],
)
def test_zero_is_refused_where_something_is_divided_by_it(name):
    with pytest.raises(InputError, match=rf"device\.{name}: must lie between .* got '0'"):
        load_device("h100-sxm", [f"device.{name}=0"])


def test_zero_is_allowed_for_costs():
    device = load_device("h100-sxm", ["device.constants.gemm.launch_s=0", "device.cache_bytes=0"])
    assert device.constants.gemm.launch_s == 0 and device.cache_bytes == 0


def test_the_shipped_device_is_untouched_and_later_overrides_win():
    device = load_device("H200 SXM", ["device.power_w=500", " device.power_w = 600 "])
    assert device.power_w == 600
    assert load_device("h200-sxm").power_w == 700


def test_overrides_apply_to_relatives_not_through_them():
    device = load_device("l4", ["device.peak_flops_per_s.bf16=1e14"])
    assert device.constants == load_device("l4").constants


def test_a_dtype_that_was_not_there_can_be_added():
    device = load_device(
        "a100-sxm-80", ["device.peak_flops_per_s.fp8=6.24e14", "device.processors=54"]
    )
    assert device.peak("fp8") == 6.24e14
    assert device.processors == 54 and isinstance(device.processors, int)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("device.bandwith_bytes_per_s=1e12", "nearest: device.bandwidth_bytes_per_s"),
        ("bandwidth_bytes_per_s=1e12", "device.bandwidth_bytes_per_s"),
        ("device.bandwidth=1e12", "device.bandwidth_bytes_per_s"),
        ("device.peak_flops_per_s.fp7=1e12", "device.peak_flops_per_s.fp"),
        ("device.constants.gemm_launch_us=3", "device.constants.gemm.launch_s"),
        ("device.name=5", "nearest: "),
        ("device.calibrated=1", "nearest: "),
        ("=5", "unknown key ''"),
    ],
)
def test_unknown_keys_offer_the_nearest(override, said):
    with pytest.raises(UnknownNameError) as caught:
        load_device("h100-sxm", [override])
    assert said in str(caught.value)


@every("name", CONSTANT_NAMES)
def test_earlier_names_of_constants_offer_today_s_first(name):
    with pytest.raises(UnknownNameError, match=rf"nearest: device\.constants\.{name}\b"):
        load_device("h100-sxm", [f"device.constants.{name.replace('.', '_')}=0.5"])


def test_an_override_needs_a_number():
    with pytest.raises(InputError, match=r"device.<key>=<number>"):
        load_device("h100-sxm", ["device.power_w"])
    with pytest.raises(InputError, match="whole number"):
        load_device("h100-sxm", ["device.processors=131.5"])
    with pytest.raises(InputError, match="must lie between"):
        load_device("h100-sxm", ["device.bandwidth_bytes_per_s=inf"])
    assert (
        load_device("h100-sxm", ["device.constants.gemm.norm=inf"]).constants.gemm.norm == math.inf
    )


@given(st.text(max_size=40))
def test_any_text_changes_the_device_or_is_an_input_error(text):
    try:
        overridden(DEVICE, text)
    except InputError as error:
        assert error.exit_code == 2
    else:
        assert text.partition("=")[0].strip() in KEYS
