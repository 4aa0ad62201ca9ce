"""Which threshold, block and cache should a masked decoder run with, at a floor of quality?

Every policy is replayed on confidence traces and costed at every batch and context. Quality is
agreement with what one token a pass writes; speed is set beside the autoregressive twin, the same
model decoded token by token with a KV cache. Leaves out which policies are tried (`refining_grid`),
traffic, and what a text is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.answers.estimate import Setting, estimate
from costmodel.answers.fit import fits
from costmodel.answers.settings import build_setting
from costmodel.answers.steps.step import StepCost
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.own_pace import own_pace
from costmodel.passes.ops import Array
from hardware_profiles.errors import InfeasibleError, InputError
from traces.kinds.confidence import ConfidenceTrace
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.bootstrap import RequestDraws, drawn_ratios, request_draws
from traces.replay.confidence.anchors import Anchors, pooled
from traces.replay.confidence.grid import replay_policies
from traces.replay.confidence.walk import RefineReplay

QUALITY = (
    "share of canvas positions that hold the token which one token a pass puts there, mean over"
    " prompts"
)
ESTIMATED = (
    "of rules that were not recorded it is estimated, between what replay says, which is too much,"
    " and what the anchors say of replay's error (a small model's live passes were .05 off in the"
    " mean of fourteen rules, .11 at most; the form of the estimate was chosen on these): check a"
    " choice live, as `rooftree validate --method` does"
)
_DOES_NOT_FIT = "does not fit the memory"
_DRAWS = 400

Bounds = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """What one policy does on the recorded prompts.

    Args:
        policy: which.
        replay: of it; None where the recordings cannot answer.
        reason: why they cannot; empty where they do.
        agreement: mean over prompts; None: unknown, since nothing was recorded one token a pass.
        agreement_bounds: its bounds, with the 80 % interval over prompts of each.
    """

    policy: RefinePolicy
    replay: RefineReplay | None
    reason: str = ""
    agreement: float | None = None
    agreement_bounds: Bounds | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyPoint:
    """One policy at one batch and context.

    Args:
        played: what it does on the prompts.
        configuration: to run it.
        setting: its costs; None where it cannot be built.
        batch: requests.
        context: cached tokens per request before the canvas.
        reason: why there is no answer; empty where there is one.
        step_s: mean seconds of a pass, all passes billed to those that commit.
        tokens_per_s: of the whole batch.
        twin_tokens_per_s: of the same model decoded one token a pass with a KV cache.
        meets: its agreement reaches the floor.
        on_front: nothing at this batch and context is as fast and agrees more.
    """

    played: Played
    configuration: DecodingConfiguration
    setting: Setting | None
    batch: int
    context: int
    reason: str = ""
    step_s: float = float("nan")
    tokens_per_s: float = float("nan")
    twin_tokens_per_s: float = float("nan")
    meets: bool = False
    on_front: bool = False

    @property
    def answered(self) -> bool:
        """Whether there is a speed."""
        return not self.reason

    @property
    def speedup(self) -> float:
        """Tokens per second over those of the autoregressive twin."""
        return self.tokens_per_s / self.twin_tokens_per_s


@dataclass(frozen=True, kw_only=True, slots=True)
class RefiningSearch:
    """Answer of a search.

    Args:
        floor: least agreement.
        prompts: that were replayed, by the cache of their recording.
        canvas_tokens: of the recordings.
        points: every policy at every batch and context; within a batch and context those that meet
            the floor come first, fastest first, then the others, fastest first, then those without
            an answer.
    """

    floor: float
    prompts: Mapping[str, int]
    canvas_tokens: int
    points: Sequence[PolicyPoint]

    def at(self, batch: int, context: int) -> list[PolicyPoint]:
        """The points of a batch and context, in their order."""
        return [point for point in self.points if (point.batch, point.context) == (batch, context)]

    def winner(self, batch: int, context: int) -> PolicyPoint | None:
        """The fastest that meets the floor; None where nothing does."""
        first = self.at(batch, context)[0]
        return first if first.meets else None


def anchors_by_cache(traces: Sequence[ConfidenceTrace]) -> dict[str, Anchors]:
    """Recordings pooled by the cache that they were recorded with.

    Raises:
        InputError: no trace, traces of several models or canvases, or as `pooled`.
    """
    if not traces:
        raise InputError("must be one confidence trace at least", key="--trace")
    groups: dict[str, list[ConfidenceTrace]] = {}
    for trace in traces:
        if trace.canvas_tokens != traces[0].canvas_tokens:
            raise InputError(
                f"must be {traces[0].canvas_tokens}, as in {traces[0].file or 'the first trace'}",
                file=trace.file,
                key="canvas_tokens",
                value=trace.canvas_tokens,
            )
        groups.setdefault(trace.policies[0].cache, []).append(trace)
    return {cache: pooled(group) for cache, group in groups.items()}


def search_policies(
    question: DecodingConfiguration,
    recorded: Mapping[str, Anchors],
    policies: Sequence[RefinePolicy],
    *,
    batches: Sequence[int],
    contexts: Sequence[int],
    floor: float,
    seed: int = 0,
    played: Sequence[Played] | None = None,
    progress: Callable[[str], None] | None = None,
) -> RefiningSearch:
    """Replay and cost every policy.

    Args:
        question: deployment and method; its canvas is the recorded one where it states none.
        recorded: anchors by cache (`anchors_by_cache`).
        policies: to compare, one at least.
        batches: requests, >= 1.
        contexts: cached tokens per request before the canvas.
        floor: least agreement, 0 to 1.
        seed: of the bootstrap over prompts.
        played: what the policies do on the recordings (`played_policies`), in their order; None:
            they are replayed.
        progress: called with a line of text as work goes on.

    Raises:
        InputError: a floor out of range, no policy, or a single policy that cannot be answered for.
    """
    if not 0.0 <= floor <= 1.0:
        raise InputError("must lie in [0, 1]", key="--quality-floor", value=floor)
    if not policies:
        raise InputError("must be one policy at least", key="--commit")
    anchors = next(iter(recorded.values()))
    if progress and played is None:
        progress(f"replaying {len(policies)} policies")
    played = played_policies(recorded, policies, seed=seed) if played is None else played
    if len(played) == 1 and played[0].reason:
        raise InputError(played[0].reason)
    if progress:
        progress("costing")
    configuration = replace(
        question, canvas_tokens=question.canvas_tokens or anchors.canvas_tokens, trace=None
    )
    rows = _Costs(configuration, tuple(batches), tuple(contexts), floor)
    points = [point for policy_run in played for point in rows.points(policy_run)]
    ordered = [
        point
        for context in contexts
        for batch in batches
        for point in _ranked(
            [point for point in points if (point.batch, point.context) == (batch, context)]
        )
    ]
    prompts = {cache: len(anchors_of_cache.prompts) for cache, anchors_of_cache in recorded.items()}
    return RefiningSearch(
        floor=floor, prompts=prompts, canvas_tokens=anchors.canvas_tokens, points=ordered
    )


def played_policies(
    recorded: Mapping[str, Anchors], policies: Sequence[RefinePolicy], *, seed: int = 0
) -> list[Played]:
    """What policies do on recorded prompts, each on the recording of its cache.

    Args:
        recorded: anchors by cache.
        policies: which.
        seed: of the bootstrap over prompts.
    """
    by_policy: dict[RefinePolicy, Played] = {}
    for cache in dict.fromkeys(policy.cache for policy in policies):
        mine = [policy for policy in policies if policy.cache == cache]
        if cache not in recorded:
            reason = f"no trace was recorded with this cache; recorded: {', '.join(recorded)}"
            by_policy |= {
                policy: Played(policy=policy, replay=None, reason=f"cache: {reason}, got {cache!r}")
                for policy in mine
            }
            continue
        replays = replay_policies(recorded[cache], mine)
        draws = request_draws(
            recorded[cache].prompt_kinds, generator=np.random.default_rng(seed), draws=_DRAWS
        )
        by_policy |= {
            policy: _played(policy, replay, draws)
            for policy, replay in zip(mine, replays, strict=True)
        }
    return [by_policy[policy] for policy in policies]


def _played(policy: RefinePolicy, replay: RefineReplay | InputError, draws: RequestDraws) -> Played:
    if isinstance(replay, InputError):
        return Played(policy=policy, replay=None, reason=str(replay))
    shares = replay.agreement
    if np.isnan(shares.mean):
        return Played(policy=policy, replay=replay)
    low, high = (
        float(np.quantile(drawn_ratios(bound, np.ones(bound.size), draws, bounds=(0.0, 1.0)), q))
        for bound, q in ((shares.lower, 0.1), (shares.upper, 0.9))
    )
    return Played(policy=policy, replay=replay, agreement=shares.mean, agreement_bounds=(low, high))


class _Costs:
    """Speeds of policies over batches and contexts; what depends on rule, block and cache alone is
    built once.
    """

    def __init__(
        self,
        configuration: DecodingConfiguration,
        batches: tuple[int, ...],
        contexts: tuple[int, ...],
        floor: float,
    ) -> None:
        self._asked, self._batches, self._contexts, self._floor = (
            configuration,
            batches,
            contexts,
            floor,
        )
        self._grid = (
            np.array(batches, dtype=np.float64)[:, None],
            np.array(contexts, dtype=np.float64)[None, :],
        )
        self._built: dict[object, Setting] = {}
        self._fits: dict[object, Array] = {}
        self._plain: StepCost | None = None

    def points(self, played: Played) -> list[PolicyPoint]:
        """The policy at every batch and context."""
        if played.replay is None:
            return self._unanswered(played, self._asked, played.reason)
        try:
            chosen = replace(self._asked, refine=played.policy)
            setting = self._setting(chosen)
            pace = own_pace(setting.drafter.method, played.replay.tokens_per_step)
        except (InputError, InfeasibleError) as error:
            return self._unanswered(played, self._asked, str(error))
        b, c = self._grid
        result = estimate(setting, pace, batch=b, context=c, plain=self._plain)
        self._plain = result.plain
        key = self._key(played.policy)
        if key not in self._fits:
            self._fits[key] = np.broadcast_to(
                fits(setting, pace, batch=b, context=c), result.step_s.shape
            )
        meets = played.agreement is not None and played.agreement >= self._floor
        chosen = replace(chosen, tokens_per_step=pace.tokens_per_step)
        return [
            PolicyPoint(
                played=played,
                configuration=replace(chosen, batch=batch, context=context),
                setting=setting,
                batch=batch,
                context=context,
                reason="" if self._fits[key][row, column] else _DOES_NOT_FIT,
                step_s=float(result.step_s[row, column]),
                tokens_per_s=float(result.tokens_per_s[row, column]),
                twin_tokens_per_s=float(
                    result.tokens_per_s[row, column] / result.speedup[row, column]
                ),
                meets=meets and bool(self._fits[key][row, column]),
            )
            for column, context in enumerate(self._contexts)
            for row, batch in enumerate(self._batches)
        ]

    def _unanswered(
        self, played: Played, chosen: DecodingConfiguration, reason: str
    ) -> list[PolicyPoint]:
        return [
            PolicyPoint(
                played=played, configuration=chosen, setting=None, batch=b, context=c, reason=reason
            )
            for c in self._contexts
            for b in self._batches
        ]

    def _key(self, policy: RefinePolicy) -> tuple[object, ...]:
        return policy.commit, policy.block_tokens, policy.cache, policy.at.get("drafts")

    def _setting(self, chosen: DecodingConfiguration) -> Setting:
        assert chosen.refine is not None
        key = self._key(chosen.refine)
        if key not in self._built:
            self._built[key] = build_setting(chosen)
        return self._built[key]


def _ranked(points: Sequence[PolicyPoint]) -> list[PolicyPoint]:
    """The points of one batch and context in order, those on the Pareto front of speed and
    agreement marked.
    """
    able = sorted(
        (point for point in points if point.answered), key=lambda point: -point.tokens_per_s
    )
    best, marked = -1.0, []
    for point in able:
        agreement = point.played.agreement
        ahead = agreement is not None and agreement > best
        marked.append(replace(point, on_front=True) if ahead else point)
        best = max(best, agreement if agreement is not None else best)
    meeting, others = ([point for point in marked if point.meets is met] for met in (True, False))
    return [*meeting, *others, *(point for point in points if not point.answered)]
