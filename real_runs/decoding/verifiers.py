"""Which draft tokens are accepted, so that the text has the target's distribution?

A rule looks at one node: the target's distribution after it, the drafter's, and the candidates
below it in the order in which they were drawn. It answers with numbers alone: the probability that
each candidate is accepted once those before it were rejected, and the distribution that the token
comes from when all were. A method is such a rule with a statement of how its candidates must be
chosen; one walk serves all of them. Chains may be judged as a whole instead
(`block_probabilities`), also the best of several (`best_path`). What each rule keeps on a recording
is computed by the law of the same name in `costmodel.laws.acceptance`. Leaves out where the
distributions come from (`sampled`).

Reference: Leviathan et al., arXiv 2211.17192, and Chen et al., arXiv 2302.01318 (token rejection);
Miao et al., SpecInfer, arXiv 2305.09781 (with replacement); Chen et al., Sequoia, arXiv 2402.12374,
and Jeon et al., arXiv 2402.14160 (without replacement); Cai et al., Medusa, arXiv 2401.10774
(typical acceptance); Sun et al., Block Verification, arXiv 2403.10444.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError, UnknownNameError
from traces.replay.lossy import NEAR_MATCH_RATIO, TYPICAL_ENTROPY_FACTOR, TYPICAL_THRESHOLD

Row = NDArray[np.float64]
Draws = Literal["independent", "distinct", "largest"]


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeVerdict:
    """What a rule says of the candidates below one node.

    Attributes:
        accept: probability that every candidate is accepted, given that all before it were
            rejected.
        residual: the distribution of the token when all were rejected; float64 [vocabulary], sums
            to 1.
    """

    accept: tuple[float, ...]
    residual: Row


Rule = Callable[[Row, Row | None, Sequence[int]], NodeVerdict]
"""Target's distribution, the drafter's (None for deterministic drafts), candidate ids in the order
drawn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verifier:
    """One method of checking drafts.

    Attributes:
        name: of `VERIFIERS`.
        lossless: the text has exactly the target's distribution.
        draws: how candidates must be chosen: "independent" or "distinct" samples of the drafter's
            distribution (with or without replacement); "any" where it does not matter.
        shape: what it can judge: one chain, chains of one length that share the root alone, or any
            tree.
        rule: the mechanism; None where chains are judged as a whole.
        longest: what stays is fixed before anything is drawn, and the longest path that stays is
            taken.
    """

    name: str
    lossless: bool = True
    draws: Literal["independent", "distinct", "any"]
    shape: Literal["chain", "chains", "tree"] = "tree"
    rule: Rule | None = None
    longest: bool = False


def rejection(
    target: Row, drafter: Row | None, candidates: Sequence[int], *, distinct: bool
) -> NodeVerdict:
    """Rounds of rejection: accept with min(1, p/q), else p becomes the normalised positive part of
    p - q.

    Args:
        target: p.
        drafter: q, which the candidates were drawn from.
        candidates: ids in the order drawn.
        distinct: they were drawn without replacement: q loses every candidate that fell and is
            normalised.

    Raises:
        InputError: candidates without the distribution that they were drawn from.
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
    return NodeVerdict(accept=tuple(accept), residual=target)


def fixed_candidates(target: Row, drafter: Row | None, candidates: Sequence[int]) -> NodeVerdict:
    """Candidates that were not drawn, q = 1: accept with p, else p loses the candidate and is
    normalised.
    """
    accept = []
    for token in candidates:
        accept.append(float(target[token]))
        target = normalised(without(target, token), target)
    return NodeVerdict(accept=tuple(accept), residual=target)


def typical(
    target: Row,
    drafter: Row | None,
    candidates: Sequence[int],
    *,
    posterior_threshold: float,
    entropy_factor: float,
) -> NodeVerdict:
    """Accept what is likely enough: p above the least of a threshold and a share of exp(-entropy).

    The token that follows is the target's likeliest. Not the target's distribution: the likeliest
    tokens come more often than they should.

    Args:
        target: p.
        drafter: not looked at.
        candidates: ids.
        posterior_threshold: probability that is always enough.
        entropy_factor: share of exp(-entropy in nats) that is enough.
    """
    positive = target[target > 0]
    least = min(
        posterior_threshold, entropy_factor * float(np.exp((positive * np.log(positive)).sum()))
    )
    accept = tuple(float(target[token] > least) for token in candidates)
    return NodeVerdict(accept=accept, residual=one_hot(int(target.argmax()), target.size))


def near_match(
    target: Row, drafter: Row | None, candidates: Sequence[int], *, ratio: float
) -> NodeVerdict:
    """Accept what is nearly as likely as the target's likeliest token, which follows. Not the
    target's distribution.

    Args:
        target: p.
        drafter: not looked at.
        candidates: ids.
        ratio: share of the likeliest token's probability that is enough.
    """
    best = int(target.argmax())
    accept = tuple(
        float(target[token] > 0 and target[token] >= ratio * target[best]) for token in candidates
    )
    return NodeVerdict(accept=accept, residual=one_hot(best, target.size))


VERIFIERS: Mapping[str, Verifier] = {
    verifier.name: verifier
    for verifier in (
        # rejection sampling, one candidate per position
        Verifier(
            name="token_rejection",
            draws="independent",
            shape="chain",
            rule=partial(rejection, distinct=False),
        ),
        # rounds of rejection over several candidates
        Verifier(
            name="with_replacement", draws="independent", rule=partial(rejection, distinct=False)
        ),
        Verifier(
            name="without_replacement", draws="distinct", rule=partial(rejection, distinct=True)
        ),
        # rejection of candidates as if the drafter had been certain of them
        Verifier(name="fixed_candidates", draws="any", rule=fixed_candidates),
        # a chain judged as a whole, and the best of several
        Verifier(name="block", draws="independent", shape="chain"),
        Verifier(name="multi_path_block", draws="independent", shape="chains"),
        # a token drawn from the target that is no elder sibling equals this one just as often as it
        # would stay
        Verifier(name="match", draws="any", rule=fixed_candidates),
        # what is nearly as likely as the target's likeliest token, and what the target finds likely
        # enough
        Verifier(
            name="near_match",
            lossless=False,
            draws="any",
            rule=partial(near_match, ratio=NEAR_MATCH_RATIO),
            longest=True,
        ),
        Verifier(
            name="typical",
            lossless=False,
            draws="any",
            longest=True,
            rule=partial(
                typical,
                posterior_threshold=TYPICAL_THRESHOLD,
                entropy_factor=TYPICAL_ENTROPY_FACTOR,
            ),
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


def block_probabilities(
    targets: Sequence[Row], drafters: Sequence[Row], tokens: Sequence[int]
) -> tuple[Row, Row]:
    """How likely a chain is to be cut at every length, judged as a whole.

    With r the running min(1, r p/q) and Z the positive mass of r p - q one token later, a prefix
    shorter than the chain passes with Z / (Z + 1 - r) and the whole chain with r. The longest
    prefix that passes is accepted, and the token after it comes from `block_residual`.

    Args:
        targets: p after the root and after every token, K + 1 rows.
        drafters: q that every token was drawn from, K rows.
        tokens: K ids.

    Returns:
        The probability that every prefix of 1..K tokens passes by itself, and r after 0..K tokens.
    """
    ratios = [1.0]
    for p, q, token in zip(targets, drafters, tokens, strict=False):
        ratios.append(float(min(1.0, ratios[-1] * p[token] / q[token])) if p[token] > 0 else 0.0)
    passing = []
    for length in range(1, len(tokens)):
        mass = float(np.maximum(ratios[length] * targets[length] - drafters[length], 0.0).sum())
        # nothing left over and r = 1 means p = q there: a longer prefix passes for certain
        cut = 1 - ratios[length]  # first, as rounding would lose a small mass beside 1
        passing.append(mass / (mass + cut) if mass or cut else 1.0)
    return np.asarray([*passing, *ratios[len(tokens) :][: len(tokens)]]), np.asarray(ratios)


def block_residual(target: Row, drafter: Row | None, ratio: float) -> Row:
    """Where the token after an accepted prefix comes from: the positive part of r p - q; p after a
    whole chain.
    """
    return (
        target if drafter is None else normalised(np.maximum(ratio * target - drafter, 0.0), target)
    )


def best_path(
    targets: Sequence[Sequence[Row]],
    drafters: Sequence[Sequence[Row]],
    paths: Sequence[Sequence[int]],
) -> int:
    """The chain that goes on best: by p/q of its first token, then of its second, and so on; of
    equal ones the first.

    Args:
        targets: of every chain p after the root and after every token.
        drafters: of every chain q that every token was drawn from.
        paths: ids of every chain, all of one length.
    """

    def places(path: int) -> tuple[int, ...]:
        rows = zip(targets[path], drafters[path], paths[path], strict=False)
        return tuple(int(np.flatnonzero(_ordered(p, q) == token)[0]) for p, q, token in rows)

    return max(range(len(paths)), key=places)


def best_path_rows(
    targets: Sequence[Row], drafters: Sequence[Row], tokens: Sequence[int], paths: int
) -> list[Row]:
    """What the best of several chains was drawn from, token by token.

    The best chain begins with a prefix as often as all chains lie below or at it, less as often as
    all lie below. With these rows in the drafter's place, `block_probabilities` judges it as any
    other chain.

    Args:
        targets: p after the root and after every token of the chain.
        drafters: q that every token of the chain was drawn from.
        tokens: ids of the chain.
        paths: number of chains drawn.

    Returns:
        One distribution per token.
    """
    low, mass, rows = 0.0, 1.0, []
    for p, q, token in zip(targets, drafters, tokens, strict=False):
        order = _ordered(p, q)
        below = np.zeros(q.size)
        below[order[1:]] = q[order].cumsum()[:-1]
        lows, masses = low + mass * below, mass * q
        share = masses * sum(
            (lows + masses) ** more * lows ** (paths - 1 - more) for more in range(paths)
        )
        rows.append(normalised(share, q))
        low, mass = float(lows[token]), float(masses[token])
    return rows


def _ordered(target: Row, drafter: Row) -> NDArray[np.int64]:
    """Ids by p/q, the least first; what is never drawn comes first, and equal ones by id."""
    drawable = drafter > 0
    ratio = np.where(drawable, target / np.where(drawable, drafter, 1.0), -1.0)
    return np.argsort(ratio, kind="stable")


def drawn(row: Row, generator: np.random.Generator) -> int:
    """A token of a distribution, by inverting its distribution function at one number drawn."""
    cumulated = row.cumsum()
    place = int(np.searchsorted(cumulated, generator.random() * cumulated[-1], side="right"))
    return min(place, int(np.flatnonzero(row)[-1]))


def normalised(row: Row, otherwise: Row) -> Row:
    """The row over its sum; `otherwise` where there is nothing left, which has probability 0 but
    for rounding.
    """
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
