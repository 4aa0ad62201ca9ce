"""Loops are timed on the very texts that were recorded, and what they emitted is what a replay
says; a recording that is killed while it times goes on."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from hardware_profiles.errors import InputError
from real_runs.recording.options import RecordOptions, StepTiming
from real_runs.recording.record import record
from real_runs.validation.configurations import Configuration
from real_runs.validation.walk import request_path
from tests.real_runs.recording.test_record import PROMPTS
from traces.storage.acceptance_file import read_acceptance

DRAFTERS = ("prompt-lookup", "early-exit", "token-recycling", "medusa-heads", "jacobi")
TIMING = StepTiming(chains=(1, 3), tree_nodes=(4,), batches=(1, 2), rounds=2)


@pytest.fixture(scope="module")
def options(tiny_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("timed")
    (folder / "prompts.toml").write_text(PROMPTS)
    return RecordOptions(
        out=folder / "whole",
        model=tiny_folder,
        prompts=folder / "prompts.toml",
        drafters=DRAFTERS,
        temperatures=(0.0, 0.8),
        max_new_tokens=12,
        fit_answers=0,
        fit_characters=2000,
        head_rows=4,
        head_row_tokens=32,
        head_steps=2,
        recycling_nodes=6,
        threads=1,
        timing=TIMING,
    )


@pytest.fixture(scope="module")
def traces(options):
    files = record(options).files
    return {(file.drafter, file.temperature): read_acceptance(file.path) for file in files}


def configuration_of(name, tree):
    if tree.nodes == 1:
        return Configuration()
    is_chain = tree.depth == tree.nodes
    return Configuration(
        drafter=name, draft_tokens=tree.draft_tokens, tree=None if is_chain else tree
    )


def test_every_step_emits_what_the_recording_says(traces):
    for (name, _), trace in traces.items():
        if name == "jacobi":
            assert trace.steps is None and "timing" not in trace.provenance.extra
            continue
        steps = trace.steps
        assert trace.provenance.extra["timing"]["drafter"] == name
        assert (
            trace.provenance.extra["timing"] | {"left_out_steps": 0, "rounds": 2}
            == (trace.provenance.extra["timing"])
        )
        for request in range(trace.requests):
            for shape, tree in enumerate(steps.shapes):
                starts, _, emitted, context = request_path(
                    trace, configuration_of(name, tree), request
                )
                for batch in TIMING.batches:
                    mine = (steps.of_request() == request) & (steps.shape == shape)
                    mine &= steps.batch == batch
                    if not mine.any():
                        assert batch == 2
                        continue
                    assert steps.position[mine].tolist() == starts.tolist()
                    assert steps.emitted[mine].tolist() == emitted.tolist()
                    assert steps.context[mine].tolist() == context.tolist()
                    assert int(steps.emitted[mine].sum()) == trace.output_tokens[request] - 1
        assert np.all(steps.verify_s > 0)


def test_shapes_are_those_that_a_drafter_can_be_replayed_by(traces):
    sizes = {
        name: [tree.nodes for tree in traces[name, 0.0].steps.shapes]
        for name in DRAFTERS
        if name != "jacobi"
    }
    assert sizes == {
        "prompt-lookup": [1, 2, 4],
        "early-exit": [1, 2, 4, 4],
        "token-recycling": [6],
        "medusa-heads": [1, 2, 4, 4],
    }
    together = {
        name: set(traces[name, 0.0].steps.batch.tolist()) for name in DRAFTERS if name != "jacobi"
    }
    assert together["early-exit"] == together["prompt-lookup"] == {1, 2}
    assert together["token-recycling"] == {1}


def test_requests_that_run_together_bear_the_seconds_of_the_same_pass(traces):
    steps = traces["early-exit", 0.0].steps
    together = (steps.batch == 2) & (steps.shape == 1) & (steps.group == 0)
    first, second = ((steps.of_request() == request) & together for request in (0, 1))
    least = min(int(first.sum()), int(second.sum()))
    assert least > 0
    assert steps.verify_s[first][:least].tolist() == steps.verify_s[second][:least].tolist()


def test_a_recording_that_stops_while_it_times_goes_on(options, traces, tmp_path):
    class Stop(Exception):  # noqa: N818
        pass

    seen = []

    def stop(progress):
        seen.append(progress)
        if progress.stage == "time" and progress.done in (3, 9):
            raise Stop

    some = replace(options, out=tmp_path, drafters=("prompt-lookup",), temperatures=(0.0,))
    with pytest.raises(Stop):
        record(some, progress=stop)
    with pytest.raises(InputError, match="begun with"):
        record(replace(some, timing=replace(TIMING, rounds=3), resume=True))
    with pytest.raises(Stop):
        record(replace(some, resume=True), progress=stop)
    report = record(replace(some, resume=True))
    resumed, whole = read_acceptance(report.files[0].path).steps, traces["prompt-lookup", 0.0].steps
    for name in ("offsets", "shape", "batch", "group", "position", "drafted", "emitted"):
        assert getattr(resumed, name).tolist() == getattr(whole, name).tolist()
    assert not list(tmp_path.glob("*.part.jsonl"))


def test_only_the_first_prompts_of_a_kind_are_timed(options, tmp_path):
    timing = StepTiming(chains=(2,), tree_nodes=(), batches=(1,), rounds=1, prompts_per_kind=1)
    some = replace(
        options, out=tmp_path, drafters=("prompt-lookup",), temperatures=(0.0,), timing=timing
    )
    trace = read_acceptance(record(some).files[0].path)
    assert (np.diff(trace.steps.offsets) > 0).tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    "wrong",
    [
        {"chains": (0,)},
        {"chains": (2, 2)},
        {"tree_nodes": (1,)},
        {"batches": ()},
        {"rounds": 0},
        {"prompts_per_kind": 0},
    ],
)
def test_timing_out_of_range_is_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        StepTiming(**wrong)
