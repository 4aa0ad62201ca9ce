"""The search over policies of masked decoding as JSON: choices, alternatives, the Pareto front, and
the twin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from costmodel.configuration import DecodingConfiguration
    from costmodel.optimizers.refining.search import PolicyPoint, RefiningSearch

Json = dict[str, Any]


def search_rows(search: RefiningSearch, traces: Mapping[str, str | None], seed: int) -> Json:
    """What `optimize` says of a method that refines masked blocks on one model, device and engine.

    Args:
        search: what was found.
        traces: name of the recording by cache; None where a cache has several.
        seed: of the intervals.

    Returns:
        `choices`: the fastest policy that meets the floor at every batch and context;
            `alternatives`: all others, and
        `unmet`: batches and contexts where nothing does.
    """
    choices, alternatives, unmet = [], [], []
    for batch, context in dict.fromkeys((point.batch, point.context) for point in search.points):
        points = search.at(batch, context)
        if points[0].meets:
            choices.append(_choice(points[0], traces, seed))
        else:
            unmet.append(_unmet(points, search.floor))
        rest = points[1:] if points[0].meets else points
        alternatives += [
            _choice(each, traces, seed) if each.on_front else _row(each) for each in rest
        ]
    return {"choices": choices, "alternatives": alternatives, "unmet": unmet}


def _row(point: PolicyPoint) -> Json:
    where, policy, replay = point.configuration.deployment, point.played.policy, point.played.replay
    row: Json = {
        "model": where.model,
        "device": where.device,
        "engine": where.engine,
        "feasible": point.answered,
        "batch": point.batch,
        "context": point.context,
        "method": point.configuration.method,
        "topology": "block",
        "policy": policy.name,
        "commit": policy.commit,
        "at": dict(policy.at),
        "block_tokens": policy.block_tokens,
        "cache": policy.cache,
        "reason": point.reason or None,
    }
    if replay is not None:
        row |= {
            "tokens_per_step": replay.tokens_per_step,
            "tokens_per_step_interval": list(replay.tokens_per_step_interval),
            "how": replay.how,
            "beyond_anchors": replay.is_beyond_anchors,
            "agreement": point.played.agreement,
            "agreement_interval": point.played.agreement_bounds
            and list(point.played.agreement_bounds),
        }
    if point.answered:
        row |= {
            "meets_floor": point.meets,
            "on_front": point.on_front,
            "step_s": point.step_s,
            "tokens_per_s": point.tokens_per_s,
            "twin_tokens_per_s": point.twin_tokens_per_s,
            "speedup": point.speedup,
        }
    return row


def _choice(point: PolicyPoint, traces: Mapping[str, str | None], seed: int) -> Json:
    """A row with intervals of the cost model, the pace at which the twin is met, and what to
    run.
    """
    from costmodel.answers.estimate import estimate, intervals
    from costmodel.answers.refine_breakeven import needed_pace
    from costmodel.laws.own_pace import own_pace

    setting, replay = point.setting, point.played.replay
    assert setting is not None and replay is not None
    pace = own_pace(setting.drafter.method, replay.tokens_per_step)
    result = estimate(setting, pace, batch=point.batch, context=point.context)
    spread = intervals(setting, result, batch=point.batch, generator=np.random.default_rng(seed))
    needed = needed_pace(
        setting, batch=point.batch, context=point.context, generator=np.random.default_rng(seed)
    )
    return _row(point) | {
        "step_s_interval": _pair(spread.step_s),
        "tokens_per_s_interval": _pair(spread.tokens_per_s),
        "speedup_interval": _pair(spread.speedup),
        "limit": str(result.step.limit),
        "needed_tokens_per_step": needed.tokens_per_pass,
        "needed_tokens_per_step_interval": needed.bounds and list(needed.bounds),
        "configuration": _configuration(point, traces).to_json(),
    }


def _configuration(point: PolicyPoint, traces: Mapping[str, str | None]) -> DecodingConfiguration:
    chosen, played = point.configuration, point.played
    trace = traces.get(played.policy.cache)
    provenance = {
        "device": chosen.deployment.device,
        "agreement": played.agreement,
        "acceptance": "replayed confidence",
        "tokens_per_step": chosen.tokens_per_step,
        "speedup": round(point.speedup, 3),
    }
    return replace(chosen, trace=trace, provenance=provenance)


def _unmet(points: list[PolicyPoint], floor: float) -> Json:
    """Why nothing is chosen at a batch and context, with the most that was reached."""
    first, where = points[0], points[0].configuration.deployment
    able = [
        point.played.agreement
        for point in points
        if point.answered and point.played.agreement is not None
    ]
    if able:
        reason = f"no policy agrees on {floor:.1%} of the tokens; at most {max(able):.1%}"
    elif any(point.answered for point in points):
        reason = "agreement is unknown: no trace holds a run of one token a pass"
    else:
        reason = points[0].reason
    return {
        "model": where.model,
        "device": where.device,
        "engine": where.engine,
        "feasible": False,
        "batch": first.batch,
        "context": first.context,
        "misses": "quality" if able else "memory",
        "reason": reason,
        "nearest": [],
    }


def _pair(bounds: tuple[Any, Any]) -> list[float]:
    return [float(each) for each in bounds]


def paying_rows(search: RefiningSearch, seed: int) -> list[Json]:
    """At which batches the policies that were chosen beat the autoregressive twin, by policy and
    context.
    """
    from app.answers.explanations import paying_batches as as_json
    from costmodel.answers.breakeven import MOST_BATCH, paying_batches
    from costmodel.answers.fit import fits
    from costmodel.laws.own_pace import own_pace

    tried, rows = np.arange(1, MOST_BATCH + 1, dtype=np.float64), dict[tuple[str, int], Json]()
    for batch, context in dict.fromkeys((point.batch, point.context) for point in search.points):
        point = search.winner(batch, context)
        if point is None or (point.played.policy.name, context) in rows:
            continue
        setting, replay, where = point.setting, point.played.replay, point.configuration.deployment
        assert setting is not None and replay is not None
        pace = own_pace(setting.drafter.method, replay.tokens_per_step)
        largest = max(1, int(fits(setting, pace, batch=tried, context=context).sum()))
        generator = np.random.default_rng(seed)
        pays = paying_batches(setting, pace, context=context, largest=largest, generator=generator)
        rows[point.played.policy.name, context] = {
            "model": where.model,
            "device": where.device,
            "engine": where.engine,
            "policy": point.played.policy.name,
            "tokens_per_step": pace.tokens_per_step,
            **as_json(pays, pace.draft_tokens),
        }
    return list(rows.values())
