"""Results as the JSON objects that the command line promises."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.answers.drafting import drafting, topology_rows
from costmodel.answers.estimate import Estimate, Intervals, Setting
from costmodel.answers.uncertainty import dominant_terms, interval, term_source
from costmodel.engines.record.overhead import Overhead
from costmodel.optimizers.recommend import Recommendation, Source
from costmodel.optimizers.search import Choice
from costmodel.optimizers.trace_trie import build_trie
from hardware_profiles.profile import Device
from simulator.closed_loop.table_rows import RowAnswer
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree

Json = dict[str, Any]


def recommendation(answer: Recommendation, inputs: Json, exports: Mapping[str, Any]) -> Json:
    """The answer of `optimize`."""
    first = answer.winners[0]
    schedules = [
        {
            "method": s.method, "context": s.context, "schedule": s.schedule.to_json(),
            "schedule_loss_ratio": s.schedule.loss_ratio, "configuration": s.configuration.to_json(),
        }
        for s in answer.optimum.schedules
    ]  # fmt: skip
    main = next(
        (s for s in schedules if s["method"] == first.contender.method and s["context"] == first.context),
        None,
    )
    return {
        "inputs": inputs,
        "choices": [choice(ranked[0], answer) for ranked in answer.optimum.ranked],
        "alternatives": [choice(other, answer) for ranked in answer.optimum.ranked for other in ranked[1:]],
        "schedule": main["schedule"] if main else [],
        "schedule_loss_ratio": main["schedule_loss_ratio"] if main else 0.0,
        "schedules": schedules,
        "dropped_batches": list(answer.optimum.dropped_batches),
        "traces": [source(s) for s in answer.sources],
        "curves": curves(answer),
        "by_topology": topology_rows(answer.optimum.by_topology),
        "exports": dict(exports),
    }


def choice(picked: Choice, answer: Recommendation) -> Json:
    """One ranked configuration."""
    a, result = picked.acceptance, picked.result
    return {
        "batch": picked.batch,
        "context": picked.context,
        "method": picked.contender.method,
        "topology": picked.topology,
        "draft_tokens": a.draft_tokens,
        "tree": tree(a.tree) if a.tree is not None else None,
        "tree_source": a.tree_source or None,
        **drafting(a),
        "tokens_per_step": a.tokens_per_step,
        "proposal_ratio": a.proposal_ratio,
        "rule": a.rule or None,
        "remark": a.remark,
        "exit_layers": picked.configuration.exit_layers,
        **point(result, picked.intervals),
        "limit": str(result.step.limit),
        "breakdown_s": breakdown(result),
        "provenance": provenance(picked.contender.setting, result, answer.source(picked)),
        "configuration": answer.configuration(picked).to_json(),
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


def provenance(setting: Setting, result: Estimate, trace: Source | None) -> Json:
    """Where the numbers of an estimate come from, and which terms make it uncertain."""
    used: Overhead = setting.overhead if result.acceptance.draft_tokens else setting.plain_overhead
    device = setting.device
    terms = dominant_terms(result.step, device.constants.residual_ratio, used)[:2]
    acceptance: Json = {"source": "stated rate"}
    if trace is not None:
        recorded = trace.trace.provenance
        acceptance = {"source": str(trace.path), "model": recorded.model, "drafter": recorded.drafter}
        acceptance["borrowed"] = trace.borrowed
        if trace.borrowed:
            acceptance["label"] = f"acceptance borrowed from {recorded.model or 'an unnamed model'}"
    return {
        "acceptance": acceptance,
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


def named_terms(terms: Sequence[tuple[str, float]], device: Device, overhead: Overhead) -> list[Json]:
    """Terms of an interval by half width, each with where it comes from."""
    found = []
    for name, size in terms:
        about = term_source(name, device, overhead)
        found.append({"term": name, "ratio": size, "kind": about.kind, "source": about.source})
    return found


def source(trace: Source) -> Json:
    """A trace that an answer rests on."""
    p = trace.trace.provenance
    return {
        "file": str(trace.path), "method": trace.method, "model": p.model, "drafter": p.drafter,
        "sampling": dict(p.sampling), "dataset": p.dataset, "requests": trace.trace.requests,
        "tokens": int(trace.trace.positions), "level": trace.trace.level, "borrowed": trace.borrowed,
    }  # fmt: skip


def curves(answer: Recommendation) -> list[Json]:
    """Tokens per step of every configuration compared; for trees that were chosen, also what their nodes keep.

    `trace` is an index into the answer's `traces`; `path_acceptance` has one share per draft token, in node order.
    """
    chosen = {id(picked.acceptance) for ranked in answer.optimum.ranked for picked in ranked}
    found = []
    for contender in answer.contenders:
        for a in contender.candidates:
            point: Json = {
                "method": contender.method,
                "trace": contender.trace,
                "draft_tokens": a.draft_tokens,
                "topology": a.topology,
                "tokens_per_step": a.tokens_per_step,
                "interval": _pair(interval(a.samples)) if a.samples.size else None,
            }
            if a.tree is not None and id(a) in chosen:
                point["path_acceptance"] = path_acceptance(answer.sources[contender.trace].trace, a.tree)
            found.append(point)
    return found


def path_acceptance(trace: AcceptanceTrace, shape: Tree) -> list[float]:
    """Share of a replay's steps that each draft token of a tree is kept in, in node order.

    A token that the end of the text cuts off does not count, so 1 + the sum is the tree's tokens per step.

    Args:
        trace: level 2 or more.
        shape: the tree that is replayed.
    """
    trie = build_trie(trace, shape.depth - 1)
    nodes = trie.chosen(shape)
    shares = trie.frequencies(nodes)[nodes] / max(trie.steps(nodes), 1)
    by_path = dict(zip(trie.tree(nodes).paths(), shares.tolist(), strict=True))
    return [round(by_path.get(path, 0.0), 5) for path in shape.paths()]


def table_rows(answers: Sequence[RowAnswer]) -> list[Json]:
    """The rows of `predict --table`."""
    return [
        {
            "id": row.id, "ttft_ms": row.ttft_ms, "tpot_ms": row.tpot_ms, "ttft_ms_interval": row.ttft_ms_interval,
            "tpot_ms_interval": row.tpot_ms_interval, "reason": row.reason,
        }
        for row in answers
    ]  # fmt: skip


def tree(shape: Tree) -> Json:
    """A tree in the form that `--tree` reads."""
    return dict(shape.to_json())


def _pair(bounds: tuple[Any, Any]) -> Sequence[float]:
    return [float(np.asarray(bounds[0]).reshape(-1)[0]), float(np.asarray(bounds[1]).reshape(-1)[0])]
