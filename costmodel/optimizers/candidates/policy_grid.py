"""Which policies of masked decoding are worth trying on what was recorded?

Thresholds from a rule's range, blocks that divide the canvas, caches that a trace was recorded
with. Leaves out what they do (`traces.replay.confidence.played`) and cost (`policy_candidates`).
"""

from collections.abc import Mapping, Sequence
from itertools import product

from traces.kinds.refine_policy import COMMIT_RULES, Cache, RefinePolicy, Threshold
from traces.replay.confidence.anchors import Anchors

LEAST_BLOCK_TOKENS = 4
_SHARES = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)
_TIMES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)  # of a default, where a threshold has another range

Thresholds = Mapping[str, float]


def threshold_values(threshold: Threshold) -> tuple[float, ...]:
    """Values of a threshold to try where none are stated: shares from a half on, else multiples of
    the default.

    Example:
        >>> threshold_values(COMMIT_RULES["entropy"].at["entropy"])
        (0.1125, 0.225, 0.3375, 0.45, 0.675, 0.9, 1.8)
        >>> threshold_values(COMMIT_RULES["static"].at["tokens"])
        (1, 2, 4)
    """
    if (threshold.lowest, threshold.highest) == (0.0, 1.0):
        return _SHARES
    tried = (threshold.default * times for times in _TIMES)
    within = [value for value in tried if threshold.lowest <= value <= threshold.highest]
    values = [int(value + 0.5) for value in within if value >= 1.0] if threshold.whole else within
    return tuple(dict.fromkeys(values)) or (threshold.default,)


def usual_thresholds(rule: str) -> list[Thresholds]:
    """Settings of a rule to try where none are stated: its first threshold varies, the others keep
    their defaults.
    """
    name, first = next(iter(COMMIT_RULES[rule].at.items()))
    return [{name: value} for value in threshold_values(first)]


def policy_grid(
    own: RefinePolicy,
    recorded: Mapping[str, Anchors],
    *,
    rules: Sequence[tuple[str, Thresholds]] = (),
    blocks: Sequence[int] = (),
    caches: Sequence[Cache] = (),
) -> list[RefinePolicy]:
    """The policies of a search.

    Args:
        own: the method's, whose rule is tried where none is stated.
        recorded: anchors by the cache that they were recorded with.
        rules: commit rules with thresholds; empty: the own rule's usual ones.
        blocks: tokens of a block; empty: without a cache all divisors of the canvas, else the
            recorded blocks.
        caches: empty: those that were recorded.
    """
    tried = rules or [(own.commit, at) for at in usual_thresholds(own.commit)]
    policies = []
    for cache in caches or [cache for cache in ("none", "prefix", "dual") if cache in recorded]:
        sizes = blocks or (
            _blocks(recorded[cache], cache) if cache in recorded else (own.block_tokens,)
        )
        policies += [
            RefinePolicy(commit=rule, at=at, block_tokens=block, cache=cache)
            for (rule, at), block in product(tried, sizes)
        ]
    return list(dict.fromkeys(policies))


def _blocks(anchors: Anchors, cache: str) -> list[int]:
    if cache != "none":
        return sorted({policy.block_tokens for policy in anchors.policies})
    length = anchors.canvas_tokens
    return [
        size for size in range(min(LEAST_BLOCK_TOKENS, length), length + 1) if length % size == 0
    ]
