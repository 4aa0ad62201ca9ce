"""CPU time of the laws of verification, beside replay by matching in the same run: the ratio is
printed."""

import numpy as np
import pytest

from costmodel.laws.acceptance import law_for, replay_by, several_chains
from traces.kinds.acceptance import AcceptanceTrace, Provenance
from traces.kinds.tree import Tree

POSITIONS, REQUESTS, WIDTH = 500_000, 500, 8
PAIRS = Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)])
CASES = [
    ("token_rejection", 3),
    ("block", 3),
    ("multi_path_block", several_chains(2, 3)),
    ("with_replacement", PAIRS),
    ("without_replacement", PAIRS),
    ("typical", 3),
    ("near_match", PAIRS),
]


@pytest.fixture(scope="module")
def trace():
    """Half a million positions with eight candidates each, whose laws are drawn and drawn again."""
    generator = np.random.default_rng(3)
    target, draft = (generator.dirichlet(np.full(WIDTH, 0.4), size=POSITIONS) for _ in range(2))
    order = np.argsort(-draft, axis=1)
    target, draft = np.take_along_axis(target, order, 1), np.take_along_axis(draft, order, 1)
    rank = np.minimum(
        (target.cumsum(axis=1) < generator.random((POSITIONS, 1))).sum(axis=1), WIDTH - 1
    )
    offsets = np.linspace(0, POSITIONS, REQUESTS + 1).astype(np.int64)
    left = np.repeat(offsets[1:], np.diff(offsets)) - np.arange(POSITIONS)
    miss = np.append(np.flatnonzero(rank), POSITIONS)
    run = miss[np.searchsorted(miss, np.arange(POSITIONS))] - np.arange(POSITIONS)
    return AcceptanceTrace(
        provenance=Provenance(sampling={"temperature": 1.0}),
        offsets=offsets,
        emitted=np.minimum(np.minimum(run, left) + 1, left),
        rank=rank,
        rank_width=WIDTH,
        depth_invariant=True,
        draft_ids=order,
        draft_probs=draft,
        target_probs=target,
        emitted_target_prob=np.take_along_axis(target, rank[:, None], 1)[:, 0],
        residual_mass=np.zeros(POSITIONS),
    )


@pytest.mark.parametrize(("rule", "shape"), CASES, ids=[rule for rule, _ in CASES])
def test_laws(benchmark, cpu_s, trace, rule, shape):
    law, matching = (law_for(trace, name, (shape,), strict=True) for name in (rule, "match"))
    replay = benchmark.pedantic(replay_by, args=(trace, law, shape), rounds=3, warmup_rounds=1)
    assert 1 < replay.tokens_per_step < 4
    ours, theirs = (cpu_s(lambda by=by: replay_by(trace, by, shape), 3) for by in (law, matching))
    benchmark.extra_info.update(positions_per_s=POSITIONS / ours, matching=ours / theirs)
    print(
        f"\n{rule}: {POSITIONS / ours / 1e6:.1f} million positions/s of CPU time,"
        f" {ours / theirs:.0f} times matching"
    )
