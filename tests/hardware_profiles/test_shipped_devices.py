"""Every device file that ships: complete provenance, sane sizes, honest marks."""

import math
import re
import tomllib
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.passes.forward import pass_cost
from hardware_profiles.fitted.constants import CONSTANT_NAMES, OPERATIONS
from hardware_profiles.loader import DATA, device_names, load_device
from hardware_profiles.profile import KINDS
from hardware_profiles.units import GIB, GIGA, KIB, MIB
from tests.every import every

# gigabytes that the maker names; the driver counts them as GiB and reports no more than that
SOLD_GB = {
    "a100-sxm-40": 40,
    "a100-sxm-80": 80,
    "a100-sxm-80--flashinfer": 80,
    "h100-pcie": 80,
    "h100-sxm": 80,
    "h100-sxm--own-passes": 80,
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
    **dict.fromkeys(("a10", "a30", "rtx-4090-d", "arc-pro-b60"), 24),
    **dict.fromkeys(("a40", "rtx-a6000", "rtx-6000-ada", "l20", "l40"), 48),
    **dict.fromkeys(("t4", "v100-sxm-16", "rtx-4080", "rtx-5080", "tpu-v5e"), 16),
    **dict.fromkeys(("v100-sxm-32", "v100-pcie-32", "rtx-5090", "tpu-v6e"), 32),
    **dict.fromkeys(("a100-pcie-80", "a800-sxm-80", "h800-sxm"), 80),
    **dict.fromkeys(("dgx-spark", "jetson-agx-thor", "mi250x", "mi300a", "gaudi3"), 128),
    **dict.fromkeys(("apple-m3-max", "apple-m4-max"), 128),
    **dict.fromkeys(("h20", "gaudi2", "apple-m2-max"), 96),
    **dict.fromkeys(("jetson-agx-orin-64", "mi210"), 64),
    **dict.fromkeys(("b300-sxm", "gb300", "mi355x"), 288),
    "mi250-die": 64,
    "tpu-v4": 32,
    "rtx-a5000": 24,
    "a100-pcie-40": 40,
    "h100-nvl": 94,
    "h200-nvl": 141,
    "gb200": 186,
    "gh200-144": 144,
    "rtx-3080": 10,
    "mi325x": 256,
    "tpu-v5p": 95,
    "apple-m2-ultra": 192,
    "apple-m3-ultra": 512,
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
    *(
        "b300-sxm",
        "gb200",
        "gb300",
        "h20",
        "h800-sxm",
        "h200-nvl",
        "h100-nvl",
        "a100-pcie-40",
        "a100-pcie-80",
    ),
    *(
        "a800-sxm-80",
        "a40",
        "a30",
        "rtx-a6000",
        "rtx-6000-ada",
        "rtx-5090",
        "rtx-5080",
        "rtx-4080",
        "rtx-3080",
        "l20",
    ),
    *(
        "t4",
        "v100-sxm-32",
        "mi210",
        "mi250x",
        "mi300a",
        "mi325x",
        "mi355x",
        "gaudi3",
        "tpu-v5e",
        "apple-m4-max",
    ),
    *("dgx-spark", "jetson-agx-orin-64", "jetson-agx-thor", "xeon-8480"),
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
    assert len(NAMES) >= 60


of_every_device = every("device", cache(lambda: list(map(load_device, NAMES))))


@of_every_device
def test_the_name_is_the_stem_of_the_file(device):
    assert device.name in NAMES
    assert (DATA / f"{device.name}.toml").is_file() or (
        DATA / "measured" / f"{device.name}.toml"
    ).is_file()


def sixteen_bit(device):
    """Dense peak of 16-bit products; older and mobile chips have no bf16."""
    return device.peak("bf16" if "bf16" in device.peak_flops_per_s else "fp16")


@of_every_device
def test_every_number_has_provenance(device):
    wanted = {*SCALARS, *(f"peak_flops_per_s.{dtype}" for dtype in device.peak_flops_per_s)}
    wanted |= {f"constants.{name}" for name in CONSTANT_NAMES}
    wanted |= {f"constants.residual_ratio.{operation}" for operation in OPERATIONS}
    wanted |= {
        name
        for name in ("price_usd_per_hour", "link_devices", "direct_devices")
        if getattr(device, name) is not None
    }
    for dtype, groups in device.formats.items():
        wanted |= {
            f"formats.{dtype}.{name}" for name in CONSTANT_NAMES if name.partition(".")[0] in groups
        }
        wanted |= {f"formats.{dtype}.residual_ratio.{operation}" for operation in groups}
    assert set(device.provenance) == wanted
    assert all(each.kind in KINDS and len(each.source) >= 10 for each in device.provenance.values())


@of_every_device
def test_what_is_not_checked_is_not_called_a_datasheet(device):
    for name, origin in device.provenance.items():
        if origin.kind != "assumed":
            assert "general knowledge" not in origin.source, name
            assert "assum" not in origin.source or "is assumed" in origin.source, name
        if name.startswith("constants."):
            assert origin.kind != "datasheet", name


@of_every_device
def test_sizes_are_sane(device):
    peak = sixteen_bit(device)
    low, high = (5, 1000) if device.kind == "cpu" else (20, 1000)
    assert low < peak / device.bandwidth_bytes_per_s < high
    assert device.cache_bytes < device.memory_bytes / 20
    assert device.host_link_bytes_per_s < device.bandwidth_bytes_per_s
    assert device.link_bytes_per_s < device.bandwidth_bytes_per_s
    sweep_s = device.memory_bytes / device.bandwidth_bytes_per_s
    assert 0.005 < sweep_s < 2, "reading the whole memory once"
    assert 1e8 < peak / device.power_w < 5e12


@of_every_device
def test_memory_is_what_the_driver_reports(device):
    """The bytes are those of the log that the source quotes, and the GiB on the box less a few
    percent at most."""
    if device.kind == "cpu":
        return
    origin = device.provenance["memory_bytes"]
    sold = SOLD_GB[device.name]
    if origin.kind == "assumed":
        assert f"{sold} GB" in origin.source and "GiB" in origin.source
        assert device.memory_bytes == pytest.approx(sold * GIB)
        return
    quoted, unit = re.search(r"([\d,]+) (MiB|KiB)", origin.source).groups()
    assert origin.kind == "measured"
    assert (
        round(device.memory_bytes) == int(quoted.replace(",", "")) * {"MiB": MIB, "KiB": KIB}[unit]
    )
    assert sold * GIGA < device.memory_bytes
    assert 0.93 < device.memory_bytes / (sold * GIB) <= 1.0


def test_one_chip_with_one_memory_reports_one_size():
    sizes = {name: load_device(name).memory_bytes for name in NAMES}
    assert sizes["h100-sxm"] == sizes["h100-pcie"]
    assert sizes["a100-sxm-80"] == sizes["a100-sxm-80--flashinfer"] == 2 * sizes["a100-sxm-40"]


@of_every_device
def test_quantised_dtypes_are_not_slower(device):
    peaks = [
        device.peak_flops_per_s[each]
        for each in ("fp32", "bf16", "fp8", "fp4")
        if each in device.peak_flops_per_s
    ]
    assert peaks == sorted(peaks)
    assert all(later / earlier < 40 for earlier, later in pairwise(peaks))


@of_every_device
def test_intervals_keep_a_positive_lower_end(device):
    assert all(0.01 < each <= 0.95 for each in device.constants.residual_ratio.values())


@of_every_device
def test_no_tile_beats_the_peak_of_its_processor(device):
    flops = 4 * 64 * 64 * 64 if device.kind == "cpu" else 4 * 64 * 64 * 128
    least_s = flops / (sixteen_bit(device) / device.processors)
    assert device.constants.unsplit.tile_s > least_s


@of_every_device
def test_launches_are_sensible(device):
    constants = device.constants
    for name in ("gemm.launch_s", "attention.launch_s", "elementwise.kernel_s"):
        assert 1e-6 <= constants.number(name) <= 5e-5
    assert 1 <= constants.gemm.norm < math.inf
    assert constants.elementwise.kernels_per_layer == 5


@of_every_device
def test_calibrated_means_that_gemm_and_attention_were_measured_here(device):
    kinds = {device.provenance[f"constants.{name}.launch_s"].kind for name in ("gemm", "attention")}
    assert device.calibrated == (kinds == {"measured"})


def test_which_devices_are_calibrated():
    assert {name for name in EXPECTED if load_device(name).calibrated} == {
        "h100-sxm",
        "a100-sxm-80",
        "b200-sxm",
        "rtx-pro-6000",
    }


@every("name", EXPECTED)
def test_files_hold_scaled_units_only_in_keys(name):
    content = tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))
    units = {"GB", "GB_per_s", "MB", "count", "W", "usd_per_hour"}
    tables = [each for each in content.values() if isinstance(each, dict) and "source" in each]
    assert len(tables) >= 7
    assert all(len(units & set(each)) == 1 for each in tables)


def test_the_generic_cpu_predicts_the_passes_it_was_derived_from():
    """Whole passes of a 135M-parameter model in bf16 on two threads: 31, 39, 68 and 203 ms were
    measured."""
    device = load_device("cpu-generic")
    constants, weights = device.constants, 134.5e6
    for tokens, measured_s in ((1, 0.031), (8, 0.039), (32, 0.068), (128, 0.203)):
        bytes_s = 2 * weights / (device.bandwidth_bytes_per_s * constants.gemm.bandwidth_efficiency)
        flops_s = 2 * weights * tokens / (device.peak("bf16") * constants.gemm.compute_efficiency)
        predicted_s = 211 * constants.gemm.launch_s + bytes_s + flops_s
        assert predicted_s == pytest.approx(measured_s, rel=0.15)


@pytest.mark.parametrize("name", ["h100-sxm", "a100-sxm-80"])
def test_every_kernel_operation_of_the_calibrated_devices_was_measured(name):
    device = load_device(name)
    measured = {
        each
        for each in OPERATIONS
        if device.provenance[f"constants.residual_ratio.{each}"].kind == "measured"
    }
    assert {"gemm", "attention", "context", "mla", "moe", "allreduce", "trtllm", "nccl"} <= measured
    source = device.provenance["constants.gemm.launch_s"].source
    assert "fitted to" in source and "on the others median error" in source


@of_every_device
def test_prices_are_dated(device):
    if device.price_usd_per_hour is not None:
        assert re.search(r"20\d\d", device.provenance["price_usd_per_hour"].source)


@of_every_device
@every("model", ["llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3.2", "qwen3.5-27b"])
def test_every_device_predicts_every_kind_of_model(device, model):
    """Finite, and no faster with a longer context."""
    asked = DecodingConfiguration(
        deployment=DeploymentNames(model=model, device=device.name, engine="none")
    )
    deployment = build_setting(asked).deployment
    for prefill, tokens in ((False, 1), (False, 4), (True, 512)):
        cost = pass_cost(
            deployment, batch=4, query_tokens=tokens, context=np.array([0, 4096]), prefill=prefill
        )
        assert np.all(np.isfinite(cost.total_s)) and np.all(cost.total_s > 0)
        assert cost.total_s[0] <= cost.total_s[1]
