"""`replay`: tokens per step of chains and trees on a recorded trace, exactly."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from app.answers.answer import Answer
from app.answers.drafting import mean_drafts
from app.answers.replay.held_out import DRAFT_OPTIONS, answer_held_out
from app.answers.replay.rows import ReplayedDraft, ReplayedDrafts, StepOracle
from app.questions.field import inputs_of, refuse
from app.questions.groups import PlacedOptions, names_in
from app.questions.replay import ReplayQuestion
from app.questions.resolve.accepted import OTHERWISE
from app.questions.resolve.configurations import named_method
from costmodel.answers.uncertainty import interval
from costmodel.draft_shape import chain, read_shapes, read_stop, shape_of
from costmodel.laws.acceptance import MATCHING, Acceptance, Law, accepted_by, law_for, replay_by
from costmodel.laws.own_draft import holds_own_draft, own_draft
from costmodel.method_library import load_method
from costmodel.optimizers.candidates.asked_shapes import shape_acceptances
from costmodel.optimizers.drafters.sources import trace_source
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.naming import naming
from traces.kinds.provenance import POLICY_KEY
from traces.kinds.tree import Tree, read_tree
from traces.library import read_trace, trace_file
from traces.replay.bootstrap import RequestDraws
from traces.replay.counted import counts_requests, recorded_steps
from traces.replay.oracle import step_oracle
from traces.replay.statistics import request_draws

_SPEED_OPTIONS = dict.fromkeys(
    ("model", "batch", "context", "splits", *names_in(PlacedOptions)),
    "belongs to --held-out, which predicts speeds; tokens per step depend on no device",
)


def answer(question: ReplayQuestion) -> Answer:
    """Replay chains, trees and drafts that differ from step to step, or policies on held-out
    requests.

    Raises:
        InputError: options of another mode, or more than the recording tells.
    """
    if question.held_out:
        return answer_held_out(question)
    refuse(question, _SPEED_OPTIONS)
    file, lengths, rate = trace_file(question.trace), question.draft_tokens, question.match_rate
    recorded = read_trace(file)
    policy = recorded.provenance.extra.get(POLICY_KEY)
    if policy is not None and "draft_tokens" not in question.stated:
        lengths = (policy,)  # nothing else can be replayed
    inputs = inputs_of(question, trace=str(file), tree=question.tree or [])
    if _of_own_draft(question, recorded):
        return _own_row(question, recorded, inputs)
    if recorded.level == 0:
        if question.tree or question.shape or question.stop or question.verifier:
            recorded.require(1, "replaying trees, stop rules and verifiers")
        chains = _counted(file, question.method, rate, lengths)
        return ReplayedDrafts(inputs=inputs, chains=chains, trees=[], varying=[], oracles=[])
    if rate is not None and recorded.drafted is None:
        recorded = replace(recorded, match_rate=rate)
    trees = [(path, read_tree(path)) for path in question.tree or []]
    draws = request_draws(recorded.prompt_kinds, generator=np.random.default_rng(question.seed))
    law = _law(question, recorded, lengths)
    chain_rows = [_replayed(recorded, law, k, draws) for k in lengths]
    tree_rows = []
    for path, tree in trees:
        with naming(str(path)):
            row = _replayed(recorded, _law(question, recorded, [tree]), tree, draws)
            tree_rows.append(replace(row, draft=f"tree:{path}", tree=str(path), depth=tree.depth))
    return ReplayedDrafts(
        inputs=inputs,
        chains=chain_rows,
        trees=tree_rows,
        varying=_varying(question, file, recorded, lengths, law),
        oracles=_oracles(recorded, lengths) if law.by_matching else [],
    )


def _of_own_draft(question: ReplayQuestion, recorded: AcceptanceTrace) -> bool:
    """Whether a recording tells of its own draft alone, and the question names no other one.

    Raises:
        InputError: it names another one of counters, which tell of none.
    """
    slug = question.method or named_method(recorded)
    if not slug or not holds_own_draft(load_method(slug), recorded):
        return False
    stated = [name for name in DRAFT_OPTIONS if name in question.stated]
    if stated and recorded.level == 0:
        rule = "was not recorded: the counters are of the drafter's own tree alone"
        option = f"--{stated[0].replace('_', '-')}"
        raise InputError(rule, key=option, value=str(getattr(question, stated[0])))
    return not stated


def _own_row(
    question: ReplayQuestion, recorded: AcceptanceTrace, inputs: dict[str, Any]
) -> ReplayedDrafts:
    """The answer about a recording that tells of its own draft alone."""
    method = load_method(question.method or named_method(recorded))
    generator = np.random.default_rng(question.seed)
    draws = request_draws(recorded.prompt_kinds, generator=generator) if recorded.requests else None
    accepted = own_draft(method, recorded, draws)
    counts = recorded_steps(recorded) if counts_requests(recorded) or recorded.level else None
    row = ReplayedDraft(
        draft=str(shape_of(accepted)),
        draft_tokens=accepted.draft_tokens,
        tokens_per_step=accepted.tokens_per_step,
        interval=_bounds(accepted) if accepted.samples.size else None,
        tokens=None if counts is None else int(counts.tokens.sum()),
        steps=None if counts is None else int(counts.steps.sum()),
        proposal_ratio=accepted.proposal_ratio,
        rule=accepted.rule or "counted",
        remark=accepted.remark,
    )
    return ReplayedDrafts(
        inputs=inputs | {"draft_tokens": None}, chains=[], trees=[row], varying=[], oracles=[]
    )


def _law(question: ReplayQuestion, recorded: AcceptanceTrace, shapes: Sequence[int | Tree]) -> Law:
    """The law of the rule that was named, else of the method named, else of the trace's; else
    matching.
    """
    if question.verifier:
        return law_for(recorded, question.verifier, shapes, strict=True)
    slug = question.method or named_method(recorded)
    if not slug:
        return MATCHING
    verify = load_method(slug).verify
    return law_for(recorded, verify.rule, shapes, at=verify.at)


def _replayed(
    recorded: AcceptanceTrace, law: Law, shape: int | Tree, draws: RequestDraws
) -> ReplayedDraft:
    """A row of a chain or a static tree."""
    counts, accepted = replay_by(recorded, law, shape), accepted_by(recorded, law, shape, draws)
    return ReplayedDraft(
        draft=str(shape_of(accepted)),
        draft_tokens=accepted.draft_tokens,
        tokens_per_step=accepted.tokens_per_step,
        interval=_bounds(accepted),
        tokens=int(counts.tokens.sum()),
        steps=counts.steps.sum().item(),
        proposal_ratio=accepted.proposal_ratio,
        rule=law.rule,
        remark=accepted.remark,
    )


def _counted(
    file: Path, method: str, match_rate: float | None, lengths: Sequence[int]
) -> list[ReplayedDraft]:
    """Rows of chains by the rates that an engine counted."""
    source = trace_source(file, method, match_rate, otherwise=OTHERWISE)
    assert source.rates is not None
    return [
        ReplayedDraft(
            draft=str(chain(k)),
            draft_tokens=k,
            tokens_per_step=accepted.tokens_per_step,
            interval=None,
            tokens=None,
            steps=None,
            proposal_ratio=accepted.proposal_ratio,
            rule="counted",
            remark=accepted.remark,
        )
        for k, accepted in ((k, source.rates.chain(k)) for k in lengths)
    ]


def _varying(
    question: ReplayQuestion,
    file: Path,
    recorded: AcceptanceTrace,
    lengths: Sequence[int],
    law: Law,
) -> list[ReplayedDraft]:
    """Rows of the drafts that --shape names, and of chains that --stop ends."""
    shapes = [] if question.shape is None else read_shapes(question.shape, key="--shape")
    if question.stop:
        rule = read_stop(question.stop, key="--stop")
        shapes += [chain(k, rule) for k in lengths]
    if not shapes:
        return []
    slug = question.method or named_method(recorded) or OTHERWISE
    source = trace_source(file, slug, question.match_rate)
    accepted = shape_acceptances(
        source,
        shapes,
        generator=np.random.default_rng(question.seed),
        law=law if question.verifier else None,
    )
    tokens = int(np.maximum(recorded.output_tokens - recorded.first_step_position, 0).sum())
    return [_varied(acceptance, tokens) for acceptance in accepted]


def _varied(accepted: Acceptance, tokens: int) -> ReplayedDraft:
    differs = accepted.lengths is not None
    return ReplayedDraft(
        draft=str(shape_of(accepted)),
        draft_tokens=accepted.draft_tokens,
        tokens_per_step=accepted.tokens_per_step,
        interval=_bounds(accepted),
        tokens=tokens,
        steps=round(tokens / accepted.tokens_per_step),
        proposal_ratio=accepted.proposal_ratio,
        rule=accepted.rule,
        remark=accepted.remark,
        topology=accepted.topology if differs else None,
        shape=accepted.shape if differs else None,
        stop=accepted.stop if differs else None,
        drafts=mean_drafts(accepted),
    )


def _bounds(accepted: Acceptance) -> tuple[float, float]:
    low, high = interval(accepted.samples)
    return float(low), float(high)


def _oracles(recorded: AcceptanceTrace, lengths: Sequence[int]) -> list[StepOracle]:
    """What no rule can exceed that chooses drafts of at most the longest length at every step."""
    most = max(lengths)
    if not most or POLICY_KEY in recorded.provenance.extra:
        return []
    kinds = ["chain", "tree"] if recorded.level >= 2 else ["chain"]
    bounds = [
        (kind, step_oracle(recorded, np.ones(most + 1), trees=kind == "tree")) for kind in kinds
    ]
    return [
        StepOracle(
            draft=f"oracle: any {kind} of at most {most} levels at every step",
            levels=most,
            tokens_per_step=bound.tokens_per_cost,
            tokens=int(bound.tokens.sum()),
            steps=round(float(bound.cost.sum())),
        )
        for kind, bound in bounds
    ]
