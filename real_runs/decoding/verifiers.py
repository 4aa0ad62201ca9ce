"""Which drafts may stay, so that the text is the target's?

A rule looks at one node: the target's distribution after it, the drafter's, and the candidates below it in the
order in which they were drawn. It answers with numbers alone: the chance that each candidate stays once those
before it have fallen, and the distribution that the token comes from when all have. Every method is such a rule
and a word on how its candidates must be chosen; one walk plays them all. Chains may be judged as a whole
instead (`block_chances`). Leaves out where the distributions come from (`sampled`).

Reference: Leviathan et al., arXiv 2211.17192, and Chen et al., arXiv 2302.01318 (token rejection); Miao et al.,
SpecInfer, arXiv 2305.09781 (with replacement); Chen et al., Sequoia, arXiv 2402.12374, and Jeon et al.,
arXiv 2402.14160 (without replacement); Cai et al., Medusa, arXiv 2401.10774 (typical acceptance);
Sun et al., Block Verification, arXiv 2403.10444.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError, UnknownNameError

Row = NDArray[np.float64]
Draws = Literal["independent", "distinct", "largest"]

TYPICAL_THRESHOLD = 0.09
TYPICAL_ENTROPY_FACTOR = 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What a rule says of the candidates below one node.

    Attributes:
        accept: chance of every candidate to stay, given that all before it fell.
        residual: where the token comes from when all fell; float64 [vocabulary], sums to 1.
    """

    accept: tuple[float, ...]
    residual: Row


Rule = Callable[[Row, Row | None, Sequence[int]], Verdict]
"""Target's distribution, the drafter's (None for deterministic drafts), candidate ids in the order drawn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verifier:
    """One method of checking drafts.

    Attributes:
        name: of `VERIFIERS`.
        title: what it is, in words.
        lossless: the text has exactly the target's distribution.
        draws: how candidates must be chosen: "independent" or "distinct" samples of the drafter's distribution
            (with or without replacement); "any" where it does not matter.
        siblings: a node may have more than one candidate.
        rule: the mechanism; None where chains are judged as a whole.
        longest: what stays is fixed before anything is drawn, and the longest path that stays is taken.
    """

    name: str
    title: str
    lossless: bool
    draws: Literal["independent", "distinct", "any"]
    siblings: bool = True
    rule: Rule | None = None
    longest: bool = False


def rejection(target: Row, drafter: Row | None, candidates: Sequence[int], *, distinct: bool) -> Verdict:
    """Rounds of rejection: accept with min(1, p/q), else p becomes the normalised positive part of p - q.

    Args:
        target: p.
        drafter: q, which the candidates were drawn from.
        candidates: ids in the order drawn.
        distinct: they were drawn without replacement: q loses every candidate that fell and is normalised.
    """
    accept = []
    for token in candidates:
        if drafter is None:
            raise InputError("needs the distribution that drafts were drawn from", key="drafter")
        p, q = target[token], drafter[token]
        accept.append(0.0 if p == 0 else 1.0 if p >= q else float(p / q))
        target = normalised(np.maximum(target - drafter, 0.0), target)
        if distinct:
            drafter = normalised(without(drafter, token), drafter)
    return Verdict(accept=tuple(accept), residual=target)


def fixed_candidates(target: Row, drafter: Row | None, candidates: Sequence[int]) -> Verdict:
    """Candidates that were not drawn, q = 1: accept with p, else p loses the candidate and is normalised."""
    accept = []
    for token in candidates:
        accept.append(float(target[token]))
        target = normalised(without(target, token), target)
    return Verdict(accept=tuple(accept), residual=target)


def greedy(target: Row, drafter: Row | None, candidates: Sequence[int]) -> Verdict:
    """Accept the target's likeliest token and nothing else."""
    best = int(target.argmax())
    return Verdict(accept=tuple(float(token == best) for token in candidates), residual=one_hot(best, target.size))


def typical(
    target: Row, drafter: Row | None, candidates: Sequence[int], *, threshold: float, entropy_factor: float
) -> Verdict:
    """Accept what is likely enough: p above the least of a threshold and a share of exp(-entropy).

    The token that follows is the target's likeliest. Not the target's distribution: the likeliest tokens come
    more often than they should.

    Args:
        target: p.
        drafter: not looked at.
        candidates: ids.
        threshold: probability that is always enough.
        entropy_factor: share of exp(-entropy in nats) that is enough.
    """
    positive = target[target > 0]
    least = min(threshold, entropy_factor * float(np.exp((positive * np.log(positive)).sum())))
    accept = tuple(float(target[token] > least) for token in candidates)
    return Verdict(accept=accept, residual=one_hot(int(target.argmax()), target.size))


VERIFIERS: Mapping[str, Verifier] = {
    verifier.name: verifier
    for verifier in (
        Verifier(
            name="token-rejection",
            title="rejection sampling, one candidate per position",
            lossless=True,
            draws="independent",
            siblings=False,
            rule=partial(rejection, distinct=False),
        ),
        Verifier(
            name="with-replacement",
            title="rounds of rejection, candidates drawn with replacement",
            lossless=True,
            draws="independent",
            rule=partial(rejection, distinct=False),
        ),
        Verifier(
            name="without-replacement",
            title="rounds of rejection, candidates drawn without replacement",
            lossless=True,
            draws="distinct",
            rule=partial(rejection, distinct=True),
        ),
        Verifier(
            name="fixed-candidates",
            title="rejection of candidates as if the drafter had been certain of them",
            lossless=True,
            draws="any",
            rule=fixed_candidates,
        ),
        Verifier(name="block", title="chains judged as a whole", lossless=True, draws="independent", siblings=False),
        Verifier(
            name="greedy",
            title="the target's likeliest token, exact at temperature 0 alone",
            lossless=False,
            draws="any",
            rule=greedy,
        ),
        Verifier(
            name="typical",
            title="whatever the target finds likely enough",
            lossless=False,
            draws="any",
            rule=partial(typical, threshold=TYPICAL_THRESHOLD, entropy_factor=TYPICAL_ENTROPY_FACTOR),
            longest=True,
        ),
    )
}


def verifier_named(name: str) -> Verifier:
    """A verifier by its name.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if name not in VERIFIERS:
        raise UnknownNameError("verifier", name, tuple(VERIFIERS), key="verifier")
    return VERIFIERS[name]


def block_chances(targets: Sequence[Row], drafters: Sequence[Row], tokens: Sequence[int]) -> tuple[Row, Row]:
    """How likely a chain is to be cut at every length, judged as a whole.

    With r the running min(1, r p/q) and Z the positive mass of r p - q one token later, a prefix shorter than
    the chain passes with Z / (Z + 1 - r) and the whole chain with r. The longest prefix that passes is kept,
    and the token after it comes from `block_residual`.

    Args:
        targets: p after the root and after every token, K + 1 rows.
        drafters: q that every token was drawn from, K rows.
        tokens: K ids.

    Returns:
        The chance of every prefix of 1..K tokens to pass by itself, and r after 0..K tokens.
    """
    ratios = [1.0]
    for p, q, token in zip(targets, drafters, tokens, strict=False):
        ratios.append(float(min(1.0, ratios[-1] * p[token] / q[token])) if p[token] > 0 else 0.0)
    chances = []
    for kept in range(1, len(tokens)):
        mass = float(np.maximum(ratios[kept] * targets[kept] - drafters[kept], 0.0).sum())
        # nothing left over and r = 1 means p = q there: a longer prefix passes for certain
        chances.append(mass / (mass + 1 - ratios[kept]) if mass or ratios[kept] < 1 else 1.0)
    return np.asarray([*chances, *ratios[len(tokens) :][: len(tokens)]]), np.asarray(ratios)


def block_residual(target: Row, drafter: Row | None, ratio: float) -> Row:
    """Where the token after a kept prefix comes from: the positive part of r p - q; p after a whole chain."""
    return target if drafter is None else normalised(np.maximum(ratio * target - drafter, 0.0), target)


def drawn(row: Row, generator: np.random.Generator) -> int:
    """A token of a distribution, by inverting its distribution function at one number drawn."""
    cumulated = row.cumsum()
    place = int(np.searchsorted(cumulated, generator.random() * cumulated[-1], side="right"))
    return min(place, int(np.flatnonzero(row)[-1]))


def normalised(row: Row, otherwise: Row) -> Row:
    """The row over its sum; `otherwise` where there is nothing left, which has chance 0 but for rounding."""
    total = row.sum()
    return row / total if total > 0 else otherwise


def without(row: Row, token: int) -> Row:
    """The row with nothing on one token."""
    row = row.copy()
    row[token] = 0.0
    return row


def one_hot(token: int, vocabulary: int) -> Row:
    """Certainty of one token."""
    row = np.zeros(vocabulary)
    row[token] = 1.0
    return row
