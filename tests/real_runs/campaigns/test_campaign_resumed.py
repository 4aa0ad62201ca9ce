"""What a cut job has is kept and what it lacks is measured, on the same device alone."""

import pytest
import yaml

pytest.importorskip("torch")

from hardware_profiles.errors import InputError
from real_runs.campaigns import campaign as campaigns
from real_runs.campaigns import job_process, results
from real_runs.campaigns import kernel_job as jobs
from traces.storage.kernels import KernelProvenance, KernelRow, KernelTrace

TINY = {"kind": "launch", "estimate_s": 2, "dtype": "fp32", "repeats": 3, "budget_s": 0.002}
ROW = KernelRow(
    operation="launch",
    implementation="chain",
    dtype="fp32",
    median_s=1e-5,
    low_s=1e-5,
    high_s=1e-5,
    repeats=3,
    flops=1.0,
    bytes=1.0,
    cold=True,
    graph=False,
)


def run(tmp_path, kernels, *, resume):
    """The state of a campaign of one job."""
    file = tmp_path / "campaign.yaml"
    file.write_text(
        yaml.safe_dump({"schema": 1, "jobs": [TINY | {"name": "a", "kernels": kernels}]})
    )
    report = campaigns.run_campaign(
        file, budget_s=100, out=tmp_path / "out", resume=resume, isolate=False
    )
    return report.outcomes[0].state


def test_a_job_that_was_cut_goes_on_with_the_shapes_that_are_left(tmp_path, monkeypatch):
    """The same rows as of one call, each measured once; another job's parameters begin anew."""
    seen = []
    inner = campaigns.perform

    def ended(job, campaign, out, *, deadline, **options):
        seen.append(options["begun"])
        inner(job, campaign, out, deadline=deadline if seen[-1] else 0.0, **options)

    sweep = jobs.sweep

    def one_shape(cases, *args, deadline, **options):
        return sweep(
            cases[:1] if deadline == 0.0 else cases,
            *args,
            **options,
            deadline=deadline or float("inf"),
        )

    monkeypatch.setattr(campaigns, "perform", ended)
    monkeypatch.setattr(jobs, "sweep", one_shape)
    monkeypatch.setattr(
        job_process, "_state_of_rows", lambda _: ("finished", "") if seen[-1] else ("cut", "left")
    )
    out = tmp_path / "out"
    assert run(tmp_path, [1, 2, 4], resume=False) == "cut"
    first = results.read_results(out).rows
    assert run(tmp_path, [1, 2, 4], resume=True) == "finished" and seen == [False, True]
    every = results.read_results(out).rows
    assert (
        len(first) == 1 and every[0] == first[0] and sorted(row.rows for row in every) == [1, 2, 4]
    )
    assert run(tmp_path, [8], resume=True) == "cut" and seen[-1] is False
    assert [row.rows for row in results.read_results(out).rows] == [8]


def test_results_of_two_devices_never_share_a_folder(tmp_path):
    for device, torch_version in (("A", "2.11"), ("A", "2.13"), ("B", "2.11")):
        about = KernelProvenance(device=device, torch=torch_version)
        trace = KernelTrace(rows=(ROW,), provenance=about)
        if (device, torch_version) == ("A", "2.11"):
            assert results.merge_job(tmp_path, "first", trace) == 1
            continue
        with pytest.raises(InputError, match=r"holds rows of '\S+': name another folder"):
            results.merge_job(tmp_path, "second", trace)
