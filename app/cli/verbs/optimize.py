"""`optimize` over drafters, draft lengths, trees and batches, ranked with intervals."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.output import Answered
from app.questions.groups import AcceptanceOptions, DraftingOptions, StoredOptions, values_in
from app.questions.optimize import DEFAULT_BATCHES, DEFAULT_TREES, OptimizeQuestion
from app.questions.resolve.accepted import as_given, draft_lengths, named_sources
from app.questions.resolve.chosen_configuration import configuration_of
from app.questions.resolve.unnamed import beside_own, unnamed
from app.questions.values import MOST_DRAFT_TOKENS, method_slug, milliseconds, whole_numbers

if TYPE_CHECKING:
    from app.cli.cell_answers import CellAnswer
    from costmodel.answers.workload import Limits
    from costmodel.configuration import DecodingConfiguration
    from costmodel.draft_shape import DraftShape
    from costmodel.optimizers.drafters.sources import Source
    from costmodel.optimizers.recommend import Recommendation
    from traces.importers.engines.running import Running


def search_drafts(asks: OptimizeQuestion) -> Answered:
    """Search drafters, draft lengths, trees and batches; write what engines load."""
    from app.answers.cells import cells_of, names_of
    from app.cli.cell_answers import cell_answer, together
    from app.cli.progress import progress_line
    from app.questions.resolve.counters import counters_source, running_engine, scrapes
    from costmodel.answers.workload import Limits
    from costmodel.draft_shape import read_stop

    accepted, method, model, out = asks, asks.method, asks.model, asks.out
    batch, context, shape, stop = asks.batch, asks.context, asks.shape, asks.stop
    slo_ttft, slo_tpot, seed = asks.slo_ttft, asks.slo_tpot, asks.seed
    draft_tokens, tree_nodes, trace = asks.draft_tokens, asks.tree_nodes, asks.trace
    deliver_as: dict[str, Any] = {
        "json": asks.json,
        "out": out,
        "csv": asks.csv,
        "quiet": asks.quiet,
    }
    given = {
        **values_in(StoredOptions, asks),
        **values_in(DraftingOptions, asks),
        "method": method,
        "pp": asks.pp,
        "ep": asks.ep,
        "dp": asks.dp,
        "fidelity": asks.fidelity,
    }
    contexts, lengths = (
        whole_numbers(context, "--context", least=0),
        draft_lengths(draft_tokens, least=1),
    )
    limits = Limits(
        ttft_s=milliseconds(slo_ttft, "--slo-ttft"), tpot_s=milliseconds(slo_tpot, "--slo-tpot")
    )
    running = running_engine(files, model) if (files := scrapes(asks.metrics, asks.after)) else None
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
        "shapes": draft_shapes(asks, "draft_tokens", "stop"),
        "limits": limits,
        "drop_unfit": batch == DEFAULT_BATCHES,
        "seed": seed,
        "match_rate": accepted.match_rate,
    }

    needed = any(each.needs_recording for each in grid["shapes"] or ())

    def question(cell: dict[str, str]) -> "tuple[DecodingConfiguration, list[Source]]":
        chosen, name = configuration_of(None, {**given, "model": "", **cell}), cell.get("model", "")
        sources = named_sources(
            accepted, trace or (), method=method, model=name, lengths=lengths or ()
        )
        if running is not None:
            return chosen, [observed, *sources]
        if sources:
            return chosen, beside_own(chosen, sources, accepted.drafter)
        return unnamed(
            chosen,
            method,
            recorded=bool(stop) or needed or tree_nodes not in (DEFAULT_TREES, "0"),
            match_rate=accepted.match_rate,
        )

    cells = cells_of({**given, "model": model})
    with progress_line(asks.quiet) as progress:
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
        "set": asks.overrides or [],
    }
    several, counters = len(cells) > 1, _counters(found, running, limits, seed)
    answers = [
        cell_answer(each, inputs, unmet, out, several=several, counters=counted)
        for each, counted in zip(found, counters, strict=True)
    ]
    body = together(inputs, answers, unmet) if several or not answers else answers[0].body
    return _handed_over(body, answers, unmet, deliver_as, several=several, explain=asks.explain)


def draft_shapes(question: OptimizeQuestion, *others: str) -> "list[DraftShape] | None":
    """The only shapes that are compared; None where options leave them open.

    Args:
        question: whose `--shape` is read.
        others: further fields that say what is drafted, which do not go with it.
    """
    from app.questions.resolve.configurations import named_shapes

    stated = {f"--{name.replace('_', '-')}": getattr(question, name) for name in others}
    trees = "" if question.tree_nodes == DEFAULT_TREES else question.tree_nodes
    return named_shapes(question.shape, {**stated, "--tree-nodes": trees})


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
