"""Recordings of lookahead, a store, a cascade, Hydra heads and prompt tokens: files, columns,
batches, resumption."""

from dataclasses import replace

import numpy as np
import pytest

from hardware_profiles.errors import InputError
from real_runs.recording.options import RecordOptions
from real_runs.recording.record import record
from tests.real_runs.recording.two_prompts import PROMPTS
from traces.replay.dynamic import best_first, walk_policy
from traces.replay.walk import replay_chain
from traces.storage.acceptance_file import read_acceptance

DRAFTERS = ("lookahead", "jacobi", "rest", "cascade", "hydra", "ppd")
METHODS = {
    "lookahead": "lookahead",
    "jacobi": "jacobi-decoding",
    "rest": "rest",
    "cascade": "staged-speculative-decoding",
    "hydra": "hydra",
    "ppd": "ppd",
}


@pytest.fixture(scope="module")
def options(tiny_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("catalogue")
    (folder / "prompts.toml").write_text(PROMPTS)
    return RecordOptions(
        out=folder / "all",
        model=tiny_folder,
        prompts=folder / "prompts.toml",
        drafters=DRAFTERS,
        temperatures=(0.0, 0.8),
        skip_bridge=False,
        lookahead=(3, 3, 2),
        cascade_tokens=(3, 2),
        head_steps=2,
        head_rows=4,
        head_row_tokens=24,
        max_new_tokens=20,
        threads=1,
    )


@pytest.fixture(scope="module")
def made(options):
    return {
        (file.drafter, file.temperature): read_acceptance(file.path)
        for file in record(options).files
    }


def test_every_drafter_watches_the_same_text_and_names_its_entry(made):
    for temperature in (0.0, 0.8):
        traces = {name: made[name, temperature] for name in DRAFTERS}
        assert len({tuple(trace.extra_columns["output_sha256"]) for trace in traces.values()}) == 1
        assert {name: trace.provenance.method for name, trace in traces.items()} == METHODS
        assert {name: trace.level for name, trace in traces.items()} == {
            "lookahead": 1,
            "jacobi": 1,
            "rest": 1,
            "cascade": 2,
            "hydra": 2,
            "ppd": 2,
        }


def test_ranks_of_trained_drafters_have_as_many_levels_as_they_draft(made):
    assert (made["hydra", 0.0].depth, made["ppd", 0.0].depth) == (4, 3)
    for name in ("hydra", "ppd"):
        assert len(made[name, 0.0].provenance.extra["parameters"]["head_sha256"]) == 64


def test_lookahead_replays_at_its_own_length_alone(made):
    trace = made["lookahead", 0.8]
    assert trace.provenance.extra["policy_draft_tokens"] == 2
    assert 1.0 <= replay_chain(trace, 2).tokens_per_step <= 3.0
    with pytest.raises(InputError, match="drafted 2 tokens"):
        replay_chain(trace, 1)


def test_jacobi_replays_at_its_own_window_alone(made):
    trace = made["jacobi", 0.0]
    assert trace.provenance.extra["policy_draft_tokens"] == 3
    assert 1.0 <= replay_chain(trace, 3).tokens_per_step <= 4.0
    with pytest.raises(InputError, match="drafted 3 tokens"):
        replay_chain(trace, 2)


def test_trees_of_the_store_hold_their_own_chain(made):
    """The nodes of a chain are among the likeliest, so the whole tree never emits less."""
    trace = made["rest", 0.0]
    trees = walk_policy(trace, best_first(trace.expansions.nodes))[0]
    assert trees.tokens_per_step >= replay_chain(trace, 10).tokens_per_step - 1e-9
    assert trace.provenance.extra["parameters"]["store_tokens"] == (4 + 16) * 24


def test_columns_count_what_the_cascade_judged(made):
    columns = made["cascade", 0.0].extra_columns
    drafted, passes = (np.array(columns[name]) for name in ("drafted_tokens", "draft_passes"))
    judged, accepted = (np.array(columns[name]) for name in ("judged_tokens", "accepted_tokens"))
    assert (passes == drafted - accepted).all()
    assert (accepted <= judged).all() and judged.sum() > 0
    assert (drafted == 3 * replay_chain(made["cascade", 0.0], 3).steps).all()
    assert "drafted_tokens" not in made["hydra", 0.0].extra_columns


def test_a_batch_of_requests_leaves_the_same_recording(options, made, tmp_path):
    """Rows of a batch round in their own way; this model has no near ties."""
    batched = record(
        replace(options, out=tmp_path, requests_at_once=3, drafters=("lookahead", "cascade"))
    )
    for file in batched.files:
        trace, alone = read_acceptance(file.path), made[file.drafter, file.temperature]
        assert trace.extra_columns["output_sha256"] == alone.extra_columns["output_sha256"]
        assert np.array_equal(trace.emitted, alone.emitted)
        assert all(value > 0 for value in trace.extra_columns["wall_s"])


def test_what_was_trained_and_written_is_read_again(options, made, tmp_path):
    """With the files of an earlier recording nothing is fitted, and all arrays stay."""
    for path in options.out.glob("*.safetensors"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    seen = []
    again = record(
        replace(options, out=tmp_path, drafters=("rest", "hydra", "ppd")), progress=seen.append
    )
    assert {each.stage for each in seen} == {"record"}
    for file in again.files:
        trace = read_acceptance(file.path)
        assert np.array_equal(trace.emitted, made[file.drafter, file.temperature].emitted)


@pytest.mark.parametrize(
    "changed",
    [
        {"lookahead": (0, 3, 2)},
        {"lookahead": (3, 1, 2)},
        {"cascade_tokens": (0, 2)},
        {"prompt_tokens": 0},
        {"retrieval_nodes": 0},
        {"requests_at_once": 0},
        {"requests_at_once": 2, "level": 3},
    ],
)
def test_sizes_out_of_range_are_refused(options, changed):
    with pytest.raises(InputError, match=next(iter(changed))):
        replace(options, **changed)


def test_a_drafter_that_looks_at_layers_is_recorded_one_request_at_a_time(options, tmp_path):
    with pytest.raises(InputError, match="requests_at_once"):
        record(
            replace(
                options,
                out=tmp_path,
                drafters=("early-exit",),
                requests_at_once=2,
                fit_answers=0,
                fit_characters=1000,
            )
        )
