"""Constants of narrow formats: read, written, inherited, and used in the place of those of 16 bits
and nowhere else."""

from dataclasses import asdict, replace

import pytest

from hardware_profiles.errors import InputError
from hardware_profiles.fitted.constants import CONSTANT_NAMES
from hardware_profiles.loader import DATA, load_device
from hardware_profiles.writer import write_device

B200 = load_device("b200-sxm")


def test_a_format_replaces_its_operations_and_nothing_else():
    narrow = B200.in_format("fp8")
    changed = {
        name
        for name in CONSTANT_NAMES
        if narrow.constants.number(name) != B200.constants.number(name)
    }
    assert changed and {name.partition(".")[0] for name in changed} == set(B200.formats["fp8"])
    assert narrow.constants.gemm.launch_s == B200.formats["fp8"]["gemm"].constants.launch_s
    assert narrow.constants.residual_ratio["gemm"] == B200.formats["fp8"]["gemm"].residual_ratio
    assert (
        narrow.provenance["constants.gemm.launch_s"] == B200.provenance["formats.fp8.gemm.launch_s"]
    )
    assert B200.in_format("bf16") is B200


def test_formats_survive_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    write_device(B200, path)
    read = load_device(path)
    for dtype, groups in B200.formats.items():
        assert set(read.formats[dtype]) == set(groups)
        for operation, group in groups.items():
            again = read.formats[dtype][operation]
            assert asdict(again.constants) == pytest.approx(asdict(group.constants))
            assert (again.residual_ratio, again.regimes, again.correction) == (
                group.residual_ratio,
                group.regimes,
                group.correction,
            )
    assert {name for name in read.provenance if name.startswith("formats.")} == {
        name for name in B200.provenance if name.startswith("formats.")
    }


def test_blocks_of_weights_survive_a_file_although_no_device_has_a_peak_in_them(tmp_path):
    path = tmp_path / "mine.toml"
    group = B200.formats["fp8"]["gemm"]
    origins = {
        name.replace("formats.fp8", "formats.q4_k"): each
        for name, each in B200.provenance.items()
        if name.startswith("formats.fp8")
    }
    write_device(
        replace(B200, formats={"q4_k": {"gemm": group}}, provenance={**B200.provenance, **origins}),
        path,
    )
    assert asdict(load_device(path).formats["q4_k"]["gemm"].constants) == pytest.approx(
        asdict(group.constants)
    )


@pytest.mark.parametrize("name", ["gb200", "b300-sxm", "gb300", "jetson-agx-thor"])
def test_relatives_carry_formats_over_with_wider_intervals(name):
    heir = load_device(name)
    assert heir.formats["fp8"]["gemm"].constants == B200.formats["fp8"]["gemm"].constants
    assert heir.formats["fp8"]["gemm"].residual_ratio > B200.formats["fp8"]["gemm"].residual_ratio
    assert heir.formats["fp8"]["moe"].correction is None
    assert heir.provenance["formats.fp8.gemm.launch_s"].kind == "assumed"
    assert "carried over from b200-sxm" in heir.provenance["formats.fp8.gemm.launch_s"].source


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("", "formats.fp8.prefill.compute_efficiency"),
        ("compute_efficiency = 7.0", "formats.fp8.prefill.compute_efficiency"),
        ("compute_eficiency = 0.7", "formats.fp8.prefill"),
    ],
)
def test_what_is_wrong_in_a_format_is_named(tmp_path, line, key):
    text = (DATA / "b200-sxm.toml").read_text()
    head, tail = text.split("[formats.fp8.prefill]")
    path = tmp_path / "b200-sxm.toml"
    path.write_text(
        head + "[formats.fp8.prefill]" + tail.replace("compute_efficiency = 0.61", line, 1)
    )
    with pytest.raises(InputError, match=key):
        load_device(path)


def test_constants_that_a_file_may_leave_out_leave_the_form_as_it_was(tmp_path):
    text = (DATA / "b200-sxm.toml").read_text()
    path = tmp_path / "b200-sxm.toml"
    path.write_text(
        "\n".join(
            line for line in text.splitlines() if not line.startswith(("row_tile", "reread_ratio"))
        )
    )
    constants = load_device(path).constants
    assert (constants.context.row_tile, constants.mla.reread_ratio) == (64.0, 0.0)
