"""How much of its drafts does a batch verify, where that is weighed at every step?

A proposer for the loop of `batch_speculative` that drafts whole and hands over what is worth
verifying. The loop's pass is padded to its longest draft, so that everybody verifies as many
tokens: those whose survival, summed over the batch, pays for the wider pass. Leaves out passes
without padding, which the simulator has (`simulator.loop.decoders.slots`).

Reference: Cheng et al. 2026, DSpark (arXiv:2607.05147).
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from costmodel.laws.verify_width import padded_width
from hardware_profiles.errors import InputError
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama
from traces.kinds.tree import Tree
from traces.replay.calibration import Calibration


@runtime_checkable
class SureProposer(Protocol):
    """A drafter of chains that says how sure it is of every token."""

    def sure(
        self, prefixes: Sequence[Sequence[int]], cache: KVCache, tree: Tree
    ) -> tuple[list[list[int]], list[list[float]]]:
        """Drafted tokens per request, and the probability of each if those before are accepted."""


class PayingWidths:
    """Hands over as many tokens of every draft as are expected to emit most per second.

    Args:
        propose: the drafter.
        seconds: of a step in which everybody verifies 0, 1, .. K tokens; shape [K + 1].
        calibration: of the drafter's probabilities; None: they are taken as they are.
        weight: of the latest step in the tokens per second remembered; 0: a step is weighed alone.

    Raises:
        InputError: a weight out of range.
    """

    def __init__(
        self,
        propose: SureProposer,
        seconds: NDArray[np.float64],
        *,
        calibration: Calibration | None = None,
        weight: float = 0.0,
    ) -> None:
        if not 0.0 <= weight <= 1.0:
            raise InputError("must lie in 0..1", key="weight", value=weight)
        self._propose, self._seconds = propose, np.asarray(seconds, dtype=np.float64)
        self._calibration, self._weight = calibration, weight
        self._earned = self._spent = 0.0

    def __call__(
        self, requests: Sequence[int], prefixes: Sequence[Sequence[int]], cache: KVCache, tree: Tree
    ) -> list[list[int]]:
        """Tokens to verify, per request.

        Raises:
            InputError: a tree that is no chain, or seconds of another draft length.
        """
        if tree.depth != tree.nodes:
            raise InputError("must be a chain", key="tree", value=tree.parents)
        drafts, said = self._propose.sure(prefixes, cache, tree)
        sure = np.array(said, dtype=np.float64).reshape(len(drafts), tree.draft_tokens)
        if self._calibration is not None:
            sure = self._calibration.accepted(sure)
        survival = np.cumprod(sure, axis=1).astype(np.float64)
        worth = self._earned / self._spent if self._spent else None
        width = padded_width(survival, self._seconds, worth)
        if self._weight:
            expected = len(drafts) + float(survival[:, :width].sum())
            self._earned = (1.0 - self._weight) * self._earned + expected
            self._spent = (1.0 - self._weight) * self._spent + float(self._seconds[width])
        return [draft[:width] for draft in drafts]


def timed_widths(
    model: Llama, draft_tokens: int, *, requests: int, context: int, runs: int = 3
) -> NDArray[np.float64]:
    """Seconds of the target's pass in which everybody verifies 0, 1, .. K tokens, on this machine.

    Args:
        model: the target.
        draft_tokens: K >= 1.
        requests: that decode together.
        context: cached tokens of each, >= 1.
        runs: of every width, of which the fastest counts.

    Returns:
        float64[K + 1], never falling.

    Raises:
        InputError: a number below 1.
    """
    for name, value in (("draft_tokens", draft_tokens), ("requests", requests), ("runs", runs)):
        if value < 1:
            raise InputError("must be >= 1", key=name, value=value)
    if context < 1:
        raise InputError("must be >= 1", key="context", value=context)
    cache = model.new_cache(context + draft_tokens + 1, batch=requests)
    model.forward([[0] * context] * requests, cache, logits="last")
    cache.commit([context] * requests)
    seconds = []
    for width in range(draft_tokens + 1):
        taken = []
        for _ in range(runs):
            began = perf_counter()
            model.forward([[0] * (width + 1)] * requests, cache)
            taken.append(perf_counter() - began)
        seconds.append(min(taken))
    return np.maximum.accumulate(np.array(seconds))
