"""Which tokens does one layer over the target's own states predict?

The head reads a token together with the state that the target had before it; its result stands for
the state after it, which the target's own norm and output head turn into logits. Where the target
has read the text, the head is given the target's states; below, drafts are read with the head's
own. It keeps keys and values of its own: what was accepted is read again with the target's states.
Leaves out training (`feature_head_fit`).

Reference: Li et al., EAGLE, arXiv 2401.15077, sec. 4.1; EAGLE-3, arXiv 2503.01840, sec. 3.1 (states
of several layers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn
from torch.nn import functional

from hardware_profiles.errors import InputError
from real_runs.drafters.expansion import NodeBatch
from real_runs.drafters.heads.decoder_layer import (
    DecoderLayer,
    Rotation,
    embedded,
    initial,
    layer_config,
    rotation,
)
from real_runs.models.bridge import unit_rms
from real_runs.models.cache import KVCache
from real_runs.models.config import LlamaConfig
from real_runs.models.llama import Llama


class FeatureHead(nn.Module):
    """Weights of the head and its one function.

    Args:
        config: the target's shape.
        capture: layer counts whose states are read, ascending; the last one is the number of
            layers.
        generator: of the initial weights.

    Raises:
        InputError: layer counts that do not ascend to the number of layers.
    """

    def __init__(
        self,
        config: LlamaConfig,
        *,
        capture: Sequence[int],
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.capture = tuple(capture)
        rising = list(self.capture) == sorted(set(self.capture)) and self.capture[:1] > (0,)
        if not rising or self.capture[-1] != config.layers:
            raise InputError(f"must ascend to {config.layers}", key="capture", value=self.capture)
        self.config = layer_config(config, 1)
        width = config.width
        self.true_in = initial(width, width * (1 + len(self.capture)), generator)
        self.own_in = initial(width, 2 * width, generator)
        self.layer = DecoderLayer(self.config, generator)

    def fused_own(self, embeddings: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """What the layer is given below the text, of an embedding and the head's own state before
        it.
        """
        return functional.linear(
            torch.cat([unit_rms(embeddings), unit_rms(states)], dim=-1), self.own_in
        )

    def fused_true(self, embeddings: torch.Tensor, states: Sequence[torch.Tensor]) -> torch.Tensor:
        """What the layer is given in the text, of an embedding and the target's captured states
        before it.
        """
        parts = [unit_rms(embeddings), *(unit_rms(state) for state in states)]
        return functional.linear(torch.cat(parts, dim=-1), self.true_in)


class _Slots:
    """Keys, values and results of one request's tokens, slot by slot.

    Args:
        model: the target, for its embedding.
        head: the weights.
        capacity: slots.
    """

    def __init__(self, model: Llama, head: FeatureHead, capacity: int) -> None:
        self._model, self._head = model, head
        self.cache = KVCache(head.config, capacity)
        self.results = torch.zeros(capacity, head.config.width)

    @torch.inference_mode()
    def read_true(
        self, tokens: Sequence[int] | torch.Tensor, states: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        """Read and keep true tokens; `states` are the target's before each of them, [T, width] by
        layer.
        """
        start, count = self.cache.length, len(tokens)
        ids = torch.as_tensor(tokens)
        mask = torch.arange(start + count) <= torch.arange(start, start + count)[:, None]
        fused = self._head.fused_true(embedded(self._model, ids), states)
        results = self._read(
            fused, start, rotation(self._head.config, torch.arange(start, start + count)), mask
        )
        self.cache.commit(count)
        return results

    @torch.inference_mode()
    def read_nodes(
        self,
        tokens: torch.Tensor,
        parents: torch.Tensor,
        start: int,
        positions: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """Read drafted tokens with the results of the slots of their parents."""
        fused = self._head.fused_own(embedded(self._model, tokens), self.results[parents])
        return self._read(fused, start, rotation(self._head.config, positions), mask)

    def _read(
        self, x: torch.Tensor, start: int, turned: Rotation, mask: torch.Tensor
    ) -> torch.Tensor:
        layer, stop = self._head.layer, start + len(x)
        q, k, v = layer.heads(x[None], turned)
        self.cache.write(0, start, k, v)
        results = layer.mixed(
            x[None], q, self.cache.keys[0, :, :, :stop], self.cache.values[0, :, :, :stop], mask
        )[0]
        self.results[start:stop] = results
        return results


class FeatureHeadReader:
    """Drafts with the head in a real loop: a `NodeReader` that watches the target's states.

    One object serves any number of requests, one at a time.
    """

    def __init__(self, model: Llama, head: FeatureHead) -> None:
        self._model, self._head = model, head
        self.capture = head.capture
        self._request: KVCache | None = None
        self._slots = _Slots(model, head, 1)
        self._seen: list[dict[int, torch.Tensor]] = []
        self._last = torch.zeros(0)

    def watch(
        self, tokens: Sequence[int], hidden: Mapping[int, torch.Tensor], accepted: Sequence[int]
    ) -> None:
        """Take the states of the tokens that stay; they are read when the next draft is asked
        for.
        """
        rows = torch.tensor(list(accepted))
        self._seen.append(
            {
                layer: hidden[layer][rows.to(hidden[layer].device)].float().cpu()
                for layer in self.capture
            }
        )

    def after_prefix(self, prefix: Sequence[int], cache: KVCache) -> torch.Tensor:
        """Logits [vocabulary] after the last id of `prefix`; reads the ids not read yet.

        Raises:
            InputError: the loop has not shown the states of all tokens before the last.
        """
        if cache is not self._request:
            self._request, self._slots = cache, _Slots(self._model, self._head, cache.capacity + 1)
        unread = prefix[self._slots.cache.length :]
        if unread:
            self._last = self._slots.read_true(unread, self._states_before(len(unread)))[-1]
        return self._model.head(self._last.to(self._model.device, self._model.dtype))

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
        results = self._slots.read_nodes(
            torch.as_tensor(tokens), parent_slots(mask, start), start, positions.cpu(), mask.cpu()
        )
        return self._model.head(results.to(self._model.device, self._model.dtype))

    def _states_before(self, count: int) -> list[torch.Tensor]:
        """The states before the last `count` known tokens; there are none before a text's first
        token.
        """
        first = self._slots.cache.length == 0
        needed = count - int(first)
        states = (
            [torch.cat([rows[layer] for rows in self._seen]) for layer in self.capture]
            if self._seen
            else []
        )
        if not states or len(states[0]) < needed:
            raise InputError(
                "must have watched every pass of the target", key="states", value=needed
            )
        self._seen = []
        # what was seen of an earlier request and never read comes before it
        rows = [state[len(state) - needed :] for state in states]
        return (
            [torch.cat([torch.zeros(1, state.shape[1]), state]) for state in rows]
            if first
            else rows
        )


def parent_slots(mask: torch.Tensor, start: int) -> torch.Tensor:
    """Slot of every node's parent [T]: of the slots that it sees, the last one before its own.

    Args:
        mask: bool [T, start + T], node t's own slot being start + t.
        start: first slot.
    """
    own = start + torch.arange(mask.shape[0], device=mask.device)[:, None]
    slots = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask & (slots < own), slots, -1).max(dim=1).values.cpu()


class FeatureHeadText:
    """Reads a finished text and nodes below it with the head: a `TextReader`."""

    def __init__(self, model: Llama, head: FeatureHead) -> None:
        self._model, self._head = model, head
        self._slots = _Slots(model, head, 1)

    def read_text(self, prompt: Sequence[int], output: Sequence[int], scratch: int) -> torch.Tensor:
        """Logits [n, vocabulary] before every output token; the target reads the text once for its
        states.
        """
        text = [*prompt, *output[:-1]]
        cache = self._model.new_cache(len(text))
        hidden = self._model.forward(text, cache, logits="none", capture=self._head.capture).hidden
        before = [
            torch.cat(
                [torch.zeros(1, self._model.config.width), hidden[layer][0, :-1].float().cpu()]
            )
            for layer in self._head.capture
        ]
        self._slots = _Slots(self._model, self._head, len(text) + scratch)
        return self._logits(self._slots.read_true(text, before)[len(prompt) - 1 :])

    def read_nodes(self, nodes: NodeBatch) -> torch.Tensor:
        """Logits [F, vocabulary] after the nodes."""
        return self._logits(
            self._slots.read_nodes(
                nodes.tokens, nodes.parents, nodes.start, nodes.positions, nodes.mask
            )
        )

    def _logits(self, states: torch.Tensor) -> torch.Tensor:
        return self._model.head(states.to(self._model.device, self._model.dtype)).cpu()
