"""Which drafter, draft length, tree and batch, or which policy of masked blocks? The search of
`optimize` over batches and contexts.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from app.answers.cells import LISTED, MarkedCell, cells_of, names_of, runnable
from app.answers.deployables import Deployable, deployables, engines_to_write, file_paths
from app.answers.optimize.candidates import asked_drafters, deployment_options, draft_axes
from app.answers.optimize.choices import (
    cell,
    choice,
    curves,
    drafter,
    kind_rows,
    prompts_rows,
    schedule_rows,
    shared_schedules,
    topology_rows,
    unmet_rows,
)
from app.answers.optimize.counted import counted_answer
from app.answers.optimize.counted_rows import Counters
from app.answers.optimize.masked import (
    DEFAULT_MODEL,
    MaskedPolicies,
    paying_policies,
    policy_rows,
    unfit_rows,
    unplayed_rows,
)
from app.answers.optimize.rankings import Rankings
from app.answers.optimize.recommended import Recommended, RecommendedCells, together
from app.answers.optimize.rows import ChoiceRow
from app.answers.optimize.within_limits import UsersWithin, users_within
from app.answers.progress import progress_line
from app.answers.scoring.certainty import Certainty, how_sure
from app.exporters.registry import ENGINES
from app.questions.field import inputs_of
from app.questions.optimize import DEFAULT_BATCHES, OptimizeQuestion
from app.questions.places import is_object
from app.questions.resolve.accepted import named_sources
from app.questions.resolve.chosen_configuration import configuration_of
from app.questions.resolve.counters import (
    as_run,
    counters_source,
    running_adapters,
    running_engine,
    scrapes,
)
from app.questions.resolve.limits import asked_limits, refuse_percentiles, refuse_whole_requests
from costmodel.answers.workload import Limits
from costmodel.configuration import DecodingConfiguration
from costmodel.optimizers.drafters.sources import Source
from costmodel.optimizers.neighbours import Neighbourhood, neighbourhoods
from costmodel.optimizers.recommend import DraftAxes, Recommendation, compare, searched
from costmodel.optimizers.unmet import NothingAllowedError, UnmetPoint
from traces.importers.engines.ran import Running

_Row = TypeVar("_Row", MarkedCell, UsersWithin)
ModelCell = Mapping[str, str]  # names of its model, device and engine, where they are stated


@dataclass(frozen=True, kw_only=True)
class _Common:
    """What is the same of every cell.

    Attributes:
        axes: what may be drafted.
        limits: latency limits.
        running: what an engine ran, where its counters are stated.
        adapters: what it ran for every adapter, with its acceptance, where that is told.
        scraped: files of these counters.
        masked: policies of masked blocks, which compete in the place of drafts; None: drafts do.
    """

    axes: DraftAxes
    limits: Limits
    running: Running | None
    adapters: Mapping[str, tuple[Running, Source]]
    scraped: Sequence[Path]
    masked: MaskedPolicies | None


def search_points(
    question: OptimizeQuestion, masked: MaskedPolicies | None = None
) -> Recommended | RecommendedCells:
    """Search drafters, draft lengths, trees and batches of every model, device and engine.

    Args:
        question: what is asked.
        masked: policies of masked blocks, which compete in the place of drafts.

    Raises:
        InputError: a value that makes no sense, or a cell that cannot be answered.
    """
    scraped = scrapes(question.metrics, question.after)
    running: Running | None = None
    remarks: list[str] = []
    if scraped:
        running = running_engine(scraped, question.model)
        question, remarks = as_run(question, running)
    common = _common(question, masked, running, scraped)
    model = question.model or ("" if masked is None else DEFAULT_MODEL)
    cells = cells_of(question.values | {"model": model})
    searches, unmet, within = _searched(question, cells, common)
    inputs = _inputs(question, searches, common)
    folder = question.out if question.out is None or not is_object(question.out) else None
    several = len(cells) > 1
    answers = {}
    for search in searches:
        names = _names(search)
        name = _folder_name(names) if several else ""
        answers[name] = recommended(
            search,
            {**inputs, **names},
            common.limits,
            unmet=_of_cell(unmet, names),
            within_limits=_of_cell(within, names),
            folder=None if folder is None else folder / name,
            engines=engines_to_write(question.engines, names["engine"]),
            counters=None
            if running is None
            else counted_answer(
                search, running, common.limits, question.seed, remarks, common.adapters
            ),
            masked=masked,
            axes=common.axes,
            by_kind=question.by_kind,
            seed=question.seed,
        )
    if several or not answers:
        return together(inputs, common.limits, answers, unmet, within, folder)
    return answers[""]


def _common(
    question: OptimizeQuestion,
    masked: MaskedPolicies | None,
    running: Running | None,
    scraped: Sequence[Path],
) -> _Common:
    refuse_whole_requests(question)
    refuse_percentiles(
        question,
        "percentiles come from a load of requests: --search full simulates one, and so does"
        " `rooftree capacity`",
    )
    return _Common(
        axes=draft_axes(question, None if masked is None else masked.policies),
        limits=asked_limits(question),
        running=running,
        adapters={
            name: (own, _counted(question, own))
            for name, own in running_adapters(scraped, question.model).items()
        }
        if scraped
        else {},
        scraped=scraped,
        masked=masked,
    )


def _searched(
    question: OptimizeQuestion, cells: Sequence[ModelCell], common: _Common
) -> tuple[list[Recommendation], list[MarkedCell], list[UsersWithin]]:
    """What is found of every cell that has an answer, a row for every batch and context that has
    none, and the most users within the limits.
    """
    configured = _configured(question, common)
    floor = None if common.masked is None else common.masked.floor

    def search(cell: ModelCell) -> Recommendation | NothingAllowedError[UnmetPoint]:
        configuration, sources = configured(cell)
        drafters = compare(
            configuration,
            sources,
            grid=(question.batch, question.context),
            seed=question.seed,
            progress=progress,
            **common.axes,
        )
        within.extend(users_within(drafters, question.context, common.limits, floor=floor))
        try:
            return searched(
                drafters,
                batches=question.batch,
                contexts=question.context,
                limits=common.limits,
                floor=floor,
                drop_unfit="batch" not in question.stated and question.batch == DEFAULT_BATCHES,
                seed=question.seed,
                progress=progress,
            )
        except NothingAllowedError as error:
            return error

    searches: list[Recommendation] = []
    unmet: list[MarkedCell] = []
    within: list[UsersWithin] = []
    with progress_line(question.quiet) as progress:
        for cell, result in runnable(cells, search):
            if isinstance(result, str):
                unmet += [
                    MarkedCell(
                        model=cell.get("model", ""),
                        device=cell["device"],
                        engine=cell["engine"],
                        batch=b,
                        context=c,
                        reason=result,
                    )
                    for c in question.context
                    for b in question.batch
                ]
            elif isinstance(result, NothingAllowedError):
                unmet += unmet_rows(result.unmet, common.limits, floor)
            else:
                searches.append(result)
                unmet += unmet_rows(result.optimum.unmet, common.limits, floor)
                if common.masked is not None:
                    unmet += [*unplayed_rows(result), *unfit_rows(result, common.limits)]
    return searches, unmet, within


def _counted(question: OptimizeQuestion, running: Running) -> Source:
    """The drafter of an engine's drafts, at the acceptance that was counted."""
    return counters_source(
        running, question.method, question.match_rate, question.draft_tokens or ()
    )


def _configured(
    question: OptimizeQuestion, common: _Common
) -> Callable[[ModelCell], tuple[DecodingConfiguration, list[Source]]]:
    """What makes the configuration of a cell and the drafters that compete in it."""
    counted = None if common.running is None else _counted(question, common.running)
    options = deployment_options(question)

    def configured(cell: ModelCell) -> tuple[DecodingConfiguration, list[Source]]:
        configuration = configuration_of(None, {**options, "model": "", **cell})
        if counted is not None:
            return configuration, [
                counted,
                *named_sources(
                    question,
                    question.trace or (),
                    model=cell.get("model", ""),
                    lengths=question.draft_tokens or (),
                ),
            ]
        return asked_drafters(question, configuration, common.axes, common.masked)

    return configured


def _inputs(
    question: OptimizeQuestion, searches: Sequence[Recommendation], common: _Common
) -> dict[str, Any]:
    """What was asked, with the models and traces that were read."""
    models = (
        names_of(question.model, "--model")
        if question.model
        else dict.fromkeys(search.question.deployment.model for search in searches)
    )
    read = (source.path for search in searches for source in search.sources)
    traces = read if common.masked is None else question.trace or ()
    floor = question.quality_floor if common.masked is None else common.masked.floor
    return inputs_of(
        question,
        model=",".join(models),
        quality_floor=floor,
        trace=list(dict.fromkeys(str(path) for path in traces if path is not None)),
        metrics=[str(file) for file in common.scraped],
        drafter=question.drafter or [],
        set=question.overrides or [],
    )


def _names(search: Recommendation) -> dict[str, str]:
    where = search.question.deployment
    return {name: getattr(where, name) for name in LISTED}


def _of_cell(rows: Sequence[_Row], names: Mapping[str, str]) -> list[_Row]:
    """The rows of one model, device and engine."""
    return [row for row in rows if all(getattr(row, name) == names[name] for name in LISTED)]


def _how_sure(search: Recommendation) -> Certainty:
    """How sure what wins first is."""
    first = search.winners[0]
    source = None if first.topology == "off" else search.source(first)
    longest = max(choice.context for choice in search.winners)
    return how_sure(search.question.deployment, source, context_tokens=longest)


def _folder_name(names: Mapping[str, str]) -> str:
    """The folder of a cell among several: `llama-3.1-8b--l4--vllm`."""
    parts = (Path(name).name for name in names.values())
    return re.sub(r"[^\w.+-]+", "_", "--".join(parts))


def recommended(
    search: Recommendation,
    inputs: Mapping[str, Any],
    limits: Limits,
    *,
    unmet: Sequence[MarkedCell] = (),
    within_limits: Sequence[UsersWithin] = (),
    folder: Path | None = None,
    engines: Sequence[str] = ENGINES,
    counters: Counters | None = None,
    masked: MaskedPolicies | None = None,
    axes: DraftAxes | None = None,
    by_kind: bool = False,
    seed: int = 0,
) -> Recommended:
    """The answer of one cell.

    Args:
        search: what was found.
        inputs: what was asked.
        limits: that were asked for.
        unmet: marked rows.
        within_limits: the most users within the limits, at every context.
        folder: of the files of this cell; None where none are written.
        engines: that files are written for.
        counters: what an engine's counters say of what runs, where they are stated.
        masked: policies of masked blocks that were searched; None: drafts were.
        axes: what may be drafted; None: anything.
        by_kind: say what draft lengths by kind of requests gain.
        seed: of the intervals of policies, and of replays by kind.
    """
    first = search.winners[0]
    schedules = schedule_rows(search)
    place = (search.names[first.contender.source], first.context)
    main = next((row for row in schedules if (row.drafter, row.context) == place), None)
    choices: Sequence[ChoiceRow] = [choice(best, search) for best, *_ in search.optimum.ranked]
    alternatives: Sequence[ChoiceRow] = [
        choice(o, search) for _, *others in search.optimum.ranked for o in others
    ]
    around: Sequence[Neighbourhood | None] = [None] * len(choices)
    entries: list[Deployable] = []
    if masked is None:
        around = neighbourhoods(search.optimum)
        entries = deployables(search, context=first.context, engines=engines)
    else:
        choices, alternatives = policy_rows(search, masked.floor, seed)
    return Recommended(
        inputs=inputs,
        ranking=Rankings(
            inputs=inputs,
            cells=[
                cell(here, search, beside, first_token=limits.limited)
                for here, beside in zip(search.optimum.cells, around, strict=True)
            ],
            choices=choices,
            alternatives=alternatives,
            within_limits=within_limits,
            schedule=main.schedule if main is not None else [],
            schedule_loss_ratio=main.schedule_loss_ratio if main is not None else 0.0,
            schedules=schedules,
            context_schedules=shared_schedules(search),
            kind_lengths=kind_rows(search, seed) if by_kind else [],
            by_prompts=prompts_rows(search, seed, axes or {}),
            dropped_batches=list(search.optimum.dropped_batches),
            drafters=[drafter(s, n) for s, n in zip(search.sources, search.names, strict=True)],
            curves=curves(search),
            by_topology=topology_rows(search),
            exports={} if folder is None else file_paths(entries, folder),
            counters=counters,
            quality=None if masked is None else masked.quality,
            pays=None if masked is None else paying_policies(search, seed),
            how_sure=_how_sure(search),
        ),
        unmet=unmet,
        search=search,
        limits=limits,
        entries=entries,
        folder=folder,
    )
