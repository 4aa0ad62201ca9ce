"""Which request of a batch should get how many nodes, and what does that gain over as many for
each?

Requests of a recording, each with the vectors counted on it, or survival vectors that a file
states. Counting alone makes equal requests look unlike, so the gain stands beside what requests
drawn from the recording's mean would show. Leaves out the seconds of a step
(`costmodel.optimizers.trees.batch_split.fastest_split`).

Reference: Wu et al. 2025, TETRIS (arXiv:2502.15197).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.answers.trees.rows import NodeSplit, TreeCertificate
from costmodel.optimizers.acceptance_vectors import MAX_DEPTHS, MAX_FILE_BYTES
from costmodel.optimizers.trees.batch_split import BatchSplit, split_budget, tree_gains
from hardware_profiles.errors import InputError
from hardware_profiles.outside_file import read_bounded
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.statistics import acceptance_by_depth, sibling_vector, sibling_vectors

MOST_REQUESTS = 4096
DRAWS = 8  # batches of equal requests that show what counting alone gains
Vectors = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class VerifiedBatch:
    """Requests that are verified together.

    Args:
        vectors: float64[requests, depths, siblings]: chance that the k-th candidate of a depth is
            kept, given those above it.
        counted: int64[requests], positions that each was counted on; None: stated.
    """

    vectors: Vectors
    counted: NDArray[np.int64] | None = None


def recorded_batch(
    trace: AcceptanceTrace, requests: int, depth: int, width: int, seed: int
) -> VerifiedBatch:
    """Requests of a recording, drawn without repeats.

    Args:
        trace: level 1 for chains, 2 or more for trees.
        requests: how many.
        depth: draft levels at most.
        width: siblings at most.
        seed: of the draw.

    Raises:
        InputError: a summary, or fewer requests than are asked for.
    """
    trace.require(1, "splitting a batch")
    if not 1 <= requests <= min(trace.requests, MOST_REQUESTS):
        rule = f"must lie in 1..{min(trace.requests, MOST_REQUESTS)}, the requests of the recording"
        raise InputError(rule, key="--split-over", value=requests)
    drawn = np.sort(np.random.default_rng(seed).permutation(trace.requests)[:requests])
    lengths = trace.output_tokens[drawn].astype(np.int64)
    levels = max(min(depth, int(lengths.min()) - trace.first_step_position), 1)
    if trace.depth is not None:
        levels = min(levels, trace.depth)
    return VerifiedBatch(
        vectors=np.stack([_counted(trace.select([request]), levels, width) for request in drawn]),
        counted=lengths,
    )


def _counted(request: AcceptanceTrace, depth: int, width: int) -> Vectors:
    """Vectors of one request, [depth, siblings]; of a recording of chains one candidate a depth."""
    if request.level < 2:
        return _conditional(acceptance_by_depth(request, depth, "all"))
    siblings = min(width, request.rank_width)
    if request.depth_invariant:
        return np.tile(sibling_vector(request, siblings), (depth, 1))
    return sibling_vectors(request, siblings, depth)


def read_survivals(path: Path, depth: int) -> VerifiedBatch:
    """Requests of a JSON list of survival vectors: P(first d draft tokens kept), d = 1, 2, ..., a
    list a request.

    Args:
        path: file of at most 8 MiB; shorter lists end there.
        depth: draft tokens at most.

    Raises:
        InputError: no such list, or numbers that are no survival: within 0..1 and never increasing.
    """
    try:
        rows = json.loads(read_bounded(path, MAX_FILE_BYTES))
    except (ValueError, RecursionError):
        raise InputError("must be JSON: a list of survival vectors", file=path) from None
    has_requests = isinstance(rows, list) and 0 < len(rows) <= MOST_REQUESTS
    if not has_requests or not all(
        isinstance(row, list) and 0 < len(row) <= MAX_DEPTHS for row in rows
    ):
        rule = f"must be 1..{MOST_REQUESTS} lists of 1..{MAX_DEPTHS} numbers, one a request"
        raise InputError(rule, file=path)
    vectors = np.zeros((len(rows), min(depth, max(map(len, rows))), 1))
    for place, row in enumerate(rows):
        if not all(
            isinstance(survival, int | float)
            and not isinstance(survival, bool)
            and 0 <= survival <= 1
            for survival in row
        ):
            raise InputError("must hold probabilities in 0..1", file=path, key=f"[{place}]")
        values = np.array(row, dtype=np.float64)
        if np.any(np.diff(values) > 0):
            raise InputError(
                "must never increase: the first d tokens include the first d - 1",
                file=path,
                key=f"[{place}]",
            )
        own = _conditional(values[:depth])
        vectors[place, : len(own)] = own
    return VerifiedBatch(vectors=vectors)


def _conditional(survival: Vectors) -> Vectors:
    """Chance of each token given those before it, [depth, 1]."""
    before = np.concatenate([[1.0], survival[:-1]])
    rates: Vectors = np.divide(survival, before, out=np.zeros_like(survival), where=before > 0)
    return rates[:, None]


def node_splits(batch: VerifiedBatch, budgets: Sequence[int], seed: int) -> list[NodeSplit]:
    """The best split of every budget, beside as many nodes for each.

    Args:
        batch: requests.
        budgets: nodes of all trees together, the root of each included.
        seed: of the batches of equal requests.

    Raises:
        InputError: fewer nodes than requests.
    """
    requests, most = len(batch.vectors), max(budgets)
    if min(budgets) < requests:
        raise InputError(
            f"{requests} roots need {requests} nodes", key="--nodes", value=min(budgets)
        )
    gains = _gains(batch.vectors, most - requests)
    chance = [_gains(vectors, most - requests) for vectors in _equal_batches(batch, seed)]
    rows = []
    for nodes in budgets:
        split, even = _compared(gains, nodes - requests)
        counts = split.draft_tokens
        by_chance = [
            equal.tokens_per_step / as_many - 1.0
            for equal, as_many in (_compared(other, nodes - requests) for other in chance)
        ]
        rows.append(
            NodeSplit(
                nodes=nodes,
                requests=requests,
                draft_tokens=counts.tolist(),
                unused_nodes=nodes - requests - int(counts.sum()),
                tokens_per_step=split.tokens_per_step,
                uniform_tokens_per_step=even,
                gain_ratio=split.tokens_per_step / even - 1.0,
                gain_by_chance_ratio=float(np.mean(by_chance)) if by_chance else None,
                certificate=TreeCertificate.of(split.certificate),
            )
        )
    return rows


def _gains(vectors: Vectors, draft_tokens: int) -> Vectors:
    """What every further node of each request's best tree adds, [requests, nodes]."""
    depth = vectors.shape[1] + 1
    return np.stack([tree_gains(own.tolist(), max(draft_tokens, 1), depth) for own in vectors])


def _compared(gains: Vectors, total: int) -> tuple[BatchSplit, float]:
    """The best split of at most so many draft tokens, and tokens per step where each request has as
    many.
    """
    split = split_budget(gains, min(total, int(np.isfinite(gains).sum())))
    shares = np.full(len(gains), total // len(gains)) + (np.arange(len(gains)) < total % len(gains))
    within = np.where(np.isfinite(gains), gains, 0.0)[np.arange(gains.shape[1]) < shares[:, None]]
    return split, len(gains) + float(within.sum())


def _equal_batches(batch: VerifiedBatch, seed: int) -> list[Vectors]:
    """Batches of requests that are all alike, each counted on as many positions as the recorded
    ones.
    """
    if batch.counted is None:
        return []
    generator = np.random.default_rng(seed)
    mean = np.average(batch.vectors, axis=0, weights=batch.counted)
    shares = np.concatenate(
        [mean, np.clip(1.0 - mean.sum(axis=1, keepdims=True), 0.0, 1.0)], axis=1
    )
    shares /= shares.sum(axis=1, keepdims=True)
    return [
        np.stack(
            [
                generator.multinomial(count, shares)[:, :-1] / count
                for count in batch.counted.tolist()
            ]
        )
        for _ in range(DRAWS)
    ]
