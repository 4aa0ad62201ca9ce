"""Which configurations are validated: those that were chosen, and a spread of those that were not?

A configuration is a drafter with a chain length or a static tree. The spread fills the plane of
drafters and sizes evenly (Sobol points). Leaves out the prompts, batches and contexts that they run
at (`cells`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, TypeVar

from scipy.stats import qmc  # type: ignore[import-untyped]

from costmodel.configuration import DecodingConfiguration
from hardware_profiles.errors import InputError
from real_runs.drafters.drafter import Drafter, Validated
from real_runs.drafters.registry import load_drafter, validated_names
from real_runs.drafters.token_recycling import default_tree
from real_runs.trials.trials import PLAIN
from traces.kinds.tree import Tree, chain_tree

FITTED_CHAINS = (3, 7)  # lengths that loop costs are fitted on and that are never scored
FITTED_TREE_NODES = (7, 13)
CHAINS = (1, 2, 4, 5, 6, 8)
TREE_NODES = (5, 9, 17)
RECYCLING_NODES = (17,)
FITTED_RECYCLING_NODES = (9,)
TREE_LEVELS = 6


class NamedConfiguration(Protocol):
    """What a spread and points know of a configuration."""

    @property
    def name(self) -> str:
        """Unique, readable, the same in every run."""

    @property
    def drafter(self) -> str:
        """Who drafts; "" for plain decoding."""

    @property
    def topology(self) -> str:
        """One of off, chain and tree."""

    @property
    def draft_tokens(self) -> int:
        """K of a chain, or draft tokens of the tree; the root never counts."""


Some = TypeVar("Some", bound=NamedConfiguration)


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration:
    """One way to decode; plain without a drafter.

    Attributes:
        drafter: name in the registry; "" for plain decoding.
        draft_tokens: K of a chain, or draft tokens of the tree; the root never counts.
        tree: static tree in level order; None for a chain.
    """

    drafter: str = ""
    draft_tokens: int = 0
    tree: Tree | None = None

    @property
    def name(self) -> str:
        """Unique, readable, the same in every run."""
        if not self.drafter:
            return PLAIN
        if self.tree is None:
            return f"{self.drafter}-{self.draft_tokens}"
        digest = hashlib.sha256(repr((self.tree.parents, self.tree.ranks)).encode()).hexdigest()[:4]
        return f"{self.drafter}-tree{self.draft_tokens}-{digest}"

    @property
    def topology(self) -> str:
        """One of off, chain and tree."""
        return "off" if not self.drafter else "chain" if self.tree is None else "tree"

    @property
    def shape(self) -> Tree:
        """The tree of a step; a chain's, too."""
        return chain_tree(self.draft_tokens) if self.tree is None else self.tree

    @classmethod
    def of(cls, chosen: DecodingConfiguration, batch: int) -> Configuration:
        """What runs of a decoding configuration at a batch size.

        Args:
            chosen: a chain, a batch schedule or a static tree.
            batch: requests that run together.

        Raises:
            InputError: a method, a shape or a stop rule that no loop here runs.
        """
        if not (draft_tokens := chosen.draft_tokens_at(batch)):
            return cls()
        drafters = drafters_of_methods()
        if chosen.method not in drafters:
            rule = f"loops here run {', '.join(drafters)}"
            raise InputError(rule, key="method", value=chosen.method)
        if chosen.topology not in ("chain", "tree") or chosen.stop.rule != "length":
            raise InputError(
                "loops here run chains of one length and static trees",
                key="shape",
                value=chosen.topology,
            )
        return cls(drafter=drafters[chosen.method], draft_tokens=draft_tokens, tree=chosen.tree)


@cache
def drafters_of_methods() -> Mapping[str, str]:
    """Method to the drafter that runs it here, of those that draft any chain or tree; of several
    the first.
    """
    drafters: dict[str, str] = {}
    for name in validated_names():
        if load_drafter(name).any_shape:
            drafters.setdefault(load_drafter(name).method, name)
    return drafters


def chain(drafter: str, draft_tokens: int) -> Configuration:
    """A chain of K tokens."""
    return Configuration(drafter=drafter, draft_tokens=draft_tokens)


def static_tree(drafter: str, nodes: int, *, levels: int = TREE_LEVELS) -> Configuration:
    """The best tree of so many nodes, root included, if ranks followed Zipf's law."""
    tree = default_tree(nodes=nodes, levels=min(levels, nodes))
    return Configuration(drafter=drafter, draft_tokens=tree.draft_tokens, tree=tree)


def recycling(nodes: int) -> Configuration:
    """Token recycling with the tree that a recording of so many nodes uses."""
    tree = default_tree(nodes=nodes)
    return Configuration(drafter="token-recycling", draft_tokens=tree.draft_tokens, tree=tree)


def candidates(
    drafters: Sequence[str], *, batch: int, recorded_nodes: Sequence[int]
) -> list[Configuration]:
    """Every configuration that may be scored, plain decoding aside.

    Args:
        drafters: names.
        batch: requests that run together.
        recorded_nodes: trees of token recycling that were recorded; there are no others to predict.
    """
    return _configurations(
        drafters,
        batch,
        recorded_nodes,
        lengths=lambda drafter: (*CHAINS, *((12,) if drafter.records == "lengths" else ())),
        tree_nodes=TREE_NODES,
    )


def fitted(
    drafters: Sequence[str], *, batch: int, recorded_nodes: Sequence[int]
) -> list[Configuration]:
    """The configurations that loop costs are fitted on, plain decoding first; none of them is ever
    scored.
    """
    configurations = _configurations(
        drafters,
        batch,
        recorded_nodes,
        lengths=lambda drafter: FITTED_CHAINS[: (drafter.validated or Validated()).fitted_lengths],
        tree_nodes=FITTED_TREE_NODES,
    )
    return [Configuration(), *configurations]


def _configurations(
    drafters: Sequence[str],
    batch: int,
    recorded_nodes: Sequence[int],
    *,
    lengths: Callable[[Drafter], Sequence[int]],
    tree_nodes: Sequence[int],
) -> list[Configuration]:
    """Chains of the lengths of a drafter, and trees of those that run them."""
    configurations = []
    for name in drafters:
        drafter = load_drafter(name)
        if batch > 1 and not drafter.serves_batches:
            continue
        if not drafter.any_shape:
            configurations += [recycling(nodes) for nodes in recorded_nodes]
            continue
        configurations += [chain(name, k) for k in lengths(drafter)]
        if drafter.validated is not None and drafter.validated.static_trees:
            configurations += [static_tree(name, nodes) for nodes in tree_nodes]
    return configurations


def is_fitted_on(configuration: Configuration) -> bool:
    """Whether its size is one that loop costs are fitted on."""
    if configuration.tree is not None:
        return configuration.tree.nodes in FITTED_TREE_NODES
    return configuration.draft_tokens in FITTED_CHAINS


def spread(pool: Sequence[Some], count: int, *, excluded: Sequence[Some], seed: int) -> list[Some]:
    """So many of a pool that fill the plane of drafter and size, none of those named.

    Sobol points in the unit square; the first coordinate picks a drafter, the second its size,
    smallest first.

    Args:
        pool: configurations to draw from.
        count: how many; fewer where the pool is smaller.
        excluded: configurations that are measured anyway.
        seed: scrambles the points.
    """
    taken = {configuration.name for configuration in excluded}
    left = [configuration for configuration in pool if configuration.name not in taken]
    by_drafter: dict[str, list[Some]] = {}
    for configuration in sorted(left, key=lambda one: (one.draft_tokens, one.name)):
        by_drafter.setdefault(configuration.drafter, []).append(configuration)
    chosen: list[Some] = []
    points = iter(qmc.Sobol(d=2, scramble=True, rng=seed).random_base2(10))
    while len(chosen) < min(count, len(left)):
        first, second = next(points)
        names = [name for name, sizes in by_drafter.items() if sizes]
        sizes = by_drafter[names[int(first * len(names))]]
        chosen.append(sizes.pop(int(second * len(sizes))))
    return chosen
