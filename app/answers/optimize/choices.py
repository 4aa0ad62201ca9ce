"""How does a recommendation become the rows of an answer?"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.answers.cells import MarkedCell
from app.answers.drafting import draft_words, drafting
from app.answers.drafting_cost import drafting_cost
from app.answers.estimates import acceptance, cost, pair, phases, point, provenance
from app.answers.feasible import nearest_changes
from app.answers.optimize.rows import (
    CarriedRow,
    CellRow,
    ChoiceRow,
    ContextLoss,
    ContextScheduleRow,
    DrafterRow,
    Emission,
    KindLengthRow,
    KindLengthsRow,
    NeighbourRow,
    Placed,
    PromptsRow,
    RecordingLength,
    SharedSchedule,
    TieRow,
    TopologyBestRow,
)
from costmodel.answers.estimate import Setting
from costmodel.answers.positions import context_remark
from costmodel.answers.uncertainty import interval
from costmodel.answers.workload import Limits
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers import neighbours, search
from costmodel.optimizers.allowed import Contender, Pick
from costmodel.optimizers.context_schedules import context_schedules
from costmodel.optimizers.drafters.sources import Source
from costmodel.optimizers.kind_lengths import kind_chains, kind_lengths
from costmodel.optimizers.margins import recorded, tied
from costmodel.optimizers.other_prompts import by_prompts
from costmodel.optimizers.pricing import evaluate, first_token_s
from costmodel.optimizers.recommend import DraftAxes, Recommendation
from costmodel.optimizers.trees.trace_trie import build_trie
from costmodel.optimizers.unmet import UnmetPoint
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree


def schedule_rows(answer: Recommendation, *, source: int | None = None) -> list[ContextScheduleRow]:
    """The schedules of a recommendation.

    Args:
        answer: what was found.
        source: of one drafter, by its index; None: of all.
    """
    return [
        ContextScheduleRow(
            drafter=answer.names[s.source],
            method=s.method,
            context=s.context,
            schedule=s.schedule.ranges,
            schedule_loss_ratio=s.schedule.loss_ratio,
            schedule_worst_loss_ratio=s.schedule.worst_loss_ratio,
            idle_loss_ratio=None if s.against_off is None else s.against_off.idle_loss_ratio,
            gain_over_off_ratio=None if s.against_off is None else s.against_off.gain_ratio,
            configuration=s.configuration.to_json(),
        )
        for s in answer.optimum.schedules
        if source is None or s.source == source
    ]


def shared_schedules(answer: Recommendation) -> list[SharedSchedule]:
    """One schedule for all contexts a drafter; empty where one context was asked about."""
    return [
        SharedSchedule(
            drafter=answer.names[shared.source],
            method=shared.configuration.method,
            schedule=shared.schedule.ranges,
            schedule_loss_ratio=shared.schedule.loss_ratio,
            contexts=[
                ContextLoss(context=context, loss_ratio=lost, own_schedule_loss_ratio=own)
                for context, (lost, own) in shared.losses.items()
            ],
            configuration=shared.configuration.to_json(),
        )
        for shared in context_schedules(answer.optimum)
    ]


def prompts_rows(answer: Recommendation, seed: int, axes: DraftAxes) -> list[PromptsRow]:
    """What is fastest at the first batch and context, by the data sets of published acceptance.

    Args:
        answer: what was found.
        seed: of the search.
        axes: what may be drafted.
    """
    first = answer.winners[0]
    return [
        PromptsRow(
            data_set=row.figure.data_set,
            temperature=row.figure.temperature,
            method=row.figure.method,
            recorded_drafter=row.figure.drafter,
            batch=first.batch,
            context=first.context,
            draft=draft_words(row.acceptance),
            draft_tokens=row.acceptance.draft_tokens,
            tokens_per_step=row.acceptance.tokens_per_step,
            tokens_per_s=row.tokens_per_s,
            speedup=row.speedup,
        )
        for row in by_prompts(answer, first, seed, **axes)
    ]


def kind_rows(answer: Recommendation, seed: int) -> list[KindLengthsRow]:
    """Draft lengths by kind of requests, of every recorded drafter, batch and context.

    Args:
        answer: what was found.
        seed: of the replays' draws.
    """
    rows = []
    for contender in answer.contenders:
        kinds = kind_chains(answer.sources[contender.source], contender, seed)
        for cell in answer.optimum.cells if kinds else ():
            at = {"batch": cell.winner.batch, "context": cell.winner.context}
            if contender.contexts is not None and at["context"] not in contender.contexts:
                continue
            chosen = kind_lengths(contender, kinds, **at)
            rows.append(
                KindLengthsRow(
                    drafter=answer.names[contender.source],
                    **at,
                    draft_tokens=chosen.draft_tokens,
                    lengths=[
                        KindLengthRow(
                            kind=own.kind,
                            share=own.share,
                            draft_tokens=own.draft_tokens,
                            tokens_per_step=own.tokens_per_step,
                        )
                        for own in chosen.lengths
                    ],
                    gain_ratio=chosen.gain_ratio,
                )
            )
    return rows


def compared(a: Acceptance, drafter: str | None) -> dict[str, Any]:
    """What a row says of anything that is compared.

    Args:
        a: what is drafted.
        drafter: by its name; None: nothing.
    """
    return {
        "drafter": drafter,
        "topology": a.topology,
        "draft": draft_words(a),
        "draft_tokens": a.draft_tokens,
        "tokens_per_step": a.tokens_per_step,
    }


def candidate(pick: Pick, drafter: str | None) -> dict[str, Any]:
    """What a row says of anything that may be run.

    Args:
        pick: what to run.
        drafter: by its name; None: nothing.
    """
    where = pick.configuration.deployment
    return compared(pick.acceptance, drafter) | {
        "model": where.model,
        "device": where.device,
        "engine": where.engine,
        "method": pick.configuration.method,
        "batch": pick.batch,
        "context": pick.context,
    }


def ranked(pick: Pick, answer: Recommendation) -> dict[str, Any]:
    """What a row says of anything that is ranked at a batch and context, whatever it costs.

    Args:
        pick: what to run.
        answer: what was found.
    """
    a = pick.acceptance
    deployment = pick.contender.setting.deployment
    beyond = context_remark(deployment.architecture, pick.context)
    return {
        **candidate(pick, answer.names[pick.contender.source]),
        **drafting(a),
        "tree": a.tree.to_json() if a.tree is not None else None,
        "tree_source": a.tree_source or None,
        "proposal_ratio": a.proposal_ratio,
        "rule": a.rule or None,
        "remark": "; ".join(filter(None, (a.remark, beyond, deployment.unpriced_adapters))),
        "exit_layers": pick.configuration.exit_layers,
    }


def estimated(picked: search.Choice, answer: Recommendation) -> dict[str, Any]:
    """What a row says of the estimate of a choice: numbers with intervals, and what they rest on.

    Args:
        picked: with its estimate.
        answer: what was found.
    """
    result, setting = picked.result, picked.contender.setting
    return {
        **point(result, picked.intervals),
        **cost(setting, result, batch=picked.batch, context=picked.context),
        "tpot_s": float(result.step_s) / picked.acceptance.tokens_per_step,
        "limit": str(result.step.limit),
        "breakdown_s": phases(result),
        "provenance": provenance(setting, result, answer.source(picked)),
        "configuration": answer.configuration(picked).to_json(),
    }


def choice(picked: search.Choice, answer: Recommendation) -> ChoiceRow:
    """One ranked configuration."""
    return ChoiceRow(**ranked(picked, answer), **estimated(picked, answer))


def unmet_rows(
    unmet: Sequence[UnmetPoint], limits: Limits, floor: float | None
) -> list[MarkedCell]:
    """Batches and contexts at which nothing is allowed, each with the nearest changes that were
    tried and do.

    Args:
        unmet: what has no answer.
        limits: of latency.
        floor: least agreement of policies of masked blocks; None: there is none.
    """
    return [_unmet_row(cell, limits, floor) for cell in unmet]


def _unmet_row(unmet: UnmetPoint, limits: Limits, floor: float | None) -> MarkedCell:
    configuration = unmet.contender.configuration
    tried = list(unmet.contender.candidates) if limits.limited else [unmet.acceptance]

    def holds(placed: DecodingConfiguration, at: Setting, batch: int, context: int) -> bool:
        contender = Contender(configuration=placed, setting=at, candidates=tried)
        evaluation = evaluate(contender, batch=batch, context=context, limits=limits, floor=floor)
        return bool(np.isfinite(evaluation.value).any())

    nearest = (
        []  # other places hold the same policies
        if unmet.misses == "quality"
        else nearest_changes(
            configuration, unmet.acceptance, batch=unmet.batch, context=unmet.context, holds=holds
        )
    )
    where = configuration.deployment
    return MarkedCell(
        model=where.model,
        device=where.device,
        engine=where.engine,
        batch=unmet.batch,
        context=unmet.context,
        misses=unmet.misses,
        reason=unmet.reason,
        nearest=[dict(change) for change in nearest],
    )


def cell(
    here: search.Cell,
    answer: Recommendation,
    around: neighbours.Neighbourhood | None = None,
    *,
    first_token: bool = False,
) -> CellRow:
    """Who wins at one batch and context over all drafters, who comes next, and what that one loses.

    Args:
        here: winner and runner-up.
        answer: what was found.
        around: what stands beside the winner; None leaves it out.
        first_token: say the time to first token, too.
    """
    source = answer.source(here.winner)
    tie = tied(here.winner, answer.optimum)
    tokens = source.recorded_tokens
    length = None
    if tokens or source.positions is not None:
        length = recorded(here.winner, answer.optimum, tokens)
    where = answer.question.deployment
    beside = () if around is None else around.neighbours
    return CellRow(
        model=where.model,
        device=where.device,
        engine=where.engine,
        batch=here.winner.batch,
        context=here.winner.context,
        winner=_placed(here.winner, answer, first_token=first_token),
        runner_up=None
        if here.runner_up is None
        else _placed(here.runner_up, answer, first_token=first_token),
        lost_ratio=here.lost_ratio,
        tie=None
        if tie is None
        else TieRow(
            draft=draft_words(tie.acceptance),
            topology=tie.acceptance.topology,
            draft_tokens=tie.acceptance.draft_tokens,
            lost_ratio=tie.lost_ratio,
        ),
        recorded=None
        if length is None
        else RecordingLength(
            tokens=length.tokens,
            loss_ratio=length.loss_ratio,
            enough=length.enough,
            enough_tokens=length.enough_tokens,
        ),
        neighbours=[_neighbour(neighbour, answer.names) for neighbour in beside],
        carried=[]
        if around is None
        else [CarriedRow(batch=at.batch, lost_ratio=at.lost_ratio) for at in around.carried],
        longest_compared=not any(neighbour.kind == "longer" for neighbour in beside),
        drafting_cost=drafting_cost(
            here.winner.contender.setting,
            here.winner.acceptance,
            batch=here.winner.batch,
            context=here.winner.context,
            step_s=float(here.winner.result.step_s),
        ),
    )


def _placed(picked: search.Choice, answer: Recommendation, *, first_token: bool) -> Placed:
    plain, numbers = picked.topology == "off", point(picked.result, picked.intervals)
    a, step_s = picked.acceptance, picked.result.step_s
    ttft_s = None
    if first_token:
        ttft_s = float(
            first_token_s(picked.contender.setting, a, step_s, picked.batch, picked.context)
        )
    return Placed(
        **compared(a, None if plain else answer.names[picked.contender.source]),
        method="plain-decoding" if plain else picked.contender.method,
        tokens_per_s=numbers["tokens_per_s"],
        tokens_per_s_interval=numbers["tokens_per_s_interval"],
        speedup=numbers["speedup"],
        speedup_interval=numbers["speedup_interval"],
        acceptance=None if plain else acceptance(answer.source(picked), [a]),
        tpot_s=float(step_s) / a.tokens_per_step,
        ttft_s=ttft_s,
    )


def _neighbour(beside: neighbours.Neighbour, names: Sequence[str]) -> NeighbourRow:
    a = beside.acceptance
    return NeighbourRow(
        **compared(a, None if a.draft_tokens == 0 else names[beside.source]),
        kind=beside.kind,
        tokens_per_s=None if beside.barred else beside.tokens_per_s,
        lost_ratio=beside.lost_ratio,
        lost_by=dict(beside.terms),
        barred=beside.barred or None,
    )


def drafter(source: Source, name: str) -> DrafterRow:
    """A drafter that competed; facts of a recording are None without one."""
    trace = source.trace
    recorded_as = None if trace is None else trace.provenance
    return DrafterRow(
        name=name,
        method=source.method,
        model=source.model,
        borrowed=source.borrowed,
        acceptance=acceptance(source),
        file=None if source.path is None else str(source.path),
        recorded_drafter=None if recorded_as is None else recorded_as.drafter,
        sampling=None if recorded_as is None else dict(recorded_as.sampling),
        dataset=None if recorded_as is None else recorded_as.dataset,
        requests=None if trace is None else trace.requests,
        tokens=None if trace is None else source.recorded_tokens,
        level=None if trace is None else trace.level,
    )


def topology_rows(answer: Recommendation) -> list[TopologyBestRow]:
    """The fastest of every topology at every batch and context, and which of them wins."""
    return [
        TopologyBestRow(
            **compared(best.acceptance, answer.names[best.source]) | drafting(best.acceptance),
            batch=best.batch,
            context=best.context,
            method=best.method,
            tokens_per_s=best.tokens_per_s,
            speedup=best.speedup,
            wins=best.wins,
        )
        for best in answer.optimum.by_topology
    ]


def curves(answer: Recommendation) -> list[Emission]:
    """Tokens per step of every configuration compared."""
    chosen = {id(picked.acceptance) for picks in answer.optimum.ranked for picked in picks}
    return [
        Emission(
            **compared(a, answer.names[contender.source]),
            method=contender.method,
            interval=pair(interval(a.samples)) if a.samples.size else None,
            path_acceptance=_path_acceptance(a, answer.sources[contender.source])
            if id(a) in chosen
            else None,
        )
        for contender in answer.contenders
        for a in contender.candidates
    ]


def _path_acceptance(a: Acceptance, source: Source) -> list[float] | None:
    """What the nodes of a tree keep; None without one or without recorded positions."""
    if a.tree is None or source.positions is None:
        return None
    return path_acceptance(source.positions, a.tree)


def path_acceptance(trace: AcceptanceTrace, shape: Tree) -> list[float]:
    """Share of a replay's steps that each draft token of a tree is kept in, in node order.

    A token that the end of the text cuts off does not count, so 1 + the sum is the tree's tokens
    per step.

    Args:
        trace: level 2 or more.
        shape: the tree that is replayed.
    """
    trie = build_trie(trace, shape.depth - 1)
    nodes = trie.chosen(shape)
    shares = trie.frequencies(nodes)[nodes] / max(trie.steps(nodes), 1)
    by_path = dict(zip(trie.tree(nodes).paths(), shares.tolist(), strict=True))
    return [round(by_path.get(path, 0.0), 5) for path in shape.paths()]
