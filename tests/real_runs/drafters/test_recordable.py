"""The drafters that `record` offers beside its two default ones: files, parameters and what is
refused."""

from dataclasses import replace

import pytest

from hardware_profiles.errors import InputError
from real_runs.recording.options import RecordOptions
from real_runs.recording.record import record
from tests.real_runs.recording.two_prompts import PROMPTS
from traces.kinds.tree import Tree
from traces.replay.walk import replay_chain, replay_tree
from traces.storage.acceptance_file import read_acceptance

DRAFTERS = ("prompt-lookup", "early-exit", "suffix-automaton", "layer-skip")


@pytest.fixture(scope="module")
def options(tiny_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recording")
    (folder / "prompts.toml").write_text(PROMPTS)
    return RecordOptions(
        out=folder / "all",
        model=tiny_folder,
        prompts=folder / "prompts.toml",
        drafters=DRAFTERS,
        temperatures=(0.0,),
        max_new_tokens=32,
        fit_characters=1500,
        fit_answers=1,
        threads=1,
    )


@pytest.fixture(scope="module")
def made(options):
    seen = []
    report = record(options, progress=seen.append)
    return {file.drafter: read_acceptance(file.path) for file in report.files}, seen


def test_every_drafter_watches_the_same_text(options, made):
    traces, seen = made
    assert tuple(traces) == DRAFTERS
    assert len({tuple(trace.extra_columns["output_sha256"]) for trace in traces.values()}) == 1
    questions = [p.total for p in seen if p.stage == "fit" and p.done]
    assert len(questions) == questions[0], "both bridges are fitted on one set of answers"
    assert {path.name for path in options.out.glob("*.safetensors")} == {
        "tiny-llama--exit1-bridge.safetensors",
        "tiny-llama--skip2-3-bridge.safetensors",
    }


def test_traces_say_how_they_were_made(made):
    suffix, skip = made[0]["suffix-automaton"], made[0]["layer-skip"]
    assert (suffix.level, suffix.provenance.method) == (1, "n-gram")
    assert suffix.provenance.extra["parameters"]["least_match"] == 2
    assert (skip.level, skip.provenance.method) == (2, "layer-skip")
    parameters = skip.provenance.extra["parameters"]
    assert (parameters["skipped_layers"], parameters["draft_layers"]) == ([2, 3], 3)
    assert len(parameters["bridge_sha256"]) == 64
    assert skip.depth_invariant
    assert "ridge bridge" in skip.provenance.drafter


def test_recordings_accept_and_reject(made):
    tree = Tree.from_paths([(0,), (1,), (2,), (0, 0)])
    for drafter in ("suffix-automaton", "layer-skip"):
        trace = made[0][drafter]
        assert 1.0 < replay_chain(trace, 4).tokens_per_step < 5.0
    skip = made[0]["layer-skip"]
    assert replay_tree(skip, tree).tokens_per_step >= replay_chain(skip, 2).tokens_per_step > 1.0


def test_bridge_may_be_left_out(options, made, tmp_path):
    changed = replace(
        options, out=tmp_path, drafters=("layer-skip",), skip_bridge=False, skipped_layers=(1, 2)
    )
    (file,) = record(changed).files
    trace = read_acceptance(file.path)
    assert not list(tmp_path.glob("*.safetensors"))
    assert trace.provenance.drafter.startswith("layers 1 to 1 of 4 skipped, no bridge")
    assert trace.rank.tolist() != made[0]["layer-skip"].rank.tolist()


@pytest.mark.parametrize("gap", [(0, 1), (2, 2), (2, 4)])
def test_gaps_outside_the_model_are_refused(options, tmp_path, gap):
    with pytest.raises(InputError, match="skipped_layers"):
        record(replace(options, out=tmp_path, skipped_layers=gap))
    assert not list(tmp_path.iterdir())


def test_least_matches_out_of_range_are_refused(tmp_path):
    with pytest.raises(InputError, match="least_match"):
        RecordOptions(out=tmp_path, least_match=0)
