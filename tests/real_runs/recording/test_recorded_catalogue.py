"""The shipped recordings of catalogue entries: complete, small, of one text, replayed by the
entries that name them."""

import json
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli.main import cli
from costmodel.answers.settings import method_of
from costmodel.method_library import load_method, method_names
from costmodel.optimizers.drafters.origin import drafts_alike
from hardware_profiles.errors import InputError
from real_runs.prompt_set import read_prompts
from traces.kinds.tree import Tree
from traces.library import read_trace, trace_file, trace_name
from traces.replay.dynamic import best_first, walk_policy
from traces.replay.walk import replay_chain, replay_tree

MOST_BYTES = 1 << 19
# tokens per step, greedy, of a chain of as many draft tokens
GOLDEN = {
    "lookahead": (4, 1.2675),
    "rest": (5, 1.0389),
    "cascade": (3, 1.5529),
    "hydra": (3, 1.1388),
    "ppd": (3, 1.1104),
}
NAMED = [(slug, name) for slug in method_names() for name in load_method(slug).recorded]


def shipped(drafter):
    return read_trace(trace_file(f"catalogue/smollm2-135m--{drafter}--greedy"))


def test_all_that_ships_is_named_by_an_entry():
    files = {
        trace_name(path)
        for path in trace_file("catalogue/smollm2-135m--rest--greedy").parent.glob("*")
    }
    assert files == {name for _, name in NAMED}
    assert files == {f"catalogue/smollm2-135m--{drafter}--greedy" for drafter in GOLDEN}


@pytest.mark.parametrize("drafter", GOLDEN)
def test_recordings_are_whole_and_small(drafter):
    trace, prompts = shipped(drafter), read_prompts()
    assert trace.request_ids == tuple(prompt.id for prompt in prompts.prompts)
    assert trace.provenance.dataset_sha256 == prompts.sha256
    assert set(Counter(trace.prompt_kinds).values()) == {8}
    assert Path(trace.file).stat().st_size < MOST_BYTES
    assert trace.provenance.dtype == "float32"


def test_all_watched_the_same_texts():
    digests = {tuple(shipped(drafter).extra_columns["output_sha256"]) for drafter in GOLDEN}
    assert len(digests) == 1


@pytest.mark.parametrize("drafter", GOLDEN)
def test_tokens_per_step(drafter):
    draft_tokens, expected = GOLDEN[drafter]
    assert replay_chain(shipped(drafter), draft_tokens).tokens_per_step == pytest.approx(
        expected, abs=5e-4
    )
    assert expected > 1.0


def test_siblings_of_a_tree_are_accepted_where_a_chain_is_not():
    tree = Tree.from_paths([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])
    for drafter in ("hydra", "ppd"):
        trace = shipped(drafter)
        assert (
            replay_tree(trace, tree).tokens_per_step > 1.05 * replay_chain(trace, 3).tokens_per_step
        )
    store = shipped("rest")
    assert (
        walk_policy(store, best_first(64))[0].tokens_per_step
        > replay_chain(store, 10).tokens_per_step
    )


def test_a_draft_that_is_drafted_for_takes_fewer_passes_than_it_has_tokens():
    columns = shipped("cascade").extra_columns
    drafted, passes, judged, accepted = (
        sum(columns[name])
        for name in ("drafted_tokens", "draft_passes", "judged_tokens", "accepted_tokens")
    )
    assert drafted == 3 * replay_chain(shipped("cascade"), 3).steps.sum()
    assert passes == drafted - accepted
    assert accepted / judged == pytest.approx(0.271, abs=1e-3)


def test_lookahead_is_known_at_its_own_length_alone():
    with pytest.raises(InputError, match="drafted 4 tokens"):
        replay_chain(shipped("lookahead"), 3)


@pytest.mark.parametrize(("slug", "name"), NAMED)
def test_an_entry_is_replayed_on_the_recording_that_it_names(slug, name):
    trace = read_trace(trace_file(name))
    assert drafts_alike(slug, method_of(trace.provenance.method))
    words = [
        "predict",
        "--method",
        slug,
        "--trace",
        name,
        "--model",
        "llama-3.1-8b",
        "--device",
        "h100-sxm",
    ]
    words += ["--draft", "llama-3.2-1b"] if load_method(slug).needs_draft_model else []
    answer = CliRunner().invoke(cli, [*words, "--batch", "1", "--json"])
    assert answer.exit_code == 0, answer.output
    rows = json.loads(answer.stdout)["predictions"]
    drafted = [row for row in rows if row["draft_tokens"]]
    assert drafted
    if load_method(slug).shape.kind == "state_trees":  # its trees are made from the recorded ranks
        chain = replay_chain(trace, trace.depth).tokens_per_step
        assert all(chain < row["tokens_per_step"] <= trace.depth + 1 for row in drafted)
        return
    for row in drafted:
        replayed = replay_chain(trace, row["draft_tokens"]).tokens_per_step
        assert row["tokens_per_step"] == pytest.approx(replayed, rel=1e-6)
