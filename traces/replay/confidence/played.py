"""What do policies do on recorded prompts, and how much of the text do they share with one token a
pass?

Recordings of one cache answer for policies of that cache. What was replayed is kept with them, so
that another device, model or batch changes costs alone. Leaves out costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hardware_profiles.errors import InputError
from traces.kinds.confidence import ConfidenceTrace
from traces.kinds.refine_policy import Cache, RefinePolicy
from traces.replay.bootstrap import RequestDraws, drawn_ratios, request_draws
from traces.replay.confidence.anchors import Anchors, pooled
from traces.replay.confidence.grid import replay_policies
from traces.replay.confidence.walk import RefineReplay

MOST_PLAYED = 4096  # kept with recordings
_DRAWS = 400


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Played:
    """What one policy does on recorded prompts.

    Args:
        replay: of the policy.
        agreement: share of canvas positions that hold the token which one token a pass puts there,
            mean over prompts; None: unknown, since nothing was recorded one token a pass.
        agreement_bounds: its bounds, with the 80 % interval over prompts of each.
    """

    replay: RefineReplay
    agreement: float | None = None
    agreement_bounds: tuple[float, float] | None = None

    @property
    def policy(self) -> RefinePolicy:
        """Which policy."""
        return self.replay.policy


@dataclass(frozen=True, kw_only=True, slots=True)
class Unplayed:
    """A policy that cannot be answered for, and why."""

    policy: RefinePolicy
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RecordedPrompts:
    """Confidence traces of one model and cache, and what was replayed on them.

    Args:
        anchors: their states.
        cache: that they were recorded with.
        files: of the traces that came from files.
    """

    anchors: Anchors
    cache: Cache
    files: tuple[str, ...] = ()
    _played: dict[tuple[RefinePolicy, int], Played | Unplayed] = field(
        default_factory=dict, repr=False
    )

    def played(self, policies: Sequence[RefinePolicy], seed: int) -> list[Played | Unplayed]:
        """What policies do on the prompts, in their order.

        Args:
            policies: of this cache.
            seed: of the bootstrap over prompts.
        """
        missing = [policy for policy in policies if (policy, seed) not in self._played]
        if missing:
            if len(self._played) >= MOST_PLAYED:
                self._played.clear()
                missing = list(policies)
            replays = replay_policies(self.anchors, missing)
            draws = request_draws(
                self.anchors.prompt_kinds, generator=np.random.default_rng(seed), draws=_DRAWS
            )
            self._played.update(
                ((policy, seed), _played(policy, replay, draws))
                for policy, replay in zip(missing, replays, strict=True)
            )
        return [self._played[policy, seed] for policy in policies]


def recorded_prompts(traces: Sequence[ConfidenceTrace]) -> list[RecordedPrompts]:
    """Recordings pooled by the cache that they were recorded with, in the order of the first of
    each.

    Raises:
        InputError: no trace, traces of several models or canvases, or as `pooled`.
    """
    if not traces:
        raise InputError("must be one confidence trace at least", key="trace")
    groups: dict[Cache, list[ConfidenceTrace]] = {}
    for trace in traces:
        if trace.canvas_tokens != traces[0].canvas_tokens:
            raise InputError(
                f"must be {traces[0].canvas_tokens}, as in {traces[0].file or 'the first trace'}",
                file=trace.file,
                key="canvas_tokens",
                value=trace.canvas_tokens,
            )
        groups.setdefault(trace.policies[0].cache, []).append(trace)
    return [
        RecordedPrompts(
            anchors=pooled(group),
            cache=cache,
            files=tuple(trace.file for trace in group if trace.file is not None),
        )
        for cache, group in groups.items()
    ]


def _played(
    policy: RefinePolicy, replay: RefineReplay | InputError, draws: RequestDraws
) -> Played | Unplayed:
    if isinstance(replay, InputError):
        return Unplayed(policy=policy, reason=str(replay))
    shares = replay.agreement
    if np.isnan(shares.mean):
        return Played(replay=replay)
    low, high = (
        float(np.quantile(drawn_ratios(bound, np.ones(bound.size), draws, bounds=(0.0, 1.0)), q))
        for bound, q in ((shares.lower, 0.1), (shares.upper, 0.9))
    )
    return Played(replay=replay, agreement=shares.mean, agreement_bounds=(low, high))
