"""`optimize`: which configuration to run, ranked with intervals, and the files that engines load."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import completion
from app.cli.accepted import as_given, draft_lengths, named_sources
from app.cli.asked import asked
from app.cli.drafts import StopRule, stop_rule
from app.cli.option_groups import Accepted, Drafting, Stored, grouped
from app.cli.options import (
    MOST_DRAFT_TOKENS,
    Batch,
    Context,
    DraftTokens,
    Json,
    Quiet,
    Seed,
    milliseconds,
    read_model,
    whole_numbers,
)
from app.cli.output import Answered

if TYPE_CHECKING:
    from costmodel.configuration import DecodingConfiguration
    from costmodel.optimizers.sources import Source

DEFAULT_BATCHES = "1,2,4,8,16,32,64,128,256"
DEFAULT_OUT = Path("rooftree-out")
DEFAULT_TREES = "4,8,16,32,64"


@grouped
def optimize(
    placed: Stored,
    drafting: Drafting,
    accepted: Accepted,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            autocompletion=completion.models,
            callback=read_model,
            help="Target; default: that of the first trace, without one llama-3.1-8b.",
        ),
    ] = "",
    trace: Annotated[
        list[Path] | None, typer.Option("--trace", help="Acceptance trace; repeat to compare methods.")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            autocompletion=completion.methods,
            help="Method of stated acceptance, of traces that name none or have such a drafter.",
        ),
    ] = "",
    batch: Batch = DEFAULT_BATCHES,
    context: Context = "1024",
    draft_tokens: DraftTokens = None,
    tree_nodes: Annotated[
        str,
        typer.Option("--tree-nodes", help="Draft tokens of trees, static and dynamic, root excluded; 0 for none."),
    ] = DEFAULT_TREES,
    stop: StopRule = "",
    slo_ttft: Annotated[float | None, typer.Option("--slo-ttft", help="Longest time to first token, ms.")] = None,
    slo_tpot: Annotated[float | None, typer.Option("--slo-tpot", help="Longest time per output token, ms.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for engine files and the answer.")] = DEFAULT_OUT,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Search drafters, draft lengths, trees and batches; write what engines load."""
    from app.answers.deployables import deployables, file_paths, write_all
    from app.answers.optimize import recommendation
    from app.cli.output import deliver, progress_line, require_folder
    from app.cli.verbs.optimize_output import print_answer, print_files
    from app.reports.page import plots_available
    from app.reports.report import write_report
    from costmodel.optimizers.recommend import recommend
    from costmodel.optimizers.search import Limits

    if out is not None:
        require_folder(out)
    question = asked(None, {**asdict(placed), **asdict(drafting), "model": model, "method": method})
    contexts, lengths = whole_numbers(context, "--context", least=0), draft_lengths(draft_tokens, least=1)
    sources = named_sources(accepted, trace or (), method=method, model=model, lengths=lengths or ())
    if not sources:
        question, sources = _unnamed(question, method, trees=tree_nodes, stop=stop, match_rate=accepted.match_rate)
    with progress_line(quiet) as progress:
        answer = recommend(
            question,
            sources,
            batches=whole_numbers(batch, "--batch", least=1),
            contexts=contexts,
            draft_tokens=lengths,
            tree_sizes=[n for n in whole_numbers(tree_nodes, "--tree-nodes", least=0, most=MOST_DRAFT_TOKENS) if n],
            stop=stop_rule(stop),
            limits=Limits(ttft_s=milliseconds(slo_ttft, "--slo-ttft"), tpot_s=milliseconds(slo_tpot, "--slo-tpot")),
            match_rate=accepted.match_rate,
            drop_unfit=batch == DEFAULT_BATCHES,
            seed=seed,
            progress=progress,
        )
        entries = deployables(answer, draft=drafting.draft, context=contexts[0])
        written = file_paths(entries, out) if out is not None else {}
    inputs = {
        "model": answer.question.deployment.model, "device": placed.device, "engine": placed.engine, "tp": placed.tp,
        "shared_prefix": placed.shared_prefix, "host_weights": placed.host_weights, "dtype": placed.dtype,
        "batch": batch, "context": context, "seed": seed,
        "trace": [str(s.path) for s in answer.sources if s.path is not None], "drafter": accepted.drafter or [],
        "acceptance": as_given(accepted.acceptance), "tokens_per_step": accepted.tokens_per_step,
        "match_rate": accepted.match_rate,
        "stop": stop or None, "slo_ttft_ms": slo_ttft, "slo_tpot_ms": slo_tpot, "set": placed.overrides or [],
    }  # fmt: skip
    body = recommendation(answer, inputs, written)

    def also(folder: Path) -> None:
        write_all(entries, folder)
        if plots_available():
            write_report(body, folder / "report.html")

    def show() -> None:
        print_answer(answer, placed.device, placed.engine)
        if out is not None:
            print_files(entries, written, out, out / "report.html" if plots_available() else None)

    return deliver(body, name="recommendation", json=json, out=out, quiet=quiet, show=show, also=also)


def _unnamed(
    question: "DecodingConfiguration", method: str, *, trees: str, stop: str, match_rate: float | None
) -> "tuple[DecodingConfiguration, list[Source]]":
    """The question and its drafters where options name none: trees and stop rules need recordings with positions."""
    from costmodel.optimizers.default_drafters import default_drafters, recorded_drafters
    from costmodel.optimizers.named_drafters import published_source

    if method:
        return question, [published_source(question.method, question.deployment.model, match_rate=match_rate)]
    if stop or trees not in (DEFAULT_TREES, "0"):
        return question, recorded_drafters()
    return default_drafters(question)
