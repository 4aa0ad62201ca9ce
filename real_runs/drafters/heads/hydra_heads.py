"""Which tokens do heads predict that read the tokens drafted before theirs?

Every head reads the target's last state and the embeddings of all tokens after it, the drafted ones
included: one residual block, whose result the target's own norm and output head read. A node's
candidates therefore depend on its whole path. Leaves out training (`state_heads_fit`), a layer over
the states before the heads (Hydra++) and output heads of their own.

Reference: Ankner et al., Hydra, arXiv 2402.05109, sec. 3 (eq. 1: head i reads the state and the
embeddings of the tokens before its own).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn
from torch.nn import functional

from hardware_profiles.errors import InputError
from real_runs.drafters.expansion import NodeBatch
from real_runs.drafters.heads.decoder_layer import embedded
from real_runs.drafters.heads.feature_head import parent_slots
from real_runs.models.bridge import unit_rms
from real_runs.models.cache import KVCache
from real_runs.models.config import LlamaConfig
from real_runs.models.llama import Llama

HEADS = 4


class HydraHeads(nn.Module):
    """Weights of the heads: head d (0 first) speaks of the token d + 2 places after the state that
    it reads.

    Args:
        config: the target's shape.
        heads: how many, 1..16; head d reads d + 2 vectors.

    Raises:
        InputError: too few or too many heads.
    """

    def __init__(self, config: LlamaConfig, *, heads: int = HEADS) -> None:
        super().__init__()
        if not 1 <= heads <= 16:
            raise InputError("must lie in 1..16", key="heads", value=heads)
        self.heads = heads
        width = config.width
        self.fuse = nn.ParameterList(
            nn.Parameter(torch.zeros(width, (depth + 2) * width)) for depth in range(heads)
        )
        self.weight = nn.Parameter(torch.zeros(heads, width, width))
        self.bias = nn.Parameter(torch.zeros(heads, width))

    def forward(self, states: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
        """What the target's state would be after the last of the tokens.

        Args:
            states: the target's, [..., width].
            embeddings: of the d + 1 tokens after each state, [..., d + 1, width]; head d answers.
        """
        depth = embeddings.shape[-2] - 1
        x = functional.linear(fused(states, embeddings), self.fuse[depth])
        return x + functional.silu(functional.linear(x, self.weight[depth], self.bias[depth]))


def fused(states: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
    """What a head reads [..., (d + 2) · width]: the state and the embeddings, each at a root mean
    square of 1.
    """
    return torch.cat([unit_rms(states), unit_rms(embeddings).flatten(-2)], dim=-1)


def path_logits(
    model: Llama, heads: HydraHeads, states: torch.Tensor, paths: Sequence[Sequence[int]]
) -> torch.Tensor:
    """Logits [rows, vocabulary] behind paths of drafted tokens.

    Args:
        model: the target, for its embedding, norm and head.
        heads: the weights.
        states: the target's before each row's root, [rows, width].
        paths: per row the root's token and the drafted ones below it; longer paths than there are
            heads have no children, and their logits are all zero.
    """
    logits = torch.zeros(len(paths), model.config.vocabulary)
    lengths = torch.tensor([len(path) for path in paths])
    with torch.inference_mode():
        for length in sorted(set(lengths.tolist())):
            if length > heads.heads:
                continue
            rows = (lengths == length).nonzero()[:, 0]
            tokens = torch.tensor([paths[row] for row in rows.tolist()])
            result = heads(states[rows], embedded(model, tokens))
            logits[rows] = model.head(result.to(model.device, model.dtype)).cpu()
    return logits


class HydraReader:
    """Drafts with the heads in a real loop: a `NodeReader` that watches the target's states.

    One object serves any number of requests, one at a time.
    """

    def __init__(self, model: Llama, heads: HydraHeads) -> None:
        self._model, self._heads = model, heads
        self.capture = (model.config.layers,)
        self._state = torch.zeros(0)
        self._paths: dict[
            int, tuple[int, ...]
        ] = {}  # by slot, the root's token and those drafted below it

    def watch(
        self, tokens: Sequence[int], hidden: Mapping[int, torch.Tensor], accepted: Sequence[int]
    ) -> None:
        """Take the state before the token that is emitted next."""
        self._state = hidden[self.capture[0]][accepted[-1]].float().cpu()

    def after_prefix(self, prefix: Sequence[int], cache: KVCache) -> torch.Tensor:
        """Logits [vocabulary] after the last id of `prefix`, which the first head reads.

        Raises:
            InputError: the loop has not shown the target's states.
        """
        if not self._state.numel():
            raise InputError("must have watched the target's last pass", key="states")
        self._paths = {len(prefix) - 1: (prefix[-1],)}
        return path_logits(self._model, self._heads, self._state[None], [(prefix[-1],)])[0]

    def after_nodes(
        self,
        tokens: Sequence[int],
        cache: KVCache,
        *,
        start: int,
        positions: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """Logits after nodes; a node's parent is the last slot that it sees before its own."""
        parents = parent_slots(mask, start).tolist()
        paths = [
            (*self._paths[parent], token) for parent, token in zip(parents, tokens, strict=True)
        ]
        self._paths |= {start + row: path for row, path in enumerate(paths)}
        return path_logits(self._model, self._heads, self._state.expand(len(paths), -1), paths)


class HydraText:
    """Reads a finished text and nodes below it with the heads: a `TextReader`."""

    def __init__(self, model: Llama, heads: HydraHeads) -> None:
        self._model, self._heads = model, heads
        self._states = torch.zeros(0)
        self._text: list[int] = []
        self._paths: dict[int, tuple[int, ...]] = {}

    def read_text(self, prompt: Sequence[int], output: Sequence[int], scratch: int) -> torch.Tensor:
        """Logits [n, vocabulary] before every output token; the target reads the text once for its
        states.
        """
        self._text, self._paths = [*prompt, *output[:-1]], {}
        layers, count = self._model.config.layers, len(self._text)
        read = self._model.forward(
            self._text, self._model.new_cache(count), logits="none", capture=(layers,)
        )
        first = torch.zeros(
            1, self._model.config.width
        )  # nothing was read before a text's first token
        self._states = torch.cat([first, read.hidden[layers][0, :-1].float().cpu()])
        roots = range(len(prompt) - 1, count)
        return path_logits(
            self._model,
            self._heads,
            self._states[roots.start :],
            [(self._text[at],) for at in roots],
        )

    def read_nodes(self, nodes: NodeBatch) -> torch.Tensor:
        """Logits [F, vocabulary] after the nodes."""
        paths = []
        for token, parent in zip(nodes.tokens.tolist(), nodes.parents.tolist(), strict=True):
            above = (self._text[parent],) if parent < len(self._text) else self._paths[parent]
            paths.append((*above, token))
        self._paths |= {nodes.start + row: path for row, path in enumerate(paths)}
        return path_logits(self._model, self._heads, self._states[nodes.roots], paths)
