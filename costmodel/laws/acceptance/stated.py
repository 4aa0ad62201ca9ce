"""How many tokens does a step emit when the acceptance is stated, not recorded?

From one acceptance rate, from unconditional rates by depth (an engine's counters), or the number
itself (a paper's). Leaves out recordings (`recorded`), which know how steps of one text resemble
each other, and what `DepthRates` mean for a published method (`costmodel.laws.claims`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Self

import numpy as np

from costmodel.laws.acceptance.decay import ratio_cases, usual_ratio
from costmodel.laws.acceptance.means import rates_of_means
from costmodel.laws.acceptance.per_step import Acceptance
from costmodel.passes.ops import Array
from hardware_profiles.errors import InputError
from traces.kinds.summary import Summary
from traces.kinds.tree import Tree
from traces.replay.statistics import fitted_acceptance

MOST_RATES = 4095


@dataclass(frozen=True, kw_only=True, slots=True)
class DepthRates:
    """Acceptance that is known as numbers, for chains of any length.

    One rate that is stated for any length is the geometric law. Beyond the last position that is
    known, each further token is accepted, given those before it, so many times as often as the one
    before, as published drafters show.

    Example:
        >>> rates = DepthRates(by_depth=(0.8, 0.6), measured=2, drafted_by="head")
        >>> [round(rate, 2) for rate in rates.at(3)]
        [0.8, 0.6, 0.44]

    Args:
        by_depth: P(the first d draft tokens are all accepted) in a step with a proposal, d = 1, 2,
            ..; at least one rate in [0, 1], never increasing.
        measured: draft tokens up to which they are known; None: the law of one rate is stated for
            any length.
        tokens_per_step: emitted at `measured` draft tokens over all steps, where that number is
            what is known and the rates follow from it; None: the rates are what is known.
        means: emitted over all steps, by the draft tokens at which that was measured; empty where
            rates are known.
        proposal_ratio: share of steps with a proposal, 0 to 1.
        remark: printed beside answers that rest on them; empty for nothing.
        drafted_by: who drafts, as methods' entries say it, for how acceptance goes on; empty:
            anybody.
        decay_ratio: by which acceptance goes on per position beyond what is known; None: the median
            of `drafted_by`.

    Raises:
        InputError: no rate, rates outside [0, 1], or rates that increase.
    """

    by_depth: tuple[float, ...]
    measured: int | None = None
    tokens_per_step: float | None = None
    means: Mapping[int, float] = field(default_factory=dict)
    proposal_ratio: float = 1.0
    remark: str = ""
    drafted_by: str = ""
    decay_ratio: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.by_depth) <= MOST_RATES or not all(
            0.0 <= rate <= 1.0 for rate in self.by_depth
        ):
            rule = f"must be 1 to {MOST_RATES} rates in [0, 1]"
            raise InputError(rule, key="acceptance", value=list(self.by_depth))
        for depth, (before, after) in enumerate(pairwise(self.by_depth), 2):
            if after > before:
                rule = (
                    "must never increase: each is the share of steps in which that position was"
                    f" accepted, and position {depth} ({after:g}) is accepted only in steps that"
                    f" accepted position {depth - 1} ({before:g})"
                )
                raise InputError(rule, key="acceptance", value=list(self.by_depth))
        if not 0.0 <= self.proposal_ratio <= 1.0:
            raise InputError("must lie in [0, 1]", key="match_rate", value=self.proposal_ratio)

    @property
    def last_conditional(self) -> float:
        """Acceptance of the last token that is known, given that those before it were accepted."""
        before = self.by_depth[-2] if len(self.by_depth) > 1 else 1.0
        return self.by_depth[-1] / before if before > 0.0 else 0.0

    @property
    def known_tokens(self) -> int | None:
        """Draft tokens up to which acceptance is known; None: it is stated for any length."""
        if self.measured is None and len(self.by_depth) > 1:
            return len(self.by_depth)
        return self.measured

    def goes_beyond(self, draft_tokens: int) -> bool:
        """Whether a chain of K tokens is longer than what is known."""
        return self.known_tokens is not None and draft_tokens > self.known_tokens

    def at(self, draft_tokens: int) -> tuple[float, ...]:
        """One rate per draft token of a chain of K >= 0 tokens."""
        rates = list(self.by_depth[:draft_tokens])
        known_tokens = draft_tokens if self.known_tokens is None else self.known_tokens
        decay = self.decay_ratio
        if decay is None:
            decay = usual_ratio(self.drafted_by, max(known_tokens, 1))
        accepted = self.last_conditional
        while len(rates) < draft_tokens:
            if len(rates) >= known_tokens:
                accepted = min(accepted * decay, 1.0)
            rates.append(rates[-1] * accepted)
        return tuple(rates)

    def cases(self, draft_tokens: int) -> tuple[Self, ...]:
        """Ways in which acceptance may go on beyond what is known, equally likely; none for K
        within it.
        """
        if not self.goes_beyond(draft_tokens) or self.decay_ratio is not None:
            return ()
        ratios = ratio_cases(self.drafted_by, self.known_tokens or 1)
        return tuple(replace(self, decay_ratio=ratio) for ratio in ratios)

    def remark_at(self, draft_tokens: int) -> str:
        """The remark printed beside an answer for K draft tokens; may be empty."""
        words = [self.remark] if self.remark else []
        if self.goes_beyond(draft_tokens):
            known_tokens = self.known_tokens or 1
            low, high = np.quantile(ratio_cases(self.drafted_by, known_tokens), [0.1, 0.9])
            words.append(
                f"acceptance is known to K={known_tokens} and used to K={draft_tokens}; each further token"
                " is taken to be accepted, given those before it,"
                f" {usual_ratio(self.drafted_by, known_tokens):.2f} times as often as the one before"
                f" it is given those before that, {low:.2f} to {high:.2f} in the interval, as published"
                f" drafters{_of_blocks(self.drafted_by)} are"
            )
        elif self.tokens_per_step is not None and 0 < draft_tokens != self.measured:
            words.append(
                f"{self.tokens_per_step:g} tokens per step are known at K={self.measured}; shorter"
                " drafts follow the geometric law that emits as many there"
            )
        elif 0 < draft_tokens < max(self.means, default=0) and draft_tokens not in self.means:
            listed = ", ".join(f"{mean:g} at K={k}" for k, mean in sorted(self.means.items()))
            words.append(
                f"tokens per step are known to be {listed}; lengths between follow the nearest"
                " rates"
            )
        return "; ".join(words)

    def chain(self, draft_tokens: int) -> Acceptance:
        """What a chain of K >= 0 draft tokens emits per step.

        Raises:
            InputError: K < 0.
        """
        if draft_tokens < 0:
            raise InputError("must be >= 0", key="draft_tokens", value=draft_tokens)
        rates = self.at(draft_tokens)
        emitted = 1.0 + self.proposal_ratio * math.fsum(rates)
        if self.tokens_per_step is not None and draft_tokens == self.measured:
            emitted = self.tokens_per_step
        shorter = [k for k in self.means if k <= draft_tokens]
        longer = [k for k in self.means if k >= draft_tokens]
        if shorter and longer:  # rates that never increase cannot always meet every mean
            low, high = sorted((self.means[max(shorter)], self.means[min(longer)]))
            emitted = min(max(emitted, low), high)
        return Acceptance(
            draft_tokens=draft_tokens,
            tokens_per_step=emitted,
            proposal_ratio=self.proposal_ratio if draft_tokens else 0.0,
            proposed_tokens=float(draft_tokens),
            note=self.remark_at(draft_tokens) if draft_tokens else "",
            samples=self.samples(
                draft_tokens, lambda case: case.chain(draft_tokens).tokens_per_step
            ),
        )

    def samples(self, draft_tokens: int, emitted: Callable[[Self], float]) -> Array:
        """Tokens per step over the ways in which acceptance may go on; empty where K tokens are
        known.

        Args:
            draft_tokens: of the longest draft.
            emitted: tokens per step at rates.
        """
        return np.array([emitted(case) for case in self.cases(draft_tokens)], dtype=np.float64)


def _of_blocks(drafted_by: str) -> str:
    return " of whole blocks (most of them DSpark)" if drafted_by == "block" else ""


def longest_of(rates: DepthRates, guesses: int, draft_tokens: int) -> DepthRates:
    """The rates of the longest of several drafts side by side, each accepted by itself.

    Example:
        >>> one = DepthRates(by_depth=(0.5,))
        >>> [round(rate, 3) for rate in longest_of(one, 2, 3).by_depth]
        [0.75, 0.438, 0.234]

    Args:
        rates: of one draft.
        guesses: drafts b >= 1 of a step.
        draft_tokens: tokens K >= 1 of each.

    Returns:
        1 - (1 - r_d)^b at depth d, known for K tokens: K + 1 - sum over d of (1 - r_d)^b tokens per
        step.

    Raises:
        InputError: fewer guesses or tokens than one.

    Reference: Fu et al. 2024, "Lookahead Decoding" (arXiv:2402.02057), where its scaling is
    derived: b speculations at once, each token of which is accepted with one probability.
    """
    if guesses < 1 or draft_tokens < 1:
        raise InputError(
            "must be at least one guess of one token", key="guesses", value=(guesses, draft_tokens)
        )
    by_depth = tuple(1.0 - (1.0 - rate) ** guesses for rate in rates.at(draft_tokens))
    return replace(rates, by_depth=by_depth, measured=draft_tokens)


def length_rates(
    tokens_per_step: float, draft_tokens: int, *, match_rate: float = 1.0
) -> DepthRates:
    """The geometric rates of chains that emit a stated number of tokens at a stated length.

    Args:
        tokens_per_step: emitted over all steps, the bonus token counted.
        draft_tokens: K >= 1 at which they were measured.
        match_rate: share of steps with a proposal, above 0; the others emit one token.

    Raises:
        InputError: fewer tokens than 1, or more than K draft tokens can emit.
    """
    _require_possible(tokens_per_step, draft_tokens, match_rate)
    within = 1.0 + (tokens_per_step - 1.0) / match_rate
    rate = fitted_acceptance(min(within, draft_tokens + 1.0), draft_tokens)
    return DepthRates(
        by_depth=(rate,),
        measured=draft_tokens,
        tokens_per_step=tokens_per_step,
        proposal_ratio=match_rate,
    )


def means_rates(means: Mapping[int, float], *, match_rate: float = 1.0) -> DepthRates:
    """The rates of chains whose tokens per step were measured at several lengths; between them the
    nearest law.

    Args:
        means: emitted over all steps, the bonus token counted, by draft tokens K >= 1; at least
            one.
        match_rate: share of steps with a proposal, above 0; the others emit one token.

    Raises:
        InputError: a number that no chain of that length can emit.
    """
    if len(means) == 1:
        ((draft_tokens, mean),) = means.items()
        return length_rates(mean, draft_tokens, match_rate=match_rate)
    for draft_tokens, mean in means.items():
        _require_possible(mean, draft_tokens, match_rate)
    within = {k: 1.0 + (mean - 1.0) / match_rate for k, mean in means.items()}
    return DepthRates(
        by_depth=tuple(rates_of_means(within)),
        measured=max(means),
        means=dict(means),
        proposal_ratio=match_rate,
    )


def _require_possible(tokens_per_step: float, draft_tokens: int, match_rate: float) -> None:
    """Refuse tokens per step that no chain of that length emits.

    Raises:
        InputError: fewer than 1, or more than K draft tokens can emit.
    """
    most = 1.0 + match_rate * draft_tokens
    if draft_tokens < 1 or match_rate <= 0.0 or not 1.0 <= tokens_per_step <= most:
        rule = f"must lie in [1, {most:g}], what {draft_tokens} draft levels can emit"
        raise InputError(rule, key="tokens_per_step", value=tokens_per_step)


def counted_rates(summary: Summary, *, match_rate: float = 1.0) -> DepthRates | None:
    """The rates that a recording of level 0 holds: by depth, else of its first candidates, else its
    mean.

    Args:
        summary: counts without positions; they hold for steps with a proposal.
        match_rate: share of steps with a proposal.

    Returns:
        The rates; None where the summary holds no acceptance, or a mean and no draft length.
    """
    if summary.acceptance_by_depth:
        rates = summary.acceptance_by_depth
        return DepthRates(by_depth=rates, measured=len(rates), proposal_ratio=match_rate)
    if summary.sibling_vectors:
        firsts = np.cumprod([vector[0] if vector else 0.0 for vector in summary.sibling_vectors])
        measured = None if len(firsts) == 1 else len(firsts)
        return DepthRates(
            by_depth=tuple(firsts.tolist()), measured=measured, proposal_ratio=match_rate
        )
    emitted, levels = summary.tokens_per_step, summary.draft_levels
    if emitted is None or levels is None:
        return None
    return length_rates(1.0 + match_rate * (emitted - 1.0), levels, match_rate=match_rate)


def geometric(rate: float, draft_tokens: int, *, match_rate: float = 1.0) -> Acceptance:
    """Acceptance of a chain whose every token is accepted with the same probability, independently.

    Example:
        >>> round(geometric(0.8, 3).tokens_per_step, 3)
        2.952

    Args:
        rate: acceptance rate of one token, 0 to 1.
        draft_tokens: K >= 0.
        match_rate: share of steps with a proposal; `rate` holds within those.

    Returns:
        (1 - rate^(K+1)) / (1 - rate) tokens in a step with a proposal, 1 in the others.

    Raises:
        InputError: a rate outside [0, 1], K < 0.

    Reference: Leviathan et al. 2022 (arXiv:2211.17192), equation 1.
    """
    if not 0.0 <= rate <= 1.0:
        raise InputError("must lie in [0, 1]", key="acceptance", value=rate)
    return DepthRates(by_depth=(rate,), proposal_ratio=match_rate).chain(draft_tokens)


def from_depth_rates(rates: Sequence[float], *, match_rate: float = 1.0) -> Acceptance:
    """Acceptance of a chain from unconditional rates by depth, one per draft token; see
    `DepthRates`.

    Args:
        rates: P(the first d draft tokens are all accepted) for d = 1..K, non-increasing.
        match_rate: share of steps with a proposal.

    Raises:
        InputError: rates outside [0, 1] or increasing.
    """
    if not rates:
        return geometric(0.0, 0)
    return DepthRates(by_depth=tuple(rates), proposal_ratio=match_rate).chain(len(rates))


def stated(tokens_per_step: float, shape: int | Tree, *, proposal_ratio: float = 1.0) -> Acceptance:
    """Acceptance of a shape whose tokens per step were measured elsewhere.

    Args:
        tokens_per_step: emitted tokens per step over all steps, the bonus token counted.
        shape: K of a chain, or the tree.
        proposal_ratio: share of steps with a proposal; the others emit one token.

    Raises:
        InputError: less than 1, or more than the shape can emit.

    >>> stated(2.5, 3).tokens_per_step
    2.5
    """
    if not 0.0 <= proposal_ratio <= 1.0:
        raise InputError("must lie in [0, 1]", key="proposal_ratio", value=proposal_ratio)
    tree = shape if isinstance(shape, Tree) else None
    levels = shape.depth - 1 if isinstance(shape, Tree) else shape
    draft_tokens = tree.draft_tokens if tree is not None else levels
    most = 1.0 + proposal_ratio * levels
    if not 1.0 <= tokens_per_step <= most:
        rule = f"must lie in [1, {most:g}], what {levels} draft levels can emit"
        raise InputError(rule, key="tokens_per_step", value=tokens_per_step)
    return Acceptance(
        draft_tokens=draft_tokens,
        tokens_per_step=tokens_per_step,
        proposal_ratio=proposal_ratio if draft_tokens else 0.0,
        proposed_tokens=float(draft_tokens),
        tree=tree,
    )
