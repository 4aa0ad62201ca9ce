"""What does `optimize` answer? What to run, at every batch and context or under one load, what comes
next, what cannot run, and files; of one model, device and engine or of several.

What a search says beside its choices is its ranking's to say (`rankings`, `designs`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from app.answers.answer import Answer, Table
from app.answers.cells import LISTED, MarkedCell, reason_lines
from app.answers.deployables import Deployable, file_lines, write_all
from app.answers.deployment_words import deployment_words
from app.answers.numbers import LOPSIDED, lopsided
from app.answers.optimize import words
from app.answers.optimize.counted_rows import Counters
from app.answers.optimize.counted_words import (
    adapter_tables,
    compared_tables,
    counted_lines,
    counted_table,
    flag_lines,
)
from app.answers.optimize.designs import Designs
from app.answers.optimize.headline import headline
from app.answers.optimize.load_words import load_line
from app.answers.optimize.neighbour_words import neighbour_lines, neighbour_table
from app.answers.optimize.rankings import Background, Rankings
from app.answers.optimize.rows import Candidate, CellRow, ChoiceRow, MaskedQuality, PolicyRow
from app.answers.optimize.within_limits import UsersWithin
from app.answers.scoring.certainty import certainty_lines
from app.answers.sentences import folded
from costmodel.answers.workload import Limits
from costmodel.optimizers.recommend import Recommendation
from hardware_profiles.errors import InfeasibleError

_POLICY = ["committed", "block_tokens", "cache"]  # what is run, of masked blocks


@dataclass(frozen=True, kw_only=True)
class Recommended(Answer):
    """What to run, of what competes under one model and engine.

    Attributes:
        ranking: what to run and what comes next, with what stands behind them: at every batch and
            context, or the designs of a load.
        unmet: batches and contexts, or placements, at which nothing is allowed, and policies without
            an answer.
        limits: that were asked for.
        entries: what the engines load that files were asked for; none where the first choice does
            not do what was asked.
        folder: that files go to; None where none are written.
        search: at batches and contexts, for pages that look further; None: under a load.
    """

    name: ClassVar[str] = "recommendation"
    unwritten: ClassVar[tuple[str, ...]] = ("limits", "entries", "folder", "search")
    spread: ClassVar[tuple[str, ...]] = ("ranking",)
    ranking: Rankings | Designs
    unmet: Sequence[MarkedCell]
    limits: Limits
    entries: Sequence[Deployable]
    folder: Path | None
    search: Recommendation | None = None

    @property
    def rankings(self) -> Rankings:
        """The ranking at every batch and context, which an answer to a load has not."""
        assert isinstance(self.ranking, Rankings)
        return self.ranking

    @property
    def designs(self) -> Designs:
        """The designs of a load, which an answer at batches and contexts has not."""
        assert isinstance(self.ranking, Designs)
        return self.ranking

    @property
    def recommendation(self) -> Recommendation:
        """The search at batches and contexts."""
        assert self.search is not None
        return self.search

    @property
    def choices(self) -> Sequence[Candidate]:
        """What to run."""
        return self.ranking.choices

    @property
    def alternatives(self) -> Sequence[Candidate]:
        """What comes next."""
        return self.ranking.alternatives

    @property
    def quality(self) -> MaskedQuality | None:
        """What quality of masked blocks means, where their policies compete."""
        return self.ranking.quality

    @property
    def own_rows(self) -> Sequence[Candidate | MarkedCell]:
        """What may be run, and what cannot."""
        return [*self.ranking.own_rows, *self.unmet]

    def require(self) -> None:
        """End where nothing does what was asked.

        Raises:
            InfeasibleError: what is missed.
        """
        if missed := self.ranking.missed_words:
            raise InfeasibleError(missed)
        super().require()

    def writers(self) -> Sequence[Callable[[Path, Path], object]]:
        """The files that engines load."""
        return [lambda stage, folder: write_all(self.entries, stage)]

    def documents(self) -> Mapping[str, Mapping[str, Any]]:
        """Of masked blocks, which few engines load, the first choice as a configuration."""
        first = self.choices[0].configuration
        if self.quality is None or first is None or self.ranking.missed_words:
            return {}
        return {"configuration.json": first}

    def shown(self) -> Iterator[Table | str]:
        """What to run and how sure that is, what it rests on, what cannot run, and what engines
        load; with `--explain` all that stands behind it.
        """
        ranking, explain = self.ranking, self.inputs["explain"]
        if isinstance(ranking, Designs):
            yield from ranking.shown(explain=explain)
            yield from reason_lines(
                [row for row in self.unmet if row.draft is None],
                ("device", "layout", "dtype", "kv_dtype"),
            )
            if self.quality is not None:
                yield from map(folded, self._policy_lines(self.quality))
        else:
            yield from self._rankings_shown(ranking, explain=explain)
        if not explain:
            yield "more: --explain says why, what else was compared, and every measured run"
        if self.folder is not None:
            yield from file_lines(self.entries, self.folder)
            if isinstance(ranking, Rankings) and self.quality is None:
                yield load_line(ranking.cells, self.folder / f"{self.name}.json")

    def _rankings_shown(self, ranking: Rankings, *, explain: bool) -> Iterator[Table | str]:
        """The answer and how sure it is, who wins where, and what that rests on."""
        if ranking.counters is not None:
            yield folded(ranking.counters.headline)
        elif not ranking.within_limits:
            yield folded(headline(ranking))
        yield from _within_lines(ranking.within_limits)
        if ranking.how_sure is not None:
            yield from certainty_lines([ranking.how_sure], explain=explain)
        yield from _winners(self.inputs, self.limits, [self], self.unmet)
        if self.quality is not None:
            if explain:
                yield self._front()
            yield from map(folded, self._policy_lines(self.quality))
        if ranking.counters is not None:
            yield from self._counted(ranking.counters, explain=explain)
        yield from map(folded, self._rests_on(ranking, explain=explain))
        if explain:
            yield from self.explained()

    def _counted(self, counters: Counters, *, explain: bool) -> Iterator[Table | str]:
        """What runs and what was counted of it, beyond the answer itself."""
        yield counted_table(counters)
        if explain:
            yield from compared_tables(counters)
        yield from adapter_tables(counters)
        lines = counted_lines(counters)
        yield from (folded(line) for line in lines if line != counters.headline)
        yield from flag_lines(counters)

    def _rests_on(self, ranking: Rankings, *, explain: bool) -> Iterator[str]:
        """Where acceptance comes from, what is simpler, the draft length by batch, and what the
        choice depends on and costs.
        """
        search = self.recommendation
        if explain:
            if any(
                lopsided(cell.tokens_per_s, cell.tokens_per_s_interval) for cell in ranking.cells
            ):
                yield LOPSIDED
            yield "speeds are of full batches: `rooftree simulate` shows what users see of a load"
            yield from words.drafter_lines(search, ranking.by_topology)
        else:
            yield from words.winner_lines(search)
        yield from words.margin_lines(ranking.cells)
        # of one batch the table says the draft, and its file holds no schedule
        is_scheduled = len(search.optimum.batches) > 1 and not ranking.context_schedules
        if explain or is_scheduled:
            yield from words.schedule_lines(search, ranking.schedules, explain=explain)
        yield from words.shared_schedule_lines(search, ranking.context_schedules)
        yield from words.kind_lines(ranking.kind_lengths)
        if line := self.prompts_line:
            yield line
        costs = [cell.drafting_cost for cell in ranking.cells if cell.drafting_cost is not None]
        yield from (cost.words for cost in costs[:1])
        if ranking.dropped_batches:
            dropped = ", ".join(map(str, ranking.dropped_batches))
            yield f"left out, too large for memory: batch {dropped}"

    @property
    def prompts_line(self) -> str:
        """How much the first choice depends on the prompts; empty where nobody published that."""
        source = self.recommendation.source(self.recommendation.winners[0])
        return words.prompts_line(self.rankings.by_prompts, source)

    def _front(self) -> Table:
        return Table(
            title="front: policies that nothing beats in both speed and agreement",
            rows=self.front_rows,
            columns=[
                "batch",
                "context",
                *_POLICY,
                "tokens_per_step",
                "agreement",
                "tokens_per_s",
                "speedup",
                "marks",
            ],
            once=["batch", "context", *_POLICY],
            kind=PolicyRow,
            yields=["tokens_per_step", "speedup"],
        )

    @property
    def front_rows(self) -> list[PolicyRow]:
        """Policies on the front of speed and agreement, those that agree most first."""
        rows = (*self.choices, *self.alternatives)
        front = [row for row in rows if isinstance(row, PolicyRow) and row.on_front]
        return sorted(front, key=lambda row: (row.context, row.batch, -(row.agreement or 0.0)))

    def _policy_lines(self, quality: MaskedQuality) -> Iterator[str]:
        """What quality means, when the twin is beaten, and what has no answer."""
        agreement = quality.words if self.inputs["explain"] else quality.brief
        yield f"{quality.policies} policies, floor {quality.floor:.1%}; agreement: {agreement}"
        yield from self.twin_lines
        yield from self.unplayed_lines

    @property
    def twin_lines(self) -> list[str]:
        """From which pace, and at which batches, the choices beat the twin."""
        if isinstance(self.ranking, Designs):
            return []
        chosen = [row.twin_words for row in self.choices if isinstance(row, PolicyRow)]
        return chosen + [row.words for row in self.ranking.pays or ()]

    @property
    def unplayed_lines(self) -> list[str]:
        """Reasons of the policies that have no answer, with how many they are."""
        reasons: dict[str, set[str]] = {}
        for row in self.unmet:
            if row.draft is not None:
                reasons.setdefault(row.reason, set()).add(row.draft)
        return [f"{len(names)} of the policies: {reason}" for reason, names in reasons.items()]

    def explained(self, name: str = "") -> Iterator[Table | str]:
        """Why each choice is the best, and not its neighbours.

        Args:
            name: of the answer among several; empty for the only one.
        """
        cells = self.rankings.cells
        if any(cell.neighbours for cell in cells):
            yield neighbour_table(cells, name.replace("--", " on ", 1).replace("--", ", "))
            yield from map(folded, neighbour_lines(cells))


@dataclass(frozen=True, kw_only=True)
class CellBackground(Background):
    """What stands behind the choices of one of several cells.

    Attributes:
        folder: of its files, within that of the whole answer.
    """

    folder: str


@dataclass(frozen=True, kw_only=True)
class RecommendedCells(Answer):
    """The answer for several models, devices and engines, or where nothing can be run.

    Attributes:
        choices: of all cells.
        alternatives: of all cells.
        unmet: batches and contexts at which nothing is allowed, of all cells.
        within_limits: the most users within the limits, of every cell and context.
        answers: what stands behind the choices of every cell that has any.
        by_folder: the answers of these cells.
        limits: that were asked for.
        folder: that files go to; None where none are written.
    """

    name: ClassVar[str] = "recommendations"
    unwritten: ClassVar[tuple[str, ...]] = ("by_folder", "limits", "folder")
    choices: Sequence[ChoiceRow]
    alternatives: Sequence[ChoiceRow]
    unmet: Sequence[MarkedCell]
    within_limits: Sequence[UsersWithin]
    answers: Sequence[CellBackground]
    by_folder: Mapping[str, Recommended]
    limits: Limits
    folder: Path | None

    @property
    def own_rows(self) -> Sequence[ChoiceRow | MarkedCell]:
        """Choices, alternatives, and what cannot be run."""
        return [*self.choices, *self.alternatives, *self.unmet]

    @property
    def has_files(self) -> bool:
        """Whether any cell has an answer; files of an earlier one stay where none has."""
        return bool(self.by_folder)

    @property
    def nested(self) -> Mapping[str, Answer]:
        """The answer of every cell, by the folder of its files."""
        return self.by_folder

    def shown(self) -> Iterator[Table | str]:
        """How many users the limits allow, and who wins where, in all cells."""
        yield from _within_lines(self.within_limits)
        yield from _winners(self.inputs, self.limits, list(self.by_folder.values()), self.unmet)
        explain = self.inputs["explain"]
        sure = (answer.rankings.how_sure for answer in self.by_folder.values())
        yield from certainty_lines([one for one in sure if one is not None], explain=explain)
        if explain:
            for name, answer in self.by_folder.items():
                yield from answer.explained(name)
        if self.folder is not None and self.by_folder:
            yield (
                f"files of every cell in a folder of its own below {self.folder}, all rows in"
                f" {self.folder / 'recommendations.json'}"
            )


def together(
    inputs: Mapping[str, Any],
    limits: Limits,
    by_folder: Mapping[str, Recommended],
    unmet: Sequence[MarkedCell],
    within_limits: Sequence[UsersWithin],
    folder: Path | None,
) -> RecommendedCells:
    """The answer of several cells, or of none.

    Args:
        inputs: what was asked.
        limits: that were asked for.
        by_folder: answers of the cells that have any, by the folder of their files.
        unmet: marked rows of all cells.
        within_limits: the most users within the limits, of all cells.
        folder: of the whole answer.
    """
    return RecommendedCells(
        inputs=inputs,
        choices=[row for answer in by_folder.values() for row in answer.rankings.choices],
        alternatives=[row for answer in by_folder.values() for row in answer.rankings.alternatives],
        unmet=unmet,
        within_limits=within_limits,
        answers=[
            CellBackground(
                folder=name,
                **{part.name: getattr(answer.ranking, part.name) for part in fields(Background)},
            )
            for name, answer in by_folder.items()
        ],
        by_folder=by_folder,
        limits=limits,
        folder=folder,
    )


def _within_lines(rows: Sequence[UsersWithin]) -> Iterator[str]:
    """The most users within the limits at every context, and what would serve more."""
    names = [name for name in LISTED if len({getattr(row, name) for row in rows}) > 1]
    for row in rows:
        where = ", ".join(str(getattr(row, name)) for name in names)
        yield folded(f"{where}: {row.words}" if where else row.words)
        if row.more_words:
            yield folded(f"  {row.more_words}")


def _winners(
    inputs: Mapping[str, Any],
    limits: Limits,
    answers: Sequence[Recommended],
    unmet: Sequence[MarkedCell],
) -> Iterator[Table | str]:
    """One table of the winner at every batch and context, why others cannot be, and the limits."""
    cells = [cell for answer in answers for cell in answer.rankings.cells]
    unmet = [row for row in unmet if row.draft is None]
    masked = inputs["quality_floor"] is not None
    chosen = [row for answer in answers for row in answer.rankings.choices] if masked else cells
    run, agrees = (_POLICY, ["agreement"]) if masked else (["run"], [])
    times = ["tpot_s"] if masked else ["tpot_s", "plain_tpot_s", "ttft_s"]
    rows: list[CellRow | ChoiceRow | MarkedCell] = [*chosen, *unmet]
    names = [name for name in LISTED if len({str(getattr(row, name)) for row in rows}) > 1]
    order = {
        name: list(
            dict.fromkeys(
                [*str(inputs[name]).split(","), *(str(getattr(row, name)) for row in rows)]
            )
        )
        for name in names
    }
    rows.sort(
        key=lambda row: (
            *(order[name].index(str(getattr(row, name))) for name in names),
            row.context or 0,
            row.batch or 0,
        )
    )
    # of several cells, and beside times of a limit, winners alone fit; of policies the front says
    # what comes next
    beside = [] if names or masked or limits.limited else ["next_best"]
    searches = [answer.recommendation for answer in answers]
    formats = dict.fromkeys(
        contender.setting.deployment.precision.label
        for search in searches
        for contender in search.contenders
    )
    known = {"dtype": ",".join(formats)} if formats else {}
    yield Table(
        title=f"{deployment_words({**inputs, **known})}: what to run at each batch",
        rows=rows,
        columns=[
            *names,
            "batch",
            "context",
            *run,
            "tokens_per_step",
            *agrees,
            "tokens_per_s",
            *(times if limits.limited else []),
            "speedup",
            *beside,
        ],
        caption=words.policy_caption(inputs["against"]) if masked else words.caption(searches),
        once=["context", *_POLICY[1:]],
        mark=run[0],
        yields=[*beside, "tokens_per_step"],
        kind=PolicyRow if masked else CellRow,
    )
    yield from map(folded, words.cell_lines(cells, searches))
    yield from reason_lines(unmet, names)
    if limits.limited:
        first_tokens = "; off: TPOT without speculation; TTFT: of one prompt of the context"
        yield folded(f"limits: {limits.words}{'' if masked else first_tokens}")
