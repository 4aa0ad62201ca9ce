"""What does `optimize` ask and answer of a method that refines masked blocks: which threshold, block
and cache, at a floor of quality?

Such a method's policies compete as the drafts of others do. Leaves out the search and the rows that
all methods share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.answers.breakeven.paying import paying_row
from app.answers.cells import MarkedCell
from app.answers.drafting import draft_words, policy_words
from app.answers.optimize.choices import estimated, ranked
from app.answers.optimize.rows import MaskedQuality, PayingPolicy, PolicyRow
from app.questions.field import fields_of, refuse
from app.questions.groups import (
    AcceptanceOptions,
    JointOptions,
    OutputOptions,
    RefiningOptions,
    StoredOptions,
    names_in,
    values_in,
)
from app.questions.optimize import DEFAULT_FLOOR, OptimizeQuestion
from app.questions.resolve.refining import (
    MOST_POLICIES,
    refines,
    stated_caches,
    stated_rules,
)
from costmodel.answers.refine_breakeven import needed_pace
from costmodel.answers.workload import Limits
from costmodel.laws.refined_method import method_policy
from costmodel.method_library import load_method
from costmodel.optimizers.candidates.policy_grid import policy_grid
from costmodel.optimizers.drafters.sources import Source, entry_source, prompts_sources
from costmodel.optimizers.policy_front import PolicyPoint, policy_points
from costmodel.optimizers.recommend import ComparedDrafters, Recommendation
from costmodel.optimizers.search import choice_of
from hardware_profiles.errors import InputError
from traces.kinds.refine_policy import RefinePolicy
from traces.library import shipped_confidence, trace_file, trace_name
from traces.replay.confidence.played import recorded_prompts
from traces.storage.confidence_file import read_confidence

DEFAULT_MODEL = "llada-8b"
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
_TAKEN = {
    *names_in(StoredOptions),
    *names_in(RefiningOptions),
    *names_in(OutputOptions),
    *names_in(JointOptions),
    *("model", "method", "trace", "batch", "context", "quality_floor"),
    *("against", "slo_tpot", "pp", "ep", "dp", "fidelity", "explain", "seed"),
}
_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        {field.name for field in fields_of(OptimizeQuestion)} - _TAKEN,
        "is no part of a search over masked blocks",
    ),
    "draft_tokens": "masked blocks have no draft tokens; --block states their size",
    "stop": "ends drafts, and masked blocks have none",
    "slo_ttft": "is not a limit of this search; `rooftree simulate` answers for first tokens",
    "slo_e2e": "is not a limit of this search; `rooftree simulate` answers for whole requests",
    "draft": "masked blocks are drafted by no other model",
    "exit_layer": "masked blocks are drafted by no part of the model",
}
_WITH_LOAD = {"against": "compares at a steady batch, and --search full is under a load"}


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedPolicies:
    """Policies that compete.

    Attributes:
        sources: the method on recorded prompts of each cache.
        policies: that are tried on them.
        floor: least agreement with one token a pass.
        canvas_tokens: that passes compute; None: the recorded canvas.
    """

    sources: Sequence[Source]
    policies: Sequence[RefinePolicy]
    floor: float
    canvas_tokens: int | None

    @property
    def quality(self) -> MaskedQuality:
        """What quality means here."""
        recorded = [source.prompts for source in self.sources if source.prompts is not None]
        return MaskedQuality(
            floor=self.floor,
            definition=QUALITY,
            remark=ESTIMATED,
            prompts={prompts.cache: len(prompts.anchors.prompts) for prompts in recorded},
            canvas_tokens=self.canvas_tokens or recorded[0].anchors.canvas_tokens,
            policies=len(self.policies),
        )


def masked_policies(question: OptimizeQuestion) -> MaskedPolicies | None:
    """The policies that a question compares; None where its method refines no masked blocks.

    Raises:
        InputError: an option that goes with another kind of method, no confidence trace, options
            out of range, or more policies than are searched.
    """
    refining = values_in(RefiningOptions, question)
    of_masked = {"quality-floor": question.quality_floor, "against": question.against or None}
    if not refines(question.method, refining | of_masked):
        return None
    entry = load_method(question.method)
    if entry.refine is not None and entry.refine.commit == "fixed_point":
        raise InputError(_one_way(question), key="--method", value=question.method)
    accepted = (
        "is not searched over: a confidence trace (--trace) says what policies of"
        f" {question.method} commit"
    )
    full = question.search == "full"
    stated = dict.fromkeys(names_in(AcceptanceOptions), accepted)
    refuse(question, {**_REFUSED, **stated, **(_WITH_LOAD if full else {})})
    if not question.trace:
        raise InputError(_next_steps(question), key="--trace")
    method = question.method
    recorded = recorded_prompts([read_confidence(trace_file(path)) for path in question.trace])
    policies = policy_grid(
        method_policy(load_method(method)),
        {prompts.cache: prompts.anchors for prompts in recorded},
        rules=stated_rules(question.commit, usual=True),
        blocks=question.block or (),
        caches=stated_caches(question.cache),
    )
    if len(policies) > MOST_POLICIES:
        raise InputError(
            f"must be at most {MOST_POLICIES} policies together",
            key="--commit",
            value=len(policies),
        )
    return MaskedPolicies(
        sources=prompts_sources(recorded, method),
        policies=policies,
        floor=DEFAULT_FLOOR if question.quality_floor is None else question.quality_floor,
        canvas_tokens=question.canvas,
    )


def _one_way(question: OptimizeQuestion) -> str:
    """That a window which is corrected until it stands has no policy, and what answers instead."""
    model = f" --model {question.model}" if question.model else ""
    trace = f" --trace {question.trace[0]}" if question.trace else ""
    return (
        "corrects windows until they stand, so that no policy is to be searched for: `rooftree"
        f" breakeven{model} --method {question.method}{trace}` says at which batches it pays. Its own"
        " printed passes come in by `rooftree traces import` (jacobi-passes)"
    )


def _next_steps(question: OptimizeQuestion) -> str:
    """What to do where no confidence trace is named: which ones ship, how one's own come in, and
    what was published instead.
    """
    model = question.model or DEFAULT_MODEL
    shipped = ", ".join(trace_name(path) for path in shipped_confidence())
    alone = f"rooftree breakeven --model {model} --method {question.method}"
    return (
        "needed to search masked blocks: a confidence trace. Shipped, of a small model:"
        f" {shipped}. Your own: `rooftree traces import` reads printed passes, `rooftree record"
        " --masked` records them. Without one, a single number is known"
        f" ({entry_source(question.method, model).about}), from which `{alone}` answers"
    )


def policy_rows(
    answer: Recommendation, floor: float, seed: int
) -> tuple[list[PolicyRow], list[PolicyRow]]:
    """The policy that is chosen at every batch and context, and all others that are allowed there.

    Args:
        answer: what was found.
        floor: least agreement.
        seed: of the intervals.
    """
    choices: list[PolicyRow] = []
    others: list[PolicyRow] = []
    for context in answer.optimum.contexts:
        for batch in answer.optimum.batches:
            rows = rows_at(answer, batch=batch, context=context, floor=floor, seed=seed)
            chosen = sum(row.meets_floor for row in rows[:1])
            choices += rows[:chosen]
            others += rows[chosen:]
    return choices, others


def rows_at(
    answer: Recommendation, *, batch: int, context: int, floor: float, seed: int
) -> list[PolicyRow]:
    """The policies that are allowed at one batch and context, in their order; the first and those on the
    front with intervals.

    Args:
        answer: what was found.
        batch: one of the search's.
        context: one of the search's.
        floor: least agreement.
        seed: of the intervals.
    """
    points = policy_points(answer.optimum, batch=batch, context=context, floor=floor)
    return [
        _priced(_row(at, answer), at, answer, seed)
        if at.on_front or (at.meets and place == 0)
        else _row(at, answer)
        for place, at in enumerate(points)
        if at.allowed
    ]


def unplayed_rows(compared: ComparedDrafters) -> list[MarkedCell]:
    """Policies that cannot be answered for."""
    return [
        MarkedCell(**_named(compared), draft=policy_words(unplayed.policy), reason=unplayed.reason)
        for unplayed in compared.unplayed
    ]


def unfit_rows(answer: Recommendation, limits: Limits) -> list[MarkedCell]:
    """Policies that do not fit the memory, or miss the limits, at a batch and context where others
    are allowed.
    """
    return [
        MarkedCell(
            **_named(answer),
            batch=at.batch,
            context=at.context,
            draft=draft_words(at.acceptance),
            misses="limits" if at.fits else "memory",
            reason=f"does not meet {limits.words}" if at.fits else "does not fit the memory",
        )
        for best in answer.winners
        for at in policy_points(answer.optimum, batch=best.batch, context=best.context, floor=0.0)
        if not at.allowed
    ]


def _named(compared: ComparedDrafters) -> dict[str, Any]:
    where = compared.question.deployment
    return {
        "model": where.model,
        "device": where.device,
        "engine": where.engine,
        "method": compared.sources[0].method,
    }


def paying_policies(answer: Recommendation, seed: int) -> list[PayingPolicy]:
    """At which batches the policies that were chosen beat the autoregressive twin, by policy and
    context.
    """
    rows: dict[tuple[str, int], PayingPolicy] = {}
    for best in answer.winners:
        played = best.acceptance.played
        assert played is not None
        place = played.policy.name, best.context
        if place in rows:
            continue
        where = best.configuration.deployment
        rows[place] = paying_row(
            PayingPolicy,
            best.contender.setting,
            best.acceptance,
            context=best.context,
            seed=seed,
            model=where.model,
            device=where.device,
            engine=where.engine,
            policy=played.policy.name,
            tokens_per_step=best.acceptance.tokens_per_step,
        )
    return list(rows.values())


def _row(at: PolicyPoint, answer: Recommendation) -> PolicyRow:
    """A policy without intervals of the cost model."""
    policy, played = at.policy, at.acceptance.played
    assert played is not None
    return PolicyRow(
        **ranked(at, answer),
        tokens_per_step_interval=played.replay.tokens_per_step_interval,
        step_s=at.step_s,
        tpot_s=at.batch / at.tokens_per_s,
        tokens_per_s=at.tokens_per_s,
        speedup=at.tokens_per_s / at.plain_tokens_per_s,
        policy=policy.name,
        commit=policy.commit,
        at=dict(policy.at),
        block_tokens=policy.block_tokens,
        cache=policy.cache,
        how=played.replay.how,
        beyond_anchors=played.replay.is_beyond_anchors,
        agreement=played.agreement,
        agreement_interval=played.agreement_bounds,
        meets_floor=at.meets,
        on_front=at.on_front,
        against=_against(at),
        twin_tokens_per_s=at.plain_tokens_per_s,
        needed_tokens_per_step=None,
        needed_tokens_per_step_interval=None,
    )


def _against(at: PolicyPoint) -> str:
    other = at.contender.setting.against
    return "" if other is None else other.target.name


def _priced(row: PolicyRow, at: PolicyPoint, answer: Recommendation, seed: int) -> PolicyRow:
    """The same with intervals of the cost model, the pace at which the twin is met, and what to
    run.
    """
    picked = choice_of(at.contender, at.place, at.batch, at.context, seed)
    needed = needed_pace(
        at.contender.setting,
        batch=at.batch,
        context=at.context,
        generator=np.random.default_rng(seed),
    )
    numbers = estimated(picked, answer)
    known = ("step_s", "tpot_s", "tokens_per_s", "speedup", "tokens_per_step_interval")
    return replace(
        row,
        **{name: value for name, value in numbers.items() if name not in known},
        needed_tokens_per_step=needed.tokens_per_pass,
        needed_tokens_per_step_interval=needed.bounds,
    )
