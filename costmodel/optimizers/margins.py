"""How narrowly did a choice win: what is as fast and simpler, and could a longer recording change
it?

Two configurations whose predicted tokens per second lie closer than the model tells apart tie; of
those the simpler one is less to run. A recording is enough where hardly any other draw of its
requests, of the same number, would have chosen something that is faster by more than the tolerance.
Leaves out the error of the cost model itself, which the intervals of an estimate hold
(`costmodel.answers.estimate`).
"""

from dataclasses import dataclass

import numpy as np

from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.search import Choice, Optimum
from costmodel.passes.ops import Array

TIE_RATIO = 0.01
"""Share of tokens per second within which two configurations of one cell tie."""
TOLERANCE_RATIO = 0.01
"""Share of tokens per second that may hide behind a recording's size."""
_LOW = 0.9  # of the draws, whose loss a recording's size may hide
_SHAPES = ("off", "chain", "tree", "dynamic_tree", "state_trees")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tie:
    """The simplest configuration that ties with a winner.

    Args:
        acceptance: of the winner's drafter, or no speculation.
        lost_ratio: share of the winner's tokens per second that it loses.
    """

    acceptance: Acceptance
    lost_ratio: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """Whether a recording is long enough for what was chosen on it.

    Args:
        tokens: recorded.
        loss_ratio: what the choice may lose against the best candidate of its drafter, since so few
            requests were recorded: the 90th percentile over draws of its requests.
        enough_tokens: recorded tokens at which that would be the tolerance, as errors fall with
            their root; where the loss is within it, the tokens at hand.
    """

    tokens: int
    loss_ratio: float
    enough_tokens: int

    @property
    def enough(self) -> bool:
        """Whether the recording at hand is."""
        return self.loss_ratio <= TOLERANCE_RATIO


def tied(winner: Choice, optimum: Optimum) -> Tie | None:
    """What is simpler than a winner, and as fast as the prediction can tell; None where nothing is.

    No speculation is simplest, then chains, static trees and dynamic ones, without an early stop
    before with one, and of each the fewer draft tokens.

    Args:
        winner: of a cell of the search.
        optimum: what was found, with its evaluations.
    """
    rates = _rates(winner, optimum)
    best = float(rates.max())
    simpler = [
        (_complexity(acceptance), place)
        for place, acceptance in enumerate(winner.contender.candidates)
        if rates[place] > best * (1.0 - TIE_RATIO)
        and _complexity(acceptance) < _complexity(winner.acceptance)
    ]
    if not simpler:
        return None
    _, place = min(simpler)
    lost = 1.0 - float(rates[place]) / winner.tokens_per_s
    return Tie(acceptance=winner.contender.candidates[place], lost_ratio=max(lost, 0.0))


def recorded(winner: Choice, optimum: Optimum, tokens: int) -> Recorded | None:
    """Whether the recording behind a winner suffices; None where its candidates were not drawn from
    one.

    Every candidate is drawn with the same requests, and its rate moves as its tokens per step do.

    Args:
        winner: of a cell of the search.
        optimum: what was found, with its evaluations.
        tokens: recorded positions.
    """
    rates = _rates(winner, optimum)
    draws = winner.acceptance.samples.size
    if not draws:
        return None
    drawn = [
        rate
        * (
            acceptance.samples
            if acceptance.samples.size == draws
            else np.full(draws, acceptance.tokens_per_step)
        )
        / acceptance.tokens_per_step
        for rate, acceptance in zip(rates.tolist(), winner.contender.candidates, strict=True)
        if np.isfinite(rate)
    ]
    own = winner.tokens_per_s * winner.acceptance.samples / winner.acceptance.tokens_per_step
    loss = max(float(np.quantile(np.max(drawn, axis=0) / own - 1.0, _LOW)), 0.0)
    tokens_needed = round(tokens * (loss / TOLERANCE_RATIO) ** 2)
    return Recorded(tokens=tokens, loss_ratio=loss, enough_tokens=max(tokens_needed, tokens))


def _rates(winner: Choice, optimum: Optimum) -> Array:
    """Tokens per second of the candidates of a winner's drafter where it won, [candidates]."""
    own = next(e for e in optimum.evaluations if e.contender is winner.contender)
    row, column = optimum.place(winner.batch, winner.context)
    return np.asarray(own.value[:, row, column])


def _complexity(a: Acceptance) -> tuple[int, bool, int]:
    shape = _SHAPES.index(a.topology) if a.topology in _SHAPES else len(_SHAPES)
    return shape, a.stop is not None, a.draft_tokens
