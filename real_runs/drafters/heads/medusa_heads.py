"""Which tokens after the next one do independent heads predict?

Every head is one residual block over the target's last state and speaks of one distance; the
target's own norm and output head read it. Candidates of a level follow from the state before the
last known token alone, so that a node costs nothing to read. Leaves out training
(`state_heads_fit`).

Reference: Cai et al., Medusa, arXiv 2401.10774, sec. 3.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn
from torch.nn import functional

from hardware_profiles.errors import InputError
from real_runs.drafters.expansion import NodeBatch
from real_runs.models.bridge import unit_rms
from real_runs.models.cache import KVCache
from real_runs.models.config import LlamaConfig
from real_runs.models.llama import Llama

HEADS = 5
_MOST_LOGITS = 256


class MedusaHeads(nn.Module):
    """Weights of the heads: head d (0 first) speaks of the token d + 2 places after the one last
    read.

    Args:
        config: the target's shape.
        heads: how many, 1..32.

    Raises:
        InputError: too few or too many heads.
    """

    def __init__(self, config: LlamaConfig, *, heads: int = HEADS) -> None:
        super().__init__()
        if not 1 <= heads <= 32:
            raise InputError("must lie in 1..32", key="heads", value=heads)
        self.heads = heads
        width = config.width
        self.across = nn.Parameter(torch.eye(width).repeat(heads, 1, 1))  # linear part
        self.weight = nn.Parameter(torch.zeros(heads, width, width))
        self.bias = nn.Parameter(torch.zeros(heads, width))

    def forward(self, states: torch.Tensor, depth: int) -> torch.Tensor:
        """What the target's state would be `depth` + 1 tokens later, of its states [..., width]."""
        x = functional.linear(unit_rms(states), self.across[depth])
        return x + functional.silu(functional.linear(x, self.weight[depth], self.bias[depth]))


class MedusaReader:
    """Drafts with the heads in a real loop: a `NodeReader` that watches the target's states.

    A node's depth is its position less its root's, so that all levels are known at once. One object
    serves any number of requests, one at a time.
    """

    def __init__(self, model: Llama, heads: MedusaHeads) -> None:
        self._model, self._heads = model, heads
        self.capture = (model.config.layers,)
        self._state = torch.zeros(0)
        self._root = 0

    def watch(
        self, tokens: Sequence[int], hidden: Mapping[int, torch.Tensor], accepted: Sequence[int]
    ) -> None:
        """Take the state before the token that is emitted next."""
        self._state = hidden[self.capture[0]][accepted[-1]].float().cpu()

    def after_prefix(self, prefix: Sequence[int], cache: KVCache) -> torch.Tensor:
        """Logits [vocabulary] after the last id of `prefix`, which no head has read.

        Raises:
            InputError: the loop has not shown the target's states.
        """
        if not self._state.numel():
            raise InputError("must have watched the target's last pass", key="states")
        self._root = len(prefix) - 1
        return read_out(self._model, self._heads, self._state[None], [0])[0]

    def after_nodes(
        self,
        tokens: Sequence[int],
        cache: KVCache,
        *,
        start: int,
        positions: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """Logits after nodes: those of their depth."""
        depths = (positions.cpu() - self._root).tolist()
        return read_out(self._model, self._heads, self._state.expand(len(depths), -1), depths)

    def block(self, prefix: Sequence[int], cache: KVCache, levels: int) -> torch.Tensor:
        """Logits [D, vocabulary] of the tokens after `prefix`, one head per level: a
        `BlockReader`.
        """
        first = self.after_prefix(prefix, cache)[None]
        depths = range(1, min(levels, self._heads.heads))
        below = read_out(
            self._model, self._heads, self._state.expand(len(depths), -1), list(depths)
        )
        return torch.cat([first, below])


def read_out(
    model: Llama, heads: MedusaHeads, states: torch.Tensor, depths: Sequence[int]
) -> torch.Tensor:
    """Logits [rows, vocabulary] of one head per row.

    Args:
        model: the target, for its norm and head.
        heads: the weights.
        states: the target's before each row's root, [rows, width].
        depths: of the nodes that were read, 0 for the root; nodes deeper than the heads know no
            children, and their logits are all zero.
    """
    logits = torch.zeros(len(depths), model.config.vocabulary)
    at = torch.tensor(list(depths))
    with torch.inference_mode():
        for depth in sorted(set(depths)):
            if depth < heads.heads:
                predicted = heads(states[at == depth], depth)
                logits[at == depth] = model.head(predicted.to(model.device, model.dtype)).cpu()
    return logits


class MedusaText:
    """Reads a finished text and nodes below it with the heads: a `TextReader`."""

    def __init__(self, model: Llama, heads: MedusaHeads) -> None:
        self._model, self._heads = model, heads
        self._states = torch.zeros(0)
        self._logits: dict[tuple[int, int], torch.Tensor] = {}  # logits by root and depth

    def read_text(self, prompt: Sequence[int], output: Sequence[int], scratch: int) -> torch.Tensor:
        """Logits [n, vocabulary] before every output token; the target reads the text once for its
        states.
        """
        text, layers = [*prompt, *output[:-1]], self._model.config.layers
        result = self._model.forward(
            text, self._model.new_cache(len(text)), logits="none", capture=(layers,)
        )
        first = torch.zeros(
            1, self._model.config.width
        )  # nothing was read before a text's first token
        self._states = torch.cat([first, result.hidden[layers][0, :-1].float().cpu()])
        self._logits = {}
        rows = self._states[len(prompt) - 1 :]
        return read_out(self._model, self._heads, rows, [0] * len(rows))

    def read_nodes(self, nodes: NodeBatch) -> torch.Tensor:
        """Logits [F, vocabulary] after the nodes."""
        wanted = list(
            zip(nodes.roots.tolist(), (nodes.positions - nodes.roots).tolist(), strict=True)
        )
        if len(self._logits) > _MOST_LOGITS:
            self._logits = {}
        new = sorted(set(wanted) - set(self._logits))
        if new:
            roots, depths = zip(*new, strict=True)
            rows = read_out(self._model, self._heads, self._states[list(roots)], depths)
            self._logits |= dict(zip(new, rows, strict=True))
        return torch.stack([self._logits[ids] for ids in wanted])
