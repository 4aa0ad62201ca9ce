"""CPU time of exact replay, best of five, with the ratio to plain loops measured in the same
run."""

import heapq

import numpy as np
import pytest

from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree
from traces.replay.statistics import bootstrap_tokens_per_step
from traces.replay.walk import replay_chain, replay_tree

POSITIONS, REQUESTS, DEPTH, WIDTH = 2_000_000, 2_000, 10, 8
TARGET_CHAIN, TARGET_TREE = 200e6, 50e6  # positions per second and core


@pytest.fixture(scope="module")
def trace():
    """Two million positions whose ranks fall off geometrically: 2.2 tokens per step at K = 5."""
    generator = np.random.default_rng(1)
    rank = np.minimum(generator.geometric(0.55, size=(POSITIONS, DEPTH)) - 1, WIDTH)
    rank[rank == WIDTH] = -1
    missed = rank != 0
    run = np.where(missed.any(axis=1), missed.argmax(axis=1), DEPTH)
    return AcceptanceTrace(
        offsets=np.linspace(0, POSITIONS, REQUESTS + 1).astype(np.int64),
        emitted=run + 1,
        rank=rank,
        rank_width=WIDTH,
    )


def likely_tree(nodes, depth):
    """The most probable paths of independent ranks with the fixture's law."""
    chance = [0.55 * 0.45**k for k in range(WIDTH)]
    heap, paths = [(-1.0, ())], []
    while len(paths) <= nodes:
        value, path = heapq.heappop(heap)
        paths.append(path)
        if len(path) < depth:
            for k in range(WIDTH):
                heapq.heappush(heap, (value * chance[k], (*path, k)))
    return Tree.from_paths(paths[1:])


def plain_chain_steps(emitted, bounds, draft_tokens):
    steps = 0
    for start, end in bounds:
        i = start
        while i < end:
            steps += 1
            i += min(emitted[i], draft_tokens + 1)
    return steps


def lockstep_chain_steps(emitted, offsets, draft_tokens):
    """Numpy's way: all requests take their steps together."""
    capped = np.minimum(emitted, draft_tokens + 1).astype(np.int64)
    at, end = offsets[:-1].copy(), offsets[1:]
    steps = 0
    while at.size:
        steps += at.size
        at = at + capped[at]
        at, end = at[at < end], end[at < end]
    return steps


def plain_tree_steps(rank, bounds, tree):
    table = tree.child_table(WIDTH + 1).tolist()
    steps = 0
    for start, end in bounds:
        i = start
        while i < end:
            node, accepted = 0, 0
            while i + accepted < end and accepted < DEPTH:
                node = table[node][rank[i][accepted]]
                if node < 0:
                    break
                accepted += 1
            steps += 1
            i += accepted + 1
    return steps


def part(trace, requests):
    """The first requests as plain lists, for loops that would take minutes over everything."""
    bounds = list(
        zip(
            trace.offsets[:requests].tolist(), trace.offsets[1 : requests + 1].tolist(), strict=True
        )
    )
    return bounds, bounds[-1][1]


def report(benchmark, name, target, ours, **references):
    ratios = {name: ours / speed for name, speed in references.items()}
    benchmark.extra_info.update(positions_per_s=ours, **ratios)
    speed = f"{ours / 1e6:.0f} million positions/s of CPU time (aim {target / 1e6:.0f})"
    print(
        f"\n{name}: {speed}",
        *(f"{ratio:.1f} times {each}" for each, ratio in ratios.items()),
        sep=", ",
    )


@pytest.mark.parametrize("draft_tokens", [1, 3, 8])
def test_chains(benchmark, cpu_s, aim, trace, draft_tokens):
    replay = benchmark.pedantic(replay_chain, args=(trace, draft_tokens), rounds=5, warmup_rounds=1)
    bounds, covered = part(trace, 100)
    emitted = trace.emitted[:covered].tolist()
    assert plain_chain_steps(emitted, bounds, draft_tokens) == replay.steps[:100].sum()
    assert lockstep_chain_steps(trace.emitted, trace.offsets, draft_tokens) == replay.steps.sum()
    ours = POSITIONS / cpu_s(lambda: replay_chain(trace, draft_tokens))
    loop = covered / cpu_s(lambda: plain_chain_steps(emitted, bounds, draft_tokens), 2)
    lockstep = POSITIONS / cpu_s(
        lambda: lockstep_chain_steps(trace.emitted, trace.offsets, draft_tokens), 2
    )
    report(
        benchmark,
        f"chain K={draft_tokens}",
        TARGET_CHAIN,
        ours,
        python=loop,
        numpy_in_lockstep=lockstep,
    )
    aim("times plain Python", ours / loop, least=20)
    aim("times numpy in lockstep", ours / lockstep, least=2)


@pytest.mark.parametrize(("nodes", "depth"), [(16, 5), (64, 8), (256, 10)])
def test_trees(benchmark, cpu_s, aim, trace, nodes, depth):
    tree = likely_tree(nodes, depth)
    replay = benchmark.pedantic(replay_tree, args=(trace, tree), rounds=5, warmup_rounds=1)
    bounds, covered = part(trace, 100)
    rank = trace.rank[:covered].tolist()
    assert plain_tree_steps(rank, bounds, tree) == replay.steps[:100].sum()
    ours = POSITIONS / cpu_s(lambda: replay_tree(trace, tree))
    loop = covered / cpu_s(lambda: plain_tree_steps(rank, bounds, tree), 2)
    report(benchmark, f"tree of {nodes}", TARGET_TREE, ours, python=loop)
    aim("times plain Python", ours / loop, least=20)


def test_bootstrap(benchmark, cpu_s, trace):
    """One interval over 2000 requests and 1000 resamples, drawing included."""
    replay, generator = replay_chain(trace, 3), np.random.default_rng(2)

    def call():
        return bootstrap_tokens_per_step(replay, trace.prompt_kinds, generator=generator)

    low, high = benchmark.pedantic(call, rounds=3, warmup_rounds=1)
    assert low < replay.tokens_per_step < high
    print(f"\nbootstrap: {cpu_s(call) * 1e3:.0f} ms of CPU time")
