"""Which tokens does a second, smaller model of the same vocabulary predict?

Any Llama-family model drafts with keys and values of its own. It reads true tokens at every depth,
so its ranks are depth invariant. Leaves out how such a model is made (`draft_model_fit`).

Reference: Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from hardware_profiles.errors import InputError
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama
from real_runs.models.loading.weights import find_model, load_weights


class DraftModelReader:
    """Drafts with a model of its own: a `NodeReader`.

    Its cache holds the true text alone: drafts are forgotten, and what was accepted is read again
    by the first pass of the next step. One object serves any number of requests, one at a time.
    """

    def __init__(self, draft: Llama) -> None:
        self._draft = draft
        self._request: KVCache | None = None
        self._own = draft.new_cache(1)

    def after_prefix(self, prefix: Sequence[int], cache: KVCache) -> torch.Tensor:
        """Logits [vocabulary] after the last id of `prefix`; reads the ids not read yet."""
        if cache is not self._request:
            self._request, self._own = cache, self._draft.new_cache(cache.capacity + 1)
        unread = prefix[min(self._own.length, len(prefix) - 1) :]
        start = len(prefix) - len(unread)
        logits = self._draft.forward(unread, self._own, start=start, logits="last").logits
        assert logits is not None
        self._own.length = len(prefix)
        return logits[0, 0]

    def after_nodes(
        self,
        tokens: Sequence[int],
        cache: KVCache,
        *,
        start: int,
        positions: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """Logits after nodes."""
        logits = self._draft.forward(
            tokens, self._own, start=start, positions=positions, mask=mask
        ).logits
        assert logits is not None
        return logits[0]


def check_vocabulary(target: Llama, draft: Llama) -> None:
    """Insist on a draft model that speaks the target's tokens.

    Only the number of ids and the ends of text are compared: files do not tell more without their
    tokenizers.

    Raises:
        InputError: it does not.
    """
    ids, ends = target.config.vocabulary, set(target.config.eos_ids)
    if draft.config.vocabulary != ids:
        raise InputError(
            f"must have the target's {ids} ids",
            key="draft.vocabulary",
            value=draft.config.vocabulary,
        )
    if ends and draft.config.eos_ids and not ends & set(draft.config.eos_ids):
        raise InputError(f"must end texts as the target does ({sorted(ends)})", key="draft.eos_ids")


def load_draft_model(path: str | Path, target: Llama) -> Llama:
    """Load a draft model onto the target's device and in its number format.

    Args:
        path: a `.gguf` file or a folder with config.json and safetensors.
        target: the model that it drafts for.

    Raises:
        InputError: a foreign or incomplete file, or another vocabulary.
    """
    draft = Llama(load_weights(find_model(path)), device=target.device, dtype=target.dtype)
    check_vocabulary(target, draft)
    return draft
