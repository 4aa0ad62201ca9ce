"""Every device file that ships: complete provenance, sane sizes, honest marks."""

import math
import re
import tomllib
from itertools import pairwise

import pytest

from hardware_profiles.loader import DATA, device_names, load_device
from hardware_profiles.profile import CONSTANT_NAMES, KINDS, OPERATIONS
from hardware_profiles.units import GIB, GIGA, KIB, MIB

# gigabytes that the maker names; the driver counts them as GiB and reports no more than that
SOLD_GB = {
    "a100-sxm-40": 40,
    "a100-sxm-80": 80,
    "a100-sxm-80--flashinfer": 80,
    "h100-pcie": 80,
    "h100-sxm": 80,
    "h200-sxm": 141,
    "b200-sxm": 180,
    "gh200-96": 96,
    "l4": 24,
    "l40s": 48,
    "a10g": 24,
    "rtx-3090": 24,
    "rtx-4090": 24,
    "rtx-pro-6000": 96,
    "mi300x": 192,
}

NAMES = device_names()
EXPECTED = [
    "a100-sxm-40",
    "a100-sxm-80",
    "h100-pcie",
    "h100-sxm",
    "h200-sxm",
    "b200-sxm",
    "l4",
    "l40s",
    "rtx-4090",
    "rtx-pro-6000",
    "mi300x",
    "epyc-9654",
    "cpu-generic",
    "a10g",
    "rtx-3090",
    "gh200-96",
]
SCALARS = [
    "memory_bytes",
    "bandwidth_bytes_per_s",
    "cache_bytes",
    "processors",
    "link_bytes_per_s",
    "host_link_bytes_per_s",
    "power_w",
]


def test_the_promised_devices_are_there():
    assert set(EXPECTED) <= set(NAMES)


@pytest.fixture(params=NAMES)
def device(request):
    return load_device(request.param)


def test_the_name_is_the_stem_of_the_file(device):
    assert device.name in NAMES
    assert (DATA / f"{device.name}.toml").is_file() or (DATA / "measured" / f"{device.name}.toml").is_file()


def test_every_number_has_provenance(device):
    wanted = {*SCALARS, *(f"peak_flops_per_s.{dtype}" for dtype in device.peak_flops_per_s)}
    wanted |= {f"constants.{name}" for name in CONSTANT_NAMES}
    wanted |= {f"constants.residual_ratio.{operation}" for operation in OPERATIONS}
    if device.price_usd_per_hour is not None:
        wanted.add("price_usd_per_hour")
    assert set(device.provenance) == wanted
    assert all(each.kind in KINDS and len(each.source) >= 10 for each in device.provenance.values())


def test_what_is_not_checked_is_not_called_a_datasheet(device):
    for name, origin in device.provenance.items():
        if origin.kind != "assumed":
            assert "general knowledge" not in origin.source, name
            assert "assum" not in origin.source or "is assumed" in origin.source, name
        if name.startswith("constants."):
            assert origin.kind != "datasheet", name


def test_sizes_are_sane(device):
    peak = device.peak("bf16")
    low, high = (5, 100) if device.kind == "cpu" else (50, 500)
    assert low < peak / device.bandwidth_bytes_per_s < high
    assert device.cache_bytes < device.memory_bytes / 20
    assert device.host_link_bytes_per_s < device.bandwidth_bytes_per_s
    assert device.link_bytes_per_s < device.bandwidth_bytes_per_s
    sweep_s = device.memory_bytes / device.bandwidth_bytes_per_s
    assert 0.005 < sweep_s < 2, "reading the whole memory once"
    assert 1e8 < peak / device.power_w < 5e12


def test_memory_is_what_the_driver_reports(device):
    """The bytes are those of the log that the source quotes, and the GiB on the box less a few percent at most."""
    if device.kind == "cpu":
        return
    origin = device.provenance["memory_bytes"]
    quoted, unit = re.search(r"([\d,]+) (MiB|KiB)", origin.source).groups()
    assert origin.kind == "measured"
    assert round(device.memory_bytes) == int(quoted.replace(",", "")) * {"MiB": MIB, "KiB": KIB}[unit]
    sold = SOLD_GB[device.name]
    assert sold * GIGA < device.memory_bytes
    assert 0.93 < device.memory_bytes / (sold * GIB) <= 1.0


def test_one_chip_with_one_memory_reports_one_size():
    sizes = {name: load_device(name).memory_bytes for name in NAMES}
    assert sizes["h100-sxm"] == sizes["h100-pcie"]
    assert sizes["a100-sxm-80"] == sizes["a100-sxm-80--flashinfer"] == 2 * sizes["a100-sxm-40"]


def test_quantised_dtypes_are_not_slower(device):
    peaks = [
        device.peak_flops_per_s[each] for each in ("fp32", "bf16", "fp8", "fp4") if each in device.peak_flops_per_s
    ]
    assert peaks == sorted(peaks)
    assert all(later / earlier < 40 for earlier, later in pairwise(peaks))


def test_intervals_keep_a_positive_lower_end(device):
    assert all(0.01 < each <= 0.95 for each in device.constants.residual_ratio.values())


def test_no_tile_beats_the_peak_of_its_processor(device):
    flops = 4 * 64 * 64 * 128 if device.kind == "gpu" else 4 * 64 * 64 * 64
    least_s = flops / (device.peak("bf16") / device.processors)
    assert device.constants.unsplit_tile_s > least_s


def test_launches_are_sensible(device):
    constants = device.constants
    for name in ("gemm_launch_s", "attention_launch_s", "elementwise_kernel_s"):
        assert 1e-6 <= getattr(constants, name) <= 5e-5
    assert 1 <= constants.gemm_norm < math.inf
    assert constants.elementwise_kernels_per_layer == 5


def test_calibrated_means_that_gemm_and_attention_were_measured_here(device):
    kinds = {device.provenance[f"constants.{name}_launch_s"].kind for name in ("gemm", "attention")}
    assert device.calibrated == (kinds == {"measured"})


def test_which_devices_are_calibrated():
    assert {name for name in EXPECTED if load_device(name).calibrated} == {"h100-sxm", "a100-sxm-80", "rtx-pro-6000"}


@pytest.mark.parametrize("name", EXPECTED)
def test_files_hold_scaled_units_only_in_keys(name):
    content = tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))
    units = {"GB", "GB_per_s", "MB", "count", "W", "usd_per_hour"}
    tables = [each for each in content.values() if isinstance(each, dict) and "source" in each]
    assert len(tables) >= 7
    assert all(len(units & set(each)) == 1 for each in tables)


def test_the_generic_cpu_predicts_the_passes_it_was_derived_from():
    """Whole passes of a 135M-parameter model in bf16 on two threads: 31, 39, 68 and 203 ms were measured."""
    device = load_device("cpu-generic")
    constants, weights = device.constants, 134.5e6
    for tokens, measured_s in ((1, 0.031), (8, 0.039), (32, 0.068), (128, 0.203)):
        bytes_s = 2 * weights / (device.bandwidth_bytes_per_s * constants.gemm_bandwidth_efficiency)
        flops_s = 2 * weights * tokens / (device.peak("bf16") * constants.gemm_compute_efficiency)
        predicted_s = 211 * constants.gemm_launch_s + bytes_s + flops_s
        assert predicted_s == pytest.approx(measured_s, rel=0.15)


@pytest.mark.parametrize("name", ["h100-sxm", "a100-sxm-80"])
def test_every_kernel_operation_of_the_calibrated_devices_was_measured(name):
    device = load_device(name)
    measured = {each for each in OPERATIONS if device.provenance[f"constants.residual_ratio.{each}"].kind == "measured"}
    assert {"gemm", "attention", "context", "mla", "moe", "allreduce", "trtllm", "nccl"} <= measured
    source = device.provenance["constants.gemm_launch_s"].source
    assert "fitted to" in source and "on the others median error" in source
