"""How are the keys and values of past tokens stored?

A static cache: allocated once, written in place, one length per row. A forward writes the slots
after a row's length; only `commit` and `compact` decide which of them stay, so that dropping a
rejected draft costs nothing. Leaves out paging.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch

from hardware_profiles.errors import InputError
from real_runs.models.config import LlamaConfig


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Slots:
    """Where the tokens of a pass are written, row by row.

    Attributes:
        index: int64 [B, T], the slot of every token.
        stop: slots that attention looks at: past the last one written in any row.
    """

    index: torch.Tensor
    stop: int


class KVCache:
    """Keys and values of a batch of sequences, each with its own length.

    Args:
        config: the model's shape.
        capacity: slots per sequence, drafts included.
        batch: sequences.
        device: where the tensors live.
        dtype: their number format.

    Attributes:
        lengths: committed slots of every row; those after them are scratch.
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
        self.keys = torch.zeros(
            shape, device=device, dtype=dtype
        )  # [layers, B, kv heads, slots, head dim]
        self.values = torch.zeros((*shape[:-1], config.value_dim), device=device, dtype=dtype)
        self.capacity = capacity
        self.lengths = [0] * batch

    @property
    def batch(self) -> int:
        """Rows."""
        return len(self.lengths)

    @property
    def length(self) -> int:
        """Committed slots, the same in every row.

        Raises:
            InputError: rows differ.
        """
        if min(self.lengths) != max(self.lengths):
            raise InputError("rows differ in length: use lengths", key="length", value=self.lengths)
        return self.lengths[0]

    @length.setter
    def length(self, value: int) -> None:
        self.lengths = [value] * self.batch

    def write(
        self, layer: int, start: int | Slots, keys: torch.Tensor, values: torch.Tensor
    ) -> None:
        """Store `[B, kv heads, T, head dim]` in a layer: in the slots start..start+T-1, or in each
        row's own.

        Raises:
            InputError: it does not fit.
        """
        stop = start.stop if isinstance(start, Slots) else start + keys.shape[2]
        if stop > self.capacity:
            raise InputError(f"the cache holds {self.capacity} tokens", key="capacity", value=stop)
        if isinstance(start, Slots):
            place = start.index[:, None, :, None]
            self.keys[layer].scatter_(2, place.expand_as(keys), keys)
            self.values[layer].scatter_(2, place.expand_as(values), values)
            return
        self.keys[layer, :, :, start:stop] = keys
        self.values[layer, :, :, start:stop] = values

    def commit(self, tokens: int | Sequence[int]) -> None:
        """Keep the first `tokens` scratch slots of every row, or of row b the first `tokens[b]`.

        Raises:
            InputError: another number of rows, or more slots than are free.
        """
        counts = [tokens] * self.batch if isinstance(tokens, int) else list(tokens)
        if len(counts) != self.batch:
            raise InputError(
                f"must have one number for each of {self.batch} rows",
                key="tokens",
                value=len(counts),
            )
        for length, count in zip(self.lengths, counts, strict=True):
            if not 0 <= count <= self.capacity - length:
                raise InputError(
                    f"must lie in 0..{self.capacity - length}", key="tokens", value=count
                )
        self.lengths = [length + count for length, count in zip(self.lengths, counts, strict=True)]

    def compact(self, accepted: Sequence[int] | Sequence[Sequence[int]]) -> None:
        """Keep some scratch slots, moved next to the committed ones.

        Args:
            accepted: offsets from the row's length, ascending: the accepted path through a tree,
                root first. One list per row; a batch of one takes the bare list.

        Raises:
            InputError: offsets that do not ascend from 0, or that lie beyond the cache.
        """
        rows = self._accepted_rows(accepted)
        moved = [row for row, path in enumerate(rows) if list(path) != list(range(len(path)))]
        if len(moved) == self.batch == 1:
            length, path = self.lengths[0], list(rows[0])
            chosen = torch.tensor([length + slot for slot in path], device=self.keys.device)
            # indexing copies, so sources that overlap the destination are read before they are
            # overwritten
            self.keys[:, :, :, length : length + len(path)] = self.keys[:, :, :, chosen]
            self.values[:, :, :, length : length + len(path)] = self.values[:, :, :, chosen]
        elif moved:
            self._move(rows)
        self.lengths = [length + len(path) for length, path in zip(self.lengths, rows, strict=True)]

    def release(self, row: int) -> None:
        """Drop a row; the last row moves into its place, and the batch has one row less.

        Raises:
            InputError: no such row.
        """
        last = self.batch - 1
        if not 0 <= row <= last:
            raise InputError(f"must lie in 0..{last}", key="row", value=row)
        if row != last:
            length = self.lengths[last]
            self.keys[:, row, :, :length] = self.keys[:, last, :, :length]
            self.values[:, row, :, :length] = self.values[:, last, :, :length]
            self.lengths[row] = length
        self.lengths.pop()
        self.keys, self.values = self.keys[:, :last], self.values[:, :last]

    def _move(self, rows: Sequence[Sequence[int]]) -> None:
        """Gather and scatter all rows at once; shorter rows are padded by making their last move
        again.
        """
        most = max(len(path) for path in rows)
        moves = []
        for length, path in zip(self.lengths, rows, strict=True):
            # a row that keeps nothing moves its slot 0 onto itself
            own = [(length + to, length + slot) for to, slot in enumerate(path)] or [(0, 0)]
            moves.append(own + own[-1:] * (most - len(own)))
        pairs = torch.tensor(moves, device=self.keys.device)[None, :, None, :, :]
        for stored in (self.keys, self.values):
            shape = (*stored.shape[:3], most, stored.shape[4])
            to, source = (pairs[..., side, None].expand(shape) for side in (0, 1))
            stored.scatter_(3, to, stored.gather(3, source))

    def _accepted_rows(
        self, accepted: Sequence[int] | Sequence[Sequence[int]]
    ) -> list[Sequence[int]]:
        rows = cast(
            "list[Sequence[int]]",
            [accepted]
            if self.batch == 1 and (not accepted or isinstance(accepted[0], int))
            else list(accepted),
        )
        if len(rows) != self.batch or any(isinstance(path, int) for path in rows):
            raise InputError(
                f"must have one list for each of {self.batch} rows",
                key="accepted",
                value=list(accepted),
            )
        for length, path in zip(self.lengths, rows, strict=True):
            if any(b <= a for a, b in itertools.pairwise(path)) or any(slot < 0 for slot in path):
                raise InputError("must ascend from 0", key="accepted", value=list(path))
            if path and length + path[-1] >= self.capacity:
                raise InputError(
                    f"must lie below {self.capacity - length}", key="accepted", value=path[-1]
                )
        return rows
