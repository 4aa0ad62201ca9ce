"""Which tokens does a table of the target's earlier candidates propose?

A table keeps, for every token, the likeliest successors that the target named when it last read
that token, in right drafts and wrong ones; a static tree is filled from it. The table, and with it
every later draft, depends on which trees were verified before: a step that did not happen cannot be
inferred from those that did. A run is therefore known by the steps it took (`walked_trace`); no
recording of it replays at another tree or from other positions, and `record` does not offer it.

Reference: Luo et al., Token Recycling, arXiv 2408.08696, sec. 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from costmodel.optimizers.trees.static_tree import optimal_trees
from hardware_profiles.errors import InputError
from real_runs.decoding.speculative import SpeculativeRun
from traces.kinds.acceptance import AcceptanceTrace, Provenance
from traces.kinds.tree import Tree

CANDIDATES = 8
TREE_NODES = 80
TREE_LEVELS = 7
NOTES = (
    "Token recycling: the drafter's table depends on the trees verified before. Replay is exact for"
    " the recorded tree alone, walked from the first step on; other positions were never a step's"
    " start and hold 1."
)


class TokenRecycling:
    """A table of successors and the drafts made from it.

    Starts with token 0 for every successor. A table that is kept from request to request starts the
    next one warm.

    Args:
        vocabulary: number of token ids.
        candidates: successors kept per token; the tree's ranks lie below it.

    Raises:
        InputError: no candidates, or more than tokens.
    """

    def __init__(self, vocabulary: int, *, candidates: int = CANDIDATES) -> None:
        if not 1 <= candidates <= vocabulary:
            raise InputError(f"must lie in 1..{vocabulary}", key="candidates", value=candidates)
        self.successors = np.zeros((vocabulary, candidates), dtype=np.int32)

    def learn(self, tokens: Sequence[int], logits: torch.Tensor) -> None:
        """Keep the likeliest successors of every token the target has read; of equal tokens the
        last counts.

        Args:
            tokens: T ids.
            logits: the target's after each of them, [T, vocabulary].
        """
        best = logits.topk(self.successors.shape[1], dim=-1).indices.cpu().numpy()
        for token, row in zip(tokens, best, strict=True):
            self.successors[token] = row

    def __call__(self, prefix: Sequence[int], cache: object, tree: Tree) -> list[int]:
        """Fill the tree below the last known token: the form `speculate_tree` calls.

        Raises:
            InputError: the tree uses ranks that are not kept.
        """
        if max(tree.ranks) >= self.successors.shape[1]:
            raise InputError(
                f"must lie below {self.successors.shape[1]}", key="ranks", value=max(tree.ranks)
            )
        tokens = [prefix[-1]]
        for parent, rank in zip(tree.parents[1:], tree.ranks[1:], strict=True):
            tokens.append(int(self.successors[tokens[parent], rank]))
        return tokens


def default_tree(
    *, nodes: int = TREE_NODES, levels: int = TREE_LEVELS, candidates: int = CANDIDATES
) -> Tree:
    """The best tree if the true token's rank followed Zipf's law (ASSUMED): p(rank) in proportion
    to 1/(rank + 1).

    Args:
        nodes: of the tree, root included.
        levels: at most, root included.
        candidates: ranks that may be used.
    """
    weights = 1 / np.arange(1, candidates + 1)
    return optimal_trees((weights / weights.sum()).tolist(), nodes=(nodes,), depth=levels)[0].tree


def walked_trace(runs: Sequence[SpeculativeRun], provenance: Provenance) -> AcceptanceTrace:
    """The steps that runs took, as a trace of lengths.

    Where a step started, `emitted` holds what it emitted and `drafted` the draft tokens of its
    tree. Elsewhere, the prefill's token included, they hold 1 and 0, which stand for nothing.

    Args:
        runs: what `speculate_tree` made, one per request, all with the same tree.
        provenance: where they come from; what may be asked of them is added to its notes.
    """
    lengths = [_walked(run) for run in runs]
    return AcceptanceTrace(
        provenance=replace(provenance, notes=f"{NOTES} {provenance.notes}".strip()),
        offsets=np.cumsum([0, *(len(run.tokens) for run in runs)], dtype=np.int64),
        first_step_position=1,
        emitted=np.concatenate([emitted for emitted, _ in lengths]),
        drafted=np.concatenate([drafted for _, drafted in lengths]),
    )


def _walked(run: SpeculativeRun) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    emitted = np.ones(len(run.tokens), dtype=np.int16)
    drafted = np.zeros(len(run.tokens), dtype=np.int16)
    starts = (
        1 + np.cumsum((0, *run.emitted[:-1]), dtype=np.int64)
        if run.emitted
        else np.zeros(0, dtype=np.int64)
    )
    emitted[starts] = run.emitted
    drafted[starts] = run.drafted
    return emitted, drafted
