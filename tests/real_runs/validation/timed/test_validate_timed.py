"""A timed recording validates both halves: what a replay says that steps emit, and what prices say
that they take."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")

from app.cli.main import main
from costmodel.architectures.library import load_model
from costmodel.passes.deployment import Deployment
from costmodel.passes.precision import precision
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import load_device
from real_runs.campaigns.results import merge_recordings
from real_runs.validation.configurations import Configuration, chain, static_tree
from real_runs.validation.predict import DraftLayers, LoopCosts, predicted_steps
from real_runs.validation.timed.files import timed_traces
from real_runs.validation.timed.groups import timed_groups
from real_runs.validation.timed.validate import validate_timed
from real_runs.validation.walk import request_path, walk_of
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.provenance import Provenance
from traces.kinds.timed_steps import COUNTS, SECONDS, TimedSteps
from traces.kinds.tree import chain_tree
from traces.storage.acceptance_file import write_acceptance

DEVICE, MODEL = "cpu-generic", "smollm2-135m"
LENGTH = 24
SLOPE_PULL = 0.04  # few sizes say little about a slope, which is pulled towards none
LAYERS = DraftLayers(exit_layer=10, skipped=8)
TRUE = LoopCosts(
    verify={"plain": (0.1, 0.0), "chain": (0.2, 0.05), "tree": (0.3, 0.0), "batch": (0.4, 0.02)},
    rest=dict.fromkeys(("plain", "chain", "tree", "batch", "batch plain"), (5e-4, 1e-5)),
    draft={f"early-exit {loop}": (1.3, 1e-4, 0.0) for loop in ("chain", "tree", "batch")},
)
EARLY_EXIT = [
    Configuration(),
    chain("early-exit", 2),
    chain("early-exit", 3),
    chain("early-exit", 5),
    static_tree("early-exit", 7),
    static_tree("early-exit", 9),
]


@pytest.fixture(scope="module")
def deployment():
    return Deployment(
        architecture=load_model(MODEL),
        device=load_device(DEVICE),
        precision=precision("fp32", "fp32"),
    )


def recorded(requests=8, seed=0, drafter="early-exit", **about):
    """A recording of ranks without steps."""
    drawn = np.random.default_rng(seed)
    rank = drawn.choice([0, 0, 0, 1, 2, -1], size=requests * LENGTH).astype(np.int8)
    emitted = np.ones(len(rank), np.int16)
    for place in range(len(rank)):
        left = LENGTH - place % LENGTH
        run = 0
        while run < left and rank[place + run] == 0:
            run += 1
        emitted[place] = min(run + 1, left)
    values = {"model": "SmolLM2", "device": "CPU: any, 1 thread(s)", "dtype": "float32"} | about
    return AcceptanceTrace(
        offsets=np.arange(requests + 1) * LENGTH,
        prompt_tokens=100 * (1 + np.arange(requests) // 2),
        emitted=emitted,
        rank=rank,
        rank_width=8,
        depth_invariant=True,
        first_step_position=1,
        provenance=Provenance(
            **values,
            sampling={"temperature": 0.0},
            dataset="drawn",
            extra={
                "parameters": {"exit_layer": 10},
                "timing": {"drafter": drafter, "rounds": 3},
            },
        ),
    )


def with_steps(trace, deployment, configurations=EARLY_EXIT, batches=(1, 2), slower=1.0):
    """The recording with the steps that its replay takes, priced with known loop costs."""
    columns = [{name: [] for name in (*COUNTS, *SECONDS)} for _ in range(trace.requests)]
    for shape, configuration in enumerate(configurations):
        for batch in batches:
            for group in range(trace.requests // batch):
                places = range(group * batch, (group + 1) * batch)
                paths = [request_path(trace, configuration, place) for place in places]
                seconds = predicted_steps(
                    deployment, LAYERS, TRUE, configuration, walk_of(paths), batch
                )
                for place, (starts, drafted, emitted, context) in zip(places, paths, strict=True):
                    rows, count = columns[place], len(starts)
                    for name, value in (("shape", shape), ("batch", batch), ("group", group)):
                        rows[name] += [value] * count
                    rows["position"] += starts.tolist()
                    rows["context"] += context.tolist()
                    rows["drafted"] += drafted.tolist()
                    rows["emitted"] += emitted.tolist()
                    for name in SECONDS:
                        rows[name] += (slower * getattr(seconds, name)[:count]).tolist()
    joined = {name: [value for rows in columns for value in rows[name]] for name in columns[0]}
    return replace(
        trace,
        steps=TimedSteps(
            offsets=np.cumsum([0, *(len(rows["shape"]) for rows in columns)]),
            shapes=tuple(configuration.shape for configuration in configurations),
            **joined,
        ),
    )


@pytest.fixture(scope="module")
def timed(deployment):
    return with_steps(recorded(), deployment)


def validated(traces, out, **options):
    values = {"profile": DEVICE, "shipped_model": MODEL, "fidelity": "calibrated"} | options
    return validate_timed(traces, **values, out=out)


def test_steps_of_the_stated_law_are_predicted_as_they_were_timed(timed, tmp_path):
    report = validated([timed], tmp_path)
    result = report.validation.summary
    assert result.tokens_per_step_median_error_ratio == pytest.approx(0.0, abs=1e-9)
    assert result.p90_error_ratio < 0.02 and result.step_median_error_ratio < 0.01
    assert {errors.agreeing_ratio for errors in report.steps} == {1.0}
    assert max(errors.verify_error_ratio for errors in report.steps) < SLOPE_PULL
    names = {point.configuration for point in report.validation.points}
    assert names == {"plain", "early-exit-2", "early-exit-5", static_tree("early-exit", 9).name}
    assert {(point.batch, point.runs) for point in report.validation.points} >= {(1, 3), (2, 3)}
    rows = pq.read_table(tmp_path / "steps.parquet").to_pylist()
    assert len(rows) == sum(errors.steps for errors in report.steps)
    assert all(row["group"] % 2 == 1 for row in rows)


def test_what_is_slower_everywhere_is_a_cost_of_the_loop_and_no_error(timed, deployment, tmp_path):
    slow = with_steps(recorded(), deployment, slower=2.0)
    once, twice = (validated([one], tmp_path) for one in (timed, slow))
    assert twice.validation.summary.p90_error_ratio < 0.02
    for quick, late in zip(once.validation.points, twice.validation.points, strict=True):
        assert late.measured["step_s"] == pytest.approx(2 * quick.measured["step_s"], rel=1e-5)


def test_a_recording_of_another_text_shows_in_the_tokens_and_not_in_the_seconds(timed, tmp_path):
    other = recorded(seed=1)
    mixed = replace(other, steps=timed.steps)
    report = validated([mixed], tmp_path)
    assert min(errors.agreeing_ratio for errors in report.steps) < 0.9
    assert max(errors.verify_error_ratio for errors in report.steps) < SLOPE_PULL


def test_plain_decoding_of_one_recording_counts_once(timed, tmp_path):
    one, two = (validated([timed] * count, tmp_path) for count in (1, 2))
    assert one.steps == two.steps and one.validation.points == two.validation.points


def test_a_trace_without_seconds_is_refused(tmp_path):
    trace = recorded()
    write_acceptance(trace, tmp_path / "t.parquet")
    traces, _ = timed_traces(tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"t\.parquet: holds no seconds of steps; `rooftree camp"):
        timed_groups(traces[0])


def test_what_does_not_go_together_is_refused(timed, deployment, tmp_path):
    elsewhere = with_steps(recorded(device="CPU: another, 1 thread(s)"), deployment)
    with pytest.raises(InputError, match=r"provenance\.device: must be 'CPU: any"):
        validated([timed, elsewhere], tmp_path)
    with pytest.raises(InputError, match=r"provenance\.dtype: must be float32 or bfloat16"):
        validated([with_steps(recorded(dtype="fp8"), deployment)], tmp_path)
    with pytest.raises(UnknownNameError, match="early-out"):
        validated([with_steps(recorded(drafter="early-out"), deployment)], tmp_path)
    with pytest.raises(InputError, match="too few groups of requests"):
        validated([with_steps(recorded(requests=1), deployment, batches=(1,))], tmp_path)
    nameless = replace(timed, provenance=replace(timed.provenance, extra={}))
    with pytest.raises(InputError, match="must name the drafter of the timed steps"):
        validated([nameless], tmp_path)
    extra = timed.provenance.extra | {"parameters": {"exit_layer": 30}}
    deep = replace(timed, provenance=replace(timed.provenance, extra=extra))
    with pytest.raises(InputError, match=r"exit_layer: must lie in 1\.\.29"):
        validated([deep], tmp_path)


def test_a_drafter_of_one_shape_is_fitted_and_scored_on_it(deployment, tmp_path):
    configurations = [Configuration(), chain("early-exit", 5)]
    report = validated([with_steps(recorded(), deployment, configurations, (1,))], tmp_path)
    assert {point.configuration for point in report.validation.points} == {"plain", "early-exit-5"}


def test_steps_after_a_run_left_its_text_are_not_looked_for(timed):
    groups, short = timed_groups(timed)
    assert short == 0
    for group in groups:
        assert group.measured.steps == group.replayed.steps == len(group.seconds) - 1
        assert group.measured.tokens == group.replayed.tokens
    chosen = timed.select([0, 1, 2])  # the partner of the third is not there
    assert timed_groups(chosen)[1] == len(EARLY_EXIT)


def test_the_results_of_a_campaign_are_read_as_they_lie(timed, tmp_path):
    for trace, name in ((timed, "timed"), (recorded(), "bare")):
        write_acceptance(trace, tmp_path / f"{name}.parquet")
    data = {name: (tmp_path / name).read_bytes() for name in ("timed.parquet", "bare.parquet")}
    folder = tmp_path / "results"
    folder.mkdir()
    with pytest.raises(InputError, match="holds no recordings of a campaign"):
        timed_traces(folder)
    merge_recordings(folder, "job", {"bare.parquet": data["bare.parquet"]})
    with pytest.raises(InputError, match="holds no recording with seconds of steps"):
        timed_traces(folder)
    merge_recordings(folder, "job", data)
    traces, others = timed_traces(folder)
    assert chain_tree(5) in traces[0].steps.shapes and others == ["job/bare.parquet"]


def test_the_command_leaves_a_report(timed, tmp_path, capsys):
    write_acceptance(timed, tmp_path / "t.parquet")
    words = ["validate", "--trace", str(tmp_path / "t.parquet"), "--profile", DEVICE]
    assert main([*words, "--out", str(tmp_path / "v")]) == 0
    assert "step by step" in capsys.readouterr().out
    report = json.loads((tmp_path / "v" / "validation.json").read_text())
    assert report["steps"][0]["agreeing_ratio"] == 1.0 and report["points"]
    bare = tmp_path / "bare.parquet"
    write_acceptance(recorded(), bare)
    words[2] = str(bare)
    assert main([*words, "--out", str(tmp_path / "w")]) == 2
    assert "holds no seconds of steps" in capsys.readouterr().err
