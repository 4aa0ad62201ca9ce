"""What did the recorded steps themselves emit, and how far apart are runs of the same prompts?

Of a recording that holds the steps of one draft alone: counters per request, or positions under one
policy. Leaves out every other draft, of which such a recording says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.naming import naming
from traces.kinds.provenance import POLICY_KEY, REPEATS_KEY, TREE_KEY
from traces.kinds.step_counts import NEW_TOKENS, STEPS
from traces.kinds.tree import Tree
from traces.replay.walk import Replay, replay_chain


def recorded_tree(trace: AcceptanceTrace) -> Tree | None:
    """The static tree that every recorded step drafted; None where the recording names none.

    Raises:
        InputError: paths that make no tree.
    """
    paths = trace.provenance.extra.get(TREE_KEY)
    if paths is None:
        return None
    with naming(trace.file):
        if not isinstance(paths, list) or not all(isinstance(path, list) for path in paths):
            raise InputError("must be a list of rank paths", key=f"provenance.extra.{TREE_KEY}")
        return Tree.from_paths(paths)


def counts_requests(trace: AcceptanceTrace) -> bool:
    """Whether a recording without positions counts the steps and the tokens of every request."""
    return trace.level == 0 and {STEPS, NEW_TOKENS} <= trace.extra_columns.keys()


def recorded_steps(trace: AcceptanceTrace) -> Replay:
    """The steps that were recorded, by request.

    Args:
        trace: whose requests are counted, or whose positions are of one policy.

    Raises:
        InputError: neither, or counts that contradict each other.
    """
    if trace.level >= 1:
        policy = trace.provenance.extra.get(POLICY_KEY)
        if policy is None:
            raise InputError("must be of one policy", file=trace.file, key=POLICY_KEY)
        return replay_chain(trace, policy)
    if not counts_requests(trace):
        raise InputError("must count the steps of every request", file=trace.file, key=STEPS)
    steps, tokens = (_counts(trace, name) for name in (STEPS, NEW_TOKENS))
    summary = trace.summary
    assert summary is not None
    pooled = (int(steps.sum()), int(tokens.sum()))
    if pooled != (summary.drafts, summary.drafts + summary.accepted_tokens):
        rule = "must add up to the summary's drafts and tokens"
        raise InputError(rule, file=trace.file, key=f"{STEPS}, {NEW_TOKENS}", value=pooled)
    tree = recorded_tree(trace)
    draft_tokens = (summary.draft_levels or 0) if tree is None else tree.draft_tokens
    return Replay(
        draft_tokens=draft_tokens,
        tokens=tokens,
        steps=steps,
        proposed_steps=steps,
        drafted_tokens=steps * draft_tokens,
    )


def repeat_variance(trace: AcceptanceTrace) -> float:
    """Variance of the tokens per step of another run of the same prompts about this recording's.

    Of n runs with means m it is Σ(m - mean)² / (n - 1): that of one run. Greedy decoding on one
    machine repeats itself to the token, and then it is 0.

    Raises:
        InputError: runs that are no list of counts.
    """
    runs = trace.provenance.extra.get(REPEATS_KEY)
    if runs is None:
        return 0.0
    return _variance([tokens / steps for tokens, steps in _runs(trace, runs)])


def widened(drawn: NDArray[np.float64], ratio: float, variance: float) -> NDArray[np.float64]:
    """Draws of a ratio with the variance between runs added to that over requests.

    Deviations from the ratio are stretched by sqrt(1 + between / over), so that variances add.

    Example:
        >>> widened(np.array([1.9, 2.0, 2.1]), 2.0, 0.02).round(3).tolist()
        [1.8, 2.0, 2.2]

    Args:
        drawn: over requests, float64[draws].
        ratio: that they were drawn about.
        variance: between runs, >= 0.
    """
    over = float(np.mean((drawn - ratio) ** 2))
    if not over or not variance:
        return drawn
    stretched: NDArray[np.float64] = ratio + (drawn - ratio) * np.sqrt(1.0 + variance / over)
    return np.maximum(stretched, 1.0)


def _runs(trace: AcceptanceTrace, runs: object) -> list[tuple[int, int]]:
    """Tokens and steps of every run."""
    key = f"provenance.extra.{REPEATS_KEY}"
    if not isinstance(runs, list) or len(runs) < 2 or not all(isinstance(r, Mapping) for r in runs):
        raise InputError("must list two runs or more", file=trace.file, key=key)
    counted = [(run.get(NEW_TOKENS), run.get(STEPS)) for run in runs]
    if not all(type(n) is int and n > 0 for pair in counted for n in pair):
        raise InputError("must count steps and new_tokens of every run", file=trace.file, key=key)
    return counted


def _variance(values: Sequence[float]) -> float:
    if all(a == b for a, b in pairwise(values)):
        return 0.0  # to the token, not to what rounding leaves
    return float(np.var(values, ddof=1))


def _counts(trace: AcceptanceTrace, name: str) -> NDArray[np.int64]:
    values = trace.extra_columns[name]
    if not all(type(value) is int and value >= 0 for value in values):
        raise InputError("must be whole numbers >= 0", file=trace.file, key=name)
    return np.asarray(values, dtype=np.int64)
