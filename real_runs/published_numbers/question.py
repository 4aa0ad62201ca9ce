"""What does a row ask of the cost model: which deployment, which draft, what is accepted, at which
batch and context?

Rows of drafting and plain decoding. Every guess is a remark; what cannot be told ends in a refusal
with its reason. Leaves out masked blocks (`refined`), tables of whole services (`serving`), and the
answer (`prediction`).
"""

import math
import re
from dataclasses import dataclass, replace

from costmodel.acceptance_library import best_match
from costmodel.answers.steps.setting import Setting
from costmodel.laws.acceptance import Acceptance, DepthRates, geometric, stated_tree
from costmodel.laws.acceptance.siblings import ASSUMED_SIBLINGS
from costmodel.laws.claims import rate_claim, tokens_claim
from costmodel.method import Method
from hardware_profiles.errors import InputError
from real_runs.published_numbers.deployed import batch_of, settings_of
from real_runs.published_numbers.reading.amounts import token_count
from real_runs.published_numbers.reading.names import (
    context_of,
    method_of_system,
    model_of,
)
from real_runs.published_numbers.reading.shapes import StatedShape, assisted_length, stated_shape
from real_runs.published_numbers.reading.stated import (
    StatedAcceptance,
    StatedDraftCost,
    stated_acceptance,
    stated_draft_cost,
)
from real_runs.published_numbers.reading.table import PublishedRow
from traces.kinds.tree import Tree

_BUDGET = re.compile(r"budget (\d+)")
FALL_WITH_RANK = 1.06  # of acceptance with the rank of a sibling, as in `laws.acceptance.siblings`


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A row as the cost model understands it.

    Attributes:
        setting: deployment, drafter and engine.
        plain: those of plain decoding, which ratios are to.
        acceptance: of a step; None: plain decoding.
        batch: requests.
        context: cached tokens per request.
        drafting: what drafting takes, where the row states it.
        levels: draft passes of a step, for costs stated per pass.
        captured_drafts: draft passes are replayed from captured graphs, where the target's are not.
        remarks: what was assumed.
    """

    setting: Setting
    plain: Setting
    acceptance: Acceptance | None
    batch: int
    context: int
    drafting: StatedDraftCost
    levels: int
    captured_drafts: bool
    remarks: tuple[str, ...]


def question_of(row: PublishedRow) -> Question:
    """What a row of drafting or plain decoding asks.

    Raises:
        InputError: something that a prediction needs is not stated, not known or not priced; the
            message says what.
    """
    method, as_priced = _priced(row)
    batch = batch_of(row)
    output = token_count(row.output) or 0
    context, assumed_context = context_of(row, output)
    drafting = stated_draft_cost(row.draft_cost)
    stated = stated_acceptance(row.acceptance, row.own_facts)
    shape, acceptance, about = StatedShape(), None, ""
    if method.drafts:
        shape, acceptance, about = _drafted(row, method, stated)
    setting, plain, remarks = settings_of(row, method, drafting)
    if shape.shape is not None:
        setting = _riding(setting, shape)
    setting = _with_budget(setting, row)
    all_remarks = (as_priced, *remarks, assumed_context, shape.remark, about)
    return Question(
        setting=setting,
        plain=plain,
        acceptance=acceptance,
        batch=batch,
        context=context,
        drafting=drafting,
        levels=shape.levels,
        captured_drafts=row.facts.captured_drafts,
        remarks=tuple(dict.fromkeys(remark for remark in all_remarks if remark)),
    )


def tokens_of(row: PublishedRow) -> tuple[float, Method, tuple[str, ...]]:
    """Tokens per step of a row that asks for nothing else, with the entry and what was assumed; no
    device is needed.

    Raises:
        InputError: an unknown system, or no acceptance beside the number itself.
    """
    method, as_priced = _priced(row)
    stated = stated_acceptance(row.acceptance, row.own_facts)
    shape, acceptance, about = _drafted(row, method, stated)
    remarks = (as_priced, shape.remark, about)
    return (
        acceptance.tokens_per_step,
        method,
        tuple(dict.fromkeys(remark for remark in remarks if remark)),
    )


def _priced(row: PublishedRow) -> tuple[Method, str]:
    """The entry of a row, and a remark on how it is priced.

    Raises:
        InputError: none has the name, or rows of this kind do not describe what it is priced from.
    """
    method, as_priced = method_of_system(row.system)
    if method.refusal:
        raise InputError(method.refusal, key="system")
    if method.has_own_pace:
        raise InputError("sets its own pace, which rows of this kind do not describe", key="system")
    if method.deployment:
        raise InputError(
            "is an option of a deployment, whose extent rows of this kind do not state",
            key="system",
        )
    return method, as_priced


def _drafted(
    row: PublishedRow, method: Method, stated: StatedAcceptance
) -> tuple[StatedShape, Acceptance, str]:
    """The shape of a row's drafts, what a step emits, and where that is from where the row does not
    state it.
    """
    least = math.ceil(max((stated.tokens_per_step or 1.0) - 1.0 - 1e-9, 1.0))
    shape = stated_shape(row.shape, method, least_levels=least)
    if "HF assisted" in row.shape and stated.tokens_per_step is not None:
        length = max(assisted_length(stated.tokens_per_step), least)
        assumption = f"the length follows Transformers' schedule, which settles at {length} tokens"
        shape = StatedShape(chain=length, remark=assumption)
    if (
        method.stop.rule != "length"
        and shape.chain is not None
        and stated.tokens_per_step is not None
    ):
        assumption = f"drafts end early: {least + 1} tokens ASSUMED, one more than stay"
        shape = StatedShape(chain=least + 1, remark=assumption)
    return shape, *_accepted(row, method, stated, shape)


def _riding(setting: Setting, shape: StatedShape) -> Setting:
    """The setting whose verify pass carries the rows that ride on it."""
    own = setting.drafter.method
    if shape.shape is None or (shape.shape.riding, shape.shape.guesses) == (
        own.shape.riding,
        own.shape.guesses,
    ):
        return setting
    return replace(
        setting, drafter=replace(setting.drafter, method=replace(own, shape=shape.shape))
    )


def _with_budget(setting: Setting, row: PublishedRow) -> Setting:
    """The setting whose drafts read as many cached tokens of the target as the row says."""
    budget, stages = _BUDGET.search(row.shape), setting.drafter.stages
    if budget is None or not stages or stages[0].draft.context_tokens is None:
        return setting
    first = replace(stages[0], draft=replace(stages[0].draft, context_tokens=int(budget[1])))
    return replace(setting, drafter=replace(setting.drafter, stages=(first, *stages[1:])))


def _accepted(
    row: PublishedRow, method: Method, stated: StatedAcceptance, shape: StatedShape
) -> tuple[Acceptance, str]:
    """What a step emits, and where that is from where the row does not state it.

    Raises:
        InputError: nothing is stated, or nothing that belongs to the shape.
    """
    claimed, measures_tokens = shape.claimed, row.unit.startswith("tokens/step")
    if stated.tokens_per_step is not None and not measures_tokens:
        return tokens_claim(method, stated.tokens_per_step, claimed), ""
    rates = (
        DepthRates(by_depth=stated.by_depth, measured=len(stated.by_depth))
        if stated.by_depth
        else None
    )
    if rates is None and stated.rate is not None:
        rates = DepthRates(by_depth=(stated.rate,))
    if stated.siblings and isinstance(claimed, int):
        first = DepthRates(by_depth=stated.siblings[:1])
        return rate_claim(
            method, first, claimed
        ), "the stated vector's first entry is the rate at every position"
    if stated.siblings:
        if not isinstance(claimed, Tree):
            raise InputError(
                "states acceptance by sibling for a tree whose nodes are not known",
                key="tree_or_gamma",
            )
        return _from_siblings(
            stated.siblings, claimed
        ), "further siblings follow the last stated one as rank^-1.06"
    if rates is not None and isinstance(claimed, int):
        return rate_claim(method, rates, claimed), ""
    if rates is not None and isinstance(claimed, Tree):
        return stated_tree(rates, claimed), ASSUMED_SIBLINGS
    if measures_tokens:
        raise InputError(
            "states the number itself and no acceptance that it would follow from",
            key="alpha_or_tau",
        )
    match = best_match(method.slug, model_of(row.target).name) if isinstance(claimed, int) else None
    if (
        match is not None
        and match.kinship == "own"
        and match.entry.shape == "chain"
        and match.entry.counted == "steps"
    ):
        return match.entry.acceptance(shape.levels), f"the row states no acceptance: {match.label}"
    raise InputError("states no acceptance: neither a rate nor tokens per step", key="alpha_or_tau")


def _from_siblings(vector: tuple[float, ...], tree: Tree) -> Acceptance:
    """What a tree emits where the k-th child of any node is the accepted one with the k-th
    probability.
    """
    width, last = max(tree.ranks) + 1, len(vector)
    tail = [vector[-1] * (last / (rank + 1)) ** FALL_WITH_RANK for rank in range(last, width)]
    whole = sum(vector) + sum(tail)
    probabilities = [rate / max(whole, 1.0) for rate in (*vector, *tail)]
    reached = [1.0]
    for parent, rank in zip(tree.parents[1:], tree.ranks[1:], strict=True):
        reached.append(reached[parent] * probabilities[rank])
    return replace(
        geometric(0.0, 0),
        draft_tokens=tree.draft_tokens,
        tokens_per_step=math.fsum(reached),
        proposal_ratio=1.0,
        proposed_tokens=float(tree.draft_tokens),
        tree=tree,
    )
