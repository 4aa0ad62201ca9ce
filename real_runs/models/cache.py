"""Where do keys and values of past tokens lie?

A static cache: allocated once, written in place. A forward writes the slots after `length`; only `commit` and
`compact` decide which of them stay, so a rejected draft costs nothing to forget. Leaves out paging.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

from hardware_profiles.errors import InputError
from real_runs.models.config import LlamaConfig


class KVCache:
    """Keys and values of one batch of equally long sequences.

    Args:
        config: the model's shape.
        capacity: slots per sequence, drafts included.
        batch: sequences.
        device: where the tensors live.
        dtype: their number format.

    Attributes:
        length: committed slots; those after it are scratch.
    """

    def __init__(
        self,
        config: LlamaConfig,
        capacity: int,
        *,
        batch: int = 1,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        shape = (config.layers, batch, config.kv_heads, capacity, config.head_dim)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)  # [layers, B, kv heads, slots, head dim]
        self.values = torch.zeros(shape, device=device, dtype=dtype)
        self.capacity = capacity
        self.length = 0

    def write(self, layer: int, start: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Store `[B, kv heads, T, head dim]` in the slots start..start+T-1 of a layer."""
        stop = start + keys.shape[2]
        if stop > self.capacity:
            raise InputError(f"the cache holds {self.capacity} tokens", key="capacity", value=stop)
        self.keys[layer, :, :, start:stop] = keys
        self.values[layer, :, :, start:stop] = values

    def commit(self, tokens: int) -> None:
        """Keep the first `tokens` scratch slots."""
        if not 0 <= tokens <= self.capacity - self.length:
            raise InputError(f"must lie in 0..{self.capacity - self.length}", key="tokens", value=tokens)
        self.length += tokens

    def compact(self, kept: Sequence[int]) -> None:
        """Keep some scratch slots, moved next to the committed ones.

        Args:
            kept: offsets from `length`, ascending: the accepted path through a tree, root first.
        """
        if any(b <= a for a, b in itertools.pairwise(kept)) or any(slot < 0 for slot in kept):
            raise InputError("must ascend from 0", key="kept", value=list(kept))
        chosen = torch.tensor([self.length + slot for slot in kept], device=self.keys.device, dtype=torch.long)
        stop = self.length + len(kept)
        # indexing copies, so sources that overlap the destination are read before they are overwritten
        self.keys[:, :, :, self.length : stop] = self.keys[:, :, :, chosen]
        self.values[:, :, :, self.length : stop] = self.values[:, :, :, chosen]
        self.length = stop
