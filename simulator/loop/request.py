"""Which requests reach the simulated service, and how can each of them end?

A workload is columns, one entry per request in order of arrival. Leaves out where it comes from
(`simulator.scenario.arrivals`) and what happens to it (`simulator.engine`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError

WAITING, PREFILLING, DECODING, SWAPPED, FINISHED, REJECTED, FAILED = range(7)
ENDINGS = {FINISHED: "finished", REJECTED: "rejected", FAILED: "failed"}
MOST_REQUESTS = 1 << 24
MOST_TOKENS = 1 << 24


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Workload:
    """Requests in order of arrival, r of them.

    Args:
        arrival_s: float64[r], seconds since the start, sorted, finite, >= 0.
        prompt_tokens: int32[r], >= 1.
        output_tokens: int32[r], >= 1.
        prefix_ids: per request the ids of its prompt's blocks of `prefix_block_tokens` tokens, from
            the first on; equal ids stand for equal tokens at the same place behind equal blocks.
            None: nothing is shared.
        prefix_block_tokens: tokens of one such block.
        priority: int32[r], lower is served first; None: all have the same.
        users: closed loop: at most so many requests are under way; whoever has an answer sends the
            next one of the list after thinking, and not before its own `arrival_s`. None: open loop.
        think_s: float64[r] or one for all: how long users think, in the order in which requests end.

    Raises:
        InputError: no request, lengths that differ, unsorted arrivals, values out of range.
    """

    arrival_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    prefix_ids: tuple[tuple[int, ...], ...] | None = None
    prefix_block_tokens: int = 16
    priority: NDArray[np.int32] | None = None
    users: int | None = None
    think_s: NDArray[np.float64] | float = 0.0

    def __post_init__(self) -> None:
        arrival = np.ascontiguousarray(self.arrival_s, dtype=np.float64)
        if arrival.ndim != 1 or not 1 <= arrival.size <= MOST_REQUESTS:
            raise InputError(
                f"must hold 1..{MOST_REQUESTS} requests", key="arrival_s", value=arrival.shape
            )
        if not np.all(np.isfinite(arrival)) or arrival[0] < 0 or np.any(np.diff(arrival) < 0):
            raise InputError("must be finite, >= 0 and sorted", key="arrival_s")
        object.__setattr__(self, "arrival_s", arrival)
        for name in ("prompt_tokens", "output_tokens"):
            object.__setattr__(
                self, name, _whole(getattr(self, name), name, arrival.size, 1, MOST_TOKENS)
            )
        if self.priority is not None:
            lowest = int(np.iinfo(np.int32).min)
            object.__setattr__(
                self,
                "priority",
                _whole(self.priority, "priority", arrival.size, lowest, -lowest - 1),
            )
        if self.prefix_ids is not None and len(self.prefix_ids) != arrival.size:
            wanted = f"must have one tuple per request ({arrival.size})"
            raise InputError(wanted, key="prefix_ids", value=len(self.prefix_ids))
        if self.prefix_block_tokens < 1:
            raise InputError(
                "must be >= 1", key="prefix_block_tokens", value=self.prefix_block_tokens
            )
        if self.users is not None and self.users < 1:
            raise InputError("must be >= 1", key="users", value=self.users)
        think_s = np.asarray(self.think_s, dtype=np.float64)
        if think_s.shape not in ((), arrival.shape):
            wanted = f"must be one time, or one per request ({arrival.size})"
            raise InputError(wanted, key="think_s", value=think_s.shape)
        if not np.all((think_s >= 0.0) & np.isfinite(think_s)):
            raise InputError("must be finite and >= 0", key="think_s", value=float(think_s.min()))
        object.__setattr__(self, "think_s", think_s)

    @property
    def requests(self) -> int:
        """Number of requests r."""
        return int(self.arrival_s.size)


def _whole(values: object, name: str, size: int, lowest: int, highest: int) -> NDArray[np.int32]:
    array = np.asarray(values)
    if array.shape != (size,) or array.dtype.kind not in "iu":
        raise InputError(
            f"must be {size} whole numbers", key=name, value=f"{array.dtype}{list(array.shape)}"
        )
    if array.size and (array.min() < lowest or array.max() > highest):
        outlier = int(array.min() if array.min() < lowest else array.max())
        raise InputError(f"must lie in {lowest}..{highest}", key=name, value=outlier)
    return np.ascontiguousarray(array, dtype=np.int32)
