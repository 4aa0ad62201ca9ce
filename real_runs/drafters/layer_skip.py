"""Which tokens would the target predict without some of its middle layers?

The drafter is the target less a span of layers; a linear bridge may stand in their place. It has
keys and values of its own: in the layers above the gap they follow from drafted states, the true
text's included, so that a rank depends on the true tokens before it and on nothing else (depth
invariant). Sharing the target's upper cache instead would make it depend on how long ago the last
verify pass was. Leaves out which layers are best left out.

Reference: Zhang et al., Draft & Verify, arXiv 2309.08168, sec. 3.2 (there the cache is shared, and
layers are chosen one by one).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from real_runs.drafters.bridge_fit import FitRecipe, fit_bridge
from real_runs.drafters.early_exit import RANK_WIDTH
from real_runs.models.attention import VisibleSlots
from real_runs.models.bridge import Bridge
from real_runs.models.cache import KVCache, Slots
from real_runs.models.llama import Llama
from real_runs.models.rotary import Angles

_SCALE_SEQUENCES = 16
_ROWS_AT_ONCE = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class GapRecipe(FitRecipe):
    """What a bridge across a gap depends on; `exit_layer` is the first layer that is left out.

    Attributes:
        stop_layer: the first layer after the gap.
    """

    stop_layer: int


class GapLlama(Llama):
    """The target less its layers start..stop-1, sharing its weights.

    The state of the text's first token crosses the gap as it is: it is some hundred times larger
    than any other, all later tokens attend to it, and layers in the middle hardly change it.

    Args:
        model: the target.
        start: first layer left out, 1 or more.
        stop: first layer after the gap, at most the last layer.
        bridge: map across the gap to states of their usual size; None: states cross as they are.

    Raises:
        InputError: a span that is empty or that reaches either end.
    """

    def __init__(
        self, model: Llama, *, start: int, stop: int, bridge: Bridge | None = None
    ) -> None:
        check_gap(start, stop, model.config.layers)
        self.__dict__.update(model.__dict__)
        self.config = replace(model.config, layers=model.config.layers - (stop - start))
        self._layers = model._layers[:start] + model._layers[stop:]
        self._gap, self._bridge = start, bridge

    def _layer(
        self,
        index: int,
        x: torch.Tensor,
        cache: KVCache,
        *,
        start: int | Slots,
        rotation: Angles,
        mask: VisibleSlots,
    ) -> torch.Tensor:
        if index == self._gap and self._bridge is not None:
            crossed = self._bridge(x)
            x = torch.cat([x[:, :1], crossed[:, 1:]], dim=1) if start == 0 else crossed
        return super()._layer(index, x, cache, start=start, rotation=rotation, mask=mask)


class LayerSkip:
    """Drafts greedily with a model less some layers, one pass a token; serves as a reader of tree
    nodes too.

    Its cache holds the true text alone: drafts are forgotten, and what was accepted is read again,
    in draft mode, by the first pass of the next step. One object serves any number of requests, one
    at a time.
    """

    def __init__(self, drafter: GapLlama) -> None:
        self._drafter = drafter
        self._request: KVCache | None = None
        self._own = drafter.new_cache(1)

    def __call__(self, prefix: Sequence[int], cache: KVCache, most: int) -> list[int]:
        """Propose `most` tokens after `prefix`: the form `speculate` calls."""
        drafts: list[int] = []
        for depth in range(most):
            if depth == 0:
                logits = self.after_prefix(prefix, cache)
            else:
                start = self._own.length + depth - 1
                logits = _logits(
                    self._drafter.forward([drafts[-1]], self._own, start=start).logits
                )[0]
            drafts.append(int(logits.argmax()))
        return drafts

    def after_prefix(self, prefix: Sequence[int], cache: KVCache) -> torch.Tensor:
        """Logits [vocabulary] after the last id of `prefix`; reads the ids not read yet."""
        if cache is not self._request:
            self._request, self._own = cache, self._drafter.new_cache(cache.capacity)
        unread = prefix[self._own.length :]
        logits = _logits(self._drafter.forward(unread, self._own, logits="last").logits)[0]
        self._own.commit(len(unread))
        return logits

    def after_nodes(
        self,
        tokens: Sequence[int],
        cache: KVCache,
        *,
        start: int,
        positions: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """Logits [T, vocabulary] after T nodes of one level of a tree."""
        result = self._drafter.forward(
            tokens, self._own, start=start, positions=positions, mask=mask
        )
        return _logits(result.logits)


def check_gap(start: int, stop: int, layers: int) -> None:
    """Insist on a span that leaves layers on either side.

    Raises:
        InputError: it does not.
    """
    if not 1 <= start < stop < layers:
        rule = f"must be START and STOP with 1 <= START < STOP <= {layers - 1}"
        raise InputError(rule, key="skipped_layers", value=(start, stop))


def default_gap(layers: int) -> tuple[int, int]:
    """The span left out unless another is asked for: from two fifths to two thirds of the
    layers.
    """
    start = max(1, round(layers * 2 / 5))
    return start, min(max(start + 1, round(layers * 2 / 3)), layers - 1)


def fit_gap(
    model: Llama, sequences: Sequence[Sequence[int]], *, start: int, stop: int, ridge: float
) -> Bridge:
    """Fit the bridge across a gap as an exit's bridge is fitted, with `stop` layers for the whole
    model.

    Such a bridge has outputs of unit size, but the layers after the gap add to what they are given:
    its outputs are scaled to the mean root mean square of the states there, taken over some of the
    text.

    Args:
        model: the target.
        sequences: token ids, each of two or more.
        start: first layer left out.
        stop: first layer after the gap.
        ridge: penalty per token, > 0.

    Raises:
        InputError: a span that is empty or that reaches either end, no penalty, or no data.
    """
    check_gap(start, stop, model.config.layers)
    lower = copy.copy(model)
    lower.config = replace(model.config, layers=stop)
    bridge = fit_bridge(lower, sequences, exit_layer=start, ridge=ridge)
    sizes = []
    for sequence in sequences[:: max(1, len(sequences) // _SCALE_SEQUENCES)]:
        states = lower.forward(
            sequence, lower.new_cache(len(sequence)), logits="none", capture=(stop,)
        ).hidden[stop]
        sizes.append(states[0, 1:].double().square().mean(dim=-1).sqrt())
    scale = float(torch.cat(sizes).mean())
    return replace(bridge, weight=bridge.weight * scale, bias=bridge.bias * scale)


def text_ranks(
    drafter: GapLlama, prompt: Sequence[int], output: Sequence[int], *, width: int = RANK_WIDTH
) -> NDArray[np.int8]:
    """Rank of every output token among the drafter's candidates, given the true tokens before it.

    Args:
        drafter: reads the whole text in one pass.
        prompt: its ids, at least one.
        output: the n generated ids.
        width: candidates kept, 1..127.

    Returns:
        int8[n] in 0..width-1, or -1 where the token is not among them. Equal logits rank by id.
    """
    text, layers = [*prompt, *output[:-1]], drafter.config.layers
    states = drafter.forward(
        text, drafter.new_cache(len(text)), logits="none", capture=(layers,)
    ).hidden[layers][0]
    states = states[len(prompt) - 1 :]
    truth = torch.as_tensor(list(output), device=states.device)[:, None]
    before = torch.arange(drafter.config.vocabulary, device=states.device)
    ranks = np.empty(len(output), dtype=np.int8)
    for first in range(0, len(output), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        logits = drafter.head(states[rows])
        own = logits.gather(1, truth[rows])
        likelier = (
            ((logits > own) | ((logits == own) & (before < truth[rows]))).sum(dim=1).cpu().numpy()
        )
        ranks[rows] = np.where(likelier < width, likelier, -1)
    return ranks


def _logits(logits: torch.Tensor | None) -> torch.Tensor:
    assert logits is not None
    return logits[0]
