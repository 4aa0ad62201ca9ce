"""Which masked positions does a pass commit, given how sure the model is of them?

One pure function per commit rule over many canvases at once, the same for live decoding and for replay. Where
nothing passes a rule, the surest position of the block is committed: every rule moves on. Ties go to the left.
Leaves out where confidence comes from, and rules that need more than one pass's confidence of the likeliest tokens
(learned filters, credit over passes, auxiliary models).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traces.kinds.refine_policy import RefinePolicy

Mask = NDArray[np.bool_]
Values = NDArray[np.float32]
At = Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Confidence:
    """How sure a model is of R canvases of L positions before a commit.

    Attributes:
        masked: bool[R, L], positions that hold no token yet.
        open: bool[R, L], those of them that the block rule lets a pass commit.
        doubt: float32[R, L], 1 - probability of the likeliest token; any value where not `masked`.
        entropy, logit_gap: float32[R, L], any value where not `masked`; None: not known.
        pass_of_block: int64[R], passes of the block before this one.
        block_confidence: float64[R], mean probability of the tokens that the block's passes committed; NaN: none yet.
        priority: float64[R, L], order of a random rule, least first; None: not asked for.
    """

    masked: Mask
    open: Mask
    doubt: Values
    entropy: Values | None = None
    logit_gap: Values | None = None
    pass_of_block: NDArray[np.int64]
    block_confidence: NDArray[np.float64]
    priority: NDArray[np.float64] | None = None


def committed(policy: RefinePolicy, state: Confidence) -> Mask:
    """Positions that a pass commits.

    Args:
        policy: whose commit rule decides.
        state: before the commit; it has the fields that the rule needs.

    Returns:
        bool[R, L]: masked positions; at least one of every row that has an open one, and none of any other.
    """
    chosen = _RULES[policy.commit](state, policy.at)
    surest = _first(state.doubt, state.open, np.ones(len(state.doubt), dtype=np.int64))
    alive = state.open.any(axis=1, keepdims=True)
    result: Mask = (chosen | (surest & ~chosen.any(axis=1, keepdims=True))) & alive
    return result


def _first(values: NDArray[np.floating], open: Mask, count: NDArray[np.int64]) -> Mask:
    """The `count` open positions of every row with the least values."""
    if count.size and count.max() <= 1:
        least = np.where(open, values, np.inf).argmin(axis=1)
        one: Mask = open & (np.arange(values.shape[1]) == least[:, None]) & (count > 0)[:, None]
        return one
    chosen: Mask = open & (_ranks(values, open) < count[:, None])
    return chosen


def _ranks(values: NDArray[np.floating], open: Mask) -> NDArray[np.int64]:
    """Places of positions among the open ones of their row, least value first."""
    order = np.argsort(np.where(open, values, np.inf), axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(values.shape[1])[None, :], axis=1)
    return ranks


def _ordered(values: Values, open: Mask) -> Values:
    """Values of the open positions in rising order; infinite behind them."""
    rising: Values = np.sort(np.where(open, values, np.inf), axis=1)
    return rising


def _even(state: Confidence, tokens: float) -> NDArray[np.int64]:
    return np.full(len(state.doubt), int(tokens), dtype=np.int64)


def _sure(state: Confidence, confidence: float) -> Mask:
    sure: Mask = state.open & (state.doubt <= _half(1.0 - confidence))
    return sure


def _half(value: float) -> np.float32:
    """A threshold as coarse as recorded values are, so that a value that equals it passes."""
    return np.float32(np.float16(value))


def _static(state: Confidence, at: At) -> Mask:
    return _first(state.doubt, state.open, _even(state, at.get("tokens", 1)))


def _random(state: Confidence, at: At) -> Mask:
    assert state.priority is not None
    return _first(state.priority, state.open, _even(state, at["tokens"]))


def _doubling(state: Confidence, at: At) -> Mask:
    count = int(at["tokens"]) << np.minimum(state.pass_of_block, 30)
    return _first(state.doubt, state.open, np.minimum(count, state.doubt.shape[1]))


def _threshold(state: Confidence, at: At) -> Mask:
    return _sure(state, at["confidence"])


def _factor(state: Confidence, at: At) -> Mask:
    """The most tokens n with (n + 1)(1 - c_n) < factor, c_n the n-th highest confidence."""
    rising = _ordered(state.doubt, state.open)
    passes = np.arange(2, rising.shape[1] + 2) * rising < at["factor"]
    count = np.where(passes.any(axis=1), rising.shape[1] - passes[:, ::-1].argmax(axis=1), 0)
    return _first(state.doubt, state.open, count)


def _capped(state: Confidence, at: At) -> Mask:
    count = np.minimum(_sure(state, at["confidence"]).sum(axis=1), int(at["tokens"]))
    return _first(state.doubt, state.open, count)


def _neighbours(state: Confidence, at: At) -> Mask:
    """Sure positions, and less sure ones within so many tokens of one."""
    sure = _sure(state, at["confidence"])
    width, length = int(at["tokens"]), sure.shape[1]
    before = np.concatenate([np.zeros((len(sure), 1), dtype=np.int64), np.cumsum(sure, axis=1)], axis=1)
    place = np.arange(length)
    near = before[:, np.minimum(place + width + 1, length)] > before[:, np.maximum(place - width, 0)]
    chosen: Mask = sure | (near & _sure(state, at["near_confidence"]))
    return chosen


def _running_mean(state: Confidence, at: At) -> Mask:
    """Beyond the mean confidence of what the block holds, within two bounds; the upper one before there is any."""
    mean = np.where(np.isnan(state.block_confidence), at["most"], state.block_confidence)
    limit = np.clip(mean, at["least"], max(at["least"], at["most"]))
    beyond: Mask = state.open & (state.doubt <= (1.0 - limit).astype(np.float16).astype(np.float32)[:, None])
    return beyond


def _entropy(state: Confidence, at: At) -> Mask:
    assert state.entropy is not None
    low: Mask = state.open & (state.entropy <= _half(at["entropy"]))
    return low


def _in_order(state: Confidence, at: At) -> Mask:
    """Entropy plus so much per position behind the first open one stays below a bound."""
    assert state.entropy is not None
    distance = np.arange(state.open.shape[1]) - state.open.argmax(axis=1)[:, None]
    low: Mask = state.open & (state.entropy + at["per_token"] * distance < at["entropy"])
    return low


def _entropy_bound(state: Confidence, at: At) -> Mask:
    """The most positions, lowest entropy first, whose entropies without the highest of them stay within a bound."""
    assert state.entropy is not None
    rising = _ordered(state.entropy, state.open)
    before = np.concatenate([np.zeros((len(rising), 1)), np.cumsum(rising[:, :-1], axis=1, dtype=np.float64)], axis=1)
    count = np.where(np.isfinite(rising), before <= at["bound"], False).sum(axis=1)
    return _first(state.entropy, state.open, count)


def _gap(state: Confidence, at: At) -> Mask:
    """One token, or all of the canvas once the gaps of the answer's masked tokens are wide on average."""
    assert state.logit_gap is not None
    length = state.masked.shape[1]
    answer = state.masked & (np.arange(length) >= (length - int(at["answer_tokens"]) if at["answer_tokens"] else 0))
    count = answer.sum(axis=1)
    mean = np.where(answer, state.logit_gap, 0.0).sum(axis=1, dtype=np.float64) / np.maximum(count, 1)
    progress = 1.0 - state.masked.sum(axis=1) / length
    limit = np.where(progress < 1 / 3, at["early"], np.where(progress < 2 / 3, at["middle"], at["late"]))
    one = _first(state.doubt, state.open, _even(state, 1))
    chosen: Mask = np.where(((mean >= limit) & (count > 0))[:, None], state.masked, one)
    return chosen


_RULES: Mapping[str, Callable[[Confidence, At], Mask]] = {
    "static": _static,
    "random": _random,
    "doubling": _doubling,
    "threshold": _threshold,
    "factor": _factor,
    "capped": _capped,
    "neighbours": _neighbours,
    "running_mean": _running_mean,
    "entropy": _entropy,
    "in_order": _in_order,
    "entropy_bound": _entropy_bound,
    "gap": _gap,
    "self_verified": _static,  # the tokens are those of one a pass; how many passes they take is `self_verified.py`
}


def closed_form_passes(policy: RefinePolicy, canvas_tokens: int) -> int | None:
    """Passes that fill a canvas under a rule that commits by number alone; None where confidence decides.

    Args:
        policy: a rule with its block; it runs to the end of the canvas.
        canvas_tokens: L.

    Raises:
        InputError: a block that does not divide the canvas.

    Example:
        >>> closed_form_passes(RefinePolicy(commit="doubling", block_tokens=256), 256)
        9
    """
    policy.check_canvas(canvas_tokens)
    if not policy.rule.by_count or policy.delimiters or policy.stop != "full":
        return None
    block, tokens = policy.block_tokens, int(policy.at["tokens"])
    each = (
        math.ceil(math.log2(block / tokens + 1) - 1e-12) if policy.commit == "doubling" else math.ceil(block / tokens)
    )
    return max(each, 1) * (canvas_tokens // block)


def random_priority(policy: RefinePolicy, requests: tuple[str, ...], canvas_tokens: int) -> NDArray[np.float64] | None:
    """Order in which a random rule commits, from its seed and the names of the prompts; None for other rules."""
    if policy.commit != "random":
        return None
    rows = []
    for name in requests:
        digest = np.frombuffer(name.encode(), dtype=np.uint8).astype(np.uint32)
        rows.append(np.random.default_rng([int(policy.at["seed"]), *digest.tolist()]).permutation(canvas_tokens))
    return np.array(rows, dtype=np.float64).reshape(len(requests), canvas_tokens)
