"""A minute of measuring makes a profile: of rows that a machine's own roofs made, its numbers are
found again, on a processor and on pretended GPUs."""

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")

import torch

from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import load_device
from hardware_profiles.writer import write_device
from real_runs.calibration import measured
from real_runs.calibration.measured import LEAST_BUDGET_S, measure_device
from real_runs.kernels.machine import Machine
from real_runs.kernels.sweep import Swept
from traces.storage.kernels import KernelRow

BANDWIDTH, PEAK, LAUNCH_S = 5e10, 4e11, 5e-6
RATES = {"fp32": PEAK, "bf16": 2 * PEAK, "fp16": PEAK / 50}
TITLES = {"cpu": "CPU: AMD Ryzen 7", "cuda": "NVIDIA GeForce RTX 4070 Laptop GPU"}


def row(case):
    arithmetic_s = case.flops / RATES[case.shape["dtype"]]
    seconds = LAUNCH_S + max(arithmetic_s, case.bytes / BANDWIDTH)
    if case.shape["operation"] == "copy":
        seconds -= LAUNCH_S
    times = dict.fromkeys(("median_s", "low_s", "high_s"), seconds)
    work = {"flops": case.flops, "bytes": case.bytes, "repeats": 5, "cold": True}
    return KernelRow(implementation="x", graph=False, **case.shape, **times, **work)


@pytest.fixture
def pretended(monkeypatch):
    """Devices whose kernels reach the roofs above; what was timed, in order."""
    timed = []

    def machine(device, dtype, *, threads):
        place = torch.device(device)
        return Machine(
            device=place,
            title=TITLES.get(place.type, "Apple M7 Max"),
            profile="",
            cache_bytes=1 << 25,
            memory_bytes=1 << 34,
            threads=threads,
            copy_bytes_per_s=BANDWIDTH,
            gemm_flops_per_s=PEAK,
        )

    def sweep(cases, here, effort, *, deadline, checkpoint, names):
        timed.extend(case.shape["operation"] for case in cases)
        return Swept(rows=[row(case) for case in cases])

    card = SimpleNamespace(multi_processor_count=36, total_memory=8 << 30)
    monkeypatch.setattr(measured, "machine", machine)
    monkeypatch.setattr(measured, "sweep", sweep)
    monkeypatch.setattr(measured, "checked_forms", lambda names, *_: (list(names), {}))
    monkeypatch.setattr(measured, "_apple_cores", lambda: 40)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda place: card)
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 48 << 30)
    return timed


@pytest.mark.parametrize(("on", "kind"), [("cpu", "cpu"), ("cuda:1", "gpu"), ("mps", "gpu")])
def test_the_roofs_of_a_device_are_its_own(pretended, tmp_path, on, kind, monkeypatch):
    if on == "mps":
        monkeypatch.setitem(RATES, "fp16", PEAK)
    lines = []
    found = measure_device("my-laptop", device=on, threads=2, progress=lines.append)
    assert pretended[:3] == ["copy", "read", "write"], "what matters most comes first"
    assert any("left" in line for line in lines)
    write_device(found.device, tmp_path / "my-laptop.toml")
    again = load_device(tmp_path / "my-laptop.toml")
    assert (again.name, again.kind) == ("my-laptop", kind) and again.calibrated
    assert again.bandwidth_bytes_per_s == pytest.approx(BANDWIDTH)
    assert again.peak("fp32") == pytest.approx(PEAK, rel=0.1)
    assert again.peak("bf16") == pytest.approx(2 * PEAK, rel=0.3)
    assert ("fp16" in again.peak_flops_per_s) == (on == "mps"), "converted ones are left out"
    measured_numbers = (
        "bandwidth_bytes_per_s",
        "memory_bytes",
        "processors",
        "constants.gemm.norm",
    )
    for name in measured_numbers:
        assert again.provenance[name].kind == "measured", name
    assert "timed on 20" in again.provenance["constants.attention.launch_s"].source
    assert again.provenance["power_w"].kind == "assumed"
    assert found.scores["gemm"].median < 0.2 and found.scores["attention_verify"].rows_fitted
    processors = {"cpu": 2, "cuda:1": 36, "mps": 40}[on]
    assert again.processors == processors


def test_a_budget_that_cannot_do_is_refused_before_it_is_spent(pretended):
    with pytest.raises(InputError, match=f"budget: must be {LEAST_BUDGET_S:g}s or more"):
        measure_device("mine", budget_s=LEAST_BUDGET_S - 1)
    with pytest.raises(InputError, match="on: must be one of cpu, cuda, mps"):
        measure_device("mine", device="xpu")
    with pytest.raises(InputError, match="lower case"):
        measure_device("My Laptop")
    with pytest.raises(UnknownNameError):
        measure_device("mine", like="no-such-card")
    assert not pretended


def test_what_cannot_be_timed_is_named_and_the_rest_stays(pretended, monkeypatch):
    def refused(names, *_):
        return [], {"sdpa-packed": "NotImplementedError: no kernel"}

    monkeypatch.setattr(measured, "checked_forms", refused)
    found = measure_device("mine", threads=1)
    assert found.skipped == ("attention: NotImplementedError: no kernel",)
    assert not found.device.calibrated
    assert found.device.provenance["constants.attention.launch_s"].kind == "assumed"


@pytest.mark.heavy
def test_a_pretended_card_is_measured(ran):
    words = ran("""
from real_runs.calibration import measured
from real_runs.kernels import attention, gemm
gemm.load_model = attention.load_model = lambda name: TINY
measured._LEAST_COPY_BYTES = 1 << 16
place = replace(measured.PLACES["cuda"], rows=(1, 4), model="smollm2-135m")
measured.PLACES["cuda"] = place
found = measured.measure_device("my-card", device="cuda", budget_s=20.0)
print(found.device.kind, found.device.processors, sorted(found.device.peak_flops_per_s)[0])
""")
    assert words == ["gpu", "132", "bf16"]
