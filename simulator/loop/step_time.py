"""What times an iteration: the interface, without any implementation.

`simulator.timing.cost_timer` asks the cost model, `simulator.timing.profile_timer` a measured
kernel profile. Leaves out what an iteration holds (`simulator.loop.scheduling.scheduler`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class StepTimer(Protocol):
    """Seconds of one iteration of an engine without its draft passes."""

    def __call__(
        self,
        decode_requests: int,
        query_tokens: float,
        decode_context_tokens: float,
        prefill: Sequence[tuple[int, int]],
        longest_context: float = 0.0,
    ) -> float:
        """Time one iteration.

        Args:
            decode_requests: b, >= 0.
            query_tokens: mean query tokens of a decoding request, 1 + K where every one of them
                drafts K.
            decode_context_tokens: cached tokens of all decoding requests together.
            prefill: (new tokens, cached tokens) of every prompt chunk.
            longest_context: most cached tokens of any decoding request; 0: unknown, all the same.
        """


class DraftTimer(Protocol):
    """Seconds that drafting adds to one iteration."""

    def __call__(
        self,
        decode_requests: int,
        draft_tokens: int,
        decode_context_tokens: float,
        prefill_tokens: int,
    ) -> float:
        """Time the draft passes of one iteration.

        Args:
            decode_requests: requests that draft, >= 0.
            draft_tokens: most draft tokens of any of them.
            decode_context_tokens: cached tokens of them all together.
            prefill_tokens: prompt tokens of the iteration, which the drafter reads too.
        """
