"""The main job on small recordings: sources, labels, cross-fitted trees, refusals."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.draft_shape import OFF, chain
from costmodel.optimizers.candidates.asked_shapes import shape_acceptances
from costmodel.optimizers.candidates.tree_candidates import split_requests, tree_candidates
from costmodel.optimizers.drafters.origin import is_borrowed
from costmodel.optimizers.drafters.sources import Source
from costmodel.optimizers.recommend import recommend
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace, Provenance
from traces.replay.statistics import request_draws
from traces.replay.walk import replay_chain, replay_tree
from traces.storage.acceptance_file import write_acceptance

KINDS = ("chat", "code", "chat", "code", "chat", "code", "chat", "code")


def recording(seed=1, length=120, method="early-exit", model="llama-3.1-8b"):
    """A depth-invariant recording with hits in runs."""
    random = np.random.default_rng(seed)
    rank = np.where(random.random(8 * length) < 0.6, 0, random.integers(-1, 8, 8 * length)).astype(
        np.int8
    )
    offsets = np.arange(9, dtype=np.int64) * length
    emitted = np.ones(8 * length, dtype=np.int16)
    for r in range(8):
        run = 0
        for i in range(offsets[r + 1] - 1, offsets[r] - 1, -1):
            run = run + 1 if rank[i] == 0 else 0
            emitted[i] = min(run + 1, offsets[r + 1] - i)
    return AcceptanceTrace(
        provenance=Provenance(model=model, method=method, drafter="test"),
        prompt_kinds=KINDS,
        prompt_tokens=np.full(8, 50, np.int32),
        offsets=offsets,
        emitted=emitted,
        rank=rank,
        rank_width=8,
        depth_invariant=True,
    )


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "trace.parquet"
    write_acceptance(recording(), file)
    return file


QUESTION = DecodingConfiguration(
    deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none")
)


def on_model(name):
    return replace(QUESTION, deployment=replace(QUESTION.deployment, model=name))


GRID = {"batches": (1, 32), "contexts": (512,), "tree_sizes": (4, 12)}


def test_a_recommendation_is_whole_and_reproducible(path):
    one = recommend(QUESTION, [path], **GRID)
    two = recommend(QUESTION, [path], **GRID)
    assert [w.tokens_per_s for w in one.winners] == [w.tokens_per_s for w in two.winners]
    assert [(w.batch, w.context) for w in one.winners] == [(1, 512), (32, 512)]
    kinds = {("tree" if c.tree else "chain") for c in one.contenders[0].candidates}
    assert kinds == {"chain", "tree"}
    assert not one.sources[0].borrowed
    assert one.contenders[0].setting.drafter.method.slug == "early-exit"


def test_the_model_defaults_to_the_recorded_one(path):
    assert recommend(on_model(""), [path], **GRID).question.deployment.model == "llama-3.1-8b"


def test_another_target_borrows_the_acceptance(path):
    answer = recommend(on_model("qwen3-8b"), [path], **GRID)
    assert answer.sources[0].borrowed
    assert is_borrowed(recording(model=""), "llama-3.1-8b"), "an unnamed model lends too"
    assert not is_borrowed(recording(model="meta-llama/Llama-3.1-8B-Instruct"), "llama-3.1-8b")


def test_halves_share_every_kind_and_no_request(generator):
    halves = split_requests(recording(), generator)
    assert sorted([*halves[0], *halves[1]]) == list(range(8))
    for half in halves:
        assert sorted(KINDS[i] for i in half) == ["chat", "chat", "code", "code"]


def test_trees_are_scored_on_requests_that_did_not_choose_them(generator):
    trace = recording(length=60)
    draws = request_draws(trace.prompt_kinds, generator=generator)
    both = tree_candidates(trace, (6,), draws, generator)
    assert [c.tree_source for c in both] == ["trace", "vector"]
    scored = both[0]
    on_itself = replay_tree(trace, scored.tree).tokens_per_step
    assert scored.tokens_per_step <= on_itself
    assert scored.samples.shape == (1000,)
    assert 1.0 < scored.tokens_per_step < 7.0


def test_chains_are_replayed_exactly(generator):
    trace = recording()
    source = Source(method="eagle-3", kind="recorded", trace=trace)
    found = shape_acceptances(source, [OFF, chain(2), chain(5)], generator=generator)
    assert [c.draft_tokens for c in found] == [0, 2, 5]
    assert found[2].tokens_per_step == replay_chain(trace, 5).tokens_per_step
    assert np.mean(found[2].samples) == pytest.approx(found[2].tokens_per_step, rel=0.02)


def test_a_match_rate_makes_verification_cheaper(tmp_path):
    trace = replace(recording(method="n-gram"), rank=None, rank_width=0, depth_invariant=False)
    file = tmp_path / "n-gram.parquet"
    write_acceptance(trace, file)
    resting = recommend(QUESTION, [file], match_rate=0.7, **GRID).winners[1]
    always = recommend(QUESTION, [file], **GRID).winners[1]
    assert float(resting.result.speedup) >= float(always.result.speedup)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"batches": (4, 1)}, "increasing"),
        ({"batches": (0,)}, "increasing"),
        ({"contexts": (-1,)}, ">= 0"),
    ],
)
def test_bad_grids_are_refused(path, change, text):
    with pytest.raises(InputError, match=text):
        recommend(QUESTION, [path], **(GRID | change))


def test_sampled_drafts_are_compared_by_the_law_of_the_method_that_is_asked_about():
    """On a draft model's recording: chains by token rejection, or chains and trees without
    replacement."""
    recorded = Path("traces/recorded/level-3/smollm2-135m--draft-model--t1.parquet")
    asked = replace(on_model("smollm2-135m"), draft_model="smollm2-135m")
    rules = {}
    for method in ("speculative-decoding", "sequoia"):
        found = recommend(replace(asked, method=method), [recorded], **GRID).contenders[0]
        rules[found.method] = {(c.topology, c.rule) for c in found.candidates}
        by_tree = [c for c in found.candidates if c.tree is not None]
        assert all(
            c.samples.size == 1000 and 1 < c.tokens_per_step < 2 and not c.note for c in by_tree
        )
    assert rules == {
        "speculative-decoding": {("off", "none"), ("chain", "token_rejection")},
        "sequoia": {
            ("off", "none"),
            ("chain", "without_replacement"),
            ("tree", "without_replacement"),
        },
    }
    with pytest.raises(InputError, match="--drafter eagle-3:"):
        recommend(replace(asked, method="eagle-3"), [recorded], **GRID)


def test_a_trace_without_a_method_needs_one(tmp_path):
    file = tmp_path / "anonymous.parquet"
    write_acceptance(recording(method=""), file)
    with pytest.raises(InputError, match="pass --method"):
        recommend(QUESTION, [file], **GRID)
    named = recommend(replace(QUESTION, method="early-exit"), [file], **GRID)
    assert named.contenders[0].method == "early-exit"
    with pytest.raises(InputError, match="at least one trace or stated acceptance"):
        recommend(QUESTION, [], **GRID)


def test_a_match_rate_concerns_only_drafters_that_may_rest(tmp_path):
    """One `--match-rate` for several traces must not make an early exit look cheaper."""
    bare = replace(recording(), rank=None, rank_width=0, depth_invariant=False)
    file = tmp_path / "early-exit.parquet"
    write_acceptance(bare, file)
    plain, rated = (
        recommend(QUESTION, [file], match_rate=rate, **GRID).winners[0] for rate in (None, 0.2)
    )
    assert plain.tokens_per_s == rated.tokens_per_s
