"""Which masked positions does a pass commit, given how sure the model is of them?

One pure function per commit rule over many canvases at once, the same for live decoding and for
replay. Where nothing passes a rule, the surest position of the block is committed: every rule moves
on. Ties go to the left. Rules that read earlier passes are in `remembering`. Leaves out where
confidence comes from, and rules that need more than the likeliest tokens' confidence (learned
filters, auxiliary models).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.remembering import credit, history, phases
from traces.replay.confidence.state import At, Confidence, Mask, Values, first, half


def committed(policy: RefinePolicy, state: Confidence) -> Mask:
    """Positions that a pass commits.

    Args:
        policy: whose commit rule decides.
        state: before the commit; it has the fields that the rule needs.

    Returns:
        bool[R, L]: masked positions; at least one of every row that has an open one, and none of
            any other.
    """
    chosen = _RULES[policy.commit](state, policy.at)
    surest = first(state.doubt, state.open, np.ones(len(state.doubt), dtype=np.int64))
    alive = state.open.any(axis=1, keepdims=True)
    result: Mask = (chosen | (surest & ~chosen.any(axis=1, keepdims=True))) & alive
    return result


def _ordered(values: Values, open: Mask) -> Values:
    """Values of the open positions in rising order; infinite behind them."""
    rising: Values = np.sort(np.where(open, values, np.inf), axis=1)
    return rising


def _even(state: Confidence, tokens: float) -> NDArray[np.int64]:
    return np.full(len(state.doubt), int(tokens), dtype=np.int64)


def _sure(state: Confidence, confidence: float) -> Mask:
    sure: Mask = state.open & (state.doubt <= half(1.0 - confidence))
    return sure


def _static(state: Confidence, at: At) -> Mask:
    return first(state.doubt, state.open, _even(state, at.get("tokens", 1)))


def _random(state: Confidence, at: At) -> Mask:
    assert state.priority is not None
    return first(state.priority, state.open, _even(state, at["tokens"]))


def _doubling(state: Confidence, at: At) -> Mask:
    count = int(at["tokens"]) << np.minimum(state.pass_of_block, 30)
    return first(state.doubt, state.open, np.minimum(count, state.doubt.shape[1]))


def _threshold(state: Confidence, at: At) -> Mask:
    return _sure(state, at["confidence"])


def _factor(state: Confidence, at: At) -> Mask:
    """The most tokens n with (n + 1)(1 - c_n) < factor, c_n the n-th highest confidence."""
    rising = _ordered(state.doubt, state.open)
    passes = np.arange(2, rising.shape[1] + 2) * rising < at["factor"]
    count = np.where(passes.any(axis=1), rising.shape[1] - passes[:, ::-1].argmax(axis=1), 0)
    return first(state.doubt, state.open, count)


def _capped(state: Confidence, at: At) -> Mask:
    count = np.minimum(_sure(state, at["confidence"]).sum(axis=1), int(at["tokens"]))
    return first(state.doubt, state.open, count)


def _neighbours(state: Confidence, at: At) -> Mask:
    """Sure positions, and less sure ones within so many tokens of one."""
    sure = _sure(state, at["confidence"])
    width, length = int(at["tokens"]), sure.shape[1]
    before = np.concatenate(
        [np.zeros((len(sure), 1), dtype=np.int64), np.cumsum(sure, axis=1)], axis=1
    )
    place = np.arange(length)
    near = (
        before[:, np.minimum(place + width + 1, length)] > before[:, np.maximum(place - width, 0)]
    )
    chosen: Mask = sure | (near & _sure(state, at["near_confidence"]))
    return chosen


def _running_mean(state: Confidence, at: At) -> Mask:
    """Beyond the mean confidence of what the block holds, within two bounds; the upper one before
    there is any.
    """
    mean = np.where(np.isnan(state.block_confidence), at["most"], state.block_confidence)
    limit = np.clip(mean, at["least"], max(at["least"], at["most"]))
    confident: Mask = state.open & (
        state.doubt <= (1.0 - limit).astype(np.float16).astype(np.float32)[:, None]
    )
    return confident


def _entropy(state: Confidence, at: At) -> Mask:
    assert state.entropy is not None
    low: Mask = state.open & (state.entropy <= half(at["entropy"]))
    return low


def _in_order(state: Confidence, at: At) -> Mask:
    """Entropy plus so much per position behind the first open one stays below a bound."""
    assert state.entropy is not None
    distance = np.arange(state.open.shape[1]) - state.open.argmax(axis=1)[:, None]
    low: Mask = state.open & (state.entropy + at["per_token"] * distance < at["entropy"])
    return low


def _entropy_bound(state: Confidence, at: At) -> Mask:
    """The most positions, lowest entropy first, whose entropies without the highest of them stay
    within a bound.
    """
    assert state.entropy is not None
    rising = _ordered(state.entropy, state.open)
    before = np.concatenate(
        [np.zeros((len(rising), 1)), np.cumsum(rising[:, :-1], axis=1, dtype=np.float64)], axis=1
    )
    count = np.where(np.isfinite(rising), before <= at["bound"], False).sum(axis=1)
    return first(state.entropy, state.open, count)


def _gap(state: Confidence, at: At) -> Mask:
    """One token, or all of the canvas once the gaps of the answer's masked tokens are wide on
    average.
    """
    assert state.logit_gap is not None
    length = state.masked.shape[1]
    answer = state.masked & (
        np.arange(length) >= (length - int(at["answer_tokens"]) if at["answer_tokens"] else 0)
    )
    count = answer.sum(axis=1)
    mean = np.where(answer, state.logit_gap, 0.0).sum(axis=1, dtype=np.float64) / np.maximum(
        count, 1
    )
    progress = 1.0 - state.masked.sum(axis=1) / length
    limit = np.where(
        progress < 1 / 3, at["early"], np.where(progress < 2 / 3, at["middle"], at["late"])
    )
    one = first(state.doubt, state.open, _even(state, 1))
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
    "credit": credit,
    "history": history,
    "phases": phases,
    # the tokens are those of one a pass; how many passes they take is `self_verified.py`
    "self_verified": _static,
}


def closed_form_passes(policy: RefinePolicy, canvas_tokens: int) -> int | None:
    """Passes that fill a canvas under a rule that commits by number alone; None where confidence
    decides.

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
    passes = (
        math.ceil(math.log2(block / tokens + 1) - 1e-12)
        if policy.commit == "doubling"
        else math.ceil(block / tokens)
    )
    return max(passes, 1) * (canvas_tokens // block)


def random_priority(
    policy: RefinePolicy, requests: tuple[str, ...], canvas_tokens: int
) -> NDArray[np.float64] | None:
    """Order in which a random rule commits, from its seed and the names of the prompts; None for
    other rules.

    Args:
        policy: of the replay.
        requests: names of the P prompts.
        canvas_tokens: positions L of a canvas.

    Returns:
        float64[P, L], a permutation of 0..L-1 per prompt; or None.
    """
    if policy.commit != "random":
        return None
    rows = []
    for name in requests:
        digest = np.frombuffer(name.encode(), dtype=np.uint8).astype(np.uint32)
        rows.append(
            np.random.default_rng([int(policy.at["seed"]), *digest.tolist()]).permutation(
                canvas_tokens
            )
        )
    return np.array(rows, dtype=np.float64).reshape(len(requests), canvas_tokens)
