"""What says a search of whole deployments under a load? The design to run, those that come next, how
sure that is, and the front.

Leaves out what cannot run and files (`app.answers.optimize.recommended`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from app.answers.answer import Column, Row, Table
from app.answers.numbers import digits
from app.answers.optimize.rows import DesignRow, FinalistRow, MaskedQuality
from app.answers.sentences import folded
from hardware_profiles.units import MILLI

_FRONT_ROWS = 12
_NO_REGRET = 5e-4  # of the objective: 0.0 % where it is shown
_AXES = ("device", "layout", "dtype", "kv_dtype", "devices", "batch_cap", "token_budget")


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedLimits(Row):
    """The limits of latency; None where there is none."""

    ttft_s: Annotated[float | None, Column("Time to the first token.", unit="s")]
    tpot_s: Annotated[float | None, Column("Time per output token.", unit="s")]
    e2e_s: Annotated[float | None, Column("Time of a whole request.", unit="s")]
    good_share: Annotated[float | None, Column("Of requests within them; None: their means.")]
    meaning: Annotated[str | None, Column("In words.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedObjective(Row):
    """What is maximised."""

    maximise: Annotated[str, Column("Its name.")]
    unit: Annotated[str, Column("Its unit.")]
    traffic: Annotated[str, Column("`rate`: a rate is served; `steady`: replicas are busy.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchCounts(Row):
    """How much was looked at."""

    designs: Annotated[int, Column("Designs of all placements that can run.")]
    evaluated: Annotated[int, Column("Of them, those that were evaluated.")]
    nodes: Annotated[int, Column("Placements of a drafter.")]
    pruned_nodes: Annotated[int, Column("Of them, those that bounds ruled out.")]
    simulations: Annotated[int, Column("Simulations.")]

    @property
    def words(self) -> str:
        """What was looked at: `1,056 designs; 12 simulations of the best of them`."""
        left_out = self.designs - self.evaluated
        why = (
            f", {left_out:,} of which are ruled out by what they can reach at most"
            if left_out
            else ""
        )
        runs = f"; {self.simulations} simulations of the best of them" if self.simulations else ""
        return f"{self.designs:,} designs{why}{runs}"


@dataclass(frozen=True, kw_only=True)
class Designs(Row):
    """The designs of a load with what stands behind them.

    Attributes:
        inputs: what was asked.
        limits: of latency.
        load_per_s: requests per second that are to be served; None where none are stated.
        carried_per_s: of them, those that the first design carries.
        objective: what is maximised.
        choices: the design to run, or where none does what was asked, the nearest.
        alternatives: the best designs of other drafters and placements.
        expected_regret: what being wrong about the best costs, in the objective's unit.
        expected_regret_ratio: the same of the objective.
        front: designs that no other beats both for a user and of a device.
        search: how much was looked at.
        exports: paths of files by engine.
        schedules: none; a design has one draft.
        quality: what quality of masked blocks means, where their policies compete.
    """

    inputs: Mapping[str, Any]
    limits: AskedLimits
    load_per_s: float | None
    carried_per_s: float | None
    objective: AskedObjective
    choices: Sequence[FinalistRow]
    alternatives: Sequence[FinalistRow]
    expected_regret: float
    expected_regret_ratio: float
    front: Sequence[DesignRow]
    search: SearchCounts
    exports: Mapping[str, Sequence[str]]
    schedules: Sequence[str] = ()
    quality: MaskedQuality | None = None

    @property
    def winner(self) -> FinalistRow:
        """The design to run, or the nearest."""
        return self.choices[0]

    @property
    def own_rows(self) -> Sequence[DesignRow]:
        """Every design."""
        return [*self.choices, *self.alternatives, *self.front]

    @property
    def headline(self) -> str:
        """What to run, in plain words."""
        row = self.winner
        design = (
            f"{row.design}: {row.counted} on {row.devices} devices, at most {row.batch_cap:,}"
            f" requests of a scheduler and {row.token_budget:,} tokens of an iteration:"
            f" {digits(row.objective)} {self.objective.unit}"
        )
        missed = self.missed_words
        return f"{missed} Nearest is {design}" if missed else f"Run {design}"

    @property
    def missed_words(self) -> str:
        """That the rate is not carried or no design meets the limits, and what the nearest does;
        empty where all that was asked is done.
        """
        row = self.winner
        if not row.carries_load:
            return (
                f"The load is not carried: of {digits(self.load_per_s)} requests/s at most"
                f" {digits(self.carried_per_s)} are served."
            )
        if row.meets_limits:
            return ""
        run = row.simulated
        grows = "" if run is None or run.sustained else ", and its backlog grows"
        whole = "" if self.limits.e2e_s is None else f", {digits(row.seen_e2e_s)} s a request"
        return (
            f"No design meets the limits ({self.limits.meaning}): the nearest takes a mean TTFT of"
            f" {digits(row.seen_ttft_s / MILLI)} ms and a mean TPOT of"
            f" {digits(row.seen_tpot_s / MILLI)} ms{whole}{grows}."
        )

    @property
    def tied_words(self) -> str:
        """What decides between designs that reach the same; empty where only one reaches it."""
        compared = [*self.choices, *self.alternatives]
        tied = [row for row in compared if row.ties]
        if len(tied) < 2:
            return ""
        same = (
            f"serve all {digits(self.load_per_s)} requests/s"
            if self.load_per_s is not None and self.objective.maximise == "tokens"
            else f"reach the same {self.objective.unit} as far as simulations tell"
        )
        tpot_s, least_s = self.winner.seen_tpot_s, min(row.seen_tpot_s for row in tied)
        tpot = f"{digits(tpot_s / MILLI)} ms"
        why = (
            f"it has the lowest time per output token ({tpot})"
            if tpot_s <= least_s
            else f"its time per output token ({tpot}) is within 1 % of the lowest, and its first token"
            f" is earlier ({digits(self.winner.seen_ttft_s / MILLI)} ms)"
        )
        how_many = "All" if len(tied) == len(compared) else f"{len(tied)} of"
        return (
            f"{how_many} {len(compared)} designs compared {same}; this one is first because {why}."
            f"{self._cheaper_words(tied)}"
        )

    def _cheaper_words(self, tied: Sequence[FinalistRow]) -> str:
        """The cheapest of designs that reach the same, with its time per token; empty where that is
        the first, or no price is known.
        """
        priced = [row for row in tied if row.usd_per_hour is not None]
        if not priced or self.winner.usd_per_hour is None:
            return ""
        price, _, cheapest = min(
            (row.usd_per_hour or 0.0, place, row) for place, row in enumerate(priced)
        )
        if price >= self.winner.usd_per_hour:
            return ""
        return (
            f" Cheapest is {cheapest.design_in_pools}: $ {digits(price)} an hour, of"
            f" $ {digits(self.winner.usd_per_hour)}, at {digits(cheapest.seen_tpot_s / MILLI)} ms."
        )

    @property
    def _all_tie(self) -> bool:
        """Whether every design that was compared reaches the same, so that only times tell."""
        return bool(self.alternatives) and all(row.ties for row in self.alternatives)

    @property
    def sure_words(self) -> str:
        """How likely the first design is the best, against which it is closest, and what being wrong
        costs.
        """
        rows = [self.winner, *(row for row in self.alternatives if row.as_fast)]
        probability = sum(row.best_probability for row in rows)
        best = "Its time per token is the lowest" if self._all_tie else "Best"
        sentence = f"{best} of those compared with probability {100 * probability:.0f} %"
        if len(rows) > 1:
            same = " and ".join(row.design_in_pools for row in rows[1:])
            sentence += f", together with {same}, whose time per token nobody tells from it"
        others = [
            (row.loses_to_winner_probability, place, row)
            for place, row in enumerate(self.alternatives)
            if row.loses_to_winner_probability is not None and not row.as_fast
        ]
        if others:
            beaten, _, closest = min(others)
            sentence += f"; it beats {closest.design_in_pools} with {100 * beaten:.0f} %"
        if self.expected_regret_ratio < _NO_REGRET:
            return sentence
        return (
            f"{sentence}; expected to lose {digits(self.expected_regret)} {self.objective.unit}"
            f" ({100 * self.expected_regret_ratio:.1f} %) by being wrong"
        )

    def shown(self, *, explain: bool) -> Iterator[Table | str]:
        """What to run, how sure that is, and the designs.

        Args:
            explain: show the front, too.
        """
        yield folded(self.headline)
        if self.tied_words:
            yield folded(self.tied_words)
        yield folded(self.sure_words)
        yield self._designs()
        if explain:
            yield self._front()
        yield f"searched: {self.search.words}"

    def _designs(self) -> Table:
        caption = (
            "cap: requests in flight of a scheduler; budget: query tokens of an iteration; times"
            " are simulated means where a design was simulated; loses: probability that the first"
            " design reaches more, or as much at less TPOT"
        )
        reached = ["objective", "deviation"]
        if self._all_tie:  # which would be the same in every row
            reached, priced = [], {row.usd_per_hour for row in self.alternatives}
            reached += ["usd_per_hour"] if priced != {self.winner.usd_per_hour} else []
        else:
            caption += "; simulated: objective against the prediction; brackets: 80 % intervals"
        if any(row.as_fast for row in self.alternatives):
            caption += "; same: times within 1 %, or that simulations order now so, now otherwise"
        if any(row.prompt_workers for row in (*self.choices, *self.alternatives)):
            caption = f"workers: of prompts + of decoding; {caption}"
        if self.limits.meaning:
            caption += f"; limits: {self.limits.meaning}"
        return Table(
            title="the best design of each drafter and placement",
            rows=[*self.choices, *self.alternatives],
            columns=[
                *_AXES,
                "run",
                *(["agreement"] if self.quality is not None else []),
                *reached[:1],
                "seen_tpot_s",
                "seen_ttft_s",
                *([] if self.limits.e2e_s is None else ["seen_e2e_s"]),
                *reached[1:],
                "loses",
            ],
            heads={"objective": self.objective.unit} if "objective" in reached else {},
            caption=caption,
            once=_AXES,
        )

    def _front(self) -> Table:
        """About a dozen designs of the front, both its ends among them."""
        step = max(1, -(-len(self.front) // _FRONT_ROWS))
        rows = [*self.front[:-1:step], *self.front[-1:]]
        how_many = (
            f"{len(rows)} of {len(self.front)} designs, --json has all"
            if len(rows) < len(self.front)
            else "all designs"
        )
        return Table(
            title="front: what no other design beats in both",
            rows=rows,
            columns=[
                "tokens_per_s_per_user",
                "tokens_per_s_per_device",
                "design",
                "batch_cap",
                "token_budget",
            ],
            caption=f"predicted, of busy replicas whatever the limits; {how_many}",
        )
