"""How many tokens does a step emit whose draft is the one that was recorded, and no other is known?

Recordings of a method's own tree: an engine's counts of it, or the lengths of its steps. Leaves out
recordings whose positions tell of any draft (`costmodel.laws.acceptance.recorded`).
"""

from dataclasses import replace

from costmodel.laws.acceptance import Acceptance, from_replay, stated
from costmodel.laws.claims import tokens_claim
from costmodel.method import Method
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.provenance import POLICY_KEY
from traces.replay.bootstrap import RequestDraws
from traces.replay.counted import (
    counts_requests,
    recorded_steps,
    recorded_tree,
    repeat_variance,
    widened,
)

OWN_TREE = "own"
"""What `Acceptance.tree_source` says of a tree that a recording names as the one it drafted."""


def holds_own_draft(method: Method, trace: AcceptanceTrace) -> bool:
    """Whether a recording tells of the method's own tree alone: one that it names, or one that
    every step made anew.
    """
    if trace.level == 0:
        return recorded_tree(trace) is not None
    own = method.shape
    policy = trace.provenance.extra.get(POLICY_KEY)
    return own.kind == "static_tree" and policy is not None and policy == own.nodes


def own_draft(method: Method, trace: AcceptanceTrace, draws: RequestDraws | None) -> Acceptance:
    """What the recorded draft emits, with the spread over requests and between runs.

    Args:
        method: the entry, whose tree it is.
        trace: of which `holds_own_draft`.
        draws: of its requests; None: no samples.

    Raises:
        InputError: counts that contradict each other, or more tokens than the tree can emit.
    """
    tree = recorded_tree(trace)
    if tree is not None and not counts_requests(trace):
        mean = None if trace.summary is None else trace.summary.tokens_per_step
        if mean is None:
            raise InputError("holds no acceptance", file=trace.file, key="summary")
        return replace(stated(mean, tree), tree_source=OWN_TREE)
    steps = recorded_steps(trace)
    if tree is not None:
        stated(steps.tokens_per_step, tree)  # refuses more than the tree can emit
    replayed = from_replay(steps, draws, tree, tree_source=OWN_TREE if tree else "")
    if draws is not None:
        samples = widened(replayed.samples, replayed.tokens_per_step, repeat_variance(trace))
        replayed = replace(replayed, samples=samples)
    if tree is not None:
        return replayed
    claim = tokens_claim(method, replayed.tokens_per_step)
    anew = replace(method.shape, kind="dynamic_tree")
    return replace(claim, shape=anew, samples=replayed.samples)
