"""`optimize`: which configuration to run, ranked with intervals, and the files that engines load."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.accepted import named_sources
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
    whole_numbers,
)
from app.cli.output import Answered

if TYPE_CHECKING:
    from app.answers.deployables import Deployable
    from costmodel.optimizers.recommend import Recommendation
    from costmodel.optimizers.search import Choice
    from costmodel.optimizers.sources import Source

DEFAULT_BATCHES = "1,2,4,8,16,32,64,128,256"
DEFAULT_OUT = Path("rooftree-out")


@grouped
def optimize(
    placed: Stored,
    drafting: Drafting,
    accepted: Accepted,
    model: Annotated[str, typer.Option("--model", help="Target; default: the one the trace was recorded on.")] = "",
    trace: Annotated[
        list[Path] | None, typer.Option("--trace", help="Acceptance trace; repeat to compare methods.")
    ] = None,
    method: Annotated[
        str,
        typer.Option("--method", help="Method of stated acceptance, of traces that name none or have such a drafter."),
    ] = "",
    batch: Batch = DEFAULT_BATCHES,
    context: Context = "1024",
    draft_tokens: DraftTokens = None,
    tree_nodes: Annotated[
        str,
        typer.Option("--tree-nodes", help="Draft tokens of trees, static and dynamic, root excluded; 0 for none."),
    ] = "4,8,16,32,64",
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
    from app.reports.page import plots_available
    from app.reports.report import write_report
    from costmodel.optimizers.recommend import recommend
    from costmodel.optimizers.search import Limits
    from costmodel.optimizers.sources import published_source
    from traces.library import default_traces

    if out is not None:
        require_folder(out)
    question = asked(None, {**asdict(placed), **asdict(drafting), "model": model, "method": method})
    contexts, lengths = whole_numbers(context, "--context", least=0), _lengths(draft_tokens)
    sources = named_sources(accepted, trace or (), method=method, model=model, lengths=lengths or ())
    if not sources and method:
        sources = [published_source(question.method, model, match_rate=accepted.match_rate)]
    with progress_line(quiet) as progress:
        answer = recommend(
            question,
            sources or default_traces(),
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
        "acceptance": accepted.acceptance, "tokens_per_step": accepted.tokens_per_step,
        "match_rate": accepted.match_rate,
        "stop": stop or None, "slo_ttft_ms": slo_ttft, "slo_tpot_ms": slo_tpot, "set": placed.overrides or [],
    }  # fmt: skip
    body = recommendation(answer, inputs, written)

    def also(folder: Path) -> None:
        write_all(entries, folder)
        if plots_available():
            write_report(body, folder / "report.html")

    def show() -> None:
        _print(answer, placed.device, placed.engine)
        if out is not None:
            _print_files(entries, written, out, out / "report.html" if plots_available() else None)

    return deliver(body, name="recommendation", json=json, out=out, quiet=quiet, show=show, also=also)


def _lengths(draft_tokens: str | None) -> list[int] | None:
    """Chain lengths to compare; None leaves them to the method."""
    if draft_tokens is None:
        return None
    return whole_numbers(draft_tokens, "--draft-tokens", least=1, most=MOST_DRAFT_TOKENS)


def _print(answer: "Recommendation", device: str, engine: str) -> None:
    from app.answers.drafting import who_wins
    from app.cli.output import print_table, say, say_remarks

    for source, name, contender in zip(answer.sources, answer.names, answer.contenders, strict=True):
        say(_rests_on(source, name))
        say_remarks([{"remark": candidate.remark} for candidate in contender.candidates])
    rows = [
        _row(choice, answer.names[choice.contender.source], place)
        for ranked in answer.optimum.ranked
        for place, choice in enumerate(ranked, 1)
    ]
    columns = [
        "drafter",
        "batch",
        "context",
        "rank",
        "draft",
        "tokens/step",
        "step ms",
        "tokens/s",
        "speedup",
        "limit",
    ]
    print_table(
        f"{answer.question.deployment.model} on {device}, {engine}: best configuration of each drafter",
        columns, rows, caption="brackets: 80 % intervals; speedup against no speculation at the same batch and context",
    )  # fmt: skip
    say(_sentence(answer.winners[0]))
    for line in who_wins(answer.optimum.by_topology, answer.names):
        say(line)
    for found in answer.optimum.schedules:
        ranges = ", ".join(f"batch {low}-{high}: K={k}" for low, high, k in found.schedule.ranges)
        loss = f"{100 * found.schedule.loss_ratio:.1f} % lost against the best K at every batch"
        say(f"schedule of {answer.names[found.source]} at context {found.context}: {ranges} ({loss})")
    if answer.optimum.dropped_batches:
        say(f"left out, too large for memory: batch {', '.join(map(str, answer.optimum.dropped_batches))}")


def _rests_on(source: "Source", name: str) -> str:
    """Where a drafter's acceptance comes from, in words."""
    if source.trace is None:
        return f"{name}: acceptance {source.label if source.kind == 'published' else f'stated as {source.about}'}"
    recorded = source.trace.provenance
    label = f"acceptance borrowed from {recorded.model}" if source.borrowed else f"recorded on {recorded.model}"
    size = f"{source.trace.positions} tokens" if source.kind == "recorded" else "counters without positions"
    where = f" ({recorded.device or 'device unknown'})" if source.kind == "recorded" else ""
    return f"{source.path.name if source.path else name}: {size}, {label}{where}"


def _sentence(best: "Choice") -> str:
    """What to run at the first batch and context, in words."""
    from app.answers.drafting import TOPOLOGY_WORDS

    where = f"at batch {best.batch}, context {best.context}"
    if best.topology == "off":
        return f"run plain decoding {where}: no draft pays"
    draft = f"{best.acceptance.draft_tokens} draft tokens as a {TOPOLOGY_WORDS[best.topology]}"
    low, high = (float(bound) for bound in best.intervals.speedup)
    gain = f"{float(best.result.speedup):.2f} [{low:.2f}, {high:.2f}] times plain decoding"
    return f"run {best.contender.method} with {draft} {where}: {gain}"


def _row(choice: "Choice", name: str, place: int) -> list[str]:
    from app.answers.drafting import draft_words
    from hardware_profiles.units import MILLI

    a, r, i = choice.acceptance, choice.result, choice.intervals
    return [
        name,
        str(choice.batch),
        str(choice.context),
        str(place),
        draft_words(a),
        f"{a.tokens_per_step:.2f} [{float(i.tokens_per_step[0]):.2f}, {float(i.tokens_per_step[1]):.2f}]",
        f"{float(r.step_s) / MILLI:.3g}",
        f"{float(r.tokens_per_s):.4g} [{float(i.tokens_per_s[0]):.4g}, {float(i.tokens_per_s[1]):.4g}]",
        f"{float(r.speedup):.2f} [{float(i.speedup[0]):.2f}, {float(i.speedup[1]):.2f}]",
        str(r.step.limit),
    ]


def _print_files(entries: "list[Deployable]", written: dict[str, list[str]], out: Path, page: Path | None) -> None:
    from app.cli.output import say

    for entry in entries:
        if entry.result is None:
            say(f"{entry.engine}: nothing to load ({entry.reason})")
        else:
            say(f"{entry.engine} {entry.result.version}, {entry.content}: {', '.join(written[entry.engine])}")
            if entry.reason:
                say(f"  not the fastest found: {entry.reason}")
            for note in entry.result.notes:
                if note.startswith(("replace ", "no draft model")):
                    say(f"  {note}")
    say(f"answer: {out / 'recommendation.json'}")
    say(f"report: {page or 'not written, because plotly is missing (pip install rooftree[app])'}")
