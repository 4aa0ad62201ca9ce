"""How far is replay from live decoding by policies that no anchor followed?

Live runs of the anchors' own prompts are compared prompt by prompt; live runs of other prompts,
which gave no anchor, in the mean alone. Leaves out how live runs are made
(`real_runs.recording.masked`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.confidence import ConfidenceTrace
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.anchors import Anchors, pooled
from traces.replay.confidence.walk import How, replay_policy


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayError:
    """Replay of one policy beside live decoding.

    Attributes:
        policy: which.
        how: what the replay rests on.
        prompts: live runs.
        live_steps: passes of them, mean.
        signed: replayed over live passes, both summed, less 1.
        per_prompt: mean over prompts of |replayed - live| / live; None where the prompts are
            others.
        covered: share of prompts whose live passes lie in the replay's interval; None where the
            prompts are others.
        is_beyond_anchors: it commits more a pass than any anchor.
        spread: standard error of `signed` that the choice of prompts makes: of paired runs where
            the prompts are the same, of two independent samples where they are others.
    """

    policy: RefinePolicy
    how: How
    prompts: int
    live_steps: float
    signed: float
    per_prompt: float | None
    covered: float | None
    spread: float
    is_beyond_anchors: bool


def replay_errors(
    anchors: Anchors | ConfidenceTrace, live: ConfidenceTrace
) -> tuple[ReplayError, ...]:
    """Errors of replay by policy, in the order of `live.policies`.

    Args:
        anchors: recordings.
        live: runs of policies to be replayed, all over the anchors' prompts, or all over others.

    Raises:
        InputError: some prompts are the anchors' and some are not, a policy that no live run
            followed, or one that cannot be replayed.
    """
    states = anchors if isinstance(anchors, Anchors) else pooled(anchors)
    shared = set(live.request_ids) & set(states.prompts)
    if shared and shared != set(live.request_ids):
        raise InputError(
            "must be all among the anchors' prompts, or none", key="request_ids", file=live.file
        )
    return tuple(
        _error(states, live, place, same=bool(shared)) for place in range(len(live.policies))
    )


def _error(states: Anchors, live: ConfidenceTrace, place: int, *, same: bool) -> ReplayError:
    policy, runs = live.policies[place], np.flatnonzero(live.policy_of_run == place)
    steps = live.steps[runs].astype(np.float64)
    if not steps.sum():
        raise InputError(
            "must have a live run that took a pass",
            file=live.file,
            key="policies",
            value=policy.name,
        )
    replay = replay_policy(states, policy, interval=same)
    if not same:
        ratio = replay.steps.mean() / steps.mean()
        parts = [_relative_error(values) for values in (replay.steps.astype(np.float64), steps)]
        return ReplayError(
            policy=policy,
            how=replay.how,
            prompts=len(runs),
            live_steps=float(steps.mean()),
            signed=float(ratio - 1),
            per_prompt=None,
            covered=None,
            spread=float(ratio * math.hypot(*parts)),
            is_beyond_anchors=replay.is_beyond_anchors,
        )
    at = _places(replay.prompts, [live.request_ids[run] for run in runs])
    replayed, lower, upper = replay.steps[at], replay.lower[at], replay.upper[at]
    return ReplayError(
        policy=policy,
        how=replay.how,
        prompts=len(runs),
        live_steps=float(steps.mean()),
        signed=float(replayed.sum() / steps.sum() - 1),
        per_prompt=float((np.abs(replayed - steps) / steps).mean()),
        covered=float(((lower <= steps) & (steps <= upper)).mean()),
        spread=_paired_error(replayed, steps),
        is_beyond_anchors=replay.is_beyond_anchors,
    )


def _paired_error(replayed: NDArray[np.int64], live: NDArray[np.float64]) -> float:
    """Standard error of the ratio of sums of the same prompts."""
    off = replayed - replayed.sum() / live.sum() * live
    return float(off.std(ddof=1) / np.sqrt(len(live)) / live.mean()) if len(live) > 1 else 0.0


def _relative_error(values: NDArray[np.float64]) -> float:
    """Standard error of a mean, relative to it."""
    return (
        float(values.std(ddof=1) / np.sqrt(len(values)) / values.mean()) if len(values) > 1 else 0.0
    )


def _places(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    place = {name: at for at, name in enumerate(names)}
    return [place[name] for name in wanted]
