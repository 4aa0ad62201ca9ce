"""Is a tree chosen on few recorded tokens the right one, which one is safer, and how many tokens
would be enough?

Vectors are drawn as other recordings of the same size would have given them: whole requests of a
recording, so that the correlation of each text stays, or counts of stated size. A safe tree is the
one whose tokens per step at the low end of the draws are most. Enough are the tokens on which a
tree chosen loses less than a share of the best with a stated probability, the recording standing in
for the truth. Leaves out seconds, and trees of recorded paths (`trace_tree`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.optimizers.trees.max_plus import Values
from costmodel.optimizers.trees.static_tree import optimal_trees
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree

Vectors = Sequence[Values]
Draw = Callable[[float], list[Vectors]]
LOW = 0.1
REGRET_RATIO = 0.01
PROBABILITY = 0.9
_DRAWS = 40
_SIZES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledChoice:
    """What the sampling error of the vectors means for the choice of a tree.

    Attributes:
        tree: the best tree of the vectors as they are.
        safe_tree: of the best trees of all draws the one with most tokens per step at the low end
            of the draws.
        low: tokens per step of `tree` that nine draws of ten exceed.
        safe_low: of `safe_tree`, never less.
        mean_regret_ratio: what `tree` loses on average against the best tree of each draw.
        regret_by_tokens: recorded tokens, and the regret that a tree chosen on so many keeps below
            with probability 0.9.
        enough_tokens: the fewest of these with a regret of at most 0.01; None where none of them is
            enough.
    """

    tree: Tree
    safe_tree: Tree
    low: float
    safe_low: float
    mean_regret_ratio: float
    regret_by_tokens: tuple[tuple[int, float], ...]
    enough_tokens: int | None


def sampled_choice(
    vectors: Vectors, draw: Draw, *, tokens: int, nodes: int, depth: int
) -> SampledChoice:
    """Choose a tree under the sampling error of its vectors.

    Args:
        vectors: sibling vector of every draft depth, as recorded.
        draw: vectors of other recordings, so many times as large as the one at hand.
        tokens: recorded tokens behind `vectors`.
        nodes: of the tree, root included.
        depth: most levels, root included.

    Raises:
        InputError: sizes out of range.
        InfeasibleError: no tree of that many nodes fits.
    """
    tree, drawn = _best(vectors, nodes, depth), draw(1.0)
    best = [_best(vectors_drawn, nodes, depth) for vectors_drawn in drawn]
    candidates = list(dict.fromkeys([tree, *best]))
    emitted = np.array([emitted_by(tree, drawn) for tree in candidates])
    low = np.quantile(emitted, LOW, axis=1)
    safe = int(np.argmax(low))
    own = np.array([emitted[candidates.index(tree), place] for place, tree in enumerate(best)])
    curve = []
    for share in _SIZES:
        trees = [_best(vectors_drawn, nodes, depth) for vectors_drawn in draw(share)]
        lost = (
            1.0
            - np.array([emitted_by(tree, [vectors])[0] for tree in trees])
            / emitted_by(tree, [vectors])[0]
        )
        curve.append((round(tokens * share), max(float(np.quantile(lost, PROBABILITY)), 0.0)))
    return SampledChoice(
        tree=tree,
        safe_tree=candidates[safe],
        low=float(low[0]),
        safe_low=float(low[safe]),
        mean_regret_ratio=max(float(np.mean(1.0 - emitted[0] / own)), 0.0),
        regret_by_tokens=tuple(curve),
        enough_tokens=_enough(curve),
    )


def recorded_draws(
    trace: AcceptanceTrace, levels: int, width: int, generator: np.random.Generator
) -> Draw:
    """Vectors of recordings of other requests: those at hand, drawn with replacement.

    Args:
        trace: level 2 or more.
        levels: draft levels.
        width: siblings.
        generator: of the draws.

    Raises:
        InputError: no ranks.
    """
    trace.require(2, "drawing sibling vectors")
    counts = _rank_counts(trace, levels, width)

    def draw(share: float) -> list[Vectors]:
        requests = max(round(trace.requests * share), 1)
        times = generator.multinomial(
            requests, np.full(trace.requests, 1.0 / trace.requests), size=_DRAWS
        )
        sums = np.tensordot(times.astype(np.float64), counts, axes=1)
        vectors = sums[..., 1:-1] / np.maximum(sums.sum(axis=-1, keepdims=True), 1.0)
        return [_levels(list(row), levels) for row in vectors]

    return draw


def counted_draws(vectors: Vectors, tokens: int, generator: np.random.Generator) -> Draw:
    """Vectors that were counted on so many tokens, counted again on others.

    Args:
        vectors: sibling vector of every draft depth.
        tokens: positions that each vector was counted on, at least 1.
        generator: of the draws.

    Raises:
        InputError: fewer tokens than 1.
    """
    if tokens < 1:
        raise InputError("must be at least 1", key="tokens", value=tokens)
    alike = all(vector is vectors[0] for vector in vectors)

    def draw(share: float) -> list[Vectors]:
        count = max(round(tokens * share), 1)
        rows = []
        for vector in vectors[:1] if alike else vectors:
            sure = np.clip(np.append(vector, 1.0 - vector.sum()), 0.0, 1.0)
            rows.append(
                generator.multinomial(count, sure / sure.sum(), size=_DRAWS)[:, :-1] / count
            )
        return [_levels([row[place] for row in rows], len(vectors)) for place in range(_DRAWS)]

    return draw


def emitted_by(tree: Tree, drawn: Sequence[Vectors]) -> NDArray[np.float64]:
    """Tokens per step of a tree under each of several lists of vectors, float64[draws].

    Args:
        tree: within the vectors.
        drawn: lists of vectors, all of the same levels and widths.
    """
    levels, values = tree.node_levels(), [np.ones(len(drawn))]
    table = [np.stack([vectors[level] for vectors in drawn]) for level in range(len(drawn[0]))]
    for node in range(1, tree.nodes):
        values.append(values[tree.parents[node]] * table[levels[node] - 1][:, tree.ranks[node]])
    return np.asarray(np.sum(values, axis=0))


def _best(vectors: Vectors, nodes: int, depth: int) -> Tree:
    alike = all(vector is vectors[0] for vector in vectors)
    return optimal_trees(
        vectors[0] if alike else [level.tolist() for level in vectors], [nodes], depth
    )[0].tree


def _levels(rows: list[Values], levels: int) -> Vectors:
    """One vector for all levels where only one is known."""
    return rows * levels if len(rows) == 1 else rows


def _rank_counts(trace: AcceptanceTrace, levels: int, width: int) -> NDArray[np.float64]:
    """How often every rank was the true one, by request and level; the last column counts positions
    outside `width`.

    Shape [requests, levels, 1 + width + 1], of which the first column, of ranks outside the
    candidates, counts too.
    """
    assert trace.rank is not None
    lengths = trace.output_tokens
    request = np.repeat(np.arange(trace.requests), lengths)
    index = np.arange(trace.positions) - np.repeat(trace.offsets[:-1], lengths)
    left = np.repeat(lengths, lengths) - index
    rows = 1 if trace.rank.ndim == 1 else levels
    counts = np.zeros((trace.requests, rows, width + 2))
    for level in range(rows):
        ranks = trace.rank if trace.rank.ndim == 1 else trace.rank[:, level]
        counted = (index >= trace.first_step_position) & (left > level)
        place = np.where(ranks >= width, width, ranks.astype(np.int64)) + 1
        np.add.at(counts[:, level], (request[counted], place[counted].astype(np.int64)), 1.0)
    return counts


def _enough(curve: Sequence[tuple[int, float]]) -> int | None:
    """The first size from which on every regret is small."""
    enough = None
    for tokens, regret in reversed(curve):
        if regret > REGRET_RATIO:
            break
        enough = tokens
    return enough
