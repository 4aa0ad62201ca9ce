"""What did somebody publish about how many drafts of a drafter a target keeps?

One entry is one drafter on one target, data set and temperature. Leaves out where entries are
stored (`library`) and which of them suits a question (`matching`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from hardware_profiles.errors import InputError

if TYPE_CHECKING:
    from costmodel.laws.acceptance import Acceptance

Shape = Literal["chain", "tree", "dynamic_tree", "block"]
Counted = Literal["steps", "proposals"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedAcceptance:
    """One published figure, with where it stands.

    Args:
        method: slug of a method of the catalogue, or the name of a published one that the catalogue
            lacks.
        target: shipped model, or the published name in the same form where none is shipped.
        published_target: the target as the source names it, with its weight format where it says
            so.
        drafter: drafter as the source names it; empty where it does not.
        data_set: prompts, as the source names them.
        temperature: sampling temperature; None where the source does not say.
        tokens_per_step: mean tokens that a step emits, by draft tokens K; the bonus or correction
            token is counted, so that 1 means that nothing was accepted.
        rates: P(the first d drafts are all accepted) for d = 1, 2, ...; empty where only means were
            published.
        counted: `steps` where every step counts; `proposals` where steps without a proposal were
            left out, as engines do for look-up drafters.
        shape: what one step verifies; K counts all of its draft tokens, the root excluded.
        engine: what ran it; empty where not stated.
        source: repository, paper, model card or thread.
        place: table, file and commit, or comment, within the source.
        licence: of the table, or `fact` where a single number is quoted.
        checked: ISO date on which the number was compared with its source; empty where it was taken
            from a list of such numbers and not compared again.
        note: what a reader of the number should know.
    """

    method: str
    target: str
    published_target: str
    drafter: str = ""
    data_set: str
    temperature: float | None = None
    tokens_per_step: Mapping[int, float] = field(default_factory=dict)
    rates: tuple[float, ...] = ()
    counted: Counted = "steps"
    shape: Shape = "chain"
    engine: str = ""
    source: str
    place: str
    licence: str
    checked: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        check(self)

    @property
    def draft_tokens(self) -> int:
        """Most draft tokens per step that were measured."""
        return max([len(self.rates), *self.tokens_per_step])

    @property
    def mean_tokens_per_step(self) -> float:
        """Tokens per step at the most draft tokens measured, the bonus token counted."""
        return self.tokens_per_step.get(self.draft_tokens, 1.0 + sum(self.rates))

    def depth_rates(self, draft_tokens: int) -> tuple[float, ...]:
        """P(the first d drafts are all accepted), d = 1..K.

        The published rates where there are some. From means alone: what a longer draft gains over
        the next shorter one that was measured is spread as if each of its further tokens were
        accepted at one rate; gains that grow with K, which noise alone can cause, are averaged with
        their neighbours. Beyond the longest draft measured, acceptance goes on as that of published
        drafters does (`costmodel.laws.acceptance.decay`).

        Args:
            draft_tokens: K >= 0.

        Raises:
            InputError: the shape is no chain, or K < 0.
        """
        if self.shape != "chain":
            raise InputError(
                f"was published for a {self.shape}, not a chain", key="shape", value=self.data_set
            )
        if draft_tokens < 0:
            raise InputError("must be >= 0", key="draft_tokens", value=draft_tokens)
        from costmodel.laws.acceptance import DepthRates
        from costmodel.laws.acceptance.means import rates_of_means

        rates = list(self.rates) or rates_of_means(self.tokens_per_step)
        return DepthRates(by_depth=tuple(rates), measured=len(rates)).at(draft_tokens)

    def mean_at(self, draft_tokens: int) -> float:
        """Tokens per step of a chain of K tokens: as published where K was measured, else from
        `depth_rates`.
        """
        published = self.tokens_per_step.get(draft_tokens)
        return 1.0 + sum(self.depth_rates(draft_tokens)) if published is None else published

    def acceptance(self, draft_tokens: int, *, match_rate: float | None = None) -> Acceptance:
        """What a chain of K draft tokens emits per step: the published mean at a K that was
        measured.

        Example:
            >>> from costmodel.acceptance_library import best_match
            >>> entry = best_match("eagle-3", "llama-3.1-8b").entry
            >>> round(entry.acceptance(3).tokens_per_step, 2)
            2.69

        Args:
            draft_tokens: K >= 0; see `depth_rates` for a K that was not measured.
            match_rate: share of steps with a proposal, needed where the source counted only those.

        Raises:
            InputError: the shape is no chain, or `match_rate` is missing or out of range.
        """
        from costmodel.laws.acceptance import from_depth_rates, stated

        if self.counted == "steps":
            match_rate = 1.0
        elif match_rate is None:
            rule = "counts steps with a proposal alone; state the share of steps that have one"
            raise InputError(f"{self.source} {rule}", key="match_rate")
        rates = self.depth_rates(draft_tokens)
        if draft_tokens in self.tokens_per_step:
            mean = 1.0 + match_rate * (self.tokens_per_step[draft_tokens] - 1.0)
            return stated(mean, draft_tokens, proposal_ratio=match_rate)
        return from_depth_rates(rates, match_rate=match_rate)


def check(entry: PublishedAcceptance) -> None:
    """Refuse numbers that no decoding can produce.

    Raises:
        InputError: rates outside [0, 1] or increasing, a mean outside [1, K + 1], or nothing
            published.
    """
    where = f"{entry.method} on {entry.published_target}, {entry.data_set}"
    if not entry.rates and not entry.tokens_per_step:
        raise InputError("needs rates or tokens_per_step", key=where)
    falling = all(a >= b for a, b in zip(entry.rates, entry.rates[1:], strict=False))
    if not falling or not all(0.0 <= rate <= 1.0 for rate in entry.rates):
        raise InputError(
            "rates must lie in [0, 1] and never increase", key=where, value=list(entry.rates)
        )
    for draft_tokens, mean in entry.tokens_per_step.items():
        if draft_tokens < 1 or not 1.0 <= mean <= draft_tokens + 1:
            raise InputError(
                "tokens_per_step must lie in [1, K + 1]", key=where, value={draft_tokens: mean}
            )
