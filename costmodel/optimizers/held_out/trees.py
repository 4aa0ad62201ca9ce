"""Does a tree chosen on a recording still win on text that it was not chosen on?

Splits requests into halves of like composition, chooses on one and replays the other. Leaves out
intervals: resample the requests of either half (`traces.replay.statistics`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.optimizers.trees.trace_tree import TraceTreeResult, trace_tree
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.walk import replay_tree


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOut:
    """Emitted tokens per step of both trees on the half that neither was chosen on.

    Attributes:
        chosen: the trees, with their tokens per step on the half they were chosen on.
        tokens_per_step: the trace tree on the other half.
        dp_tokens_per_step: the sibling-vector tree on the other half.
    """

    chosen: TraceTreeResult
    tokens_per_step: float
    dp_tokens_per_step: float

    @property
    def gain_ratio(self) -> float:
        """Tokens per step won by the trace tree on the other half, relative to the sibling-vector
        tree.
        """
        return self.tokens_per_step / self.dp_tokens_per_step - 1.0


def split_halves(
    trace: AcceptanceTrace, generator: np.random.Generator
) -> tuple[AcceptanceTrace, AcceptanceTrace]:
    """Two halves of a recording's requests, drawn within each prompt kind.

    Args:
        trace: level 1 or more, at least two requests.
        generator: source of the draw.

    Returns:
        Two recordings; their request counts, and those of every prompt kind, differ by at most 1.

    Raises:
        InputError: a summary, or fewer than two requests.
    """
    trace.require(1, "splitting a trace")
    if trace.requests < 2:
        raise InputError(
            "two halves need at least two requests",
            file=trace.file,
            key="requests",
            value=trace.requests,
        )
    kinds = np.unique(np.asarray(trace.prompt_kinds), return_inverse=True)[1]
    drawn = generator.permutation(trace.requests)
    by_kind = drawn[np.argsort(kinds[drawn], kind="stable")]
    first, second = np.sort(by_kind[::2]), np.sort(by_kind[1::2])
    return trace.select(first), trace.select(second)


def held_out_comparison(
    trace: AcceptanceTrace,
    draft_tokens: Sequence[int] = (8, 16, 32, 64),
    depth: int = 8,
    *,
    generator: np.random.Generator,
) -> list[HeldOut]:
    """Choose trees on one half of a recording and replay them on the other.

    Args:
        trace: level 2 or more, at least two requests.
        draft_tokens: tree sizes, root excluded.
        depth: most draft levels.
        generator: source of the split.

    Returns:
        One comparison per entry of `draft_tokens`, in that order.

    Raises:
        InputError: no ranks, too few requests, or sizes out of range.
        InfeasibleError: no tree of that many nodes fits the depth and the recorded candidates.
    """
    chosen_on, other = split_halves(trace, generator)
    return [
        HeldOut(
            chosen=result,
            tokens_per_step=replay_tree(other, result.tree).tokens_per_step,
            dp_tokens_per_step=replay_tree(other, result.dp_tree).tokens_per_step,
        )
        for result in trace_tree(chosen_on, draft_tokens, depth)
    ]
