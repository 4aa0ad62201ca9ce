"""Results as the JSON objects that the command line promises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from app.answers.drafting import drafting, topology_rows
from app.answers.neighbours import neighbourhood
from costmodel.answers.positions import context_remark
from costmodel.answers.uncertainty import dominant_terms, interval, term_source
from costmodel.draft_shape import shape_of

if TYPE_CHECKING:  # what searches and simulates would double the time until other verbs answer
    from costmodel.answers.estimate import Estimate, Intervals, Setting
    from costmodel.answers.workload import Limits
    from costmodel.configuration import DecodingConfiguration
    from costmodel.engines.record.overhead import Overhead
    from costmodel.laws.acceptance import Acceptance
    from costmodel.optimizers.allowed import Unmet
    from costmodel.optimizers.drafters.sources import Source
    from costmodel.optimizers.recommend import Recommendation
    from costmodel.optimizers.search import Cell, Choice
    from hardware_profiles.profile import Device
    from simulator.closed_loop.table_rows import RowAnswer
    from traces.kinds.acceptance import AcceptanceTrace
    from traces.kinds.tree import Tree

Json = dict[str, Any]


def recommendation(
    answer: Recommendation,
    inputs: Json,
    exports: Mapping[str, Any],
    unmet: Sequence[Mapping[str, Any]] = (),
) -> Json:
    """The answer of `optimize`.

    Args:
        answer: what was found.
        inputs: what was asked.
        exports: paths of files by engine.
        unmet: rows of the batches and contexts at which nothing is allowed.
    """
    from costmodel.optimizers.neighbours import neighbourhoods

    first = answer.winners[0]
    schedules = schedule_rows(answer)
    mine = (answer.names[first.contender.source], first.context)
    main = next((s for s in schedules if (s["drafter"], s["context"]) == mine), None)
    around, picked = neighbourhoods(answer.contenders, answer.optimum), ranked(answer)
    return {
        "inputs": inputs,
        "cells": [
            cell(each, answer) | neighbourhood(beside, answer.names)
            for each, beside in zip(answer.optimum.cells, around, strict=True)
        ],
        "choices": picked["choices"],
        "alternatives": picked["alternatives"],
        "schedule": main["schedule"] if main else [],
        "schedule_loss_ratio": main["schedule_loss_ratio"] if main else 0.0,
        "schedules": schedules,
        "context_schedules": _context_schedules(answer),
        "dropped_batches": list(answer.optimum.dropped_batches),
        "unmet": [dict(row) for row in unmet],
        "drafters": picked["drafters"],
        "curves": picked["curves"],
        "by_topology": topology_rows(answer.optimum.by_topology, answer.names),
        "exports": dict(exports),
    }


def ranked(answer: Recommendation) -> Json:
    """What charts and the headline read of the answer of `optimize`: choices, their drafters, and
    tokens per step.
    """
    return {
        "choices": [choice(best, answer) for best, *_ in answer.optimum.ranked],
        "alternatives": [
            choice(other, answer) for _, *others in answer.optimum.ranked for other in others
        ],
        "drafters": [source(s, name) for s, name in zip(answer.sources, answer.names, strict=True)],
        "curves": curves(answer),
    }


def schedule_rows(answer: Recommendation, *, source: int | None = None) -> list[Json]:
    """The schedules of the answer of `optimize`.

    Args:
        answer: what was found.
        source: of one drafter, by its index; None: of all.
    """
    return [
        {
            "drafter": answer.names[s.source],
            "method": s.method,
            "context": s.context,
            "schedule": s.schedule.to_json(),
            "schedule_loss_ratio": s.schedule.loss_ratio,
            "schedule_worst_loss_ratio": s.schedule.worst_loss_ratio,
            "configuration": s.configuration.to_json(),
        }
        for s in answer.optimum.schedules
        if source is None or s.source == source
    ]


def _context_schedules(answer: Recommendation) -> list[Json]:
    """One schedule for all contexts a drafter; empty where one context was asked about."""
    from costmodel.optimizers.context_schedules import context_schedules

    return [
        {
            "drafter": answer.names[each.source],
            "method": each.configuration.method,
            "schedule": each.schedule.to_json(),
            "schedule_loss_ratio": each.schedule.loss_ratio,
            "contexts": [
                {"context": context, "loss_ratio": lost, "own_schedule_loss_ratio": own}
                for context, (lost, own) in each.losses.items()
            ],
            "configuration": each.configuration.to_json(),
        }
        for each in context_schedules(answer.contenders, answer.optimum)
    ]


def choice(picked: Choice, answer: Recommendation) -> Json:
    """One ranked configuration."""
    a, result, where = picked.acceptance, picked.result, picked.configuration.deployment
    return {
        "model": where.model,
        "device": where.device,
        "engine": where.engine,
        "feasible": True,
        "batch": picked.batch,
        "context": picked.context,
        "drafter": answer.names[picked.contender.source],
        "method": picked.contender.method,
        "topology": picked.topology,
        "draft": str(shape_of(a)),
        "draft_tokens": a.draft_tokens,
        "tree": tree(a.tree) if a.tree is not None else None,
        "tree_source": a.tree_source or None,
        **drafting(a),
        "tokens_per_step": a.tokens_per_step,
        "proposal_ratio": a.proposal_ratio,
        "rule": a.rule or None,
        "remark": "; ".join(
            filter(
                None, (a.remark, context_remark(picked.contender.setting.target, picked.context))
            )
        ),
        "exit_layers": picked.configuration.exit_layers,
        **point(result, picked.intervals),
        "limit": str(result.step.limit),
        "breakdown_s": breakdown(result),
        "provenance": provenance(picked.contender.setting, result, answer.source(picked)),
        "configuration": answer.configuration(picked).to_json(),
    }


def unmet_rows(unmet: Sequence[Unmet], limits: Limits) -> list[Json]:
    """Batches and contexts at which nothing is allowed, each with the nearest changes that were
    tried and do.
    """
    from app.answers.feasible import nearest_changes
    from costmodel.answers.workload import Limits
    from costmodel.optimizers.allowed import meets

    rows = []
    for each in unmet:
        asked, where = each.contender.configuration, each.contender.configuration.deployment

        free = limits == Limits()
        tried = (
            [each.acceptance]
            if free or each.misses == "limits"
            else list(each.contender.candidates)
        )

        def holds(
            _: DecodingConfiguration,
            at: Setting,
            batch: int,
            context: int,
            tried: Sequence[Acceptance] = tuple(tried),
        ) -> bool:
            return any(meets(at, a, limits, batch=batch, context=context) for a in tried)

        nearest = nearest_changes(
            asked, each.acceptance, batch=each.batch, context=each.context, holds=holds
        )
        rows.append(
            {
                "model": where.model,
                "device": where.device,
                "engine": where.engine,
                "feasible": False,
                "batch": each.batch,
                "context": each.context,
                "misses": each.misses,
                "reason": each.reason,
                "nearest": [dict(change) for change in nearest],
            }
        )
    return rows


def cell(here: Cell, answer: Recommendation) -> Json:
    """Who wins at one batch and context over all drafters, who comes next, and what that one loses.

    `drafter` is None for plain decoding, which every drafter can do; `lost_ratio` is a share of
    tokens per second.
    """

    def who(picked: Choice) -> Json:
        plain, found = picked.topology == "off", point(picked.result, picked.intervals)
        return {
            "drafter": None if plain else answer.names[picked.contender.source],
            "method": "plain-decoding" if plain else picked.contender.method,
            "topology": picked.topology,
            "draft": str(shape_of(picked.acceptance)),
            "draft_tokens": picked.acceptance.draft_tokens,
            "tokens_per_step": picked.acceptance.tokens_per_step,
            **{
                key: found[key]
                for key in ("tokens_per_s", "tokens_per_s_interval", "speedup", "speedup_interval")
            },
            "acceptance": None if plain else acceptance(answer.source(picked), [picked.acceptance]),
        }

    return {
        "batch": here.winner.batch,
        "context": here.winner.context,
        "winner": who(here.winner),
        "runner_up": None if here.runner_up is None else who(here.runner_up),
        "lost_ratio": here.lost_ratio,
        **margin(here, answer),
    }


def margin(here: Cell, answer: Recommendation) -> Json:
    """What is simpler than a winner and ties with it, and whether its recording is long enough;
    null where neither.
    """
    from costmodel.optimizers.margins import recorded, tied

    trace, given = (
        answer.source(here.winner).positions,
        (here.winner, answer.optimum, answer.contenders),
    )
    tie = tied(*given)
    known = recorded(*given, trace.positions) if trace is not None else None
    return {
        "tie": None
        if tie is None
        else {
            "draft": str(shape_of(tie.acceptance)),
            "topology": tie.acceptance.topology,
            "draft_tokens": tie.acceptance.draft_tokens,
            "lost_ratio": tie.lost_ratio,
        },
        "recorded": None
        if known is None
        else {
            "tokens": known.tokens,
            "loss_ratio": known.loss_ratio,
            "enough": known.enough,
            "enough_tokens": known.enough_tokens,
        },
    }


def point(result: Estimate, spread: Intervals) -> Json:
    """Estimates of one point with their intervals."""
    return {
        "step_s": float(result.step_s),
        "step_s_interval": _pair(spread.step_s),
        "tokens_per_step_interval": _pair(spread.tokens_per_step),
        "tokens_per_s": float(result.tokens_per_s),
        "tokens_per_s_interval": _pair(spread.tokens_per_s),
        "speedup": float(result.speedup),
        "speedup_interval": _pair(spread.speedup),
    }


def breakdown(result: Estimate) -> Json:
    """Seconds of a step's phases."""
    return {
        "draft": float(result.step.draft_s),
        "verify": float(result.step.verify_s),
        "overhead": float(result.step.overhead_s),
    } | ({"hidden": float(result.step.hidden_s)} if np.any(result.step.hidden_s) else {})


def acceptance(known: Source, used: Iterable[Acceptance] = ()) -> Json:
    """Where acceptance comes from: `kind`, what to look up, on which model, and what its interval
    covers.

    Args:
        known: the drafter.
        used: configurations whose acceptance comes from it; what has to be said beside the longest
            is the `remark`.
    """
    levels = max((each.levels for each in used), default=0)
    found: Json = {
        "kind": known.kind,
        "source": known.reference,
        "borrowed": known.borrowed,
        "label": f"acceptance {known.label}",
    }
    if known.trace is not None:
        found |= {"model": known.trace.provenance.model, "drafter": known.trace.provenance.drafter}
    elif known.model:
        found["model"] = known.model
    if known.rates is not None:
        found["rates"] = list(known.rates.by_depth)
        found["known_draft_tokens"] = known.rates.measured
    if remark := known.remark_at(levels):
        found["remark"] = remark
    return found | {"interval_covers": known.interval_covers(levels)}


def provenance(setting: Setting, result: Estimate, known: Source | None) -> Json:
    """Where the numbers of an estimate come from, and which terms make it uncertain."""
    used: Overhead = setting.overhead if result.acceptance.draft_tokens else setting.plain_overhead
    device = setting.device
    terms = dominant_terms(result.step, device.constants.residual_ratio, used)[:2]
    return {
        "acceptance": {"source": "stated rate"}
        if known is None
        else acceptance(known, [result.acceptance]),
        "device": {
            "name": device.name,
            "calibrated": device.calibrated,
            "constants_from": device.constants_from,
        },
        "fidelity": setting.deployment.fidelity,
        "overhead": {"engine": used.engine, "versions": used.versions, "source": used.source},
        "drafter": setting.drafter.name,
        "dominant_uncertainty": named_terms(terms, device, used),
    }


def named_terms(
    terms: Sequence[tuple[str, float]], device: Device, overhead: Overhead
) -> list[Json]:
    """Terms of an interval by half width, each with where it comes from."""
    found = []
    for name, size in terms:
        about = term_source(name, device, overhead)
        found.append({"term": name, "ratio": size, "kind": about.kind, "source": about.source})
    return found


def source(known: Source, name: str) -> Json:
    """A drafter that competed, and what its acceptance rests on; facts of a recording are None
    without one.
    """
    facts: Json = dict.fromkeys(
        ("file", "recorded_drafter", "sampling", "dataset", "requests", "tokens", "level")
    )
    if known.trace is not None:
        p = known.trace.provenance
        facts = {
            "file": str(known.path),
            "recorded_drafter": p.drafter,
            "sampling": dict(p.sampling),
            "dataset": p.dataset,
            "requests": known.trace.requests,
            "tokens": int(known.trace.positions),
            "level": known.trace.level,
        }
    return {
        "name": name,
        "method": known.method,
        "model": known.model,
        "borrowed": known.borrowed,
        "acceptance": acceptance(known),
        **facts,
    }


def curves(answer: Recommendation) -> list[Json]:
    """Tokens per step of every configuration compared; for trees that were chosen, also what their
    nodes keep.

    `path_acceptance` has one share per draft token, in node order.
    """
    chosen = {id(picked.acceptance) for ranked in answer.optimum.ranked for picked in ranked}
    found = []
    for contender in answer.contenders:
        for a in contender.candidates:
            point: Json = {
                "method": contender.method,
                "drafter": answer.names[contender.source],
                "draft": str(shape_of(a)),
                "draft_tokens": a.draft_tokens,
                "topology": a.topology,
                "tokens_per_step": a.tokens_per_step,
                "interval": _pair(interval(a.samples)) if a.samples.size else None,
            }
            recorded = answer.sources[contender.source].positions
            if a.tree is not None and recorded is not None and id(a) in chosen:
                point["path_acceptance"] = path_acceptance(recorded, a.tree)
            found.append(point)
    return found


def path_acceptance(trace: AcceptanceTrace, shape: Tree) -> list[float]:
    """Share of a replay's steps that each draft token of a tree is kept in, in node order.

    A token that the end of the text cuts off does not count, so 1 + the sum is the tree's tokens
    per step.

    Args:
        trace: level 2 or more.
        shape: the tree that is replayed.
    """
    from costmodel.optimizers.trees.trace_trie import build_trie

    trie = build_trie(trace, shape.depth - 1)
    nodes = trie.chosen(shape)
    shares = trie.frequencies(nodes)[nodes] / max(trie.steps(nodes), 1)
    by_path = dict(zip(trie.tree(nodes).paths(), shares.tolist(), strict=True))
    return [round(by_path.get(path, 0.0), 5) for path in shape.paths()]


def table_rows(answers: Sequence[RowAnswer]) -> list[Json]:
    """The rows of `predict --table`."""
    return [
        {
            "id": row.id,
            "ttft_ms": row.ttft_ms,
            "tpot_ms": row.tpot_ms,
            "ttft_ms_interval": row.ttft_ms_interval,
            "tpot_ms_interval": row.tpot_ms_interval,
            "reason": row.reason,
        }
        for row in answers
    ]


def tree(shape: Tree) -> Json:
    """A tree in the form that `--tree` reads."""
    return dict(shape.to_json())


def _pair(bounds: tuple[Any, Any]) -> Sequence[float]:
    return [
        float(np.asarray(bounds[0]).reshape(-1)[0]),
        float(np.asarray(bounds[1]).reshape(-1)[0]),
    ]
