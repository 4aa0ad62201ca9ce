"""The shipped recordings of sampled text with the drafter's tree at every position: complete, and
telling one story."""

from itertools import pairwise

import numpy as np
import pytest

from traces.replay.dynamic import best_first, walk_policy
from traces.storage.acceptance_file import read_acceptance

DRAFTERS = ("feature-head", "layer-skip", "medusa-heads")
# tokens per step with the 16 likeliest nodes at every step (best first), at temperatures 0.8 and 1
GOLDEN = {
    "feature-head": (1.6813, 1.5278),
    "layer-skip": (2.5755, 2.0070),
    "medusa-heads": (1.4337, 1.3317),
}


@pytest.fixture(scope="module")
def shipped(root):
    def read(folder, drafter, mode):
        return read_acceptance(
            root / "traces" / "recorded" / folder / f"smollm2-135m--{drafter}--{mode}.parquet"
        )

    return read


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_trees_of_sampled_text_keep_more_with_more_nodes_and_less_when_hotter(shipped, drafter):
    greedy = shipped("level-3", drafter, "greedy")
    recordings = [greedy, *(shipped("level-3-trees", drafter, mode) for mode in ("t0.8", "t1"))]
    most = []
    for trace in recordings:
        assert trace.requests == 48 and trace.request_ids == greedy.request_ids
        kept = [
            walk_policy(trace, best_first(nodes))[0].tokens_per_step for nodes in (1, 2, 4, 8, 16)
        ]
        assert all(few <= many for few, many in pairwise(kept))
        most.append(kept[-1])
    assert most == sorted(most, reverse=True)
    assert most[1:] == pytest.approx(GOLDEN[drafter], abs=5e-5)


@pytest.mark.parametrize("mode", ["t0.8", "t1"])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_the_first_level_keeps_what_the_target_gives_the_likeliest_tokens(shipped, drafter, mode):
    """A node is kept as often as the target draws its token, which is what rejection of a certain
    draft keeps."""
    trace = shipped("level-3-trees", drafter, mode)
    trees, target = trace.expansions, trace.target_probs.astype(np.float64)
    roots = trees.parents == -1
    owner = np.repeat(np.arange(trace.positions), np.diff(trees.offsets))
    for siblings in (1, 3):
        kept = roots & trees.on_path & (trees.rank < siblings)
        said = np.array(
            [
                target[at, : np.sum(roots[low:high] & (trees.rank[low:high] < siblings))].sum()
                for at, (low, high) in enumerate(pairwise(trees.offsets))
            ]
        )
        hits = np.bincount(owner[kept], minlength=trace.positions)
        spread = np.sqrt(np.sum(said * np.maximum(1.0 - said, 0.0)))
        assert hits.max() == 1
        assert abs(hits.sum() - said.sum()) < 4.0 * spread + 2e-3 * trace.positions
