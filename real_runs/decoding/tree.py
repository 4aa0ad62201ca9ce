"""How is a tree of drafts checked in one pass?

Positions and mask of a tree whose node 0 is the last known token. Siblings share a
position; a node sees the committed text and its own ancestors. Leaves out which tree to draft
(`costmodel.optimizers`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray


class TreeLayout:
    """Positions and masks of one tree at any length of the committed text, built once.

    The mask after L committed tokens is the end of the mask after the longest text: a view, not a
    copy.

    Args:
        parents: the tree, root first.
        most: longest committed text in tokens.
        device: where the masks live.

    Attributes:
        parents: the tree.
        depths: depth of every node, 0 for the root.
        children: nodes below every node, in order.
    """

    def __init__(
        self, parents: Sequence[int], most: int, device: torch.device | str = "cpu"
    ) -> None:
        self.parents, self.depths, self.most = list(parents), node_depths(parents), most
        self.children: list[list[int]] = [[] for _ in parents]
        for node, parent in enumerate(self.parents[1:], start=1):
            self.children[parent].append(node)
        self._offsets = tree_positions(parents, 0)
        self._mask = tree_mask(parents, most).to(device)

    def positions(self, length: int) -> torch.Tensor:
        """Position of every node [T] after `length` committed tokens."""
        return self._offsets + length

    def mask(self, length: int) -> torch.Tensor:
        """Which slots every node sees, bool [T, length + T]."""
        return self._mask[:, self.most - length :]


def node_depths(parents: Sequence[int]) -> list[int]:
    """Depth of every node; the root, parent -1, has 0.

    Raises:
        ValueError: a parent that does not come before its child.
    """
    depths: list[int] = []
    for node, parent in enumerate(parents):
        if not (parent == -1 if node == 0 else 0 <= parent < node):
            raise ValueError(
                f"node {node} has parent {parent}: parents must come first, the root has -1"
            )
        depths.append(0 if node == 0 else depths[parent] + 1)
    return depths


def tree_positions(parents: Sequence[int], length: int) -> torch.Tensor:
    """Sequence position of every node [T] after `length` committed tokens."""
    return torch.tensor([length + depth for depth in node_depths(parents)])


def tree_mask(parents: Sequence[int], length: int) -> torch.Tensor:
    """Which slots every node sees, bool [T, length + T]: the committed ones, its ancestors and
    itself.
    """
    node_depths(parents)
    nodes = len(parents)
    mask = torch.zeros(nodes, length + nodes, dtype=torch.bool)
    mask[:, :length] = True
    mask[:, length:] = torch.from_numpy(ancestors(parents))
    return mask


def ancestors(parents: Sequence[int]) -> NDArray[np.bool_]:
    """Which nodes every node sees in its tree, bool [T, T]: its ancestors and itself."""
    visible = np.eye(len(parents), dtype=np.bool_)
    for node, parent in enumerate(parents):
        if parent >= 0:
            visible[node] |= visible[parent]
    return visible
