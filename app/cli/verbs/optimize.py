"""`optimize`: which configuration to run, ranked with intervals, and the files that engines
load.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.answers.answer import Answer
from app.cli.door import hand_over
from app.cli.output import Answered
from app.questions.field import Stated
from app.questions.fields import (
    Batch,
    Context,
    Csv,
    Data,
    DraftShapes,
    DraftTokens,
    Expert,
    Fidelity,
    Json,
    ModelOrTraces,
    Pipeline,
    Quiet,
    Seed,
    SloTpot,
    SloTtft,
    StopRule,
)
from app.questions.groups import (
    AcceptanceOptions,
    DraftingOptions,
    JointOptions,
    RefiningOptions,
    StoredOptions,
)
from app.questions.optimize import (
    DEFAULT_BATCHES,
    DEFAULT_OUT,
    EngineFolder,
    Explain,
    MethodOfNumbers,
    Metrics,
    OptimizeQuestion,
    QualityFloor,
    SecondScrape,
    Traces,
    TreeNodes,
)
from app.questions.resolve.accepted import as_given, draft_lengths, named_sources
from app.questions.resolve.asked import asked
from app.questions.resolve.refining import refines
from app.questions.resolve.unnamed import DEFAULT_TREES, beside_own, unnamed
from app.questions.values import MOST_DRAFT_TOKENS, method_slug, milliseconds, whole_numbers

if TYPE_CHECKING:
    from app.cli.cell_answers import CellAnswer
    from costmodel.answers.workload import Limits
    from costmodel.configuration import DecodingConfiguration
    from costmodel.draft_shape import DraftShape
    from costmodel.optimizers.drafters.sources import Source
    from costmodel.optimizers.recommend import Recommendation
    from traces.importers.engines.running import Running


def optimize(
    placed: StoredOptions,
    drafting: DraftingOptions,
    accepted: AcceptanceOptions,
    refining: RefiningOptions,
    joint: JointOptions,
    stated: Stated,
    after: SecondScrape = None,
    model: ModelOrTraces = "",
    trace: Traces = None,
    metrics: Metrics = None,
    method: MethodOfNumbers = "",
    batch: Batch = DEFAULT_BATCHES,
    context: Context = "1024",
    shape: DraftShapes = None,
    draft_tokens: DraftTokens = None,
    tree_nodes: TreeNodes = DEFAULT_TREES,
    stop: StopRule = "",
    slo_ttft: SloTtft = None,
    slo_tpot: SloTpot = None,
    quality_floor: QualityFloor = None,
    pp: Pipeline = 1,
    ep: Expert = 1,
    dp: Data = 1,
    fidelity: Fidelity = "calibrated",
    out: EngineFolder = DEFAULT_OUT,
    explain: Explain = False,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered | Answer:
    """Search drafters, draft lengths, trees and batches; write what engines load."""
    from app.answers.cells import cells_of, names_of
    from app.cli.cell_answers import cell_answer, together
    from app.cli.progress import progress_line
    from app.questions.places import require_folder
    from app.questions.resolve.counters import counters_source, running_engine, scrapes
    from costmodel.answers.workload import Limits
    from costmodel.draft_shape import read_stop

    if out is not None:
        require_folder(out)
    deliver_as: dict[str, Any] = {"json": json, "out": out, "csv": csv, "quiet": quiet}
    given = {
        **asdict(placed),
        **asdict(drafting),
        "method": method,
        "pp": pp,
        "ep": ep,
        "dp": dp,
        "fidelity": fidelity,
    }
    if refines(method, {**asdict(refining), "quality-floor": quality_floor}):
        from app.answers.masked.optimize import answer as answer_masked

        return _handed(answer_masked, stated)
    if joint.is_full({"--stop": stop, "--metrics": metrics or after, "--explain": explain}):
        from app.answers.joint.answer import answer

        return _handed(answer, stated)
    contexts, lengths = (
        whole_numbers(context, "--context", least=0),
        draft_lengths(draft_tokens, least=1),
    )
    limits = Limits(
        ttft_s=milliseconds(slo_ttft, "--slo-ttft"), tpot_s=milliseconds(slo_tpot, "--slo-tpot")
    )
    running = running_engine(files, model) if (files := scrapes(metrics, after)) else None
    if running is not None:
        observed = counters_source(
            running, method_slug(method, "--method"), accepted.match_rate, lengths or ()
        )
        method = ""
    grid: dict[str, Any] = {
        "batches": whole_numbers(batch, "--batch", least=1),
        "contexts": contexts,
        "draft_tokens": lengths,
        "tree_sizes": [
            n
            for n in whole_numbers(tree_nodes, "--tree-nodes", least=0, most=MOST_DRAFT_TOKENS)
            if n
        ],
        "stop": read_stop(stop, key="--stop") if stop else None,
        "shapes": _shapes(shape, {"--draft-tokens": draft_tokens, "--stop": stop}, tree_nodes),
        "limits": limits,
        "drop_unfit": batch == DEFAULT_BATCHES,
        "seed": seed,
        "match_rate": accepted.match_rate,
    }

    needed = any(each.needs_recording for each in grid["shapes"] or ())

    def question(cell: dict[str, str]) -> "tuple[DecodingConfiguration, list[Source]]":
        asks, name = asked(None, {**given, "model": "", **cell}), cell.get("model", "")
        sources = named_sources(
            accepted, trace or (), method=method, model=name, lengths=lengths or ()
        )
        if running is not None:
            return asks, [observed, *sources]
        if sources:
            return asks, beside_own(asks, sources, accepted.drafter)
        return unnamed(
            asks,
            method,
            recorded=bool(stop) or needed or tree_nodes not in (DEFAULT_TREES, "0"),
            match_rate=accepted.match_rate,
        )

    cells = cells_of({**given, "model": model})
    with progress_line(quiet) as progress:
        found, unmet = _searched(cells, question, grid, progress)
    named = (
        names_of(model, "--model") if model else {each.question.deployment.model for each in found}
    )
    inputs = {
        "model": ",".join(named),
        **{name: given[name] for name in _REPEATED},
        "batch": batch,
        "context": context,
        "seed": seed,
        **_sources(found, files, accepted),
        "shape": shape,
        "stop": stop or None,
        "slo_ttft_ms": slo_ttft,
        "slo_tpot_ms": slo_tpot,
        "set": placed.overrides or [],
    }
    several, counters = len(cells) > 1, _counters(found, running, limits, seed)
    answers = [
        cell_answer(each, inputs, unmet, out, several=several, counters=counted)
        for each, counted in zip(found, counters, strict=True)
    ]
    body = together(inputs, answers, unmet) if several or not answers else answers[0].body
    return _handed_over(body, answers, unmet, deliver_as, several=several, explain=explain)


def _handed(answer_of: "Callable[[OptimizeQuestion], Answer]", stated: Stated) -> Answer:
    """The answer with typed rows to what is asked, handed over."""
    question = OptimizeQuestion(**stated.values, stated=stated.names)
    answer = answer_of(question)
    hand_over(answer, question)
    answer.require()
    return answer


def _shapes(
    text: str | None, others: dict[str, str | None], tree_nodes: str
) -> "list[DraftShape] | None":
    """The only shapes that are compared; None where options leave them open."""
    from app.questions.resolve.configurations import named_shapes

    stated = "" if tree_nodes == DEFAULT_TREES else tree_nodes
    return named_shapes(text, {**others, "--tree-nodes": stated})


def _handed_over(
    body: dict[str, Any],
    answers: "list[CellAnswer]",
    unmet: list[dict[str, Any]],
    deliver_as: dict[str, Any],
    *,
    several: bool,
    explain: bool,
) -> Answered:
    """The answer on the screen and in files; nothing is written where no cell has one."""
    from app.answers.cells import require_one
    from app.cli.output import deliver
    from app.cli.shown.optimize import print_answers

    def also(folder: Path) -> None:
        for each in answers:
            each.write(folder)

    delivered = deliver(
        body,
        name="recommendations" if several else "recommendation",
        also=also,
        show=lambda: print_answers(
            answers, unmet, body["inputs"], deliver_as["out"], explain=explain
        ),
        rows=["choices", "alternatives", "unmet"],
        **deliver_as | {"out": deliver_as["out"] if answers else None},
    )
    require_one([*body["choices"], *unmet])
    return delivered


_REPEATED = (
    "device",
    "engine",
    "tp",
    "pp",
    "ep",
    "dp",
    "shared_prefix",
    "host_weights",
    "dtype",
    "fidelity",
)


def _sources(
    answers: "list[Recommendation]", scraped: Sequence[Path], accepted: AcceptanceOptions
) -> dict[str, Any]:
    """What acceptance is known from, as the answer repeats it."""
    traces = (source.path for answer in answers for source in answer.sources)
    return {
        "trace": list(dict.fromkeys(str(path) for path in traces if path is not None)),
        "metrics": [str(file) for file in scraped],
        "drafter": accepted.drafter or [],
        "acceptance": as_given(accepted.acceptance),
        "tokens_per_step": accepted.tokens_per_step,
        "match_rate": accepted.match_rate,
    }


def _counters(
    answers: "list[Recommendation]", running: "Running | None", limits: "Limits", seed: int
) -> list[dict[str, Any] | None]:
    """What an engine's counters say of what runs, for every answer; None without counters."""
    if running is None:
        return [None] * len(answers)
    from app.answers.counted import counted_answer

    return [counted_answer(each, running, limits, seed) for each in answers]


def _searched(
    cells: "list[dict[str, str]]",
    question: "Callable[[dict[str, str]], tuple[DecodingConfiguration, list[Source]]]",
    grid: dict[str, Any],
    progress: "Callable[[str], None]",
) -> "tuple[list[Recommendation], list[dict[str, Any]]]":
    """The answer of every cell that has one, and a row for every batch and context that has
    none.
    """
    from app.answers.cells import runnable
    from app.answers.optimize import unmet_rows
    from costmodel.optimizers.allowed import NothingAllowedError
    from costmodel.optimizers.recommend import recommend

    def searched(cell: dict[str, str]) -> "Recommendation | NothingAllowedError":
        try:
            return recommend(*question(cell), **grid, progress=progress)
        except NothingAllowedError as error:
            return error

    found: list[Recommendation] = []
    rows: list[dict[str, Any]] = []
    for cell, answer in runnable(cells, searched):
        if isinstance(answer, str):
            points = [(c, b) for c in grid["contexts"] for b in grid["batches"]]
            rows += [
                {"model": "", **cell, "feasible": False, "batch": b, "context": c, "reason": answer}
                for c, b in points
            ]
        elif isinstance(answer, NothingAllowedError):
            rows += unmet_rows(answer.unmet, grid["limits"])
        else:
            found.append(answer)
            rows += unmet_rows(answer.optimum.unmet, grid["limits"])
    return found, rows
