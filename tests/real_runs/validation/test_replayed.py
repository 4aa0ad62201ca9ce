"""Replayed acceptance: timed passes become tokens per second, and calibrated points are never
scored."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")

from costmodel.architectures.library import load_model
from costmodel.passes.deployment import Deployment
from costmodel.passes.forward import pass_cost
from costmodel.passes.precision import precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from real_runs.validation.replayed import heap_tree, validate_replayed
from traces.library import default_traces, read_trace
from traces.replay.walk import replay_chain
from traces.storage.kernels import KernelProvenance, KernelRow, KernelTrace, write_kernels

DEVICE = "h100-sxm"


def row(job, n, b, c, slow, mask="causal"):
    deployment = Deployment(
        architecture=load_model("llama-3.2-1b"),
        device=load_device(DEVICE),
        precision=precision("bf16", "bf16"),
    )
    seconds = slow * float(pass_cost(deployment, batch=b, query_tokens=n, context=c).total_s)
    return KernelRow(
        job=job,
        operation="step",
        implementation="graph",
        dtype="bf16",
        mask=mask,
        requests=b,
        query_tokens=n,
        context=c,
        model="llama-3.2-1b",
        layers=16,
        median_s=seconds,
        low_s=seconds,
        high_s=seconds,
        repeats=5,
        cold=True,
        graph=True,
        flops=1.0,
        bytes=1.0,
    )


def written(folder, rows):
    folder.mkdir(exist_ok=True)
    write_kernels(
        KernelTrace(rows=tuple(rows), provenance=KernelProvenance(profile=DEVICE)),
        folder / "kernels.parquet",
    )
    return folder


def test_passes_become_tokens_per_second_by_replay(tmp_path):
    rows = [row("score-passes", n, b, 4096, 1.25) for n in (1, 3, 5) for b in (1, 8)]
    found = validate_replayed(written(tmp_path / "r", rows))
    assert found.summary.configurations == 6 and found.about["fidelity"] == "calibrated"
    assert all(point.error_ratio == pytest.approx(0.25) for point in found.points)
    trace = next(t for t in map(read_trace, default_traces()) if t.rank is not None)
    point = next(p for p in found.points if p.draft_tokens == 4 and p.batch == 8)
    assert point.measured["tokens_per_step"] == pytest.approx(
        replay_chain(trace, 4).tokens_per_step
    )
    assert point.measured["tokens_per_s"] == pytest.approx(
        8 * point.measured["tokens_per_step"] / point.measured["step_s"]
    )
    assert sum(p.chosen for p in found.points) == 2 == len(found.regrets)
    assert all(each.regret_ratio == pytest.approx(0.0) for each in found.regrets)


def test_what_calibrates_corrects_and_is_not_scored(tmp_path):
    fits = [row("passes", n, b, c, 1.4) for n in (1, 2, 4, 8) for b in (1, 8) for c in (512, 8192)]
    scored = [row("score-passes", n, b, 4096, 1.4) for n in (1, 3, 5) for b in (1, 8)]
    met = [row("score-passes", 3, 1, 512, 9.0)]
    found = validate_replayed(written(tmp_path / "r", [*fits, *scored, *met]))
    assert found.summary.configurations == 6 and found.summary.p90_error_ratio < 0.01
    assert (
        found.left_out == ("1 passes at calibrated points",)
        and found.about["fidelity"] == "measured"
    )


def test_trees_are_walked_where_ranks_were_recorded(tmp_path):
    rows = [row("score-passes", 1, 1, 4096, 1.0), row("score-trees", 7, 1, 4096, 1.0, mask="tree")]
    found = validate_replayed(written(tmp_path / "r", rows))
    tree = next(p for p in found.points if p.topology == "tree")
    assert tree.draft_tokens == 6 and tree.measured["tokens_per_step"] > 1.0
    made = heap_tree(7)
    assert made.parents == (-1, 0, 0, 1, 1, 2, 2) and made.ranks == (0, 0, 1, 0, 1, 0, 1)


def test_nothing_to_score_is_said(tmp_path):
    with pytest.raises(InputError, match="holds no measured rows"):
        validate_replayed(tmp_path)
    with pytest.raises(InputError, match="holds no passes of jobs named score"):
        validate_replayed(written(tmp_path / "r", [row("passes", 1, 1, 512, 1.0)]))


@pytest.mark.parametrize("name", ["validate-cpu", "validate-gpu"])
def test_shipped_campaigns_score_no_batch_and_context_that_they_calibrate_on(name):
    from pathlib import Path

    import real_runs
    from real_runs.campaigns.file import read_campaign

    campaign = read_campaign(Path(real_runs.__file__).parent / "campaigns" / f"{name}.yaml")
    points = {True: set(), False: set()}
    for job in campaign.jobs:
        if job.kind == "steps":
            points[job.name.startswith("score")] |= {
                (job.model, b, c) for b in job.requests for c in job.context
            }
    assert points[True] and points[False] and not points[True] & points[False]
    assert sum(job.estimate_s for job in campaign.jobs) < 540
