"""Committed measurements are whole, say where they come from, and never beat the hardware."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("torch")

from costmodel.architectures.library import load_model
from costmodel.passes.precision import BYTES_PER_VALUE
from hardware_profiles.loader import load_device
from real_runs.campaigns.decode_summary import speeds
from real_runs.campaigns.file import Campaign
from real_runs.campaigns.results import (
    MAX_KERNEL_FILES,
    MAX_PACKED_BYTES,
    MAX_RECORDING_FILES,
    kernel_files,
    read_recordings,
    read_results,
    read_runs,
    read_summary,
    recording_files,
    results_folders,
)
from traces.storage.acceptance_file import read_acceptance
from traces.storage.kernels import KernelRow

FOLDERS = results_folders()
# 2 FMA units of 8 float32 lanes, 4 GHz: above any clock that the measured CPUs reach
CPU_CORE_FLOPS_PER_S = 2 * 8 * 2 * 4e9
MEASURING_NOISE = 1.05
MOST_FILES = 8
# more work may seem to take less time where another kernel takes over, and by noise; never by more
# than this
LEAST_GROWTH = {"query_tokens": 0.6, "context": 0.7, "rows": 0.6, "requests": 0.7}


@pytest.fixture(params=FOLDERS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def folder(request):
    return request.param


def test_there_are_results():
    assert FOLDERS


def test_results_are_whole_and_say_where_they_come_from(folder):
    trace, summary = read_results(folder), read_summary(folder)
    about = trace.provenance
    assert (
        about.device and about.torch and about.command and about.started and about.cache_bytes > 0
    )
    assert len(kernel_files(folder)) <= MAX_KERNEL_FILES
    assert (
        len(recording_files(folder)) <= MAX_RECORDING_FILES
        and len(list(folder.iterdir())) <= MOST_FILES
    )
    assert all(path.stat().st_size <= MAX_PACKED_BYTES for path in folder.iterdir())
    runs = read_runs(folder)
    counted = {name: sum(row.job == name for row in trace.rows) for name in summary["jobs"]}
    if runs is not None:
        counted |= {
            name: sum(run.job == name for run in runs.runs)
            for name in dict.fromkeys(r.job for r in runs.runs)
        }
    for name in read_recordings(folder):
        counted[name.split("/")[0]] += 1
    assert counted == {name: entry["rows"] for name, entry in summary["jobs"].items()}
    assert Campaign.model_validate(summary["campaign"]).jobs
    assert all(each["reason"] for each in trace.skipped)
    assert "/root" not in json.dumps(summary) and "/work" not in json.dumps(summary)


def test_nothing_is_faster_than_the_datasheet(folder):
    trace = read_results(folder)
    for row in trace.rows:
        device = load_device(trace.provenance.profile) if trace.provenance.profile else None
        if device is not None and row.dtype in device.peak_flops_per_s:
            bandwidth, peak = device.bandwidth_bytes_per_s, device.peak(row.dtype)
        elif trace.provenance.device.startswith("CPU"):
            bandwidth, peak = float("inf"), CPU_CORE_FLOPS_PER_S * trace.provenance.threads
        else:
            continue
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
        if row.cold and row.operation in ("attention", "gemm", "step"):
            assert row.bytes / row.median_s <= 1.25 * best, row


def test_verify_attention_reads_its_cache_once(folder):
    """At long contexts a few more query tokens cost far less than as many single passes."""
    rows = [
        row
        for row in read_results(folder).rows
        if row.operation == "attention" and row.cold and row.context >= 2048
    ]
    if not rows:
        pytest.skip("no attention was timed by itself")
    best = {}
    for row in rows:
        key = (row.job, row.requests, row.context, row.query_tokens)
        best[key] = min(best.get(key, float("inf")), row.median_s)
    pairs = [(time, best.get((*key[:3], 8))) for key, time in best.items() if key[3] == 1]
    assert any(eight is not None for _, eight in pairs)
    for one, eight in pairs:
        if eight is not None:
            assert eight < 8 * one


def shrinking(rows):
    """Pairs of rows that differ in one size alone, of which the larger one takes far less time."""
    found = []
    for size, least in LEAST_GROWTH.items():
        lines = {}
        for row in rows:
            timed = {
                "median_s",
                "low_s",
                "high_s",
                "repeats",
                "discarded",
                "outliers",
                "cpu_ratio",
                "flops",
                "bytes",
            }
            fixed = timed | {size, "sets", "cold", "kernels", "splits", "graph"}
            if row.operation == "step" and size in ("query_tokens", "requests"):
                fixed |= {"rows"}
            key = tuple(getattr(row, name) for name in KernelRow.__slots__ if name not in fixed)
            lines.setdefault(key, []).append(row)
        for line in lines.values():
            ordered = sorted(line, key=lambda row: getattr(row, size))
            found += [(a, b) for a, b in pairwise(ordered) if b.median_s < least * a.median_s]
    return found


def test_more_work_takes_no_less_time(folder):
    rows = [row for row in read_results(folder).rows if row.operation != "launch"]
    assert len(shrinking(rows)) <= len(rows) // 100, shrinking(rows)[:3]


def test_shrinking_times_are_seen():
    row = read_results(FOLDERS[0]).rows[0]
    longer = replace(row, context=2 * row.context)
    assert shrinking([row, longer]) == []
    halved = {name: getattr(row, name) / 2 for name in ("low_s", "median_s", "high_s")}
    assert len(shrinking([row, replace(longer, **halved)])) == 1


def test_passes_take_longer_than_their_weights(folder):
    """A cold pass of few tokens is bound by memory: between the roof and a tenth of it."""
    trace = read_results(folder)
    passes = [row for row in trace.rows if row.operation == "step"]
    if not passes:
        pytest.skip("no passes were timed")
    best = max(
        row.bytes / row.low_s
        for row in trace.rows
        if row.operation in ("copy", "read") and row.cold
    )
    for row in passes:
        whole = load_model(row.model)
        weights = BYTES_PER_VALUE[row.dtype] * whole.with_layers(row.layers).weight_values
        assert row.bytes > weights and row.median_s >= weights / best / MEASURING_NOISE
        if row.rows == 1 and not trace.provenance.device.startswith("CPU") and row.graph:
            assert row.median_s < 10 * row.bytes / best


def test_decoded_texts_are_the_plain_ones_and_speeds_are_possible(folder):
    table = read_runs(folder)
    if table is None:
        pytest.skip("nothing was decoded")
    for each in speeds(table, generator=np.random.default_rng(0)):
        about = table.provenance[each.job]
        if about["job"]["dtype"] == "fp32":
            assert each.differing == 0, each
        if not each.prompts:  # a job that was cut before it had decoded plainly, too
            assert each.runs and each.speedup is None
            continue
        assert each.prompts > 0 and each.tokens_per_s > 0 and each.tokens_per_step >= 1.0, each
        if each.configuration == "plain":
            assert each.speedup == each.tokens_per_step == 1.0
        else:  # a step costs no less than a plain pass
            assert each.speedup <= each.tokens_per_step * 1.25, each
            assert each.tokens_per_step <= 1 + each.draft_tokens


def test_recordings_are_whole_traces(folder, tmp_path):
    files = read_recordings(folder)
    if not files:
        pytest.skip("nothing was recorded")
    for name, data in files.items():
        (tmp_path / "trace.parquet").write_bytes(data)
        trace = read_acceptance(tmp_path / "trace.parquet")
        assert trace.positions > 0 and trace.level >= 1, name
