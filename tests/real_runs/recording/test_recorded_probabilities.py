"""The shipped recordings with probabilities and trees: complete, of one text, and telling one
story."""

from collections import Counter

import numpy as np
import pytest

from real_runs.prompt_set import read_prompts
from traces.replay.dynamic import TreePolicy, best_first, walk_policy
from traces.replay.sampled import replay_sampled
from traces.replay.walk import replay_chain
from traces.storage.acceptance_file import read_acceptance

DRAFTERS = ("early-exit", "layer-skip", "feature-head", "medusa-heads", "draft-model")
LOOKUPS = ("prompt-lookup", "suffix-automaton")
# tokens per step of a greedy text: a chain of 3, and the 16 likeliest nodes at every step (best
# first)
GOLDEN = {
    "early-exit": (1.2453, 1.5421),
    "layer-skip": (1.9909, 3.0017),
    "feature-head": (1.3738, 1.8192),
    "medusa-heads": (1.1838, 1.5000),
    "draft-model": (1.2404, 1.5654),
}
MOST_BYTES = 1 << 20


@pytest.fixture(scope="module")
def folder(root):
    return root / "traces" / "recorded" / "level-3"


@pytest.fixture(scope="module")
def shipped(folder):
    def read(drafter, mode):
        return read_acceptance(folder / f"smollm2-135m--{drafter}--{mode}.parquet")

    return read


def test_every_drafter_is_there_in_three_modes_and_small(folder):
    files = {path.name for path in folder.glob("*.parquet")}
    modes = ("greedy", "t0.8", "t1")
    assert files == {
        f"smollm2-135m--{drafter}--{mode}.parquet"
        for drafter in DRAFTERS + LOOKUPS
        for mode in modes
    }
    assert all(path.stat().st_size < MOST_BYTES for path in folder.glob("*.parquet"))


@pytest.mark.parametrize("mode", ["greedy", "t0.8", "t1"])
def test_all_watched_the_same_texts_of_the_shipped_prompts(shipped, mode):
    prompts, first = read_prompts(), shipped(LOOKUPS[0], mode)
    assert first.provenance.dataset_sha256 == prompts.sha256
    assert first.request_ids == tuple(prompt.id for prompt in prompts.prompts)
    assert min(Counter(first.prompt_kinds).values()) >= 6
    for drafter in DRAFTERS + LOOKUPS[1:]:
        other = shipped(drafter, mode)
        assert np.array_equal(first.offsets, other.offsets)
        assert first.extra_columns["output_sha256"] == other.extra_columns["output_sha256"]


def test_the_greedy_text_is_that_of_the_other_recordings(root, shipped):
    plain = read_acceptance(
        root / "traces" / "recorded" / "smollm2-135m--prompt-lookup--greedy.parquet"
    )
    assert (
        plain.extra_columns["output_sha256"]
        == shipped("prompt-lookup", "greedy").extra_columns["output_sha256"]
    )
    assert np.array_equal(plain.emitted, shipped("prompt-lookup", "greedy").emitted)


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("mode", ["greedy", "t0.8", "t1"])
def test_probabilities_are_probabilities_and_ranks_agree_with_them(shipped, drafter, mode):
    trace = shipped(drafter, mode)
    assert trace.level == 3
    draft, target = trace.draft_probs.astype(np.float64), trace.target_probs.astype(np.float64)
    for probabilities in (draft, target):
        assert ((probabilities >= 0) & (probabilities <= 1)).all()
        assert (probabilities.sum(axis=1) <= 1.01).all()
    assert (np.diff(draft, axis=1) <= 1e-3).all(), "candidates come best first"
    first = trace.rank if trace.rank.ndim == 1 else trace.rank[:, 0]
    assert first.max() < trace.rank_width
    # the more the drafter believes in its first candidate, the oftener it is the text
    sure = draft[:, 0] > np.median(draft[:, 0])
    assert (first[sure] == 0).mean() > (first[~sure] == 0).mean()


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_trees_chosen_anew_at_every_step(shipped, drafter):
    trace = shipped(drafter, "greedy")
    chain = replay_chain(trace, 3).tokens_per_step
    rates = [walk_policy(trace, best_first(nodes))[0].tokens_per_step for nodes in (1, 4, 8, 16)]
    assert rates == sorted(rates) and rates[0] > 1.0
    assert rates[-1] > chain, "sixteen nodes hold more than a chain of three"
    beam = walk_policy(trace, TreePolicy(nodes=16, depth=4, width=4, beam=4))[0].tokens_per_step
    assert rates[0] <= beam <= rates[-1] * 1.02
    assert (chain, rates[-1]) == pytest.approx(GOLDEN[drafter], abs=5e-4)


def expected_steps(chances, last):
    """Steps that a draft of one token takes through a text, from its end backwards; the last token
    has no draft."""
    after, beyond = 0.0, 0.0
    for place in range(last, -1, -1):
        kept = chances[place] if place < last else 0.0
        after, beyond = 1.0 + (1.0 - kept) * after + kept * beyond, after
    return after


@pytest.mark.parametrize("mode", ["t0.8", "t1"])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_one_drawn_token_is_accepted_with_the_ratio_of_the_models(shipped, drafter, mode):
    """Given that the text has x, it came from the draft with probability min(1, q(x)/p(x)),
    whatever the drafter."""
    trace = shipped(drafter, mode)
    rank = trace.rank if trace.rank.ndim == 1 else trace.rank[:, 0]
    draft, target = trace.draft_probs.astype(np.float64), trace.target_probs.astype(np.float64)
    width = min(draft.shape[1], trace.rank_width)
    inside = (rank >= 0) & (rank < width)
    rows = np.flatnonzero(inside)
    chances = np.zeros(trace.positions)
    drawn = draft[:, :width] / draft[:, :width].sum(axis=1, keepdims=True)
    chances[rows] = np.minimum(
        1.0, drawn[rows, rank[rows]] / np.maximum(target[rows, rank[rows]], 6e-8)
    )
    first, steps, tokens = trace.first_step_position, 0.0, 0
    for begin, end in zip(trace.offsets[:-1] + first, trace.offsets[1:], strict=True):
        if end > begin:
            steps += expected_steps(chances[begin:end], end - begin - 1)
            tokens += end - begin
    replayed = replay_sampled(trace, 1, draft_temperature=1.0)
    assert replayed.tokens_per_step == pytest.approx(tokens / steps, rel=1e-9)
    assert tokens / steps > 1.02
