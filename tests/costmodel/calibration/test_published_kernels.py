"""Shipped constants against measured kernels that travel with the tests, a few dozen of each table;
`test_reference_tables` scores whole tables where they lie beside us."""

import numpy as np
import pytest

from costmodel.calibration.calibrate import usable
from costmodel.calibration.tables import read_measurements
from costmodel.calibration.timing import timed
from costmodel.passes import kernels, ops
from hardware_profiles.loader import load_device

DEVICES = {"h100": "h100-sxm", "a100": "a100-sxm-80", "b200": "b200-sxm"}
# largest median and ninetieth percentile of |predicted / measured - 1|: half more than whole tables
# are held to, since two standard errors of the median of forty rows are about a third of it
BOUNDS = {
    "gemm": (0.06, 0.20),
    "attention_generation": (0.075, 0.225),
    "attention_context": (0.12, 0.36),
    "mla_generation": (0.075, 0.30),
    "moe": (0.12, 0.45),
    "allreduce": (0.15, 0.45),
}
FILES = [
    f"{table}_{device}_sxm.csv"
    for table, devices in {
        "gemm": DEVICES,
        "attn_gen_bf16": DEVICES,
        "attn_ctx_bf16": DEVICES,
        "mla_gen": ("h100", "a100"),
        "moe": DEVICES,
        "allreduce_vllm": ("h100", "a100"),
        "allreduce_trtllm": ("h100",),
    }.items()
    for device in devices
]


def device_of(file):
    return load_device(next(name for word, name in DEVICES.items() if word in file))


def scored(folder, file):
    """Rows of the table's operation that pass the filters of a calibration."""
    device = device_of(file)
    rows = max(read_measurements(folder / file), key=len)
    return device, rows.select(usable(device, rows))


def test_every_table_is_scored(published_kernels):
    assert sorted(FILES) == sorted(path.name for path in published_kernels.glob("*.csv"))


@pytest.mark.parametrize("file", FILES)
def test_measured_kernels_are_met(published_kernels, file):
    device, rows = scored(published_kernels, file)
    error = np.abs(timed(device, rows)[0] / rows.seconds - 1.0)
    median, p90 = BOUNDS[rows.operation]
    print(f"\n{file}: {len(rows)} rows, median {np.median(error):.1%}")
    assert len(rows) >= (16 if rows.operation == "allreduce" else 40)
    assert np.median(error) <= median and np.quantile(error, 0.9) <= p90


def test_products_are_met_twice_as_well_as_by_the_datasheet(published_kernels):
    device, rows = scored(published_kernels, "gemm_h100_sxm.csv")
    c = rows.columns
    work = ops.gemm(c["rows"], c["outputs"], c["inputs"], weight_bytes=2.0, activation_bytes=2.0)
    datasheet = kernels.roofline(device, work, "bf16").seconds
    errors = [np.abs(each / rows.seconds - 1.0) for each in (timed(device, rows)[0], datasheet)]
    assert np.median(errors[0]) < 0.5 * np.median(errors[1])


@pytest.mark.parametrize("device", DEVICES)
def test_no_measured_kernel_moves_bytes_faster_than_the_datasheet_says(published_kernels, device):
    for table in ("gemm", "attn_gen_bf16"):
        profile, rows = scored(published_kernels, f"{table}_{device}_sxm.csv")
        touched = timed(profile, rows)[1]
        assert np.all(touched / rows.seconds <= profile.bandwidth_bytes_per_s)
