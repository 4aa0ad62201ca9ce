"""Devices that cannot be: refused by key, with the number, and never divided by."""

import re

import pytest

from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from hardware_profiles.template import device_template

NUMBERS = ["memory", "bandwidth", "cache", "processors", "bf16", "fp8", "widening"]


@pytest.fixture(scope="module")
def text():
    return device_template("mine").replace("# widening", "widening")


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", '"many"', "true"])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_cannot_be_is_refused_under_a_relative_too(text, tmp_path, name, value):
    file = tmp_path / "mine.toml"
    changed = re.sub(rf"(?m)^({name} = {{ \w+ = )[^,]+", rf"\g<1>{value}", text)
    assert changed != text
    file.write_text(changed)
    if name == "cache" and value == "0":
        assert load_device(str(file)).cache_bytes == 0  # a device may have none
        return
    with pytest.raises(InputError, match=name) as refused:
        load_device(str(file))
    assert str(file) in str(refused.value)


@pytest.mark.parametrize("name", NUMBERS)
def test_an_unknown_key_beside_a_number_is_named(text, tmp_path, name):
    file = tmp_path / "mine.toml"
    file.write_text(re.sub(rf"(?m)^({name} = {{ )", r"\g<1>colour = 3, ", text))
    with pytest.raises(InputError, match=r"colour"):
        load_device(str(file))
