"""What would a draft length for every kind of request gain over one for all of a batch?

Requests of several kinds share each step, as many of a kind as were recorded; a kind with K = 0 is
one that opts out. Each request drafts and verifies its own length. An engine that pads requests to
the longest draft has nothing of it. Leaves out lengths that change while a request runs
(`simulator.loop.length_policies`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.answers.estimate import estimate
from costmodel.draft_shape import chain
from costmodel.laws.acceptance import Acceptance
from costmodel.laws.draft_lengths import DraftLengths
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.candidates.asked_shapes import shape_acceptances
from costmodel.optimizers.chain_gains import chains_of
from costmodel.optimizers.drafters.sources import Source
from costmodel.passes.ops import Array

_ROUNDS = 3  # in which every kind's length is chosen anew, the others' held


@dataclass(frozen=True, kw_only=True, slots=True)
class KindLength:
    """One kind of request and its draft length.

    Args:
        kind: of the prompts.
        share: of the requests.
        draft_tokens: K; 0: it opts out.
        tokens_per_step: that its requests emit.
    """

    kind: str
    share: float
    draft_tokens: int
    tokens_per_step: float


@dataclass(frozen=True, kw_only=True, slots=True)
class KindLengths:
    """Draft lengths by kind at one batch and context.

    Args:
        batch: requests.
        context: cached tokens per request.
        draft_tokens: the best K for all.
        lengths: one a kind.
        gain_ratio: tokens per second over those with one length.
    """

    batch: int
    context: int
    draft_tokens: int
    lengths: tuple[KindLength, ...]
    gain_ratio: float


def kind_chains(
    source: Source, contender: Contender, seed: int
) -> dict[str, tuple[float, list[Acceptance]]]:
    """What chains emit of every kind of prompts: (share of the requests, chains).

    Args:
        source: a drafter with recorded positions.
        contender: whose chains are compared.
        seed: of the replays' draws.

    Returns:
        Kinds in alphabetical order; empty without positions or with fewer than two kinds.
    """
    recorded = source.positions
    kinds = [] if recorded is None else sorted(set(recorded.prompt_kinds))
    if recorded is None or len(kinds) < 2:
        return {}
    lengths = [contender.candidates[i].draft_tokens for i in chains_of(contender)]
    found = {}
    for kind in kinds:
        members = [i for i, own in enumerate(recorded.prompt_kinds) if own == kind]
        chains = shape_acceptances(
            replace(source, trace=recorded.select(members)),
            [chain(k) for k in lengths],
            generator=np.random.default_rng(seed),
        )
        found[kind] = len(members) / recorded.requests, list(chains)
    return found


def kind_lengths(
    contender: Contender,
    kinds: Mapping[str, tuple[float, Sequence[Acceptance]]],
    *,
    batch: int,
    context: int,
) -> KindLengths:
    """The best draft length of every kind, beside the best one for all.

    Args:
        contender: in whose setting steps are priced.
        kinds: of `kind_chains`, at least one.
        batch: requests.
        context: cached tokens per request.
    """
    shares = [share for share, _ in kinds.values()]
    chains = [of_kind for _, of_kind in kinds.values()]
    rates: dict[tuple[int, ...], float] = {}

    def rate(places: tuple[int, ...]) -> float:
        if places not in rates:
            mixed = mixed_chains(shares, [own[i] for own, i in zip(chains, places, strict=True)])
            answer = estimate(contender.setting, mixed, batch=batch, context=context)
            rates[places] = float(answer.tokens_per_s)
        return rates[places]

    width = range(len(chains[0]))
    alike = max(((i,) * len(chains) for i in width), key=rate)
    best = alike
    for _ in range(_ROUNDS):
        before = best
        for place in range(len(chains)):
            tried = [(*best[:place], i, *best[place + 1 :]) for i in width]
            best = max((best, *tried), key=rate)
        if best == before:
            break
    return KindLengths(
        batch=batch,
        context=context,
        draft_tokens=chains[0][alike[0]].draft_tokens,
        lengths=tuple(
            KindLength(
                kind=kind,
                share=share,
                draft_tokens=of_kind[place].draft_tokens,
                tokens_per_step=of_kind[place].tokens_per_step,
            )
            for (kind, (share, of_kind)), place in zip(kinds.items(), best, strict=True)
        ),
        gain_ratio=rate(best) / rate(alike) - 1.0,
    )


def mixed_chains(shares: Sequence[float], chains: Sequence[Acceptance]) -> Acceptance:
    """Chains of several lengths that run side by side in a batch.

    Args:
        shares: of the requests, summing to 1.
        chains: one a share; 0 draft tokens for those that opt out.

    Example:
        >>> from costmodel.laws.acceptance import geometric
        >>> mixed = mixed_chains([0.5, 0.5], [geometric(0.8, 3), geometric(0.0, 0)])
        >>> round(mixed.tokens_per_step, 3), mixed.lengths.mean_tokens
        (1.976, 1.5)
    """
    longest = max(own.draft_tokens for own in chains)
    emitted = sum(share * own.tokens_per_step for share, own in zip(shares, chains, strict=True))
    if not longest:
        return replace(chains[0], tokens_per_step=emitted)
    drafted, passes = np.zeros(longest + 1), np.zeros(longest + 1)
    for share, own in zip(shares, chains, strict=True):
        proposing = share * own.proposal_ratio if own.draft_tokens else 0.0
        drafted += _spread(own.proposed_tokens, proposing, longest + 1)
        drafted[0] += share - proposing
        passes[own.draft_tokens] += share
    lengths = DraftLengths(tokens=drafted, passes=passes, rows=np.ones(longest))
    return Acceptance(
        draft_tokens=longest,
        tokens_per_step=emitted,
        proposed_tokens=lengths.mean_tokens,
        lengths=lengths,
    )


def _spread(mean: float, weight: float, size: int) -> Array:
    """A weight at a mean that need not be whole, between the numbers around it."""
    low = min(int(mean), size - 1)
    spread = np.zeros(size)
    spread[low] = weight * (1.0 - (mean - low))
    spread[min(low + 1, size - 1)] += weight * (mean - low)
    return spread
