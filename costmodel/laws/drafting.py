"""How much does a step draft and emit where the drafter decides anew at every step: dynamic trees
and early stops?

Each law replays a recording and adds the distribution of draft lengths to what the replay emits.
Leaves out sampled drafts and cost (`costmodel.answers.steps.dynamic_step`).

Reference: Li et al. 2024, EAGLE-2 (arXiv:2406.16858), section 4; Xiong et al. 2024, DySpec
(arXiv:2410.11744), algorithm 1; Wang et al. 2024, OPT-Tree (arXiv:2406.17276), section 3; Huang et
al. 2024, SpecDec++ (arXiv:2405.19715), section 3; Liu et al. 2024, Kangaroo (arXiv:2404.18911),
section 3.
"""

from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from costmodel.laws.acceptance import MATCHING, Acceptance, Law, from_replay
from costmodel.laws.draft_lengths import DraftLengths, draft_lengths
from costmodel.method import Shape, Stop
from costmodel.passes.ops import Array
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.bootstrap import Replayed, RequestDraws
from traces.replay.dynamic import TreePolicy, walk_policy
from traces.replay.sampled import ExpectedReplay, SampledRule, survival
from traces.replay.walk import replay_chain, step_starts

Whole = NDArray[np.int64]


def tree_policy(shape: Shape, stop: Stop | None = None) -> TreePolicy:
    """The policy of a dynamic tree.

    Args:
        shape: of kind `dynamic_tree`; numbers of 0 set no limit.
        stop: `length` or `gain`; None: drafting ends at the shape's limits alone.

    Raises:
        InputError: another shape or stop rule, or numbers out of range.
    """
    if shape.kind != "dynamic_tree":
        raise InputError("must be a dynamic tree", key="shape.kind", value=shape.kind)
    if stop is not None and stop.rule not in ("length", "gain"):
        raise InputError("a dynamic tree ends by length or gain", key="stop.rule", value=stop.rule)
    return TreePolicy(
        nodes=shape.nodes,
        depth=shape.depth or None,
        width=shape.width or None,
        beam=shape.beam or None,
        least_probability=shape.least_probability,
        cost_ratio=shape.cost_ratio,
        free_nodes=shape.free_nodes,
        least_gain=stop.at if stop is not None and stop.rule == "gain" else 0.0,
    )


def dynamic_tree(
    trace: AcceptanceTrace, shape: Shape, draws: RequestDraws | None, *, stop: Stop | None = None
) -> Acceptance:
    """What dynamic trees emit and draft, by replay of the trees that the drafter expanded at every
    position.

    The tree holds the drafter's likeliest tokens, none of them drawn: rejection with certain
    drafts, siblings tried in turn, then keeps a node as often as the target draws its token, at
    every temperature. So the nodes that spell the recorded text are kept. Where a recorded tree
    ends before the policy does, the step counts with its full size and emits what was recorded: a
    lower bound.

    Args:
        trace: with expansions, at any temperature.
        shape: of kind `dynamic_tree`.
        draws: of the requests; None: no samples.
        stop: `gain` ends drafting after a level that adds no more than `stop.at` expected tokens.

    Returns:
        With `lengths`, and `truncated_ratio` as the share of steps that are such a lower bound.

    Raises:
        InputError: no expansions, or a policy beyond what was recorded.
    """
    policy = tree_policy(shape, stop)
    if trace.expansions is None:
        raise InputError(
            "dynamic trees need a recording with the trees that the drafter expanded (`rooftree"
            " record --expansions`)",
            file=trace.file,
            key="shape.kind",
            value=shape.kind,
        )
    if policy.nodes > trace.expansions.nodes:
        rule = f"must lie in 1..{trace.expansions.nodes}, the nodes recorded"
        raise InputError(rule, file=trace.file, key="shape.nodes", value=policy.nodes)
    replay, steps = walk_policy(trace, policy)
    drafted = np.where(steps.exact, steps.nodes, policy.nodes)
    lengths = draft_lengths(drafted, steps.passes, steps.rows, ranked=True)
    return replace(
        _with_lengths(from_replay(replay, draws), lengths),
        shape=shape,
        stop=stop,
        truncated_ratio=float(np.mean(~steps.exact)),
    )


def stopped_chain(
    trace: AcceptanceTrace,
    draft_tokens: int,
    stop: Stop,
    draws: RequestDraws | None,
    law: Law = MATCHING,
) -> Acceptance:
    """What a chain emits and drafts that ends where the drafter is unsure.

    How sure the drafter is of a token behind one that was rejected is not recorded: the draft goes
    on as if the tokens before it had been accepted. How sure it is, is the probability of its
    likeliest candidate.

    Args:
        trace: level 3 (probabilities).
        draft_tokens: K, most draft tokens, >= 1.
        stop: `probability` or `product`.
        draws: of the requests; None: no samples.
        law: how drafts are verified: by matching, or as one chain of draws.

    Raises:
        InputError: another rule, a lower level, a lossy law, or numbers out of range.
    """
    ends = stopped(trace, stop)
    assert ends.drafted is not None
    drafted = np.minimum(ends.drafted, draft_tokens)
    passes = np.minimum(drafted + dropped_tokens(stop), draft_tokens)
    if law.by_matching:
        replay: Replayed = replay_chain(ends, draft_tokens)
        often = np.zeros(trace.positions)
        often[step_starts(ends, draft_tokens)] = 1.0
    elif law.lossy:
        raise InputError("is not known for drafts that end early", key="rule", value=law.rule)
    else:
        replay, often = _drawn(trace, draft_tokens, drafted, law)
    accepted = from_replay(replay, draws, rule=law.rule, note=law.note)
    return replace(
        _with_lengths(accepted, draft_lengths(drafted, passes, weights=often)), stop=stop
    )


def _drawn(trace: AcceptanceTrace, most: int, drafted: Whole, law: Law) -> tuple[Replayed, Array]:
    """Expected counts of chains of draws of these lengths, and the probability that a step starts
    at each position.
    """
    # numba takes half a second to load: only where it is needed
    from traces.replay.compiled_sampled import start_probabilities

    stays = survival(trace, most, cast(SampledRule, law.rule))
    stays = np.where(np.arange(most) < drafted[:, None], stays, 0.0)
    first = trace.first_step_position
    starts: Array = start_probabilities(stays, trace.offsets, first)
    request = np.repeat(np.arange(trace.requests), trace.output_tokens)
    steps = np.bincount(request, starts, minlength=trace.requests).astype(np.float64)
    tokens = np.maximum(trace.output_tokens - first, 0)
    return ExpectedReplay(draft_tokens=most, tokens=tokens, steps=steps), starts


def stopped(trace: AcceptanceTrace, stop: Stop) -> AcceptanceTrace:
    """The recording with drafts that end where a rule ends them: `drafted` holds their lengths.

    Args:
        trace: level 3 (probabilities).
        stop: `probability` ends a draft at the first token of a lower draft probability than
            `stop.at`, which is its last where it has `stop.unlikely_tokens`; `product` behind the
            token with which 1 - the product of the probabilities exceeds `stop.at`. Either leaves
            at least `stop.least_tokens`, and at most `stop.most_tokens` where that is not 0. No
            draft holds the last token of its text.

    Raises:
        InputError: another rule, a lower level, or numbers out of range.
    """
    if stop.rule not in ("probability", "product"):
        raise InputError("must be probability or product", key="stop.rule", value=stop.rule)
    if not 0.0 <= stop.at <= 1.0 or stop.least_tokens < 0 or stop.most_tokens < 0:
        raise InputError(
            "needs a probability, and numbers of tokens >= 0", key="stop.at", value=stop.at
        )
    trace.require(3, "ending drafts where the drafter is unsure")
    assert trace.draft_probs is not None and trace.emitted is not None
    place = np.arange(trace.positions)
    left: Whole = np.repeat(trace.offsets[1:], trace.output_tokens) - place
    sure = trace.draft_probs[:, 0].astype(np.float64)
    ends = (
        _at_unlikely(sure, left, stop)
        if stop.rule == "probability"
        else _behind_doubt(sure, left, stop)
    )
    if stop.most_tokens:
        ends = np.minimum(ends, stop.most_tokens)
    if trace.drafted is not None:
        ends = np.minimum(ends, trace.drafted)
    lengths = np.clip(ends, 0, np.iinfo(np.int16).max - 1).astype(np.int16)
    return replace(
        trace, drafted=lengths, match_rate=None, emitted=np.minimum(trace.emitted, lengths + 1)
    )


def dropped_tokens(stop: Stop) -> int:
    """Tokens that a pass of the drafter finds and nobody verifies."""
    return 1 - stop.unlikely_tokens if stop.rule == "probability" else 0


def _at_unlikely(sure: Array, left: Whole, stop: Stop) -> Whole:
    """Tokens from every position to the first unlikely one, with it where it is verified, or to the
    last of its text.
    """
    place, behind = np.arange(sure.size), stop.unlikely_tokens
    last = place + left - 1
    unsure = (sure < stop.at) | (left == 1)
    following = np.minimum.accumulate(np.where(unsure, place, sure.size)[::-1])[::-1]
    first = np.minimum(place + max(stop.least_tokens - behind, 0), last)
    return np.asarray(np.minimum(following[first] + behind, last) - place, dtype=np.int64)


def _behind_doubt(sure: Array, left: Whole, stop: Stop) -> Whole:
    """Tokens from every position to the one with which the probability of a rejection exceeds the
    threshold.
    """
    length = np.zeros(sure.size, dtype=np.int64)
    product, open_ = np.ones(sure.size), np.asarray(left > 1)
    while open_.any():
        at = np.flatnonzero(open_)
        product[at] *= sure[at + length[at]]
        length[at] += 1
        open_[at] = (length[at] < left[at] - 1) & (
            (1.0 - product[at] <= stop.at) | (length[at] < stop.least_tokens)
        )
        if stop.most_tokens:
            open_ &= length < stop.most_tokens
    return length


def _with_lengths(accepted: Acceptance, lengths: DraftLengths) -> Acceptance:
    proposing = 1.0 - float(lengths.tokens[0])
    return replace(
        accepted,
        lengths=lengths,
        proposal_ratio=proposing,
        proposed_tokens=lengths.mean_tokens / proposing if proposing else 0.0,
    )
