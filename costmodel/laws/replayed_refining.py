"""How many tokens does a pass commit on recorded prompts, under a method's own commit rule?

From a method's `Refine` to the policy that a confidence trace is replayed by: its rule with the thresholds of the code
that it was read from, its block, and the cache that its passes leave. Leaves out rules that need more than such a
trace holds, and what passes cost (`costmodel.answers.refine_step`).
"""

from collections.abc import Mapping, Sequence

from costmodel.laws.refining import refine_of
from costmodel.method import Method
from hardware_profiles.errors import InputError
from traces.kinds.confidence import ConfidenceTrace
from traces.kinds.refine_policy import COMMIT_RULES, Cache, RefinePolicy
from traces.replay.confidence.walk import RefineReplay, replay_policy

_OF_SLUG = {"set-block-decoding": "entropy_bound", "prophet": "gap", "bacd": "running_mean"}
"""Rules that are told from their neighbours of the same `Refine.commit` by the system alone."""
_CACHE: Mapping[str, Cache] = {"full": "none", "suffix": "prefix", "block": "dual"}


def method_policy(method: Method) -> RefinePolicy:
    """The policy of an entry that refines blocks.

    Raises:
        InputError: a method that refines nothing, or whose rule or passes no confidence trace can play.

    Example:
        >>> from costmodel.method_library import load_method
        >>> method_policy(load_method("fast-dllm")).name
        'threshold confidence=0.9 block=32 cache=dual'
    """
    r = refine_of(method)
    rule = _OF_SLUG.get(method.slug, r.commit)
    if rule not in COMMIT_RULES:
        raise InputError(f"commits by a rule ({r.commit}) that needs more than a confidence trace holds", key="method",
                         value=method.slug)  # fmt: skip
    if r.forward not in _CACHE or r.begin_ratio < 1.0:
        raise InputError("computes passes that no confidence trace is recorded with", key="method", value=method.slug)
    return RefinePolicy(commit=rule, block_tokens=method.shape.nodes, cache=_CACHE[r.forward])


def replayed_refining(method: Method, traces: ConfidenceTrace | Sequence[ConfidenceTrace]) -> RefineReplay:
    """The prompts of confidence traces, decoded again by a method.

    Args:
        method: an entry that refines blocks.
        traces: of one model and one way of caching.

    Raises:
        InputError: a method that cannot be replayed, or traces that cannot answer for it.
    """
    return replay_policy(traces, method_policy(method))
