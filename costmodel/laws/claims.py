"""How many tokens does a step of a method emit when a rate per token, or the tokens per step of a
paper, is stated?

The method's entry says what a stated number means: a chain, a tree of its own shape, a draft made
during verification, a budget for the whole batch, a masked block. Leaves out recordings
(`acceptance.recorded`).
"""

import math
from dataclasses import replace

import numpy as np

from costmodel.laws.acceptance import Acceptance, DepthRates, longest_of, stated
from costmodel.laws.batching import LongRun, long_run
from costmodel.laws.draft_lengths import DraftLengths, draft_lengths
from costmodel.laws.own_pace import own_pace
from costmodel.method import Method, Shape
from hardware_profiles.errors import InputError
from traces.kinds.tree import Tree
from traces.replay.statistics import fitted_acceptance


def rate_claim(method: Method, rates: DepthRates | float, draft_tokens: int) -> Acceptance:
    """Acceptance of drafts of K tokens at stated rates.

    One rate of a method that verifies several guesses side by side is that of each of them; rates
    by position are those of the longest. Drafts that are made during verification have a law for
    one rate per token: the one that emits as many tokens in a step that waits.

    Args:
        method: the entry.
        rates: unconditional, by depth, as stated, counted or published; one number is the
            acceptance of each token given that those before were accepted.
        draft_tokens: K >= 0; 0 is plain decoding.

    Raises:
        InputError: a number out of range, a method that drafts nothing or refines masked blocks, or
            more tokens than K can emit.

    Reference: Leviathan et al. 2022 (arXiv:2211.17192), equation 1; Liu et al. 2024
    (arXiv:2408.11850), section 4.

    >>> from costmodel.method_library import load_method
    >>> round(rate_claim(load_method("pearl"), 0.8, 4).tokens_per_step, 3)
    2.005
    """
    if not isinstance(rates, DepthRates):
        rates = DepthRates(by_depth=(rates,))
    if method.has_own_pace and draft_tokens:
        rule = "verifies no drafts token by token and has no acceptance rate; state tokens per step"
        raise InputError(rule, key="method", value=method.slug)
    if not method.drafts and draft_tokens:
        raise InputError("drafts nothing: ask for 0 draft tokens", key="method", value=method.slug)
    point = _rate_claim(method, rates, draft_tokens)
    emitted = rates.samples(
        draft_tokens, lambda case: _rate_claim(method, case, draft_tokens).tokens_per_step
    )
    return replace(point, samples=emitted)


def _rate_claim(method: Method, rates: DepthRates, draft_tokens: int) -> Acceptance:
    """Acceptance of drafts of K tokens under one way in which it goes on."""
    rates = step_rates(method, rates, draft_tokens)
    serial = rates.chain(draft_tokens)
    b = method.batch
    if not draft_tokens:
        return serial
    if draft_tokens in rates.means or rates.tokens_per_step == serial.tokens_per_step:
        return _overlapped(method, serial)
    if b.slots == "likeliest" and b.budget_per_request is not None:
        # a mean budget: whole levels for all requests, and the next one for a share of them
        whole = int(min(b.budget_per_request, draft_tokens))
        share = min(b.budget_per_request, draft_tokens) - whole
        within = math.fsum(rates.at(whole)) + (share * rates.at(whole + 1)[-1] if share else 0.0)
        return replace(serial, tokens_per_step=1.0 + rates.proposal_ratio * within)
    if b.drafts_during_verify or b.parts > 1:
        own = 1.0 + math.fsum(rates.at(draft_tokens))
        rate = (
            rates.by_depth[0] if len(rates.by_depth) == 1 else fitted_acceptance(own, draft_tokens)
        )
        run = long_run(b, draft_tokens, rate)
        return replace(_verifying(serial, run), tokens_per_step=run.tokens_per_step)
    return serial


def step_rates(method: Method, rates: DepthRates, draft_tokens: int) -> DepthRates:
    """The rates of what a step keeps: of the longest guess, where one rate is stated of each of
    several.

    Args:
        method: the entry.
        rates: as stated, counted or published.
        draft_tokens: K >= 0.
    """
    # rates by depth, and counted or measured ones, are of the step as a whole
    of_each = len(rates.by_depth) == 1 and rates.measured is None and not rates.means
    if method.shape.guesses == 1 or not draft_tokens or not of_each:
        return rates
    return longest_of(rates, method.shape.guesses, draft_tokens)


def tokens_claim(
    method: Method,
    tokens_per_step: float,
    shape: int | Tree | Shape | None = None,
    *,
    match_rate: float = 1.0,
) -> Acceptance:
    """Acceptance of a step whose emitted tokens were measured elsewhere, the bonus token counted.

    Args:
        method: the entry.
        tokens_per_step: emitted over all steps, those without a proposal counted.
        shape: K of a chain, a tree, or how a tree is chosen anew at every step; None: the entry's
            own.
        match_rate: share of steps with a proposal, for drafters that may have none.

    Raises:
        InputError: fewer tokens than 1, more than the shape can emit, or an entry that states no
            shape.

    >>> from costmodel.method_library import load_method
    >>> tokens_claim(load_method("eagle-2"), 4.0).draft_tokens
    59
    """
    if method.has_own_pace:
        if shape is not None:
            raise InputError("has a shape of its own", key="method", value=method.slug)
        return own_pace(method, tokens_per_step)
    if not method.drafts:
        raise InputError(
            "drafts nothing, and emits one token per step", key="method", value=method.slug
        )
    own = shape if isinstance(shape, Shape) else method.shape
    if isinstance(shape, Shape):
        shape = None
    if shape is None and own.nodes and own.kind in ("chain", "window"):
        shape = own.nodes
    if shape is not None:
        return _overlapped(method, stated(tokens_per_step, shape, proposal_ratio=match_rate))
    if not own.nodes or not own.depth:
        rule = (
            "states no shape of its own: give draft tokens or a tree, a dynamic one with nodes and"
            " depth"
        )
        raise InputError(rule, key="method", value=method.slug)
    if not 1.0 <= tokens_per_step <= 1.0 + own.depth:
        rule = f"must lie in [1, {1 + own.depth}], what {own.depth} draft levels can emit"
        raise InputError(rule, key="tokens_per_step", value=tokens_per_step)
    return Acceptance(
        draft_tokens=own.nodes,
        tokens_per_step=tokens_per_step,
        proposed_tokens=float(own.nodes),
        shape=own,
        lengths=_tree_lengths(own),
    )


def _overlapped(method: Method, chain: Acceptance) -> Acceptance:
    """A chain of stated tokens per step that verifies, where phases overlap, what the law of one
    rate says.

    The rate is the one at which the long run emits as many tokens; 1 where not even that does.
    """
    b = method.batch
    if chain.tree is not None or not (b.drafts_during_verify or b.parts > 1):
        return chain
    low, high = 0.0, 1.0
    # halved until no float lies between
    while low < (middle := (low + high) / 2.0) < high:
        if long_run(b, chain.draft_tokens, middle).tokens_per_step < chain.tokens_per_step:
            low = middle
        else:
            high = middle
    return _verifying(chain, long_run(b, chain.draft_tokens, high))


def _verifying(chain: Acceptance, run: LongRun) -> Acceptance:
    """A chain whose steps verify what the long run of overlapped phases says."""
    return replace(
        chain, proposed_tokens=sum(run.query_tokens) - 1.0, foreseen_ratio=run.foreseen_ratio
    )


def _tree_lengths(own: Shape) -> DraftLengths:
    """Passes and rows of a tree: what its beam reads at each level, or its nodes shared out
    evenly.
    """
    read = float(own.beam) if own.beam else max((own.nodes - 1) / own.depth, 1.0)
    rows = np.array([[1.0, *[read] * (own.depth - 1)]])
    ranked = own.kind == "dynamic_tree"
    return draft_lengths(np.array([own.nodes]), np.array([own.depth]), rows, ranked=ranked)
