"""Tables of corrections: what a profile may hold, and that a relative does not inherit them."""

import pytest

from hardware_profiles.errors import InputError
from hardware_profiles.fitted.corrections import CORRECTED, Correction
from hardware_profiles.loader import device_names, load_device
from hardware_profiles.writer import write_device

AXES = ((0.0, 1.0), (0.0, 0.5, 1.0))
VALUES = (0.0, 0.1, -0.1, 0.02, 0.03, 0.2)


@pytest.mark.parametrize(
    ("axes", "values", "said"),
    [
        (((0.0,), (0.0, 1.0)), (0.0, 0.0), "at least two nodes"),
        (((0.0, 0.0), (0.0, 1.0)), (0.0,) * 4, "rising"),
        (((0.0, float("nan")),), (0.0, 0.0), "rising"),
        (AXES, VALUES[:5], "one value per node, 6"),
        ((), (), "one value per node"),
        ((tuple(map(float, range(2000))),), (0.0,) * 2000, "at most 1024"),
        (AXES, (*VALUES[:5], 0.5), "within 0.2 of 0"),
        (AXES, (*VALUES[:5], float("nan")), "within 0.2 of 0"),
    ],
)
def test_tables_that_mean_nothing_are_refused(axes, values, said):
    with pytest.raises(InputError, match=said):
        Correction(axes=axes, values=values)


def test_only_some_operations_have_one():
    device = load_device("h100-sxm")
    wrong = Correction(axes=AXES, values=VALUES)
    for name in ("attention", "gemm"):  # gemm's has three axes
        with pytest.raises(InputError, match="only these have a correction"):
            type(device.constants)(**_constants(device, {name: wrong}))


def _constants(device, corrections):
    from dataclasses import fields

    given = {each.name: getattr(device.constants, each.name) for each in fields(device.constants)}
    return given | {"corrections": corrections}


def test_a_table_survives_a_file(tmp_path):
    device = load_device("h100-sxm")
    assert set(device.constants.corrections) == set(CORRECTED)
    write_device(device, tmp_path / "mine.toml")
    assert load_device(tmp_path / "mine.toml").constants.corrections == device.constants.corrections


def test_a_wrong_table_in_a_file_names_the_key(tmp_path):
    write_device(load_device("l4"), tmp_path / "whole.toml")
    head, tail = (tmp_path / "whole.toml").read_text(encoding="utf-8").split("[constants.moe]\n", 1)
    table = "correction = { axes = [[0, 1], [0, 1]], values = [0, 0, 0] }\n"
    (tmp_path / "mine.toml").write_text(f"{head}[constants.moe]\n{table}{tail}", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_device(tmp_path / "mine.toml")
    assert caught.value.key == "constants.moe.correction.values"
    assert "mine.toml" in str(caught.value)


def test_corrections_are_not_handed_down():
    """Which of its kernels a library picks depends on the very device."""
    for name in device_names():
        device = load_device(name)
        for operation in device.constants.corrections:
            kind = device.provenance[f"constants.{operation}.launch_s"]
            assert kind.kind == "measured" and "carried over" not in kind.source
    assert not load_device("h100-pcie").constants.corrections
