"""Which tree does a step verify whose candidates were guessed by prompt tokens of the step before?

Every candidate carries prompt tokens behind it: query tokens that guess what follows should it be
accepted. As many levels has the next tree as prompt tokens stood behind the last accepted token.
That number is the state of a request, and every state has a tree of its own. Leaves out which trees
are best (`costmodel.optimizers.trees.state_trees`) and what they emit (`traces.replay.states`,
`costmodel.laws.prompt_states`).

Reference: Chen et al. 2024, "Hardware-Aware Parallel Prompt Decoding" (arXiv:2405.18628), section
4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hardware_profiles.errors import InputError
from traces.kinds.tree import Tree


@dataclass(frozen=True, kw_only=True, slots=True)
class StateTrees:
    """One tree for every state 1, 2, .. m; the root of each carries m prompt tokens.

    Example:
        >>> two = Tree.from_paths([(0,), (1,)])
        >>> states = StateTrees(trees=(two,), prompt_tokens=((1, 1),))
        >>> states.levels, states.sizes, states.rows
        (1, (4,), (6,))

    Args:
        trees: of state s at index s - 1, with 1 to s draft levels.
        prompt_tokens: for every tree the prompt tokens behind each candidate in node order, 1 to m;
            the root left out.

    Raises:
        InputError: no state, a tree that is too deep or without candidates, or prompt tokens out of
            range.
    """

    trees: tuple[Tree, ...]
    prompt_tokens: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.trees or len(self.trees) != len(self.prompt_tokens):
            counts = (len(self.trees), len(self.prompt_tokens))
            raise InputError(
                "must be one tree and its prompt tokens for every state",
                key="prompt_tokens",
                value=counts,
            )
        for state, (tree, behind) in enumerate(zip(self.trees, self.prompt_tokens, strict=True), 1):
            if not 2 <= tree.depth <= state + 1:
                rule = f"the tree of state {state} has 1..{state} draft levels"
                raise InputError(rule, key="trees", value=tree.depth - 1)
            if len(behind) != tree.draft_tokens or not all(
                1 <= count <= self.levels for count in behind
            ):
                rule = (
                    f"each of {tree.draft_tokens} candidates carries 1..{self.levels} prompt tokens"
                )
                raise InputError(rule, key="prompt_tokens", value=list(behind))

    @property
    def levels(self) -> int:
        """States m, and most draft levels of a tree."""
        return len(self.trees)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Candidates of every state's tree, and prompt tokens behind them."""
        return tuple(
            t.draft_tokens + sum(behind)
            for t, behind in zip(self.trees, self.prompt_tokens, strict=True)
        )

    @property
    def rows(self) -> tuple[int, ...]:
        """Query tokens of every state's pass: the sizes, the root and its prompt tokens."""
        return tuple(1 + self.levels + size for size in self.sizes)

    def following(self, state: int) -> tuple[int, ...]:
        """The state that a step leads to by its last accepted node, for every node of a state's
        tree, root first.
        """
        return (self.levels, *self.prompt_tokens[state - 1])

    def to_json(self) -> list[dict[str, Any]]:
        """One object per state: parents and ranks, the root included, and prompt tokens behind each
        candidate.
        """
        return [
            {**tree.to_json(), "prompt_tokens": list(behind)}
            for tree, behind in zip(self.trees, self.prompt_tokens, strict=True)
        ]
