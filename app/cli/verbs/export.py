"""`export`: an answer of `optimize`, or a stated configuration, as one engine's files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.options import MOST_DRAFT_TOKENS, Json, Quiet, Seed
from app.cli.output import Answered

if TYPE_CHECKING:
    from costmodel.configuration import DecodingConfiguration


def export(
    engine: Annotated[str, typer.Argument(help="vllm, sglang, tensorrt-llm, llama.cpp or transformers.")],
    config: Annotated[
        Path | None,
        typer.Option("--config", "--from", help="A configuration, or recommendation.json; else state one."),
    ] = None,
    batch: Annotated[
        int | None, typer.Option("--batch", min=1, help="Batch of the choice to export; default: the first.")
    ] = None,
    context: Annotated[
        int | None, typer.Option("--context", min=0, help="Context of the choice; default: the first.")
    ] = None,
    scheduled: Annotated[
        bool,
        typer.Option("--schedule/--no-schedule", help="Export the batch schedule rather than one draft length."),
    ] = True,
    model: Annotated[
        str | None, typer.Option("--model", help="Target: hub id or path, as the engine knows it.")
    ] = None,
    draft: Annotated[str | None, typer.Option("--draft", help="Draft model or head: hub id or path.")] = None,
    method: Annotated[str | None, typer.Option("--method", help="Method slug.")] = None,
    draft_tokens: Annotated[
        int | None, typer.Option("--draft-tokens", min=0, max=MOST_DRAFT_TOKENS, help="Draft tokens K.")
    ] = None,
    tree: Annotated[Path | None, typer.Option("--tree", help="Tree JSON.")] = None,
    acceptance: Annotated[
        str | None,
        typer.Option("--acceptance-by-depth", help="P(first d draft tokens kept), d = 1..K, comma-separated."),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Recorded trace to take the acceptance by depth from.")
    ] = None,
    engine_version: Annotated[str | None, typer.Option("--engine-version", help="Version to write for.")] = None,
    synthetic: Annotated[
        bool,
        typer.Option("--synthetic", help="Write acceptance rates that the engine imitates, to try a what-if."),
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the files.")] = Path("rooftree-out"),
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Write a configuration in the form an engine loads; refuse what its version cannot express."""
    from app.cli.output import deliver, say
    from app.exporters.registry import export as export_configuration
    from app.exporters.registry import write_export

    chosen = _chosen(config, batch, context, scheduled, model, draft, method, draft_tokens, tree)
    chosen = _with_acceptance(chosen, acceptance, trace)
    result = export_configuration(chosen, engine, engine_version, synthetic=synthetic)
    paths = [str(out / name) if out is not None else name for name in result.files]
    inputs = {
        "engine": engine, "engine_version": engine_version, "config": str(config) if config else None,
        "batch": batch, "context": context, "schedule": scheduled, "model": model, "draft": draft, "method": method,
        "draft_tokens": draft_tokens, "tree": str(tree) if tree else None, "acceptance_by_depth": acceptance,
        "trace": str(trace) if trace else None, "synthetic": synthetic, "seed": seed,
    }  # fmt: skip

    def show() -> None:
        say(f"{result.engine} {result.version}: {', '.join(paths)}")
        say(result.command)
        for note in result.notes:
            say(f"note: {note}")

    written = {"engine": result.engine, "version": result.version, "files": paths}
    return deliver(
        {"inputs": inputs, **written, "command": result.command, "notes": list(result.notes)}, name="", json=json,
        out=out, quiet=quiet, show=show, also=lambda folder: write_export(result, folder),
    )  # fmt: skip


def _chosen(
    file: Path | None,
    batch: int | None,
    context: int | None,
    scheduled: bool,
    model: str | None,
    draft: str | None,
    method: str | None,
    draft_tokens: int | None,
    tree: Path | None,
) -> "DecodingConfiguration":
    """The configuration of a file with the options in place of what it says, or of the options alone."""
    from dataclasses import replace

    from app.answers.deployables import loadable
    from costmodel.configuration import DecodingConfiguration, DeploymentNames
    from costmodel.configuration.file import read_configuration
    from hardware_profiles.errors import InputError
    from traces.kinds.tree import read_tree

    if tree is not None and draft_tokens is not None:
        raise InputError("--tree and --draft-tokens exclude each other", key="--tree", value=str(tree))
    changes: dict[str, Any] = {"method": method} if method is not None else {}
    if tree is not None:
        shape = read_tree(tree)
        changes |= {"shape": shape, "draft_tokens": shape.draft_tokens, "schedule": ()}
    elif draft_tokens is not None:
        changes |= {"shape": None, "draft_tokens": draft_tokens, "schedule": ()}
    if file is not None:
        whole = tree is None and draft_tokens is None
        chosen = read_configuration(file, batch=batch, context=context, scheduled=scheduled and whole)
    elif model is None or (not changes.get("draft_tokens") and method not in ("plain-decoding", None)):
        raise InputError("--config FILE, or --model with --method and --draft-tokens or --tree, is needed")
    else:
        chosen = DecodingConfiguration(deployment=DeploymentNames(model=model), batch=batch, context=context)
    if model is not None:
        changes["deployment"] = replace(chosen.deployment, model=model)
    chosen = replace(chosen, **changes)
    if not chosen.schedule and chosen.max_batch is None:
        chosen = replace(chosen, max_batch=chosen.batch)
    return loadable(chosen, draft)


def _with_acceptance(chosen: "DecodingConfiguration", text: str | None, trace: Path | None) -> "DecodingConfiguration":
    from dataclasses import replace

    from hardware_profiles.errors import InputError
    from traces.library import read_trace
    from traces.replay.statistics import acceptance_by_depth

    if trace is not None and chosen.draft_tokens:
        rates = acceptance_by_depth(read_trace(trace), chosen.draft_tokens).tolist()
        return replace(chosen, acceptance_by_depth=tuple(rates))
    if text is None:
        return chosen
    try:
        return replace(chosen, acceptance_by_depth=tuple(float(part) for part in text.split(",")))
    except ValueError:
        raise InputError("must be numbers separated by commas", key="--acceptance-by-depth", value=text) from None
