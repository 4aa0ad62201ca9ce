"""Committed measurements are whole, say where they come from, and never beat the hardware."""

import json

import pytest

pytest.importorskip("pyarrow")

from real_runs.kernels.machine import roofs_of
from real_runs.results import (
    MAX_KERNEL_FILES,
    MAX_PACKED_BYTES,
    kernel_files,
    read_results,
    read_summary,
    results_folders,
)

FOLDERS = results_folders()
# 2 FMA units of 8 float32 lanes, 4 GHz: above any clock that the measured CPUs reach
CPU_CORE_FLOPS_PER_S = 2 * 8 * 2 * 4e9
MEASURING_NOISE = 1.05


@pytest.fixture(params=FOLDERS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def folder(request):
    return request.param


def test_there_are_results():
    assert FOLDERS


def test_results_are_whole_and_say_where_they_come_from(folder):
    trace, summary = read_results(folder), read_summary(folder)
    about = trace.provenance
    assert about.device and about.torch and about.command and about.started and about.cache_bytes > 0
    assert len(kernel_files(folder)) <= MAX_KERNEL_FILES
    assert all(path.stat().st_size <= MAX_PACKED_BYTES for path in folder.iterdir())
    counted = {name: sum(row.job == name for row in trace.rows) for name in summary["jobs"]}
    assert counted == {name: entry["rows"] for name, entry in summary["jobs"].items()}
    assert sum(counted.values()) == len(trace.rows)
    assert all(each["reason"] for each in trace.skipped)
    assert "/root" not in json.dumps(summary) and "/work" not in json.dumps(summary)


def test_nothing_is_faster_than_the_datasheet(folder):
    trace = read_results(folder)
    for row in trace.rows:
        roofs = roofs_of(trace.provenance.profile, row.dtype)
        if roofs is None and not trace.provenance.device.startswith("CPU"):
            continue
        bandwidth, peak = roofs or (float("inf"), CPU_CORE_FLOPS_PER_S * trace.provenance.threads)
        assert row.flops / row.median_s <= peak * MEASURING_NOISE, row
        if row.cold:
            assert row.bytes / row.median_s <= bandwidth * MEASURING_NOISE, row


def test_cold_operations_stay_under_the_rates_of_plain_memory_traffic(folder):
    trace = read_results(folder)
    plain = [row for row in trace.rows if row.operation in ("copy", "read", "write") and row.cold]
    if not plain:
        pytest.skip("no memory traffic was measured beside")
    best = max(row.bytes / row.low_s for row in plain)
    for row in trace.rows:
        if row.cold and row.operation in ("attention", "gemm"):
            assert row.bytes / row.median_s <= 1.25 * best, row


def test_verify_attention_reads_its_cache_once(folder):
    """At long contexts a few more query tokens cost far less than as many single passes."""
    rows = [
        row for row in read_results(folder).rows if row.operation == "attention" and row.cold and row.context >= 2048
    ]
    best = {}
    for row in rows:
        key = (row.job, row.requests, row.context, row.query_tokens)
        best[key] = min(best.get(key, float("inf")), row.median_s)
    pairs = [(time, best.get((*key[:3], 8))) for key, time in best.items() if key[3] == 1]
    assert any(eight is not None for _, eight in pairs)
    for one, eight in pairs:
        if eight is not None:
            assert eight < 8 * one
