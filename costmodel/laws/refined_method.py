"""Which passes does a method run that commits by a stated policy, and which policy is a method's
own?

From a method's `Refine` to the policy that a confidence trace is replayed by, and back: the entry
with another commit rule, block and cache, which is priced as any entry is. Leaves out the replay
(`replayed_refining`) and rules that need more than a confidence trace holds.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from costmodel.laws.refining import refine_of
from costmodel.method import Method, Refine, Shape
from hardware_profiles.errors import InputError
from traces.kinds.refine_policy import COMMIT_RULES, NEEDS_MORE, Cache, RefinePolicy
from traces.replay.confidence.rules import closed_form_passes

_CACHE: Mapping[str, Cache] = {"full": "none", "suffix": "prefix", "block": "dual"}
_FORWARD: Mapping[Cache, Literal["full", "suffix", "block"]] = {
    "none": "full",
    "prefix": "suffix",
    "dual": "block",
}


def method_policy(method: Method) -> RefinePolicy:
    """The policy of an entry that refines blocks, with the thresholds of the code that its rule was
    read from.

    Raises:
        InputError: a method that refines nothing, or whose rule or passes no confidence trace can
            play.

    Example:
        >>> from costmodel.method_library import load_method
        >>> method_policy(load_method("fast-dllm")).name
        'threshold confidence=0.9 block=32 cache=dual'
    """
    r = refine_of(method)
    if r.commit not in COMMIT_RULES:
        more = f": {NEEDS_MORE[r.commit]}" if r.commit in NEEDS_MORE else ""
        raise InputError(
            f"commits by a rule ({r.commit}) that needs more than a confidence trace holds{more}",
            key="method",
            value=method.slug,
        )
    if r.forward not in _CACHE or r.begin_ratio < 1.0:
        raise InputError(
            "computes passes that no confidence trace is recorded with",
            key="method",
            value=method.slug,
        )
    return RefinePolicy(commit=r.commit, block_tokens=method.shape.nodes, cache=_CACHE[r.forward])


def refined_method(
    method: Method, policy: RefinePolicy, *, canvas_tokens: int | None = None
) -> Method:
    """The entry as it runs under a policy: its rule, block, cache and the passes that these take.

    Passes that renew a cache, that store a block or that compute a part of it stay as the entry has
    them while the policy caches as the entry does. Otherwise: without a cache every pass computes
    prompt and canvas and nothing is stored; a cache that the entry lacks is renewed by a block's
    first pass. A block is done when it is full, without the further pass on its cache that some
    code spends.

    Args:
        method: an entry that refines one block after the other.
        policy: by which it commits, in place of the entry's own rule.
        canvas_tokens: tokens behind the prompt that a full pass computes; None: the entry's. A
            method whose passes see no further than their block has no canvas beyond it.

    Returns:
        The entry with another `shape` and `refine`. `tokens_per_pass` is exact where the rule
        commits by number alone, and otherwise the entry's, within the block: a question under
        another policy states its own.

    Raises:
        InputError: a method that no policy stands for, or a block that does not divide the canvas.

    Example:
        >>> from costmodel.method_library import load_method
        >>> threshold = RefinePolicy(commit="threshold", at={"confidence": 0.8}, block_tokens=16, cache="none")
        >>> refine = refined_method(load_method("fast-dllm"), threshold).refine
        >>> refine.forward, refine.full_passes, refine.canvas_tokens
        ('full', 0, 256)
    """
    own, r, block = method_policy(method), refine_of(method), policy.block_tokens
    canvas = (
        block
        if r.canvas_tokens <= method.shape.nodes
        else canvas_tokens or max(r.canvas_tokens, block)
    )
    policy.check_canvas(canvas)
    commit: Any = policy.commit  # every rule of a policy is one of `Refine`
    changed = replace(
        r if policy.cache == own.cache else _cached(r, policy.cache, renews=own.cache == "none"),
        commit=commit,
        canvas_tokens=canvas,
        reuses=0,
        copies=_copies(r, policy),
        tokens_per_pass=_tokens_per_pass(r, policy),
    )
    return replace(method, shape=Shape(kind="block", nodes=block), refine=changed)


def _cached(r: Refine, cache: Cache, *, renews: bool) -> Refine:
    """The passes of an entry under another cache than its own."""
    if cache == "none":
        return replace(
            r,
            forward="full",
            full_passes=0,
            full_every=0,
            canvas_every=0,
            computed_ratio=1.0,
            stores_along=False,
            closing_passes=0,
        )
    return replace(r, forward=_FORWARD[cache], full_passes=1 if renews else r.full_passes)


def _copies(r: Refine, policy: RefinePolicy) -> int:
    """Sequences of a pass: the drafts that are confirmed together, or the entry's."""
    if policy.commit == "self_verified":
        return int(policy.at["drafts"])
    return 1 if r.commit == "self_verified" else r.copies


def _tokens_per_pass(r: Refine, policy: RefinePolicy) -> float:
    passes = closed_form_passes(policy, policy.block_tokens)
    return (
        policy.block_tokens / passes
        if passes is not None
        else min(r.tokens_per_pass, float(policy.block_tokens))
    )
