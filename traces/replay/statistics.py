"""What does a recording say about acceptance, and how sure is it?

Acceptance by depth, sibling vectors, the correlation of successive steps, tokens per step by prompt
kind with bootstrap intervals (`traces.replay.bootstrap`) and, for comparison only, the one-number
geometric law. Leaves out speed: none of these is tokens per second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.bootstrap import bootstrap_tokens_per_step, drawn_tokens_per_step, request_draws
from traces.replay.walk import replay_chain, step_starts

Starts = Literal["walk", "all"]

__all__ = [
    "KindReplay",
    "Starts",
    "acceptance_by_depth",
    "autocorrelation",
    "bootstrap_tokens_per_step",
    "by_kind",
    "drawn_tokens_per_step",
    "fitted_acceptance",
    "geometric_tokens_per_step",
    "request_draws",
    "sibling_vector",
    "sibling_vectors",
    "start_positions",
]


def start_positions(trace: AcceptanceTrace, starts: Starts, draft_tokens: int) -> NDArray[np.int64]:
    """Positions a statistic is taken over.

    Args:
        trace: level 1 or more.
        starts: "walk": where the steps of a chain of `draft_tokens` start; "all": every position
            from `first_step_position` on. Steps start after hard tokens, so the two differ.
        draft_tokens: K >= 0.

    Raises:
        InputError: another word, or no such position.
    """
    if starts == "walk":
        positions = step_starts(trace, draft_tokens)
    elif starts == "all":
        positions = step_starts(trace, 0)
    else:
        raise InputError("must be walk or all", key="starts", value=starts)
    if not positions.size:
        raise InputError(
            "the trace has no position at which a step starts", file=trace.file, key="starts"
        )
    return positions


def acceptance_by_depth(
    trace: AcceptanceTrace, depth: int, starts: Starts = "walk"
) -> NDArray[np.float64]:
    """Unconditional probability that the first d draft tokens are all accepted.

    Taken from the lengths as recorded: a step that runs past the end of its text counts in full.

    Args:
        trace: level 1 or more.
        depth: number of draft tokens K >= 1; also the chain whose steps "walk" follows.
        starts: positions averaged over, see `start_positions`.

    Returns:
        float64[depth], for d = 1..K, never increasing.

    Raises:
        InputError: no lengths, no position, depth < 1.
    """
    if depth < 1:
        raise InputError("must be >= 1", key="depth", value=depth)
    positions = start_positions(trace, starts, depth)
    assert trace.emitted is not None
    accepted = trace.emitted[positions].astype(np.int64) - 1
    if trace.drafted is not None:
        accepted = np.minimum(accepted, trace.drafted[positions])
    # more than `depth` accepted tokens are `depth` of them; counted from the end, they are those
    # that accepted d or more
    counts = np.bincount(np.minimum(accepted, depth), minlength=depth + 1)
    by_depth: NDArray[np.float64] = np.cumsum(counts[::-1])[::-1][1:] / positions.size
    return by_depth


def sibling_vectors(
    trace: AcceptanceTrace,
    width: int,
    depth: int,
    starts: Starts = "all",
    draft_tokens: int | None = None,
) -> NDArray[np.float64]:
    """Probability that the k-th candidate is the true token, given the true prefix, by depth.

    Args:
        trace: level 2 or more.
        width: candidates k = 0..width-1, at most the recorded width.
        depth: draft levels, at most those recorded.
        starts: positions averaged over, see `start_positions`.
        draft_tokens: chain that "walk" follows; `depth` where absent.

    Returns:
        float64[depth, width]; every row sums to at most 1. Positions whose text ends before a depth
        do not count there.

    Raises:
        InputError: too wide or too deep for the recording, or no position reaches a depth.
    """
    trace.require(2, "sibling vectors")
    assert trace.rank is not None
    most = depth if trace.depth is None else trace.depth
    for key, value, limit in (("width", width, trace.rank_width), ("depth", depth, most)):
        if not 1 <= value <= limit:
            raise InputError(
                f"must lie in 1..{limit}, as recorded", file=trace.file, key=key, value=value
            )
    positions = start_positions(trace, starts, depth if draft_tokens is None else draft_tokens)
    left = np.repeat(trace.offsets[1:], trace.output_tokens)[positions] - positions
    vectors = np.zeros((depth, width))
    for level in range(depth):
        reached = positions[left > level]
        if not reached.size:
            raise InputError(
                "no recorded text is that deep", file=trace.file, key="depth", value=depth
            )
        ranks = trace.rank[reached + level] if trace.rank.ndim == 1 else trace.rank[reached, level]
        vectors[level] = np.bincount(ranks.astype(np.int64) + 1, minlength=trace.rank_width + 1)[
            1 : width + 1
        ]
        vectors[level] /= reached.size
    return vectors


def sibling_vector(
    trace: AcceptanceTrace, width: int, starts: Starts = "all", draft_tokens: int = 1
) -> NDArray[np.float64]:
    """Probability that the k-th candidate is the true token at a position of `starts`,
    float64[width].

    Args:
        trace: level 2 or more.
        width: candidates, at most the recorded width.
        starts: positions averaged over, see `start_positions`.
        draft_tokens: chain that "walk" follows.

    Raises:
        InputError: as `sibling_vectors`.
    """
    return sibling_vectors(trace, width, 1, starts, draft_tokens).reshape(width)


def geometric_tokens_per_step(acceptance: float, draft_tokens: int) -> float:
    """Emitted tokens per step if every draft token were accepted with one probability,
    independently.

    The sum of acceptance^d for d = 0..K. Real texts do not follow it; replay where there is a
    trace.

    Args:
        acceptance: probability per token, in [0, 1].
        draft_tokens: K >= 0.

    Reference: Leviathan et al., Fast Inference from Transformers via Speculative Decoding (2023),
    eq. 1.
    """
    return float(np.sum(np.power(acceptance, np.arange(draft_tokens + 1))))


def fitted_acceptance(tokens_per_step: float, draft_tokens: int) -> float:
    """The acceptance at which the geometric law emits this many tokens per step.

    Args:
        tokens_per_step: in [1, K + 1].
        draft_tokens: K >= 1.

    Returns:
        Probability in [0, 1], by bisection to double precision.

    Raises:
        InputError: no acceptance emits that many.
    """
    if draft_tokens < 1 or not 1 <= tokens_per_step <= draft_tokens + 1:
        rule = "needs draft_tokens >= 1 and tokens per step in [1, draft_tokens + 1]"
        raise InputError(rule, key="tokens_per_step", value=tokens_per_step)
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        if geometric_tokens_per_step(middle, draft_tokens) < tokens_per_step:
            low = middle
        else:
            high = middle
    return high


def autocorrelation(trace: AcceptanceTrace, draft_tokens: int, lags: int) -> NDArray[np.float64]:
    """Correlation of the tokens that steps emit with those emitted 1, 2, ... steps later in the
    same text.

    A law with one acceptance number has none. The pooled mean is subtracted: differences between
    texts count.

    Args:
        trace: level 1 or more.
        draft_tokens: K >= 1 of the chain.
        lags: number of lags >= 1.

    Returns:
        float64[lags] in [-1, 1]; 0 where all steps emit the same or no text has that many steps.
    """
    positions = start_positions(trace, "walk", draft_tokens)
    request = np.searchsorted(trace.offsets, positions, side="right")
    assert trace.emitted is not None
    emitted = np.minimum(trace.emitted[positions].astype(np.float64), draft_tokens + 1)
    if trace.drafted is not None:
        emitted = np.minimum(emitted, trace.drafted[positions] + 1.0)
    centred = emitted - emitted.mean()
    variance = float(np.mean(centred**2))
    correlations = np.zeros(lags)
    for lag in range(1, lags + 1):
        together = request[lag:] == request[:-lag]
        if variance > 0 and together.any():
            correlations[lag - 1] = np.mean((centred[lag:] * centred[:-lag])[together]) / variance
    return np.clip(correlations, -1.0, 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class KindReplay:
    """What a chain does on the texts of one kind of prompt.

    Attributes:
        kind: of the prompts.
        requests: texts.
        tokens: emitted by steps.
        steps: taken.
        tokens_per_step: pooled; None without a step.
        interval: 80 % interval of it, over requests; None without a step.
    """

    kind: str
    requests: int
    tokens: int
    steps: int
    tokens_per_step: float | None = None
    interval: tuple[float, float] | None = None


def by_kind(
    trace: AcceptanceTrace, draft_tokens: int, *, generator: np.random.Generator
) -> list[KindReplay]:
    """Tokens per step of every prompt kind, sorted by kind.

    Args:
        trace: level 1 or more.
        draft_tokens: K of the chain.
        generator: source of randomness for the intervals.
    """
    rows = []
    kinds = np.asarray(trace.prompt_kinds)
    for kind in sorted(set(trace.prompt_kinds)):
        replay = replay_chain(trace.select(np.flatnonzero(kinds == kind)), draft_tokens)
        requests, steps = replay.steps.size, int(replay.steps.sum())
        row = KindReplay(kind=kind, requests=requests, tokens=int(replay.tokens.sum()), steps=steps)
        if steps:
            row = replace(
                row,
                tokens_per_step=replay.tokens_per_step,
                interval=bootstrap_tokens_per_step(replay, [kind] * requests, generator=generator),
            )
        rows.append(row)
    return rows
