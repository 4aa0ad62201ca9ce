"""The search over policies of masked decoding as rows: choices, alternatives, and the twin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from app.answers.breakeven.paying import paying_row
from app.answers.masked.rows import MaskedPolicy, PayingPolicy, PricedPolicy, UnmetFloor
from costmodel.answers.estimate import estimate, intervals
from costmodel.answers.refine_breakeven import needed_pace
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.own_pace import own_pace
from costmodel.optimizers.refining.search import PolicyPoint, RefiningSearch


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchedPolicies:
    """What a search found on one model, device and engine.

    Attributes:
        choices: the fastest policy that meets the floor at every batch and context.
        alternatives: all others.
        unmet: batches and contexts where none does.
    """

    choices: Sequence[PricedPolicy]
    alternatives: Sequence[MaskedPolicy]
    unmet: Sequence[UnmetFloor]


def searched_policies(
    search: RefiningSearch, traces: Mapping[str, str | None], seed: int
) -> SearchedPolicies:
    """The rows of a search.

    Args:
        search: of one model, device and engine.
        traces: name of the recording by cache; None where a cache has several.
        seed: of the intervals.
    """
    choices: list[PricedPolicy] = []
    alternatives: list[MaskedPolicy] = []
    unmet: list[UnmetFloor] = []
    for batch, context in _places(search):
        points = search.at(batch, context)
        if points[0].meets:
            choices.append(_priced(points[0], traces, seed))
        else:
            unmet.append(_unmet(points, search.floor))
        rest = points[1:] if points[0].meets else points
        alternatives += [
            _priced(point, traces, seed) if point.on_front else _policy(point) for point in rest
        ]
    return SearchedPolicies(choices=choices, alternatives=alternatives, unmet=unmet)


def paying_policies(search: RefiningSearch, seed: int) -> list[PayingPolicy]:
    """At which batches the policies that were chosen beat the autoregressive twin, by policy and
    context.
    """
    rows: dict[tuple[str, int], PayingPolicy] = {}
    for batch, context in _places(search):
        point = search.winner(batch, context)
        if point is None or (point.played.policy.name, context) in rows:
            continue
        setting, replay = point.setting, point.played.replay
        assert setting is not None and replay is not None
        rows[point.played.policy.name, context] = paying_row(
            PayingPolicy,
            setting,
            own_pace(setting.drafter.method, replay.tokens_per_step),
            context=context,
            seed=seed,
            **_names(point),
            policy=point.played.policy.name,
            tokens_per_step=replay.tokens_per_step,
        )
    return list(rows.values())


def _places(search: RefiningSearch) -> list[tuple[int, int]]:
    return list(dict.fromkeys((point.batch, point.context) for point in search.points))


def _names(point: PolicyPoint) -> dict[str, Any]:
    where = point.configuration.deployment
    return {"model": where.model, "device": where.device, "engine": where.engine}


def _policy(point: PolicyPoint) -> MaskedPolicy:
    policy, replay = point.played.policy, point.played.replay
    row = MaskedPolicy(
        **_names(point),
        feasible=point.answered,
        batch=point.batch,
        context=point.context,
        method=point.configuration.method,
        policy=policy.name,
        commit=policy.commit,
        at=dict(policy.at),
        block_tokens=policy.block_tokens,
        cache=policy.cache,
        reason=point.reason or None,
        agreement=point.played.agreement,
        agreement_interval=point.played.agreement_bounds,
    )
    if replay is not None:
        row = replace(
            row,
            tokens_per_step=replay.tokens_per_step,
            tokens_per_step_interval=replay.tokens_per_step_interval,
            how=replay.how,
            beyond_anchors=replay.is_beyond_anchors,
        )
    if not point.answered:
        return row
    return replace(
        row,
        meets_floor=point.meets,
        on_front=point.on_front,
        step_s=point.step_s,
        tokens_per_s=point.tokens_per_s,
        twin_tokens_per_s=point.twin_tokens_per_s,
        speedup=point.speedup,
    )


def _priced(point: PolicyPoint, traces: Mapping[str, str | None], seed: int) -> PricedPolicy:
    """A row with intervals of the cost model, the pace at which the twin is met, and what to
    run.
    """
    setting, replay, row = point.setting, point.played.replay, _policy(point)
    assert setting is not None and replay is not None
    pace = own_pace(setting.drafter.method, replay.tokens_per_step)
    result = estimate(setting, pace, batch=point.batch, context=point.context)
    spread = intervals(setting, result, batch=point.batch, generator=np.random.default_rng(seed))
    needed = needed_pace(
        setting, batch=point.batch, context=point.context, generator=np.random.default_rng(seed)
    )
    return PricedPolicy(
        **{part.name: getattr(row, part.name) for part in fields(row)},
        step_s_interval=_pair(spread.step_s),
        tokens_per_s_interval=_pair(spread.tokens_per_s),
        speedup_interval=_pair(spread.speedup),
        limit=str(result.step.limit),
        needed_tokens_per_step=needed.tokens_per_pass,
        needed_tokens_per_step_interval=needed.bounds,
        configuration=_configuration(point, traces).to_json(),
    )


def _configuration(point: PolicyPoint, traces: Mapping[str, str | None]) -> DecodingConfiguration:
    chosen, played = point.configuration, point.played
    provenance = {
        "device": chosen.deployment.device,
        "agreement": played.agreement,
        "acceptance": "replayed confidence",
        "tokens_per_step": chosen.tokens_per_step,
        "speedup": round(point.speedup, 3),
    }
    return replace(chosen, trace=traces.get(played.policy.cache), provenance=provenance)


def _unmet(points: Sequence[PolicyPoint], floor: float) -> UnmetFloor:
    """Why nothing is chosen at a batch and context, with the most that was reached."""
    first = points[0]
    agreements = [
        point.played.agreement
        for point in points
        if point.answered and point.played.agreement is not None
    ]
    if agreements:
        reason = f"no policy agrees on {floor:.1%} of the tokens; at most {max(agreements):.1%}"
    elif any(point.answered for point in points):
        reason = "agreement is unknown: no trace holds a run of one token a pass"
    else:
        reason = first.reason
    return UnmetFloor(
        **_names(first),
        batch=first.batch,
        context=first.context,
        misses="quality" if agreements else "memory",
        reason=reason,
        nearest=[],
    )


def _pair(bounds: tuple[Any, Any]) -> tuple[float, float]:
    low, high = bounds
    return float(low), float(high)
