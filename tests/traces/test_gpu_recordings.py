"""Recordings of runs on GPUs: what ships is what their published files say, to the token."""

import json
from itertools import pairwise

import numpy as np
import pytest

from costmodel.architectures.library import load_model
from costmodel.method_library import load_method
from tests.traces.gpu_recordings import PUBLISHED, recordings
from traces.kinds.provenance import LICENCE_KEY, POLICY_KEY, REPEATS_KEY
from traces.kinds.step_counts import NEW_TOKENS, STEPS, WALL_S
from traces.library import gpu_recordings, read_trace, trace_name
from traces.replay.counted import recorded_steps, recorded_tree, repeat_variance

SHIPPED = {trace_name(run.path): read_trace(run.path) for run in gpu_recordings()}
MADE = {f"gpu/{name}": trace for name, trace in recordings().items()}
FILES = {
    "gpu/vicuna-7b--medusa--greedy": "medusa_mtbench_7b",
    "gpu/vicuna-7b--medusa--greedy--run-1": "medusa_mtbench_7b_run1",
    "gpu/vicuna-13b--medusa--greedy": "medusa_mtbench_13b",
    "gpu/vicuna-13b--medusa--greedy--run-1": "medusa_mtbench_13b_run1",
    "gpu/vicuna-7b-v1.5--rest--greedy": "rest_vicuna7b_mtbench",
    "gpu/vicuna-7b-v1.5--plain--greedy": "baseline_vicuna7b_mtbench",
}


def choices_of(name):
    text = (PUBLISHED / "engine_logs" / f"{FILES[name]}.jsonl").read_text()
    return [choice for line in text.splitlines() for choice in json.loads(line)["choices"]]


def test_every_published_run_ships_once():
    assert SHIPPED.keys() == MADE.keys() == FILES.keys()


@pytest.mark.parametrize("name", FILES)
def test_what_ships_is_what_the_files_say(name):
    shipped, made = SHIPPED[name], MADE[name]
    assert shipped.provenance == made.provenance
    assert shipped.summary == made.summary and shipped.level == made.level
    assert shipped.request_ids == made.request_ids and shipped.prompt_kinds == made.prompt_kinds
    assert shipped.extra_columns == made.extra_columns
    if made.emitted is not None:
        np.testing.assert_array_equal(shipped.emitted, made.emitted)


@pytest.mark.parametrize("name", FILES)
def test_replay_meets_the_mean_of_the_source(name):
    """Its own sums: new tokens over steps, the last index of the loop plus one."""
    steps = sum(last + 1 for choice in choices_of(name) for last in choice["idxs"])
    tokens = sum(sum(choice["new_tokens"]) for choice in choices_of(name))
    replayed = recorded_steps(SHIPPED[name])
    assert (int(replayed.tokens.sum()), int(replayed.steps.sum())) == (tokens, steps)
    assert replayed.tokens_per_step == tokens / steps


def test_rest_prints_its_mean_without_the_first_token_of_every_turn():
    """The script prints the mean of its list, which starts one token behind each prompt."""
    name = "gpu/vicuna-7b-v1.5--rest--greedy"
    listed = [n for choice in choices_of(name) for n in choice["accept_lengths:"]]
    replayed = recorded_steps(SHIPPED[name])
    turns = SHIPPED[name].requests
    printed = (int(replayed.tokens.sum()) - turns) / int(replayed.steps.sum())
    assert printed == pytest.approx(np.mean(listed), rel=1e-12)
    assert round(printed, 4) == 1.8759 and round(replayed.tokens_per_step, 4) == 1.8853


@pytest.mark.parametrize("name", FILES)
def test_no_more_is_held_than_the_source_tells(name):
    trace, counts = SHIPPED[name], choices_of(name)[0]
    listed = "accept_lengths:" in counts
    assert trace.level == (1 if listed else 0)
    assert trace.rank is None and trace.drafted is None
    assert (POLICY_KEY in trace.provenance.extra) == listed
    assert trace.requests == sum(len(choice["idxs"]) for choice in choices_of(name))


@pytest.mark.parametrize("run", gpu_recordings(), ids=lambda run: run.path.stem)
def test_names_say_what_provenance_says(run):
    """Sources are looked up by name alone."""
    about = read_trace(run.path).provenance
    assert load_model(about.model).name == run.target
    assert about.method == (run.method if run.drafts else "plain-decoding")
    assert bool(load_method(about.method).drafts) == run.drafts
    assert about.extra[LICENCE_KEY] == "Apache-2.0"
    assert about.device.startswith("NVIDIA") and "@" in about.extra["source"]
    assert about.extra["dropped"] and about.notes


@pytest.mark.parametrize("size", ["7b", "13b"])
def test_greedy_runs_of_one_pair_repeat_to_the_token_and_differ_in_time(size):
    first, second = (
        SHIPPED[f"gpu/vicuna-{size}--medusa--greedy{more}"] for more in ("", "--run-1")
    )
    for column in (STEPS, NEW_TOKENS):
        assert first.extra_columns[column] == second.extra_columns[column]
    assert repeat_variance(first) == repeat_variance(second) == 0.0
    seconds = [sum(run.extra_columns[WALL_S]) for run in (first, second)]
    runs = first.provenance.extra[REPEATS_KEY]
    assert [run[WALL_S] for run in runs] == pytest.approx(seconds, abs=1e-3)
    assert 0.01 < seconds[0] / seconds[1] - 1.0 < 0.02


def test_the_tree_of_medusa_is_the_published_one():
    tree = recorded_tree(SHIPPED["gpu/vicuna-7b--medusa--greedy"])
    assert (tree.draft_tokens, tree.depth - 1) == (63, 4)
    own = load_method("medusa").shape
    assert (own.nodes, own.depth) == (63, 4)


def test_the_first_run_of_a_pair_stands_before_its_repeats():
    pairs = [(run.target, run.method) for run in gpu_recordings()]
    for (pair, run), (next_pair, repeat) in pairwise(zip(pairs, gpu_recordings(), strict=True)):
        if pair == next_pair:
            assert "--run-" not in run.path.stem and "--run-" in repeat.path.stem
