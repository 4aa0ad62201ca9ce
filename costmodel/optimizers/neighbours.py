"""Why is a choice the best, and not its neighbours?

Sets beside a winner the draft one step shorter and longer, the next smaller and larger tree, the
best of every other shape and drafter, and no speculation, each with what it loses and through which
term; and what the winner loses at the neighbouring batches. Leaves out how it is said
(`app.render.html.neighbour_words`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from costmodel.answers.estimate import step_cost
from costmodel.answers.fit import fits
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.search import Choice, Optimum
from costmodel.passes.ops import Array

Kind = Literal["shorter", "longer", "shape", "drafter", "off"]
TERMS = ("tokens", "draft", "verify", "overhead")


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """A configuration beside the winner.

    Args:
        kind: the next shorter or longer draft (of trees by nodes), the best of another shape of the
            same drafter, the best of another drafter, or no speculation.
        source: index of the drafter.
        acceptance: the configuration.
        tokens_per_s: of the batch; 0 where it is not allowed.
        lost_ratio: share of the winner's tokens per second that it loses; None where it is not
            allowed.
        terms: what of `lost_ratio` each of `TERMS` brings, so that they add up to it: fewer tokens
            per step, and longer draft passes, verify passes and work of the engine; below 0 where
            the neighbour is the better one.
        barred: why it is not allowed: `memory` or `limits`; empty where it is.
    """

    kind: Kind
    source: int
    acceptance: Acceptance
    tokens_per_s: float
    lost_ratio: float | None
    terms: Mapping[str, float]
    barred: Literal["", "memory", "limits"] = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Carried:
    """What a winner loses at a neighbouring batch.

    Args:
        batch: requests there.
        lost_ratio: share of the tokens per second of the winner there; None where it is not
            allowed.
    """

    batch: int
    lost_ratio: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbourhood:
    """A winner among its neighbours at one batch and context.

    Args:
        winner: the choice.
        neighbours: nearest in speed first, those that are not allowed last.
        carried: the winner at the next smaller and the next larger batch of the grid.
    """

    winner: Choice
    neighbours: Sequence[Neighbour]
    carried: Sequence[Carried]


def neighbourhoods(optimum: Optimum) -> list[Neighbourhood]:
    """The winner of every batch and context among its neighbours, in the order of `optimum.cells`.

    Args:
        optimum: what was found, with its evaluations.
    """
    costs = _Costs(optimum)
    neighbourhood = []
    for cell in optimum.cells:
        winner = cell.winner
        at = optimum.place(winner.batch, winner.context)
        own = costs.contenders.index(winner.contender)
        best = next(i for i, a in enumerate(winner.contender.candidates) if a is winner.acceptance)
        beside = [
            _neighbour(costs, at, (own, best), other, kind)
            for kind, other in _beside(costs, at, own, best)
        ]
        beside.sort(
            key=lambda neighbour: np.inf if neighbour.lost_ratio is None else neighbour.lost_ratio
        )
        neighbourhood.append(
            Neighbourhood(
                winner=winner, neighbours=beside, carried=_carried(costs, at, (own, best))
            )
        )
    return neighbourhood


class _Costs:
    """Rates of all candidates, and seconds of those that are asked about over all points at
    once.
    """

    def __init__(self, optimum: Optimum) -> None:
        self.contenders = [evaluation.contender for evaluation in optimum.evaluations]
        self.rates = [evaluation.value for evaluation in optimum.evaluations]
        self.batches, self.contexts = optimum.batches, optimum.contexts
        self.parts = lru_cache(maxsize=None)(self._parts)

    def rate(self, which: tuple[int, int], at: tuple[int, int]) -> float:
        """Tokens per second of a candidate at a point; -inf where it is not allowed."""
        return float(self.rates[which[0]][which[1]][at])

    def _parts(self, contender: int, candidate: int) -> dict[str, Array]:
        """Seconds of a step by phase, each over all points; what is hidden counts to the draft."""
        b = np.array(self.batches, dtype=np.float64)[:, None]
        c = np.array(self.contexts, dtype=np.float64)[None, :]
        chosen = self.contenders[contender]
        step = step_cost(chosen.setting, chosen.candidates[candidate], batch=b, context=c)
        parts = {
            "draft": step.draft_s - step.hidden_s,
            "verify": step.verify_s,
            "overhead": step.overhead_s,
        }
        return {name: np.broadcast_to(value, (b.size, c.size)) for name, value in parts.items()}


def _beside(
    costs: _Costs, at: tuple[int, int], own: int, best: int
) -> Iterator[tuple[Kind, tuple[int, int]]]:
    """The candidates that stand beside the winner."""
    candidates = costs.contenders[own].candidates
    winner = candidates[best]
    alike = [
        i for i, a in enumerate(candidates) if _family(a) == _family(winner) and a.draft_tokens
    ]
    shorter = [i for i in alike if candidates[i].draft_tokens < winner.draft_tokens]
    longer = [i for i in alike if candidates[i].draft_tokens > winner.draft_tokens]
    if winner.draft_tokens:
        if shorter:
            yield "shorter", (own, max(shorter, key=lambda i: candidates[i].draft_tokens))
        if longer:
            yield "longer", (own, min(longer, key=lambda i: candidates[i].draft_tokens))
        yield "off", (own, 0)
    for place, contender in enumerate(costs.contenders):
        shapes = {_family(a) for a in contender.candidates if a.draft_tokens}
        shapes -= {_family(winner)} if place == own and winner.draft_tokens else set()
        if place != own and shapes:  # of another drafter only the best
            every = [i for i, a in enumerate(contender.candidates) if a.draft_tokens]
            yield "drafter", (place, max(every, key=lambda i: costs.rate((place, i), at)))
            continue
        for shape in sorted(shapes):
            those = [
                i
                for i, a in enumerate(contender.candidates)
                if a.draft_tokens and _family(a) == shape
            ]
            yield "shape", (place, max(those, key=lambda i: costs.rate((place, i), at)))


def _family(a: Acceptance) -> tuple[str, str, str]:
    """What two candidates share whose draft tokens may be compared one by one."""
    return a.topology, a.tree_source, "" if a.stop is None else a.stop.rule


def _neighbour(
    costs: _Costs, at: tuple[int, int], winner: tuple[int, int], other: tuple[int, int], kind: Kind
) -> Neighbour:
    contender = costs.contenders[other[0]]
    acceptance, rate = contender.candidates[other[1]], costs.rate(other, at)
    if not np.isfinite(rate):
        room = fits(
            contender.setting, acceptance, batch=costs.batches[at[0]], context=costs.contexts[at[1]]
        )
        barred: Literal["memory", "limits"] = "limits" if np.all(room) else "memory"
        return Neighbour(
            kind=kind,
            source=contender.source,
            acceptance=acceptance,
            tokens_per_s=0.0,
            lost_ratio=None,
            terms={},
            barred=barred,
        )
    return Neighbour(
        kind=kind,
        source=contender.source,
        acceptance=acceptance,
        tokens_per_s=rate,
        lost_ratio=1.0 - rate / costs.rate(winner, at),
        terms=_terms(costs, at, winner, other),
    )


def _terms(
    costs: _Costs, at: tuple[int, int], winner: tuple[int, int], other: tuple[int, int]
) -> dict[str, float]:
    """What a neighbour loses, by term; the sum is its share of tokens per second lost.

    With steps of s seconds and t tokens the loss is 1 - (t' / s') / (t / s) = sum of (part' - part)
    / s' over the parts of the step, and s / s' (1 - t' / t) for the tokens.
    """
    before, after = (
        {name: float(value[at]) for name, value in costs.parts(*place).items()}
        for place in (winner, other)
    )
    s, s_other = sum(before.values()), sum(after.values())
    t, t_other = (costs.contenders[i].candidates[j].tokens_per_step for i, j in (winner, other))
    tokens = (s / s_other) * (1.0 - t_other / t)
    return {"tokens": tokens} | {name: (after[name] - before[name]) / s_other for name in before}


def _carried(costs: _Costs, at: tuple[int, int], winner: tuple[int, int]) -> list[Carried]:
    """The winner at the next smaller and the next larger batch, where anything is allowed there."""
    row, column = at
    carried = []
    for there in (row - 1, row + 1):
        if not 0 <= there < len(costs.batches):
            continue
        best = max(float(np.max(rates[:, there, column])) for rates in costs.rates)
        rate = costs.rate(winner, (there, column))
        if np.isfinite(best):
            lost = 1.0 - rate / best if np.isfinite(rate) else None
            carried.append(Carried(batch=costs.batches[there], lost_ratio=lost))
    return carried
