"""CPU time of the tree searches, best of five, with the ratio to plain numpy in the same run."""

import numpy as np
import pytest

from costmodel.optimizers.trees.batch_split import fastest_split
from costmodel.optimizers.trees.static_tree import optimal_trees
from costmodel.optimizers.trees.trace_tree import trace_tree
from traces.kinds.acceptance import AcceptanceTrace

NODES, LEVELS, WIDTH = 768, 10, 32


def noisy_vector(width):
    """A measured-looking vector: falling, noisy, with zeros in its tail."""
    generator = np.random.default_rng(32)
    chances = 0.6 / np.arange(1, width + 1) ** 2
    hits = generator.multinomial(700, [*chances, 1 - chances.sum()])[:-1]
    return (hits / 700).tolist()


def numpy_values(vector, nodes, levels):
    """The same recursion with numpy's slices as the inner loop, values only."""
    best = np.full(nodes + 1, -np.inf)
    best[1] = 1.0
    for _ in range(levels - 1):
        siblings = np.full(nodes, -np.inf)
        siblings[0] = 0.0
        for chance in reversed(vector):
            row = np.full(nodes, -np.inf)
            row[0] = 0.0
            for share in range(1, nodes):
                if best[share] > -np.inf:
                    np.maximum(
                        row[share:],
                        siblings[: nodes - share] + chance * best[share],
                        out=row[share:],
                    )
            siblings = row
        best = np.concatenate([[-np.inf], 1.0 + siblings])
    return best


def test_768_nodes_ten_levels_32_siblings(benchmark, cpu_s, aim):
    vector = noisy_vector(WIDTH)
    (choice,) = benchmark.pedantic(
        optimal_trees, args=(vector, [NODES], LEVELS), rounds=5, warmup_rounds=1, iterations=1
    )
    ours = cpu_s(lambda: optimal_trees(vector, [NODES], LEVELS))
    plain = cpu_s(lambda: numpy_values(vector, NODES, LEVELS))
    benchmark.extra_info.update(cpu_s=ours, numpy_cpu_s=plain, speedup_over_numpy=plain / ours)
    print(f"\n{ours * 1e3:.1f} ms CPU; plain numpy {plain * 1e3:.0f} ms, ratio {plain / ours:.1f}")
    assert choice.tokens_per_step == pytest.approx(
        numpy_values(vector, NODES, LEVELS)[NODES], abs=1e-9
    )
    aim("CPU seconds", ours, most=0.02)


def rough_vector(width):
    """Every sibling of some worth and none in order: nothing of the search can be left out."""
    generator = np.random.default_rng(3)
    chances = 1.0 / np.arange(1, width + 1) ** 1.2
    return (0.95 * chances / chances.sum() * generator.uniform(0.5, 1.0, width)).tolist()


@pytest.mark.parametrize(
    ("nodes", "levels", "most_s"),
    [
        (NODES, LEVELS, 0.02),
        pytest.param(4096, 24, 2.0, marks=[pytest.mark.heavy, pytest.mark.slow]),
    ],
)
def test_vectors_without_order_by_depth_or_not(nodes, levels, most_s, cpu_s, aim):
    vector = rough_vector(WIDTH)
    (one,) = optimal_trees(vector, [nodes], levels)
    (by_depth,) = optimal_trees([vector] * (levels - 1), [nodes], levels)
    assert one.tree.nodes == nodes and one.tokens_per_step == pytest.approx(
        by_depth.tokens_per_step, abs=1e-9
    )
    aim(
        f"CPU seconds, {nodes} nodes",
        cpu_s(lambda: optimal_trees(vector, [nodes], levels)),
        most=most_s,
    )
    taken = cpu_s(lambda: optimal_trees([vector] * (levels - 1), [nodes], levels))
    aim(f"CPU seconds, {nodes} nodes, a vector per depth", taken, most=most_s)
    falling = sorted(vector, reverse=True)
    aim(
        f"CPU seconds, {nodes} nodes, falling",
        cpu_s(lambda: optimal_trees(falling, [nodes], levels)),
        most=most_s,
    )


def test_a_batch_of_256_requests_shares_its_slots(cpu_s, aim):
    survival = np.cumprod(np.random.default_rng(0).uniform(0.2, 0.98, (256, 8)), axis=1)
    seconds = 0.006 + 0.0004 * np.arange(9)[:, None] + 4e-6 * np.arange(256 * 8 + 1)
    found = fastest_split(survival, seconds)
    assert found.certificate.kind == "exact" and 0 < found.draft_tokens.sum() < 256 * 8
    aim(
        "CPU seconds, 256 requests of 8 slots",
        cpu_s(lambda: fastest_split(survival, seconds)),
        most=0.005,
    )


def test_64_draft_tokens_on_5000_positions(benchmark, cpu_s, aim):
    generator = np.random.default_rng(64)
    ranks = generator.choice([0, 1, 2, 3, -1], p=[0.6, 0.15, 0.08, 0.04, 0.13], size=5000).astype(
        np.int16
    )
    emitted = np.ones(5000, dtype=np.int16)
    for i in range(4998, -1, -1):
        emitted[i] += emitted[i + 1] if ranks[i] == 0 else 0
    emitted[-1] += ranks[-1] == 0
    trace = AcceptanceTrace(
        offsets=np.arange(0, 5001, 250),
        emitted=np.minimum(emitted, 9),
        rank=ranks,
        rank_width=8,
        depth_invariant=True,
    )
    (result,) = benchmark.pedantic(
        trace_tree, args=(trace, (64,)), rounds=5, warmup_rounds=1, iterations=1
    )
    ours = cpu_s(lambda: trace_tree(trace, (64,)))
    benchmark.extra_info.update(cpu_s=ours)
    print()
    assert result.tree.draft_tokens == 64
    aim("CPU seconds", ours, most=1.0)
